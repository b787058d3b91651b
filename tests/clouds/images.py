"""The machine images that the stand-in has in every region, and the public parameters that name them."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

_OWNER = "898082745236"  # the account of AWS's Deep Learning AMIs
ROOT_GB = 75  # the size of their snapshots
_KINDS = {
    "base-oss-nvidia-driver-gpu-ubuntu-24.04": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)",
    "base-oss-nvidia-driver-gpu-ubuntu-22.04": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)",
}
_PARAMETER = "/aws/service/deeplearning/ami/{arch}/{kind}/latest/ami-id"


def parameters(region: str) -> dict[str, str]:
    """Return SSM's public parameters that name images."""
    return {
        _PARAMETER.format(arch=arch, kind=kind): _id(region, arch, kind)
        for arch in ("x86_64", "arm64")
        for kind in _KINDS
    }


def images(region: str) -> dict[str, dict[str, Any]]:
    """Return the images as DescribeImages shows them."""
    return {one["ImageId"]: one for one in _all(region)}


def _all(region: str) -> Iterator[dict[str, Any]]:
    for arch in ("x86_64", "arm64"):
        for kind, name in _KINDS.items():
            for day, ident in (("20260310", _id(region, arch, kind)), ("20251002", _id(region, arch, kind, "older"))):
                yield _image(ident, arch, f"{'ARM64 ' if arch == 'arm64' else ''}{name} {day}", day)


def _image(ident: str, arch: str, name: str, day: str) -> dict[str, Any]:
    snapshot = f"snap-{ident.removeprefix('ami-')}"
    disk = {"SnapshotId": snapshot, "VolumeSize": ROOT_GB, "VolumeType": "gp3", "DeleteOnTermination": True}
    return {
        "ImageId": ident, "Name": name, "Architecture": arch, "State": "available", "OwnerId": _OWNER,
        "ImageOwnerAlias": "amazon", "CreationDate": f"{day[:4]}-{day[4:6]}-{day[6:]}T08:12:31.000Z", "Public": True,
        "RootDeviceName": "/dev/sda1", "RootDeviceType": "ebs", "ImageType": "machine", "VirtualizationType": "hvm",
        "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {**disk, "Encrypted": False}}], "EnaSupport": True,
        "ImdsSupport": "v2.0", "Description": name, "PlatformDetails": "Linux/UNIX", "Hypervisor": "xen",
    }  # fmt: skip


def _id(*what: str) -> str:
    return f"ami-{hashlib.sha256(' '.join(what).encode()).hexdigest()[:17]}"


def fields(image: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what DescribeImages filters by."""
    return {
        "image-id": [image["ImageId"]], "name": [image["Name"]], "architecture": [image["Architecture"]],
        "state": [image["State"]], "owner-alias": ["amazon"], "owner-id": [_OWNER], "root-device-type": ["ebs"],
        "virtualization-type": ["hvm"], "is-public": ["true"], "image-type": ["machine"], "platform-details": ["Linux/UNIX"],
    }  # fmt: skip
