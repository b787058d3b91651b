"""What machines boot from: Amazon's image with a GPU driver, as a parameter of SSM names it today."""

from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from config.clock import Clock
from config.gpus import UnknownGpu, find
from pricing.aws.clients import Clients
from pricing.offer import Offer
from runner.provider import Denied, SoldOut
from runner.providers.ec2.codes import asking
from runner.providers.ec2.request import Image

_OPEN_DRIVER = "oss-nvidia-driver"  # in the names of images whose driver is NVIDIA's open one
_OPEN_SINCE = 7.5  # the first compute capability that it serves: Turing
_PUBLIC = "/aws/service/"  # parameters that Amazon keeps; not in every region
_NAMED = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)*"
_FRESH = timedelta(hours=6)


class Images:
    """The image of each region, looked up again after some hours."""

    def __init__(self, clients: Clients, wanted: str, clock: Clock) -> None:
        """`wanted` is an image (`ami-...`) or the name of an SSM parameter that holds one."""
        self._clients = clients
        self._wanted = wanted
        self._clock = clock
        self._known: dict[str, tuple[float, Image]] = {}

    def of(self, region: str) -> Image:
        """Return the image for new machines. Raises ProviderError."""
        at, image = self._known.get(region, (0.0, None))
        now = self._clock.monotonic()
        if image is None or now - at > _FRESH.total_seconds():
            with asking(f"find the image {self._wanted} in {region}"):
                image = self._look(region)
            self._known[region] = now, image
        return image

    def check(self, offer: Offer) -> None:
        """Refuse an offer whose card the image has no driver for. Raises SoldOut: any other offer will do."""
        if _OPEN_DRIVER not in self._wanted or not offer.gpu:
            return
        try:
            capability = find(offer.gpu).capability
            old = float(capability) < _OPEN_SINCE
        except (UnknownGpu, ValueError):
            return
        if old:
            raise SoldOut(
                f"{offer.pool.type} has {offer.gpu} cards (compute capability {capability}), and the open driver of the "
                f"image {self._wanted} serves {_OPEN_SINCE} and newer: set `image` in [clouds.aws] to one with NVIDIA's "
                "own driver to use them"
            )

    def _look(self, region: str) -> Image:
        ec2 = self._clients.get("ec2", region)
        if self._wanted.startswith("ami-"):
            return _image(ec2.describe_images(ImageIds=[self._wanted])["Images"], self._wanted, region)
        try:
            answer = self._clients.get("ssm", region).get_parameter(Name=self._wanted)
            named = answer["Parameter"]["Value"]
        except ClientError:
            if not self._wanted.startswith(_PUBLIC):
                raise
            return _image(_newest(ec2), _NAMED, region)
        return _image(ec2.describe_images(ImageIds=[named])["Images"], named, region)


def _newest(ec2: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - boto3 makes its clients' classes at run time
    found = ec2.describe_images(
        Owners=["amazon"],
        Filters=[
            {"Name": "name", "Values": [_NAMED]},
            {"Name": "state", "Values": ["available"]},
            {"Name": "architecture", "Values": ["x86_64"]},
        ],
    )
    return sorted(found["Images"], key=lambda image: str(image["CreationDate"]), reverse=True)


def _image(found: list[dict[str, Any]], wanted: str, region: str) -> Image:
    if not found:
        raise Denied(f"there is no image {wanted} in {region}: correct `image` in [clouds.aws], or take the region out")
    root = found[0]["RootDeviceName"]
    sizes = [
        int(mapping.get("Ebs", {}).get("VolumeSize", 0))
        for mapping in found[0].get("BlockDeviceMappings", [])
        if mapping.get("DeviceName") == root
    ]
    return Image(found[0]["ImageId"], root, max(sizes, default=0))
