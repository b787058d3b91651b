"""From a signed request to a Call: which action of which service, and with what."""

import json
from datetime import datetime
from urllib.parse import unquote

from tests.clouds.call import Call
from tests.clouds.http import Request
from tests.clouds.signature import Signed

_PARTS = {
    "location": "BucketLocation", "tagging": "BucketTagging", "publicAccessBlock": "PublicAccessBlock",
    "encryption": "BucketEncryption", "lifecycle": "BucketLifecycleConfiguration", "policy": "BucketPolicy",
    "versioning": "BucketVersioning", "ownershipControls": "BucketOwnershipControls", "acl": "BucketAcl", "cors": "BucketCors",
}  # fmt: skip
_VERBS = {"GET": "Get", "PUT": "Put", "DELETE": "Delete"}
_WHOLE = {"GET": "ListObjects", "HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}
_OBJECT = {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
_UPLOAD = {"GET": "ListParts", "PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}


def call(request: Request, by: Signed, at: datetime) -> Call:
    """Read what is asked. Raises ValueError."""
    action, params = _asked(request, by.service)
    return Call(by.service, by.region, action, params, by.key, at, dict(request.headers))


def _asked(request: Request, service: str) -> tuple[str, dict[str, object]]:
    if service == "s3":
        return _s3(request)
    if target := request.headers.get("x-amz-target"):
        return target.rpartition(".")[2], json.loads(request.body or b"{}")
    if (
        request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        or "Action=" in request.query
    ):
        form = request.form
        return form.get("Action", ""), dict(form)
    return f"{request.method} {request.path}", json.loads(request.body or b"{}")


def _s3(request: Request) -> tuple[str, dict[str, object]]:
    """S3's names of its actions; the parameters are Bucket, Key, and those of the query."""
    bucket, _, key = unquote(request.path).lstrip("/").partition("/")
    query = dict(request.pairs)
    params: dict[str, object] = {"Bucket": bucket, "Key": key, **query}
    if not bucket:
        return "ListBuckets", params
    return _of_object(request, query) if key else _of_bucket(request.method, query), params


def _of_bucket(method: str, query: dict[str, str]) -> str:
    part = next((name for name in query if name in _PARTS), "")
    if part:
        return f"{_VERBS[method]}{_PARTS[part]}"
    if "delete" in query:
        return "DeleteObjects"
    if "uploads" in query:
        return "ListMultipartUploads"
    if "versions" in query:
        return "ListObjectVersions"
    return "ListObjectsV2" if "list-type" in query else _WHOLE[method]


def _of_object(request: Request, query: dict[str, str]) -> str:
    if "uploads" in query:
        return "CreateMultipartUpload"
    if "uploadId" in query:
        return _UPLOAD[request.method]
    if "tagging" in query:
        return f"{_VERBS[request.method]}ObjectTagging"
    return "CopyObject" if "x-amz-copy-source" in request.headers else _OBJECT[request.method]
