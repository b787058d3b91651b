"""The roles: one that machines have, one that grants are cut from, and EC2's own for spot."""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from config.reason import Reason
from daemon.setup import aws_policies as policies
from daemon.setup.aws_calls import calling, code_of
from daemon.setup.aws_names import SPOT_ROLE, SPOT_SERVICE, Names, is_ours, tag_list
from daemon.setup.steps import Found, State, Step
from pricing.aws.clients import Clients

_LONGEST_S = 12 * 3600  # of a session; AWS's own limit
_SHORTEST_S = 3600


def steps(clients: Clients, names: Names) -> list[Step]:
    """Return the steps that make the roles."""
    iam = clients.home("iam")
    machine = _Role(
        iam, names, names.machine_role, policies.machine_trust(names), policies.machine_policy(names), profile=True
    )
    job = _Role(iam, names, names.job_role, policies.job_trust(names), policies.job_policy(names), session_s=_LONGEST_S)
    return [
        _step("role and instance profile", Reason("setup_about.machine_role"), machine),
        _step("role", Reason("setup_about.job_role"), job),
        _spot(iam),
    ]


def _step(kind: str, about: Reason, role: "_Role") -> Step:
    documents = {"trust": role.trust, "policy": role.policy}
    made = (calling(role.look), calling(role.make), calling(role.remove))
    return Step(kind, role.name, "", about, *made, documents=documents)


@dataclass(frozen=True, slots=True)
class _Role:
    iam: Any
    names: Names
    name: str
    trust: policies.Policy
    policy: policies.Policy
    session_s: int = _SHORTEST_S
    profile: bool = False

    def look(self) -> Found:
        role, profile = self._role(), self._profile()
        if any(one and not is_ours(one.get("Tags", []), self.names.tags) for one in (role, profile)):
            return Found(State.FOREIGN, Reason("setup.foreign", {"name": self.name}))
        if not role and not profile:
            return Found(State.MISSING)
        if role and self._is_right(role, profile):
            return Found(State.THERE)
        return Found(State.STALE, Reason("setup.role_differs"))

    def make(self) -> None:
        """Create what is missing, and put trust, policy and length of sessions as they should be."""
        named, tags = {"RoleName": self.name}, tag_list(self.names.tags)
        trust = policies.text(self.trust)
        if not self._role():
            self.iam.create_role(**named, AssumeRolePolicyDocument=trust, MaxSessionDuration=self.session_s, Tags=tags)
        else:
            self.iam.update_assume_role_policy(**named, PolicyDocument=trust)
            self.iam.update_role(**named, MaxSessionDuration=self.session_s)
        self.iam.put_role_policy(**named, PolicyName=self.name, PolicyDocument=policies.text(self.policy))
        if self.profile:
            self._make_profile(tags)

    def remove(self) -> None:
        """Delete the instance profile, the policy and the role."""
        profile = self._profile()
        if profile:
            for role in profile["Roles"]:
                self.iam.remove_role_from_instance_profile(InstanceProfileName=self.name, RoleName=role["RoleName"])
            self.iam.delete_instance_profile(InstanceProfileName=self.name)
        if self._policy() is not None:
            self.iam.delete_role_policy(RoleName=self.name, PolicyName=self.name)
        if self._role():
            self.iam.delete_role(RoleName=self.name)

    def _make_profile(self, tags: list[dict[str, str]]) -> None:
        named = {"InstanceProfileName": self.name}
        profile = self._profile()
        if not profile:
            self.iam.create_instance_profile(**named, Tags=tags)
        if not _holds(profile, self.name):
            self.iam.add_role_to_instance_profile(**named, RoleName=self.name)

    def _is_right(self, role: dict[str, Any], profile: dict[str, Any]) -> bool:
        return (
            role["AssumeRolePolicyDocument"] == self.trust
            and role.get("MaxSessionDuration", _SHORTEST_S) == self.session_s
            and self._policy() == self.policy
            and (not self.profile or _holds(profile, self.name))
        )

    def _role(self) -> dict[str, Any]:
        found: dict[str, Any] = _or_none(self.iam.get_role, RoleName=self.name).get("Role", {})
        return found

    def _profile(self) -> dict[str, Any]:
        if not self.profile:
            return {}
        answer = _or_none(self.iam.get_instance_profile, InstanceProfileName=self.name)
        found: dict[str, Any] = answer.get("InstanceProfile", {})
        return found

    def _policy(self) -> policies.Policy | None:
        named = {"RoleName": self.name, "PolicyName": self.name}
        return _or_none(self.iam.get_role_policy, **named).get("PolicyDocument")


def _spot(iam: Any) -> Step:  # noqa: ANN401 - a client that boto3 made
    """Return the step for EC2's role: the account has one, others use it, too, so that undoing leaves it."""

    def look() -> Found:
        found = _or_none(iam.get_role, RoleName=SPOT_ROLE)
        return Found(State.SHARED, Reason("setup.spot_role_stays")) if found else Found(State.MISSING)

    def make() -> None:
        try:
            iam.create_service_linked_role(AWSServiceName=SPOT_SERVICE)
        except ClientError as error:
            if "has been taken" not in str(error):  # InvalidInput is the code of much else
                raise

    about = Reason("setup_about.spot_role")
    return Step("service-linked role", SPOT_ROLE, "", about, calling(look), calling(make), _stay)


def _stay() -> None:
    """Nothing is ours to remove."""


def _holds(profile: dict[str, Any], role: str) -> bool:
    return any(one["RoleName"] == role for one in profile.get("Roles", []))


def _or_none(ask: Any, **named: str) -> dict[str, Any]:  # noqa: ANN401 - a method that boto3 made
    try:
        answer: dict[str, Any] = ask(**named)
    except ClientError as error:
        if code_of(error) == "NoSuchEntity":
            return {}
        raise
    return answer
