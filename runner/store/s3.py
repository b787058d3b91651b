"""Objects in S3, or in what speaks like it: `s3://bucket/prefix`.

Credentials come from one of three places: a grant (machines), boto3's chain where boto3 is installed (the daemon), or
what obstore finds by itself: environment, container, instance profile.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from config.clock import Clock, SystemClock
from runner.store.base import Missing, StoreError
from runner.store.grants import Granted
from runner.store.keys import LONGEST_KEY, check_key, spell
from runner.store.object import ObstoreStore, said

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

OPTIONS = ("endpoint", "grant", "profile", "region")
_LONGEST_PREFIX = 64  # bytes; the policy of a grant repeats it and may have 2048 in all
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]*")  # nothing that a policy would take for a pattern
_REGION_AT_END = re.compile(r"-([a-z]{2}(?:-[a-z]+)+-\d)$")  # of buckets that are named after their region
_CODE = re.compile(r"<Code>(\w+)</Code>")
# obstore's 30 s for a whole answer would cut large files off.
_CLIENT: "ClientConfig" = {"connect_timeout": "5s", "timeout": "30m", "read_timeout": "30s"}
_RETRY: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
# obstore asks again when less than 5 minutes are left; boto3 keeps credentials fresh for 10 at least.
_HELD = timedelta(minutes=6)

_ADVICE = {
    "NoSuchBucket": "there is no such bucket: make it with `aws s3 mb`, or correct `store.url`",
    "AccessDenied": "the credentials may not do that: docs/store.md lists the permissions that a store needs",
    "ExpiredToken": "the credentials have expired: renew them (`aws sso login`), or use a profile that renews itself",
    "InvalidAccessKeyId": "AWS doesn't know the access key: correct the profile or AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the secret key doesn't fit the access key: correct the profile or AWS_SECRET_ACCESS_KEY",
    "RequestTimeTooSkewed": "this computer's clock is wrong: set it",
    "PermanentRedirect": "the bucket lies in another region: set the store's option `region`",
}
_ADVICE |= {
    "AllAccessDisabled": _ADVICE["AccessDenied"],
    "AuthorizationHeaderMalformed": _ADVICE["PermanentRedirect"],
    "IllegalLocationConstraintException": _ADVICE["PermanentRedirect"],
    "InvalidToken": _ADVICE["ExpiredToken"],
    "TokenRefreshRequired": _ADVICE["ExpiredToken"],
}


class BucketStore(ObstoreStore):
    """One prefix of a bucket."""

    def __init__(self, url: str, store: S3Store, prefix: str, ready: Callable[[], None]) -> None:
        """Keep the connection; `ready` is called before each call and raises StoreError while nothing can be asked."""
        super().__init__(url, store)
        self._room = LONGEST_KEY - len(prefix + "/" if prefix else "")
        self._ready = ready

    def _path(self, key: str) -> str:
        spelled = super()._path(key)
        size = len(spelled.encode())
        if size > self._room:
            raise StoreError(
                f"{key[:40]!r}... is no key: it has {size} bytes as S3 counts and {self._room} are allowed, shorten it"
            )
        return spelled

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        self._ready()
        with super()._errors(action, key):
            yield

    def _explained(self, error: Exception, action: str, key: str) -> StoreError:
        told = said(error)
        code = _CODE.search(told)
        if isinstance(error, PermissionDeniedError) and action in {"read", "look at"} and self._lacks(key):
            return Missing(f"there is no object {key!r} in {self.url}")
        advice = _ADVICE.get(code[1] if code else _unsaid(error, told))
        if advice is None:
            return super()._explained(error, action, key)
        return StoreError(f"can't {action} {key!r} in {self.url}: {advice}" + (f" ({code[1]})" if code else ""))

    def _lacks(self, key: str) -> bool:
        """Say whether a key is missing: S3 answers 403 for 404 to whoever may list some prefixes only."""
        spelled = self._path(key)
        try:
            listed = obstore.list_with_delimiter(self._store, spelled.rpartition("/")[0] or None)
        except (BaseError, OSError, ValueError):
            return False
        return all(meta["path"] != spelled for meta in listed["objects"])


def bucket_store(rest: str, options: Mapping[str, str], clock: Clock | None = None) -> BucketStore:
    """Open `bucket/prefix`. Raises StoreError.

    Options: `region` (else the ending of the bucket's name, else AWS_REGION), `endpoint` (else AWS_ENDPOINT_URL_S3 or
    AWS_ENDPOINT_URL), `profile` of ~/.aws/config (the daemon), `grant`: the key of this machine's credentials.
    """
    bucket, prefix = _parts(rest)
    _known(options)
    config = _config(bucket, options)
    url = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
    try:
        if options.get("grant"):
            return _granted(url, bucket, prefix, config, options["grant"], clock or SystemClock())
        return BucketStore(url, _connect(bucket, prefix, config, _chain(options)), prefix, _at_once)
    except (BaseError, OSError, ValueError) as error:
        raise StoreError(f"can't open the store {url}: {said(error)}") from error


def _granted(url: str, bucket: str, prefix: str, config: "S3Config", key: str, clock: Clock) -> BucketStore:
    spelled = spell(check_key(key))
    own = _connect(bucket, prefix, config, None)

    def read() -> bytes:
        try:
            return bytes(obstore.get(own, spelled).bytes())
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(f"{key!r} in {url} can't be read: {said(error)}") from error

    granted = Granted(read, clock)

    def credentials() -> "S3Credential":
        grant = granted.current()
        return {
            "access_key_id": grant.access_key_id,
            "secret_access_key": grant.secret_access_key,
            "token": grant.token,
            # Asked again before that, so that a newer grant is used as soon as it is there.
            "expires_at": min(grant.expires_at, clock.now() + _HELD),
        }

    return BucketStore(url, _connect(bucket, prefix, config, credentials), prefix, granted.renew)


def _connect(bucket: str, prefix: str, config: "S3Config", credentials: Callable[[], Any] | None) -> S3Store:
    endpoint = config.get("endpoint", "")
    client: ClientConfig = {**_CLIENT, "allow_http": endpoint.startswith("http://")}
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client,
        retry_config=_RETRY,
        credential_provider=credentials,
    )


def _chain(options: Mapping[str, str]) -> Callable[[], Any] | None:
    """Return what boto3 finds, renewed as boto3 renews it; None without boto3: obstore looks for itself."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        if options.get("profile"):
            raise StoreError("a store with a `profile` needs boto3: install `frugald[aws]`") from error
        return None
    try:
        return Boto3CredentialProvider(boto3.Session(profile_name=options.get("profile") or None), ttl=_HELD)
    except (BotoCoreError, ValueError) as error:
        raise StoreError(
            "no AWS credentials were found for the store: set a profile (`store.profile`), AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY, or give this computer a role ({error})"
        ) from error


def _config(bucket: str, options: Mapping[str, str]) -> "S3Config":
    region = _region(bucket, options)
    endpoint = _endpoint(region, options)
    config: S3Config = {
        "region": region,
        "virtual_hosted_style_request": not endpoint and "." not in bucket,
        "disable_bulk_delete": True,  # needs no permission but that for one object
    }
    if endpoint:
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
    if metadata := os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        config["metadata_endpoint"] = metadata.rstrip("/")
    return config


def _region(bucket: str, options: Mapping[str, str]) -> str:
    ending = _REGION_AT_END.search(bucket)
    given = options.get("region") or (ending and ending[1])
    return given or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _endpoint(region: str, options: Mapping[str, str]) -> str:
    given = options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if not given and region.startswith("cn-"):
        given = f"https://s3.{region}.amazonaws.com.cn"
    if given and not given.startswith(("http://", "https://")):
        raise StoreError(f"the store's endpoint {given!r} must start with https:// (or http:// for one of your own)")
    return given.rstrip("/")


def _parts(rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKET.fullmatch(bucket):
        raise StoreError(f"'s3://{rest}' names no bucket: write it like `s3://my-bucket/frugald`")
    if not _PREFIX.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX:
        raise StoreError(
            f"'s3://{rest}': what follows the bucket may have {_LONGEST_PREFIX} letters, digits and `._-/`, shorten it"
        )
    if prefix:
        check_key(prefix)
    return bucket, prefix


def _known(options: Mapping[str, str]) -> None:
    if strange := sorted(set(options) - set(OPTIONS)):
        raise StoreError(f"an s3 store knows the options {', '.join(OPTIONS)}: remove {', '.join(strange)}")


def _unsaid(error: Exception, told: str) -> str:
    """Return the code of an answer that has none: to HEAD, and redirections."""
    if isinstance(error, PermissionDeniedError):
        return "AccessDenied"
    if "redirect" in told.lower():
        return "PermanentRedirect"
    return "ExpiredToken" if isinstance(error, UnauthenticatedError) and "401" in told else ""


def _at_once() -> None:
    """Nothing to wait for."""
