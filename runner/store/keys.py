"""What a key may look like, and how keys are spelled where a store can't take every character."""

import re
from urllib.parse import unquote

from runner.store.base import StoreError

LONGEST_KEY = 1024  # bytes of UTF-8; what S3 and OSS allow
_UNSAFE = re.compile(r"[%#\x00-\x1f\x7f]")  # stores refuse control characters; `#1` ends unfinished files of obstore


def check_key(key: str) -> str:
    """Return `key` if it names one object: relative, parts between `/`, none of them empty, `.` or `..`; else StoreError."""
    if any(part in {"", ".", ".."} for part in key.split("/")):
        raise StoreError(f"{key!r} is no key: write it like `jobs/7/spec.json`, without `.`, `..` or empty parts")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise StoreError(f"{key!r} is no key: it isn't valid UTF-8, rename the file") from error
    if size > LONGEST_KEY:
        raise StoreError(f"{key[:40]!r}... is no key: it has {size} bytes and {LONGEST_KEY} are allowed, shorten it")
    return key


def check_prefix(prefix: str) -> str:
    """Return the folder in which every key that starts with `prefix` lies, empty for the whole store; or StoreError."""
    folder = prefix.rpartition("/")[0]
    return check_key(folder) if folder or prefix.startswith("/") else folder


def spell(key: str) -> str:
    """Return `key` with percent signs for the few characters that a store may refuse; `read` takes it back."""
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", key)


def read(spelled: str) -> str:
    """Return the key that `spell` was given."""
    return unquote(spelled)
