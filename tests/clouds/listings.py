"""What EC2's Describe calls answer about instances, spot requests, volumes and images."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.clouds import shown
from tests.clouds.call import Call
from tests.clouds.images import fields as image_fields
from tests.clouds.images import images
from tests.clouds.instances import Instance
from tests.clouds.keys import ACCOUNT
from tests.clouds.wire import Refused, page

if TYPE_CHECKING:
    from tests.clouds.ec2 import Ec2

Asked = dict[str, Any]
_Fields = Callable[[Instance, datetime], shown.Fields]


def instances(ec2: "Ec2", call: Call, asked: Asked) -> Asked:
    now = ec2.clock.now()
    there = [one for one in _of(ec2, call.region) if one.shown(now)]
    among = ec2.named(call.region, asked.get("InstanceIds", ()), now) or there
    found, token = _page(
        ec2, call, asked, _passing(among, shown.instance_fields, shown.INSTANCE_FILTERS, asked, now), "InstanceIds"
    )
    items = [_reservation(one, now) for one in found]
    return {"Reservations": items} | ({"NextToken": token} if token else {})


def _reservation(one: Instance, now: datetime) -> Asked:
    ident = f"r-{one.id.removeprefix('i-')}"
    return {"ReservationId": ident, "OwnerId": ACCOUNT, "Groups": [], "Instances": [shown.instance(one, now)]}


def spot_requests(ec2: "Ec2", call: Call, asked: Asked) -> Asked:
    now = ec2.clock.now()
    known = {one.request.id: one for one in _of(ec2, call.region) if one.request and now >= one.visible}
    among = _chosen(known, asked.get("SpotInstanceRequestIds", ()), "InvalidSpotInstanceRequestID.NotFound")
    found, token = _page(
        ec2,
        call,
        asked,
        _passing(among, shown.request_fields, shown.REQUEST_FILTERS, asked, now),
        "SpotInstanceRequestIds",
    )
    return {"SpotInstanceRequests": [shown.request(one, now) for one in found], "NextToken": token or None}


def volumes(ec2: "Ec2", call: Call, asked: Asked) -> Asked:
    now = ec2.clock.now()
    there = (one for one in _of(ec2, call.region) if now >= one.visible and one.state(now) != "terminated")
    among = _chosen({one.volume: one for one in there}, asked.get("VolumeIds", ()), "InvalidVolume.NotFound")
    found, token = _page(
        ec2, call, asked, _passing(among, shown.volume_fields, shown.VOLUME_FILTERS, asked, now), "VolumeIds"
    )
    return {"Volumes": [shown.volume(one, now) for one in found], "NextToken": token or None}


def machine_images(_: "Ec2", call: Call, asked: Asked) -> Asked:
    known = images(call.region)
    for ident in asked.get("ImageIds", ()):
        if ident not in known:
            raise Refused("InvalidAMIID.NotFound", f"The image id '[{ident}]' does not exist")
    wanted = asked.get("ImageIds") or list(known)
    owners = {"amazon", *(known[ident]["OwnerId"] for ident in wanted)}
    among = [known[ident] for ident in wanted] if owners & set(asked.get("Owners", ["amazon"])) else []
    shown.check_filters(asked.get("Filters", []), shown.IMAGE_FILTERS)
    return {"Images": [one for one in among if shown.passes(image_fields(one), asked.get("Filters", []))]}


def attribute(ec2: "Ec2", call: Call, asked: Asked) -> Asked:
    one = ec2.named(call.region, [asked["InstanceId"]], ec2.clock.now())[0]
    behaviour = one.asked.get("InstanceInitiatedShutdownBehavior", "stop")
    values = {
        "userData": {"UserData": {"Value": one.asked.get("UserData", "")}},
        "instanceInitiatedShutdownBehavior": {"InstanceInitiatedShutdownBehavior": {"Value": behaviour}},
    }
    if asked["Attribute"] not in values:
        raise Refused("InvalidParameterValue", f"Value ({asked['Attribute']}) for parameter attribute is invalid")
    return {"InstanceId": one.id, **values[asked["Attribute"]]}


def _of(ec2: "Ec2", region: str) -> list[Instance]:
    return [one for one in ec2.instances.values() if one.region == region]


def _chosen(known: Mapping[str, Instance], idents: Sequence[str], refusal: str) -> list[Instance]:
    """Return those asked for by id, or all. Raises Refused when one isn't known."""
    for ident in idents:
        if ident not in known:
            raise Refused(refusal, f"'{ident}' does not exist")
    return [known[ident] for ident in idents] or list(known.values())


def _passing(
    among: Iterable[Instance], fields: _Fields, known: frozenset[str], asked: Asked, now: datetime
) -> list[Instance]:
    shown.check_filters(asked.get("Filters", []), known)
    return [one for one in among if shown.passes(fields(one, now), asked.get("Filters", []))]


def _page(ec2: "Ec2", call: Call, asked: Asked, found: list[Instance], idents: str) -> tuple[list[Instance], str]:
    size = min(_size(asked, idents), ec2.catalogue.page_size)
    return page(found, call.params, "NextToken", size, "InvalidNextToken")


def _size(asked: Asked, idents: str) -> int:
    size = int(asked.get("MaxResults", 1000))
    if "MaxResults" in asked and idents in asked:
        told = f"The parameter {idents} cannot be used with the parameter maxResults"
        raise Refused("InvalidParameterCombination", told)
    if not 5 <= size <= 1000:
        raise Refused("InvalidParameterValue", f"Value ( {size} ) for parameter maxResults is invalid.")
    return size
