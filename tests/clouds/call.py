"""One call to a stand-in cloud, decoded, and its answer."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Call:
    """What a client asked, once its signature has been checked."""

    service: str  # as in the signature: ec2, pricing, savingsplans, servicequotas, ce, sts, iam, ssm, s3, sqs
    region: str
    action: str  # RunInstances, GetProducts, ...; for REST services the path, such as POST /DescribeSavingsPlans
    params: dict[str, Any]  # query services: the flat form fields (InstanceType.1); others: the decoded JSON body
    access_key: str
    at: datetime
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What goes back over the wire."""

    body: bytes
    status: int = 200
    content_type: str = "application/x-amz-json-1.1"

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> "Answer":
        return cls(json.dumps(value).encode(), status)

    @classmethod
    def of_xml(cls, text: str, status: int = 200) -> "Answer":
        return cls(text.encode(), status, "text/xml;charset=UTF-8")
