"""The price list of one region: kept on disk, read anew every twelve hours, by the API or else from the bulk file."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from pricing.aws import list_prices, price_cache
from pricing.aws.asking import BadCredentials, Denied
from pricing.aws.clients import Clients
from pricing.aws.kept import Kept
from pricing.offer import SourceError

Public = Callable[[str], bytes]
"""Fetches a public address, without credentials. Raises OSError."""

_LIFE = timedelta(hours=12)


class PriceList:
    """The newest list; `failed` says why it couldn't be read anew, empty when it could."""

    def __init__(
        self, clients: Clients, partition: str, region: str, currency: str, folder: Path, public: Public
    ) -> None:
        """Ask nothing yet; `currency` is that of the partition's prices."""
        self._clients = clients
        self._partition = partition
        self._region = region
        self._currency = currency
        self._file = folder / f"aws-{region}.json"
        self._public = public
        self._lock = threading.Lock()  # prices and reserved terms are asked for from two threads
        self._kept: Kept[price_cache.Dated] = Kept(_LIFE)

    @property
    def failed(self) -> str:
        """Say why the list couldn't be read anew."""
        return self._kept.failed

    def get(self, now: datetime) -> price_cache.Dated:
        """Return the list; may block. Raises SourceError when there has never been one."""
        with self._lock:
            kept = None if self._kept.known else price_cache.load(self._file, self._currency)
            if kept and kept.at <= now:
                self._kept.keep(kept, kept.at)
            return self._kept.get(now, lambda: self._read(now))

    def _read(self, now: datetime) -> price_cache.Dated:
        dated = price_cache.Dated(now, self._ask())
        price_cache.save(self._file, dated, self._currency)
        return dated

    def _ask(self) -> dict[str, list_prices.Listed]:
        try:
            client = self._clients.home("pricing")
        except KeyError:  # the partition has no such service
            return self._bulk()
        try:
            return list_prices.by_api(client, self._region, self._currency)
        except (Denied, BadCredentials) as error:
            try:
                return self._bulk()
            except SourceError as also:
                raise SourceError(f"{error}; and {also}") from also

    def _bulk(self) -> dict[str, list_prices.Listed]:
        url = list_prices.bulk_url(self._partition, self._region)
        return list_prices.by_bulk_file(fetched("the price file", url, self._public), self._region, self._currency)


def fetched(what: str, url: str, public: Public) -> bytes:
    """Return what lies at a public address. Raises SourceError."""
    try:
        return public(url)
    except OSError as error:
        raise SourceError(f"{what} didn't come from {url} ({error}): fetched again later") from error
