"""Spot placement scores: AWS's own guess, from 1 to 10, how likely a zone has room for a kind of machine."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pricing.aws.asking import Client, asking
from pricing.aws.types import Spec

_FEWEST = 3  # a question about one or two types always scores low
Scores = Mapping[tuple[str, str], int]
"""By GPU and zone."""


def placement_scores(
    client: Client, region: str, specs: Iterable[Spec], zones: Mapping[str, str]
) -> dict[tuple[str, str], int]:
    """Ask once for each GPU that at least three types hold; `zones` are names by id. Raises SourceError.

    Few different questions a day are allowed, the same ones may be repeated: these are the same ones every day.
    """
    types = defaultdict(list)
    for spec in specs:
        types[spec.gpu].append(spec.type)
    found: dict[tuple[str, str], int] = {}
    with asking("spot placement scores", "ec2:GetSpotPlacementScores", region):
        for gpu, names in sorted(types.items()):
            if len(names) >= _FEWEST:
                answer = client.get_spot_placement_scores(
                    InstanceTypes=sorted(names), TargetCapacity=1, SingleAvailabilityZone=True, RegionNames=[region]
                )
                for one in answer["SpotPlacementScores"]:
                    zone = zones.get(one.get("AvailabilityZoneId", ""))
                    if zone:
                        found[gpu, zone] = int(one["Score"])
    return found
