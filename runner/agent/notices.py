"""The cloud's own word that this machine will be taken away, from the metadata server in the form of AWS (IMDSv2)."""

import json
import urllib.error
import urllib.request
from datetime import datetime

from config.clock import Clock

ADDRESS = "http://169.254.169.254"
_TOKEN_LASTS_S = 21_600
_TIMEOUT_S = 2.0


class Metadata:
    """The metadata server of this machine."""

    def __init__(self, address: str, clock: Clock) -> None:
        """Ask at `address`, never through a proxy."""
        self._address = (address or ADDRESS).rstrip("/")
        self._clock = clock
        self._token = ""
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def notice_in_s(self) -> float | None:
        """Return the seconds until the machine is taken away, None while there is no notice. Raises OSError, ValueError."""
        text = self._get("/latest/meta-data/spot/instance-action")
        if text is None:
            return None
        at = datetime.fromisoformat(json.loads(text)["time"])
        return (at - self._clock.now()).total_seconds()

    def in_danger(self) -> bool:
        """Say whether the cloud recommends to leave this machine: no notice yet. Raises OSError."""
        return self._get("/latest/meta-data/events/recommendations/rebalance") is not None

    def _get(self, path: str) -> str | None:
        """Ask with a token, and once more with a new one where the old one has ended."""
        for _ in range(2):
            try:
                return self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token or self._new_token()})
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                if error.code != 401:
                    raise
                self._token = ""
        raise OSError(f"{self._address} refuses the token that it has just given")

    def _new_token(self) -> str:
        lasts = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LASTS_S)}
        self._token = self._ask("PUT", "/latest/api/token", lasts)
        return self._token

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> str:
        request = urllib.request.Request(self._address + path, method=method, headers=headers)  # noqa: S310 - see below
        # The address is http by construction, or was given on the command line by whoever started this machine.
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            return str(answer.read().decode())
