"""The connections to AWS: one session, each client made once and kept.

Making clients is not safe from several threads and leaks when repeated (boto3 #1592, #1670); using them is safe.
"""

import threading
from typing import Any

import boto3
from botocore.config import Config

from config.aws_settings import AwsSettings

# Where the services live that aren't in every region.
_HOME = {
    "aws": {"pricing": "us-east-1", "ce": "us-east-1", "savingsplans": "us-east-1", "iam": "us-east-1"},
    "aws-cn": {"pricing": "cn-northwest-1", "ce": "cn-northwest-1", "iam": "cn-north-1"},
    "aws-us-gov": {"iam": "us-gov-west-1"},
}
_READS = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=5, read_timeout=30)
# One attempt: a refusal for want of capacity arrives as HTTP 500, which a second attempt would only repeat.
_LAUNCHES = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=5, read_timeout=30)


class Clients:
    """Every client of one account, by service and region."""

    def __init__(self, settings: AwsSettings) -> None:
        """Find the credentials. Raises botocore.exceptions.ProfileNotFound."""
        self._session = boto3.Session(profile_name=settings.profile or None)
        self._home = _HOME[settings.partition]
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str, bool], Any] = {}

    def get(self, service: str, region: str) -> Any:  # noqa: ANN401 - boto3 makes its clients' classes at run time
        """Return the client that reads and changes: several attempts, in pace."""
        return self._client(service, region, launches=False)

    def launch(self, region: str) -> Any:  # noqa: ANN401
        """Return the EC2 client that makes one attempt only."""
        return self._client("ec2", region, launches=True)

    def home(self, service: str) -> Any:  # noqa: ANN401
        """Return the client of a service that lives in one region of the partition. Raises KeyError: it has none."""
        return self.get(service, self._home[service])

    def credentials(self) -> Any:  # noqa: ANN401
        """Return the credentials that were found, None where there are none."""
        return self._session.get_credentials()

    def _client(self, service: str, region: str, *, launches: bool) -> Any:  # noqa: ANN401
        key = (service, region, launches)
        with self._lock:
            if key not in self._made:
                config = _LAUNCHES if launches else _READS
                self._made[key] = self._session.client(service, region_name=region, config=config)
            return self._made[key]
