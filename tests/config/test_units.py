from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from config import units
from config.fields import Amount, Duration, MemorySize
from config.units import Money

amounts = st.builds(
    Money,
    st.integers(-(2**62), 2**62),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=3, max_size=3).filter(lambda code: code != "RMB"),
)
durations = st.timedeltas(timedelta(0), timedelta(days=100_000))


class Sizes(BaseModel):
    duration: Duration
    memory: MemorySize
    amount: Amount


@given(amounts)
def test_exact_money_reads_back_the_same(amount: Money) -> None:
    assert Money.parse(amount.exact()) == amount


@given(amounts.filter(lambda amount: abs(amount.micro) < 2**61))
def test_printed_money_is_off_by_half_its_last_digit_at_most(amount: Money) -> None:
    assert abs(Money.parse(str(amount)).micro - amount.micro) <= 5_000
    assert Money.parse(str(amount)).currency == amount.currency


@given(st.integers(1, 10**6))
def test_small_money_shows_three_digits(micro: int) -> None:
    assert abs(Money.parse(str(Money(micro))).micro - micro) <= micro / 100


@pytest.mark.parametrize(
    ("text", "micro", "currency"),
    [
        ("20 USD", 20_000_000, "USD"),
        ("$20", 20_000_000, "USD"),
        ("0.75", 750_000, "USD"),
        ("¥1,200", 1_200_000_000, "CNY"),
        ("1_200 rmb", 1_200_000_000, "CNY"),
        ("-$0.000001", -1, "USD"),
        ("0.0000100000", 10, "USD"),
        (" 3€ ", 3_000_000, "EUR"),
    ],
)
def test_money_is_read_as_people_write_it(text: str, micro: int, currency: str) -> None:
    assert Money.parse(text) == Money(micro, currency)


@pytest.mark.parametrize(
    "text", ["", "20 dollars", "$20 USD", "1,20", "1e3", "nan", "--1", "0.0000001", "9" * 40, "1__0"]
)
def test_what_is_not_money_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|counted"):
        Money.parse(text)


@given(durations)
def test_exact_durations_read_back_the_same(duration: timedelta) -> None:
    assert units.parse_duration(units.exact_duration(duration)) == duration


@given(durations)
def test_printed_durations_read_back_to_two_units(duration: timedelta) -> None:
    back = units.parse_duration(units.print_duration(duration))
    assert abs(back - duration) <= max(timedelta(seconds=0.5), duration / 24)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("30min", 1800),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("500ms", 0.5),
        ("1h 0.25s", 3600.25),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "20", "1.5h", "-3s", "3 weeks", "1m1h", "9" * 12 + "d", "0.1234567s"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|too long"):
        units.parse_duration(text)


@given(st.integers(0, 2**60))
def test_printed_memory_reads_back_within_half_a_tenth(size: int) -> None:
    unit = 1024 ** max(0, min(4, (size.bit_length() - 1) // 10))
    assert abs(units.parse_memory(units.print_memory(size)) - size) <= unit / 20 + 1


@given(st.integers(0, 4096), st.sampled_from(["KB", "MB", "GB", "TB"]))
def test_whole_sizes_print_as_they_were_written(count: int, unit: str) -> None:
    size = units.parse_memory(f"{count}{unit}")
    assert units.parse_memory(units.print_memory(size)) == pytest.approx(size, rel=0.05)
    if 0 < count < 1024:
        assert units.print_memory(size) == f"{count}{unit}"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GB", 24 * 2**30),
        ("24", 24 * 2**30),
        ("24GiB", 24 * 2**30),
        ("1.5tb", 3 * 2**39),
        ("512 M", 2**29),
        ("7B", 7),
    ],
)
def test_memory_is_read_as_people_write_it(text: str, size: int) -> None:
    assert units.parse_memory(text) == size


def _refusal(parse: Callable[[str], object], text: str) -> str | None:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return None


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    for parse in (Money.parse, units.parse_duration, units.parse_memory):
        refusal = _refusal(parse, text)
        assert refusal is None or repr(text) in refusal


@given(st.integers(0, 10**10), st.lists(st.integers(0, 10**8), max_size=20))
def test_an_hour_in_pieces_costs_what_it_costs_whole(hourly: int, pieces: list[int]) -> None:
    total, carried = 0, 0
    for piece in pieces:
        cost, carried = units.cost_micro(hourly, piece, carried)
        total += cost
    assert total == units.cost_micro(hourly, sum(pieces))[0]
    assert 0 <= units.ceil_cost_micro(hourly, sum(pieces)) - total <= 1


@given(durations, st.integers(0, 2**62), st.integers(0, 2**62))
def test_fields_survive_json(duration: timedelta, memory: int, micro: int) -> None:
    sizes = Sizes(duration=duration, memory=f"{memory}B", amount=Money(micro))
    assert Sizes.model_validate_json(sizes.model_dump_json()) == sizes


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("duration", 20, "with its unit"),
        ("memory", True, "24GB"),
        ("amount", "-1 USD", "below zero"),
        ("amount", [], "20 USD"),
    ],
)
def test_fields_say_what_to_write(name: str, value: Any, message: str) -> None:
    good = {"duration": "1s", "memory": "1GB", "amount": 1}
    with pytest.raises(ValidationError, match=message):
        Sizes.model_validate({**good, name: value})
