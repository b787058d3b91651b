"""The metadata server of one machine, version 2: nothing without a token, 404 for what isn't there (yet)."""

import json
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from config.clock import Clock
from tests.clouds.http import Request, Server, line, read
from tests.clouds.instances import Instance
from tests.clouds.keys import ACCOUNT, Key

_LONGEST_TOKEN_S = 21_600
_META = "/latest/meta-data/"


class Imds:
    """`asked` holds the paths that were asked for with a token; `failing` has every answer be a 503."""

    def __init__(self, one: Instance, clock: Clock, key: Callable[[Instance], Key | None]) -> None:
        self._one = one
        self._clock = clock
        self._key = key
        self._tokens: dict[str, datetime] = {}
        self.asked: list[str] = []
        self.failing = False
        self._server = Server(self._app)
        self.url = self._server.url

    def stop(self) -> None:
        self._server.stop()

    def forget_tokens(self) -> None:
        """Refuse the tokens that were given so far."""
        self._tokens.clear()

    def _app(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        status, text = self._answer(read(environ))
        body = text.encode()
        start(line(status), [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, request: Request) -> tuple[int, str]:
        if self.failing:
            return 503, ""
        if request.path == "/latest/api/token":
            return self._new_token(request)
        ends = self._tokens.get(request.headers.get("x-aws-ec2-metadata-token", ""))
        if ends is None or ends <= self._clock.now():
            return 401, ""
        self.asked.append(request.path)
        text = self._value(request.path)
        return (404, "") if text is None else (200, text)

    def _new_token(self, request: Request) -> tuple[int, str]:
        lasts = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        if request.method != "PUT":
            return 405, ""
        if "x-forwarded-for" in request.headers:
            return 403, ""
        if not lasts.isdigit() or not 1 <= int(lasts) <= _LONGEST_TOKEN_S:
            return 400, ""
        token = secrets.token_urlsafe(32)
        self._tokens[token] = self._clock.now() + timedelta(seconds=int(lasts))
        return 200, token

    def _value(self, path: str) -> str | None:
        one = self._one
        if path == "/latest/dynamic/instance-identity/document":
            return json.dumps(_document(one))
        if not path.startswith(_META):
            return None
        name = path.removeprefix(_META).rstrip("/")
        if name.startswith("tags/instance"):
            return self._tag(name.removeprefix("tags/instance").lstrip("/"))
        if name.startswith("iam/"):
            return self._iam(name)
        values = {
            "instance-id": one.id, "instance-type": one.type, "ami-id": one.image.get("ImageId"), "local-ipv4": one.private_ip,
            "public-ipv4": one.public_ip or None, "placement/region": one.region, "placement/availability-zone": one.zone,
            "instance-life-cycle": one.market, "spot/instance-action": self._notice(),
            "spot/termination-time": f"{one.imds_notice:%FT%TZ}" if one.imds_notice else None,
            "events/recommendations/rebalance": self._rebalance(),
        }  # fmt: skip
        return values.get(name)

    def _notice(self) -> str | None:
        ends = self._one.imds_notice
        return json.dumps({"action": "terminate", "time": f"{ends:%FT%TZ}"}) if ends else None

    def _rebalance(self) -> str | None:
        told = self._one.rebalance
        return json.dumps({"noticeTime": f"{told:%FT%TZ}"}) if told else None

    def _tag(self, key: str) -> str | None:
        if self._one.asked.get("MetadataOptions", {}).get("InstanceMetadataTags") != "enabled":
            return None
        return self._one.tags.get(key) if key else "\n".join(self._one.tags)

    def _iam(self, name: str) -> str | None:
        key = self._key(self._one)
        if key is None:
            return None
        assert key.expires is not None
        updated = f"{self._clock.now():%FT%TZ}"
        if name == "iam/info":
            ident = "AIPA" + self._one.id[-16:].upper()
            told = {"Code": "Success", "LastUpdated": updated, "InstanceProfileArn": self._one.profile}
            return json.dumps(told | {"InstanceProfileId": ident})
        if name == "iam/security-credentials":
            return key.role
        if name != f"iam/security-credentials/{key.role}":
            return None
        given = {"AccessKeyId": key.id, "SecretAccessKey": key.secret, "Token": key.token}
        when = {"LastUpdated": updated, "Expiration": f"{key.expires:%FT%TZ}"}
        return json.dumps({"Code": "Success", "Type": "AWS-HMAC"} | given | when)


def _document(one: Instance) -> dict[str, Any]:
    return {
        "accountId": ACCOUNT, "architecture": one.image.get("Architecture"), "availabilityZone": one.zone, "region": one.region,
        "imageId": one.image.get("ImageId"), "instanceId": one.id, "instanceType": one.type, "privateIp": one.private_ip,
        "version": "2017-09-30", "pendingTime": f"{one.launched:%FT%TZ}",
    }  # fmt: skip
