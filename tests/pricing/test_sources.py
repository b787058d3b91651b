"""Every price source keeps the contract."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from config.settings import LocalSettings, SandboxSettings
from pricing.sources.file import FileSource
from pricing.sources.local import Device, LocalSource
from pricing.sources.sandbox import SandboxSource
from tests.contracts.price_source import NOW, FailingSourceContract, Prices, PriceSourceContract

ROWS: Sequence[dict[str, object]] = (
    {"cloud": "aws", "region": "us-east-1", "type": "g6.xlarge", "gpu": "L4", "vcpus": 4, "memory": "16GB", "price": 0.8048},
    {"cloud": "aws", "region": "us-east-1", "zone": "us-east-1a", "type": "g6.xlarge", "gpu": "L4", "vcpus": 4, "memory": "16GB",
     "market": "spot", "price": 0.31, "notice": "2m", "free": 4},
    {"cloud": "aliyun", "region": "cn-hangzhou", "type": "ecs.vgn7i-vws-m4.xlarge", "gpu": "A10", "gpus": "1/6", "vcpus": 4,
     "memory": "30GB", "price": "¥4.20", "minimum_billing": "1m"},
    {"cloud": "rack", "region": "cellar", "type": "h100", "gpu": "H100", "gpu_memory": "80GB", "gpus": 8, "vcpus": 96,
     "memory": "1TB", "market": "reserved", "count": 2, "ends": "2027-01-01T00:00:00Z"},
    {"cloud": "rack", "region": "cellar", "type": "cpu", "vcpus": 32, "memory": "128GB", "price": "0.4 USD"},
)  # fmt: skip


def as_csv(rows: Sequence[dict[str, object]]) -> str:
    columns = sorted({column for row in rows for column in row})
    lines = [",".join(str(row.get(column, "")) for column in columns) for row in rows]
    return "\n".join([",".join(columns), *lines, ""])


def written(path: Path, text: str) -> Path:
    """Write a file as if a minute before NOW."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (NOW.timestamp() - 60, NOW.timestamp() - 60))
    return path


class TestFile(FailingSourceContract):
    @pytest.fixture(params=["csv", "json"])
    def prices(self, request: pytest.FixtureRequest, tmp_path: Path) -> Prices:
        path = tmp_path / f"prices.{request.param}"
        text = as_csv(ROWS) if request.param == "csv" else json.dumps(ROWS, indent=1)
        written(path, text)
        return Prices(FileSource(path, rates={"CNY": 0.14}), break_down=path.unlink, mend=lambda: written(path, text))


class TestSandbox(PriceSourceContract):
    @pytest.fixture
    def prices(self) -> Prices:
        return Prices(SandboxSource(SandboxSettings()))


class TestSandboxWithItsOwnList(PriceSourceContract):
    @pytest.fixture
    def prices(self, tmp_path: Path) -> Prices:
        path = written(tmp_path / "prices.csv", as_csv([ROWS[0], ROWS[1], ROWS[4]]))
        return Prices(SandboxSource(SandboxSettings(price_file=path, sold_out_share=0)))

    def test_it_sells_what_the_list_says_at_that_price(self, prices: Prices) -> None:
        sold = sorted((offer.pool.cloud, offer.pool.type, offer.hourly_micro) for offer in prices.offers())
        assert sold == [
            ("sandbox", "cpu", 400_000),
            ("sandbox", "g6.xlarge", 310_000),
            ("sandbox", "g6.xlarge", 804_800),
        ]


class TestLocal(PriceSourceContract):
    @pytest.fixture
    def prices(self) -> Prices:
        return Prices(LocalSource(LocalSettings(), [Device("GPU-0", "NVIDIA L4", 23_034 * 2**20, "12.8")]))
