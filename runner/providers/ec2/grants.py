"""Credentials of single machines: a role that the daemon takes on, narrowed to one machine and its jobs."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from config.aws_settings import AwsSettings
from pricing.aws.clients import Clients
from runner.provider import Denied, ProviderError, Throttled
from runner.store.grants import Grant

_LONGEST_S = 12 * 3600
_CHAINED_S = 3600  # all that AWS gives whoever has a role already
_LONGEST_POLICY = 2048  # characters of an inline session policy
_THROTTLED = {"Throttling", "ThrottlingException", "RequestLimitExceeded"}
_DENIED = {"AccessDenied", "ExpiredToken", "InvalidClientTokenId", "NoSuchEntity", "SignatureDoesNotMatch"}


class AwsGrants:
    """Makes the grants of one account's machines; one store, one role for jobs."""

    def __init__(self, clients: Clients, settings: AwsSettings, store_url: str) -> None:
        """Ask nothing yet. `store_url` is `s3://bucket/prefix`."""
        self._clients = clients
        self._settings = settings
        self._bucket, _, self._prefix = store_url.removeprefix("s3://").rstrip("/").partition("/")
        self._account = ""
        self._seconds = _LONGEST_S
        self._machine_role_id = ""

    def grant(
        self,
        provider_id: str,
        machine: str,
        jobs: Sequence[str],
        now: datetime,  # noqa: ARG002 - AWS has a clock of its own
    ) -> tuple[str, Grant]:
        """Make credentials for one machine and its jobs; return the key at which it looks for them.

        Raises ProviderError.
        """
        try:
            given = self._assume(machine, self.policy(machine, jobs))
            return f"keys/{self._role_id()}:{provider_id.rpartition('/')[2]}/store.json", _grant(given)
        except ClientError as error:
            raise _judged(error, f"the role {self._settings.name}-job") from error
        except BotoCoreError as error:
            raise ProviderError(f"AWS gave machine {machine} no credentials: {error}") from error

    def policy(self, machine: str, jobs: Iterable[str]) -> str:
        """Return the session policy: read and write below one machine and its jobs, read agents, list no other prefix.

        Raises ProviderError when AWS would find it too long.
        """
        own = [f"machines/{machine}/*", *(f"jobs/{job}/*" for job in sorted(jobs))]
        bucket = f"arn:{self._settings.partition}:s3:::{self._bucket}"
        below = f"{self._prefix}/" if self._prefix else ""
        writes = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        statements = [
            {"Effect": "Allow", "Action": writes, "Resource": [f"{bucket}/{below}{part}" for part in own]},
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{bucket}/{below}agents/*"},
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": bucket,
                "Condition": {"StringLike": {"s3:prefix": [f"{below}{part}" for part in [*own, "agents/*"]]}},
            },
        ]
        text = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
        if len(text) > _LONGEST_POLICY:
            raise ProviderError(
                f"machine {machine} has too many jobs for one grant of AWS ({len(text)} characters of policy, "
                f"{_LONGEST_POLICY} are allowed): shorten the prefix in `store.url`, or let fewer jobs share a machine"
            )
        return text

    def _assume(self, machine: str, policy: str) -> dict[str, Any]:
        """Take the role for 12 hours, or for the hour that a daemon with a role of its own gets."""
        sts = self._clients.get("sts", self._settings.regions[0])
        if not self._account:
            self._account = sts.get_caller_identity()["Account"]
        role = f"arn:{self._settings.partition}:iam::{self._account}:role/{self._settings.name}-job"
        wanted = {"RoleArn": role, "RoleSessionName": machine, "Policy": policy}
        try:
            answer = sts.assume_role(**wanted, DurationSeconds=self._seconds)
        except ClientError as error:
            if self._seconds == _CHAINED_S or not _too_long(error):
                raise
            self._seconds = _CHAINED_S
            answer = sts.assume_role(**wanted, DurationSeconds=_CHAINED_S)
        credentials: dict[str, Any] = answer["Credentials"]
        return credentials

    def _role_id(self) -> str:
        if not self._machine_role_id:
            name = f"{self._settings.name}-machine"
            self._machine_role_id = self._clients.home("iam").get_role(RoleName=name)["Role"]["RoleId"]
        return self._machine_role_id


def _grant(given: dict[str, Any]) -> Grant:
    ends: datetime = given["Expiration"]
    return Grant(
        access_key_id=given["AccessKeyId"],
        secret_access_key=given["SecretAccessKey"],
        token=given["SessionToken"],
        expires_at=ends.astimezone(UTC),
    )


def _too_long(error: ClientError) -> bool:
    told = error.response["Error"]
    return told.get("Code") == "ValidationError" and "DurationSeconds" in told.get("Message", "")


def _judged(error: ClientError, role: str) -> ProviderError:
    told = error.response["Error"]
    code = told.get("Code", "")
    if code in _THROTTLED:
        return Throttled(str(error))
    if code in _DENIED:
        return Denied(
            f"no credentials for machines: {role} can't be taken on ({error}); let the daemon assume it, see docs/store.md"
        )
    return ProviderError(f"no credentials for machines: {error}")
