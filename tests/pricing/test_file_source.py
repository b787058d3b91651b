"""Price lists: what they may say, and what is said of their mistakes."""

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.gpus import find as gpu
from config.gpus import slice_of, usable_bytes
from pricing.book import PriceBook
from pricing.offer import Market, Offer, SourceError
from pricing.quarantine import sift
from pricing.sources.file import FileSource
from pricing.sources.price_list import OPTIONAL, REQUIRED
from tests.pricing.offers import GIB, NOW

ROOT = Path(__file__).parents[2]
HEAD = "cloud,region,type,gpu,price"
ONE = f"{HEAD}\naws,us-east-1,g6.xlarge,L4,0.8048\n"


def source(
    tmp_path: Path, text: str | bytes, *, name: str = "prices.csv", age: float = 60, **options: Any
) -> FileSource:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (NOW.timestamp() - age, NOW.timestamp() - age))
    return FileSource(path, **options)


def only(tmp_path: Path, text: str, **options: Any) -> Offer:
    [offer] = source(tmp_path, text, **options).offers(NOW)
    return offer


def mistakes(tmp_path: Path, text: str | bytes, **options: Any) -> list[str]:
    with pytest.raises(SourceError) as told:
        source(tmp_path, text, **options).offers(NOW)
    start = f"price list {tmp_path / options.get('name', 'prices.csv')}: "
    assert str(told.value).startswith(start)
    return re.split(r"; (?=line|and \d)", str(told.value).removeprefix(start))


# ---------------------------------------------------------------- what it reads


def test_one_line_is_enough(tmp_path: Path) -> None:
    offer = only(tmp_path, ONE)
    assert str(offer.pool) == "aws/us-east-1/g6.xlarge/on-demand"
    assert (offer.gpu, offer.gpus, offer.gpu_memory) == ("L4", 1, usable_bytes("L4"))
    assert (offer.hourly_micro, offer.ceiling_micro, offer.native_hourly) == (804_800, 804_800, "0.804800 USD")
    assert (offer.family, offer.free, offer.ends, offer.hazard_per_hour) == ("g6.xlarge", None, None, None)


def test_every_column_is_read(tmp_path: Path) -> None:
    values = {
        "cloud": "aws", "region": "us-east-1", "type": "p4d", "zone": "us-east-1a", "market": "Spot", "price": "¥70",
        "on_demand_price": "32.77", "gpu": "A100", "gpus": "8", "gpu_memory": "40GB", "vcpus": "96", "memory": "1152GB",
        "free": "3", "count": "", "ends": "", "as_of": "2026-03-02T08:55:00+00:00", "family": "p", "disk_price": "0.01",
        "minimum_billing": "1m", "boot": "90s", "notice": "2m", "cuda_max": "12.8", "hazard": "0.2",
    }  # fmt: skip
    assert set(values) == {*REQUIRED, *OPTIONAL}
    offer = only(tmp_path, f"{','.join(values)}\n{','.join(values.values())}\n", rates={"CNY": 0.14})
    assert (offer.pool.zone, offer.pool.market, offer.family, offer.free) == ("us-east-1a", Market.SPOT, "p", 3)
    assert (offer.gpu, offer.gpus, offer.vcpus, offer.memory) == ("A100-40", 8, 96, 1152 * GIB)
    assert (offer.hourly_micro, offer.native_hourly, offer.fx_rate) == (9_800_000, "70.000000 CNY", "0.14")
    assert (offer.ceiling_micro, offer.disk_hourly_micro) == (32_770_000, 10_000)
    assert offer.as_of == datetime(2026, 3, 2, 8, 55, tzinfo=UTC)
    assert (offer.minimum_billing, offer.boot, offer.notice) == tuple(timedelta(seconds=s) for s in (60, 90, 120))
    assert (offer.cuda_max, offer.hazard_per_hour) == ("12.8", 0.2)


def test_columns_that_we_do_not_know_do_not_matter(tmp_path: Path) -> None:
    offer = only(tmp_path, 'Region , notes,CLOUD,type,price\nus-east-1,"good, cheap",aws,cpu.large,0.1\n')
    assert (offer.pool.region, offer.gpus) == ("us-east-1", 0)


def test_as_windows_writes_it(tmp_path: Path) -> None:
    assert only(tmp_path, "\ufeff" + ONE.replace("\n", "\r\n") + "\r\n").pool.type == "g6.xlarge"


def test_json_says_the_same(tmp_path: Path) -> None:
    text = '[\n {"cloud": "aws", "region": "us-east-1", "type": "g6.xlarge", "gpu": "L4", "price": 0.8048, "notes": [1]}\n]\n'
    assert only(tmp_path, text, name="prices.json") == only(tmp_path, ONE)


def test_an_empty_list_offers_nothing(tmp_path: Path) -> None:
    assert source(tmp_path, "[]", name="prices.json").offers(NOW) == []
    assert source(tmp_path, HEAD).offers(NOW) == []


def test_memory_tells_cards_of_one_name_apart(tmp_path: Path) -> None:
    offer = only(tmp_path, "cloud,region,type,gpu,gpu_memory,price\naws,r,p4de,A100,80GB,40\n")
    assert (offer.gpu, offer.gpu_memory) == ("A100-80", usable_bytes("A100-80"))


def test_a_card_that_we_do_not_know_needs_its_memory(tmp_path: Path) -> None:
    assert mistakes(tmp_path, f"{HEAD}\naws,r,t,Z9000,1\n")[0].endswith("; or say its `gpu_memory`")
    offer = only(tmp_path, "cloud,region,type,gpu,gpu_memory,price\naws,r,t,Z9000,7GB,1\n")
    assert (offer.gpu, offer.gpu_memory) == ("Z9000", 7 * GIB)


@pytest.mark.parametrize(("name", "count"), [("A10", "1/4"), ("A10", "0.25"), ("A10-1/4", "")])
def test_slices(tmp_path: Path, name: str, count: str) -> None:
    offer = only(tmp_path, f"cloud,region,type,gpu,gpus,price\nazure,r,NV9,{name},{count},1\n")
    assert (offer.gpu, offer.gpus, offer.gpu_memory) == ("A10", 0.25, slice_of(gpu("A10"), 0.25).usable)


def test_the_ceiling_of_spot_is_what_the_type_costs_on_demand_in_its_region(tmp_path: Path) -> None:
    text = (
        "cloud,region,zone,type,market,price\n"
        "aws,r,r-a,t,spot,0.3\naws,r,r-b,t,on-demand,1\naws,r,r-c,t,on-demand,1.1\naws,q,,t,on-demand,9\n"
    )
    spot, *others = source(tmp_path, text).offers(NOW)
    assert spot.ceiling_micro == 1_100_000
    assert [offer.ceiling_micro for offer in others] == [offer.hourly_micro for offer in others]


# ---------------------------------------------------------------- owned machines


OWNED = "cloud,region,type,gpu,market,count,price,ends\nrack,cellar,a,L4,reserved,3,1.20,2026-03-02T12:00:00Z\n"


def test_owned_machines_cost_nothing_more_and_are_counted(tmp_path: Path) -> None:
    offer = only(tmp_path, OWNED)
    assert (offer.hourly_micro, offer.ceiling_micro, offer.native_hourly, offer.free) == (0, 0, "1.200000 USD", 3)
    assert offer.ends == datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_what_runs_of_them_is_taken_off(tmp_path: Path) -> None:
    owned = source(tmp_path, OWNED, in_use=lambda pool: 2 if pool.type == "a" else 99)
    assert [offer.free for offer in owned.offers(NOW)] == [1]
    assert [offer.free for offer in owned.offers(NOW + timedelta(hours=3))] == [0], "the contract has ended"


# ---------------------------------------------------------------- its age


def test_a_price_on_demand_holds_as_long_as_it_stands_there(tmp_path: Path) -> None:
    assert only(tmp_path, ONE, age=30 * 86_400).as_of == NOW


def test_a_spot_price_is_as_old_as_the_file(tmp_path: Path) -> None:
    text = "cloud,region,type,market,price,on_demand_price\naws,r,t,spot,0.3,1\n"
    assert only(tmp_path, text, age=600).as_of == NOW - timedelta(minutes=10)
    assert only(tmp_path, text, age=-600).as_of == NOW, "a file from the future is from now"


def test_a_row_that_names_its_time_is_that_old(tmp_path: Path) -> None:
    text = "cloud,region,type,price,as_of\naws,r,t,1,2026-03-01T09:00:00+08:00\naws,r,u,1,2026-03-03T00:00:00Z\n"
    assert [offer.as_of for offer in source(tmp_path, text).offers(NOW)] == [datetime(2026, 3, 1, 1, tzinfo=UTC), NOW]


def test_the_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    prices = source(tmp_path, ONE)
    path = tmp_path / "prices.csv"
    assert prices.offers(NOW)[0].hourly_micro == 804_800
    path.write_text(ONE.replace("0.8048", "0.9048"))
    os.utime(path, (NOW.timestamp() - 60, NOW.timestamp() - 60))  # same age and size: nobody can tell
    assert prices.offers(NOW)[0].hourly_micro == 804_800
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    assert prices.offers(NOW)[0].hourly_micro == 904_800


def test_a_list_that_has_been_mended_is_taken_again(tmp_path: Path) -> None:
    prices = source(tmp_path, "nonsense")
    for _ in range(2):
        with pytest.raises(SourceError, match="no column cloud, region, type"):
            prices.offers(NOW)
    (tmp_path / "prices.csv").write_text(ONE)
    assert len(prices.offers(NOW)) == 1


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"nowhere\.csv can't be read \(No such file or directory\): see `prices\.files`"
    ):
        FileSource(tmp_path / "nowhere.csv").offers(NOW)


# ---------------------------------------------------------------- mistakes


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = (
        "cloud,region,type,gpu,gpus,market,price,boot,ends\n"
        "aws,r,a,L4,1,spto,1,,\n"
        "aws,r,b,L4,1,on-demand,,5,\n"
        ",r,c,L4,1,on-demand,dear,,tomorrow\n"
        "aws,r,d\n"
        "aws,r,e,L4,1.5,reserved,1,,2026-12-31\n"
    )
    assert mistakes(tmp_path, text) == [
        "line 2, market: 'spto' is no market: write `on-demand`, `spot` or `reserved`",
        "line 3, price: is missing: write it like `3.06` or `3.06 USD`",
        "line 3, boot: '5' is not a duration: write it like `90s`, `30m`, `1h30m` or `2d`",
        "line 4, cloud: is missing",
        "line 4, price: 'dear' is not an amount of money: write it like `20 USD`, `$20` or `0.75`",
        "line 4, ends: 'tomorrow' is not a time: write it like `2026-12-31T00:00:00Z`",
        "line 5: it has another number of cells than line 1",
        "line 6, gpus: '1.5' is not a number of GPUs: write a whole number, or a part like `1/4` or `0.25`",
        "line 6, count: is missing: how many such machines are owned?",
        "line 6, ends: '2026-12-31' has no time zone: write it like `2026-12-31T00:00:00Z`",
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("aws,r,t,L4,1 CNY", "line 2, price: no rate for CNY: add `CNY = ...` under `[rates]` in the settings, in USD"),
        ("aws,r,t,A100,1", "line 2, gpu: `A100` can be A100-40, A100-80"),
        ("aws,r,t,L4,1\naws,r,t,L4,2", "line 3: aws/r/t/on-demand stands in line 2 already"),
        ("aws,r,t,L4,9999999999", "line 2, price: $9,999,999,999.00 is more money than can be counted here"),
        ("aws,r,t,L4,0.1234567", "line 2, price: '0.1234567' is finer than a millionth"),
    ],
)
def test_single_mistakes(tmp_path: Path, row: str, told: str) -> None:
    [mistake] = mistakes(tmp_path, f"{HEAD}\n{row}\n")
    assert mistake.startswith(told)


@pytest.mark.parametrize(
    ("column", "cell"),
    [("vcpus", "x"), ("vcpus", "-1"), ("memory", "lots"), ("hazard", "nan"), ("hazard", "-0.1"), ("cuda_max", "new"),
     ("gpus", "1/0"), ("gpus", "1e999999999"), ("gpus", "-1"), ("disk_price", "free"), ("free", "1.5")],
)  # fmt: skip
def test_cells_that_can_not_be_read(tmp_path: Path, column: str, cell: str) -> None:
    [mistake] = mistakes(tmp_path, f"cloud,region,type,gpu,price,{column}\naws,r,t,L4,1,{cell}\n")
    assert mistake.startswith(f"line 2, {column}: '{cell}' is not a")


def test_a_negative_price_is_for_the_quarantine(tmp_path: Path) -> None:
    assert only(tmp_path, f"{HEAD}\naws,r,t,L4,-1\n").hourly_micro == -1_000_000


def test_a_gpu_and_its_count_go_together(tmp_path: Path) -> None:
    text = "cloud,region,type,gpu,gpus,price\naws,r,a,,1,1\naws,r,b,L4,0,1\n"
    assert mistakes(tmp_path, text) == [
        "line 2, gpu: names no GPU, but `gpus` isn't zero",
        "line 3, gpu: is named, but `gpus` is zero",
    ]


def test_spot_needs_a_ceiling(tmp_path: Path) -> None:
    [mistake] = mistakes(tmp_path, "cloud,region,type,market,price\naws,r,t,spot,0.3\n")
    assert mistake == "line 2, on_demand_price: is missing, and no row has t in r on demand"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"cloud": "aws"},\n\n {"type": 5}]', ["line 1, region: is missing", "line 3, cloud: is missing"]),
        ('[\n3,\n"x"]', [f"line {n}: write an object, `{{...}}`, for each offer" for n in (2, 3)]),
        ('{"offers": []}', ["line 1: write a list of objects, one for each offer: `[{...}, {...}]`"]),
        ('[{"cloud": "aws"}', ["Expecting `,` or `]`: line 1 column 18 (char 17)"]),
        ('[{"cloud": "aws"}\n{}]', ["Expecting `,` or `]`: line 2 column 1 (char 18)"]),
        ("[] []", ["Nothing may follow the list: line 1 column 3 (char 2)"]),
        ('[{"cloud": }]', ["Expecting value: line 1 column 12 (char 11)"]),
    ],
)
def test_mistakes_in_json(tmp_path: Path, text: str, told: list[str]) -> None:
    found = mistakes(tmp_path, text, name="prices.json")
    assert [one for one in found if one in told] == told


def test_numbers_without_end_are_refused_and_not_written_out(tmp_path: Path) -> None:
    text = '[{"cloud": "aws", "region": "r", "type": "t", "price": 1e999999999, "vcpus": 1e9}]'
    assert "line 1, price: '1E+999999999' is not an amount of money" in mistakes(tmp_path, text, name="p.json")[0]


def test_what_is_no_text(tmp_path: Path) -> None:
    assert "can't decode byte 0xff" in mistakes(tmp_path, b"\xff\xfe\x00")[0]
    assert mistakes(tmp_path, f'{HEAD}\n"aws\n')[0].startswith("line ")


def test_only_the_first_mistakes_of_many_are_told(tmp_path: Path) -> None:
    found = mistakes(tmp_path, f"{HEAD}\n" + "aws,r,t,L4,x\n" * 50)
    assert (len(found), found[-1]) == (21, "and 30 more")


cells = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(
    ["1", "0.5", "1/4", "16GB", "A10", "Z9", "spot", "reserved", "2m", "9 CNY", "2026-03-02T08:55:00+00:00", "12.8", [], {}]
)  # fmt: skip
rows = st.lists(st.dictionaries(st.sampled_from([*REQUIRED, *OPTIONAL]), cells), max_size=4)


@given(st.text(max_size=200) | st.text('[]{},:"1e \n', max_size=30) | rows.map(json.dumps))
@settings(max_examples=100, deadline=None)
def test_whatever_is_in_the_file_it_is_offers_or_a_reason(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        offers = list(source(tmp_path_factory.getbasetemp(), text.encode("utf-8", "replace")).offers(NOW))
    except SourceError:
        return
    believed, _ = sift(offers, {}, 5.0, {})
    assert len(PriceBook(believed)) == len(believed)


def test_a_list_nested_without_end(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "[" * 100_000, name="p.json") == ["it is nested too deeply"]


def test_the_docs_name_every_column() -> None:
    told = (ROOT / "docs" / "prices.md").read_text()
    assert [column for column in (*REQUIRED, *OPTIONAL) if f"| `{column}` |" not in told] == []
