"""The door of the stand-in: checks who calls and what they may, lets things go wrong, and hands each call on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from tests.clouds import decoded, house, signature
from tests.clouds.call import Answer, Call
from tests.clouds.faults import Fault
from tests.clouds.http import Request, hang_up, line, read
from tests.clouds.keys import Key
from tests.clouds.needs import needs, partition
from tests.clouds.policy import Need, allows
from tests.clouds.wire import Refused, error

if TYPE_CHECKING:
    from tests.clouds.aws import AwsCloud

Start = Callable[..., Any]
_FREE = "/offers/v1.0/"  # the price list's files are public


@dataclass
class Made:
    """One call as it was made; `code` is the error that it got from the stand-in itself, if any."""

    service: str
    action: str
    access_key: str
    region: str
    needs: tuple[Need, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    code: str = ""

    @property
    def resource(self) -> str:
        return self.needs[0].resource if self.needs else "*"


class Front:
    """The WSGI application in front of everything."""

    def __init__(self, cloud: "AwsCloud", behind: Callable[..., Iterable[bytes]]) -> None:
        self._cloud = cloud
        self._behind = behind

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        request = read(environ)
        by = signature.signed(request)
        if by is None:
            return self._unsigned(request, start)
        call = Call(by.service, by.region, "", {}, by.key, self._cloud.clock.now())
        try:
            key = _as_of_now(signature.caller(request, by, self._cloud.keys, call.at, self._date()), by.region)
            call = decoded.call(request, by, call.at)
            return self._served(environ, start, request, call, key)
        except Refused as refused:
            return self._refuse(start, request, call, refused)

    def _served(self, environ: dict[str, Any], start: Start, request: Request, call: Call, key: Key) -> Iterable[bytes]:
        made = Made(call.service, call.action, key.id, call.region, params=dict(call.params))
        self._cloud.calls.append(made)
        fault = self._cloud.faults.of(call.action, key.id, call.region) or Fault()
        try:
            if fault.code:
                raise fault.refusal(call.service)
            made.needs = needs(call, self._cloud.ec2, request.body)
            self._check(call, key, made.needs)
            answer = self._cloud.answer(call, key)
        except Refused as refused:
            made.code = refused.code
            if fault.lost:
                self._cloud.faults.give_back(fault)
            raise
        answered = (
            self._pass_on(environ, start, call, key) if answer is None else self._say(start, request, answer, fault)
        )
        if fault.delay_s:
            self._cloud.wall.wait(self._cloud.over, fault.delay_s)
        return hang_up(environ) if fault.lost else answered

    def _check(self, call: Call, key: Key, wanted: tuple[Need, ...]) -> None:
        denied = next((need for need in wanted if not allows(key, need)), None)
        if denied is not None:
            raise self._denied(call, key, denied)
        if call.service == "ec2" and call.params.get("DryRun") == "true":
            raise Refused("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)

    def _denied(self, call: Call, key: Key, need: Need) -> Refused:
        if need.action == "iam:CreateServiceLinkedRole" and call.service == "ec2":
            told = "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."
            return Refused("AuthFailure.ServiceLinkedRoleCreationNotPermitted", told, 403)
        told = f"User: {key.arn} is not authorized to perform: {need.action} on resource: {need.resource}"
        if call.service == "ec2":
            return Refused("UnauthorizedOperation", f"You are not authorized to perform this operation. {told}", 403)
        if call.service in {"s3", "iam", "sts"}:
            return Refused("AccessDenied", told, 403)
        return Refused("AccessDeniedException", told)

    def _pass_on(self, environ: dict[str, Any], start: Start, call: Call, key: Key) -> Iterable[bytes]:
        """Have moto answer, and hide from whoever may not list a bucket which keys it lacks."""
        seen: list[Any] = []
        body = b"".join(self._behind(environ, lambda *told, **_: seen.append(told)))
        status, headers = seen[0][0], seen[0][1]
        if status.startswith("404") and call.action in {"GetObject", "HeadObject"}:
            bucket = f"{needs(call, self._cloud.ec2, b'')[0].resource.partition('/')[0]}"
            if not allows(key, Need("s3:ListBucket", bucket)):
                raise Refused("AccessDenied", "Access Denied", 403)
        start(status, [*((name, value) for name, value in headers if name.lower() != "date"), self._dated()])
        return [body]

    def _unsigned(self, request: Request, start: Start) -> Iterable[bytes]:
        answer = self._cloud.public(request.path) if request.path.startswith(_FREE) else None
        refusal = Answer.of_xml("<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>", 403)
        return self._say(start, request, answer or refusal)

    def _refuse(self, start: Start, request: Request, call: Call, refused: Refused) -> Iterable[bytes]:
        return self._say(start, request, told(call, refused))

    def _say(self, start: Start, request: Request, answer: Answer, _: Fault | None = None) -> Iterable[bytes]:
        body = b"" if request.method == "HEAD" else answer.body
        size = ("Content-Length", str(len(body)))
        start(line(answer.status), [("Content-Type", answer.content_type), size, self._dated()])
        return [body]

    def _date(self) -> datetime:
        return self._cloud.wall.now() + self._cloud.skew

    def _dated(self) -> tuple[str, str]:
        return "Date", format_datetime(self._date().astimezone(UTC), usegmt=True)


def _as_of_now(key: Key, region: str) -> Key:
    """Add what the role's policies say today; those of a role that is gone allow nothing."""
    if not key.role:
        return key
    role = house.role(key.role, partition(region))
    return replace(key, policies=(role.policies if role else (), *key.policies))


def told(call: Call, refused: Refused) -> Answer:
    """Return an error as its service writes it."""
    inside = f"<Code>{refused.code}</Code><Message>{escape(str(refused))}</Message>"
    if call.service == "s3":
        return Answer(f"<Error>{inside}<RequestId>r-1</RequestId></Error>".encode(), refused.status, "application/xml")
    if call.service in {"sts", "iam"}:
        kind = "<Type>Sender</Type>"
        return Answer.of_xml(
            f"<ErrorResponse><Error>{kind}{inside}</Error><RequestId>r-1</RequestId></ErrorResponse>", refused.status
        )
    return error(call, refused)
