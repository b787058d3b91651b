"""The bucket of the store: private, encrypted, and free of the parts of uploads that were cut short."""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from config.reason import Reason
from daemon.setup.aws_calls import calling, code_of
from daemon.setup.aws_names import Names, is_ours, tag_list
from daemon.setup.steps import Found, Refused, State, Step
from pricing.aws.clients import Clients

_PRIVATE = dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True)
_ENCRYPTION = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
_RULE = "frugald: unfinished uploads"
_LIFECYCLE = {
    "Rules": [
        {
            "ID": _RULE,
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
        }
    ]
}
_NONE = {
    "NoSuchTagSet", "NoSuchPublicAccessBlockConfiguration", "NoSuchLifecycleConfiguration",
    "ServerSideEncryptionConfigurationNotFoundError",
}  # fmt: skip


def step(clients: Clients, names: Names) -> Step:
    """Return the step that makes the bucket of the store."""
    region = names.settings.regions[0]
    bucket = _Bucket(clients.get("s3", region), names, region)
    about = Reason("setup_about.bucket")
    return Step(
        "bucket", names.bucket, region, about, calling(bucket.look), calling(bucket.make), calling(bucket.remove)
    )


@dataclass(frozen=True, slots=True)
class _Bucket:
    s3: Any
    names: Names
    region: str

    def look(self) -> Found:
        try:
            self.s3.head_bucket(Bucket=self.names.bucket)
        except ClientError as error:
            return self._unseen(error)
        if not is_ours(self._or_none(self.s3.get_bucket_tagging).get("TagSet", []), self.names.tags):
            if self.names.own_bucket:
                return Found(State.FOREIGN, Reason("setup.foreign_bucket", {"name": self.names.bucket}))
            return Found(State.SHARED, Reason("setup.own_bucket"))
        return Found(State.THERE) if self._is_right() else Found(State.STALE, Reason("setup.bucket_differs"))

    def make(self) -> None:
        """Create it if need be, and put every property; the tags first: they make it ours."""
        bucket = {"Bucket": self.names.bucket}
        try:
            self.s3.create_bucket(**bucket, **self._place())
        except ClientError as error:
            if code_of(error) != "BucketAlreadyOwnedByYou":
                raise
        self.s3.put_bucket_tagging(**bucket, Tagging={"TagSet": tag_list(self.names.tags)})
        self.s3.put_public_access_block(**bucket, PublicAccessBlockConfiguration=_PRIVATE)
        self.s3.put_bucket_encryption(**bucket, ServerSideEncryptionConfiguration=_ENCRYPTION)
        self.s3.put_bucket_lifecycle_configuration(**bucket, LifecycleConfiguration=_LIFECYCLE)

    def remove(self) -> None:
        """Delete it if it is empty."""
        full = Reason("setup.not_empty", {"name": self.names.bucket})
        if self.s3.list_objects_v2(Bucket=self.names.bucket, MaxKeys=1).get("KeyCount"):
            raise Refused(full)
        try:
            self.s3.delete_bucket(Bucket=self.names.bucket)
        except ClientError as error:
            if code_of(error) == "BucketNotEmpty":
                raise Refused(full) from error
            raise

    def _unseen(self, error: ClientError) -> Found:
        if code_of(error) in {"404", "NoSuchBucket"}:
            return Found(State.MISSING)
        if code_of(error) in {"403", "AccessDenied"}:
            return Found(State.FOREIGN, Reason("setup.barred_bucket", {"name": self.names.bucket}))
        raise error

    def _place(self) -> dict[str, Any]:
        """us-east-1 is where buckets go that name no place; naming it is an error."""
        return {} if self.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": self.region}}

    def _is_right(self) -> bool:
        private = self._or_none(self.s3.get_public_access_block).get("PublicAccessBlockConfiguration")
        encrypted = self._or_none(self.s3.get_bucket_encryption).get("ServerSideEncryptionConfiguration", {})
        rules = self._or_none(self.s3.get_bucket_lifecycle_configuration).get("Rules", [])
        aborts = any("AbortIncompleteMultipartUpload" in rule and rule["Status"] == "Enabled" for rule in rules)
        return private == _PRIVATE and bool(encrypted.get("Rules")) and aborts

    def _or_none(self, ask: Any) -> dict[str, Any]:  # noqa: ANN401 - a method that boto3 made
        try:
            answer: dict[str, Any] = ask(Bucket=self.names.bucket)
        except ClientError as error:
            if code_of(error) in _NONE:
                return {}
            raise
        return answer
