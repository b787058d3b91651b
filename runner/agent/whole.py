"""Does a checkpoint file read whole? Told from its own structure, without torch and without running anything from it."""

import json
import zipfile
from pathlib import Path

SUFFIXES = frozenset({
    ".bin", ".ckpt", ".distcp", ".h5", ".joblib", ".msgpack", ".npy", ".npz", ".onnx", ".pickle", ".pkl", ".pt", ".pth",
    ".safetensors", ".tar",
})  # fmt: skip
_LEGACY_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch.save before 1.6: raw tensors follow some pickles
_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_TORCH = frozenset({".pt", ".pth"})


def reads_whole(path: Path) -> bool | None:
    """Say True when every byte is accounted for, False when some are missing or wrong, None when the form doesn't tell.

    A half-written file of torch.save is a zip file without its directory at the end. Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(len(_LEGACY_TORCH))
    if head.startswith(b"PK\x03\x04") or path.suffix == ".npz":
        return _zip(path)
    if path.suffix == ".safetensors":
        return _safetensors(path)
    if head == _LEGACY_TORCH:
        return None
    if head.startswith(_PICKLE):
        return _ends_with(path, b".") or (None if path.suffix not in SUFFIXES else False)
    if not head or path.suffix in _TORCH:
        return False if path.suffix in SUFFIXES else None
    return None


def _zip(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError):
        return False


def _safetensors(path: Path) -> bool:
    """Compare the size with what the header says: 8 bytes of length, JSON, tensors up to the largest end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            return False
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return False
    return size == 8 + length + max(ends, default=0)


def _ends_with(path: Path, last: bytes) -> bool:
    with path.open("rb") as file:
        file.seek(-len(last), 2)
        return file.read() == last
