import tomllib
from collections import Counter
from pathlib import Path
from string import Formatter

import pytest

from config import reason
from config.reason import Reason, sentence

FOLDERS = sorted(Path(reason.__file__).with_name("words").iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_table_of_sentences_is_in_one_file(folder: Path) -> None:
    tables = Counter(
        table for path in folder.glob("*.toml") for table in tomllib.loads(path.read_text(encoding="utf-8"))
    )
    assert [table for table, files in tables.items() if files > 1] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_sentence_names_its_values(folder: Path) -> None:
    for code, text in reason.sentences(folder.name).items():
        names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
        assert all(name.isidentifier() for name in names), code


def test_the_ending_of_a_name_says_how_a_value_is_printed() -> None:
    hold: dict[str, str | int] = {
        "budget": "all/month",
        "spent_micro": 1_500_000,
        "leased_micro": 0,
        "cap_micro": 2 * 10**7,
        "command": "x",
    }
    assert str(Reason("hold.budget", hold)).startswith(
        "budget all/month is used up: $1.50 spent and $0.00 leased of $20.00"
    )
    assert "$2.00/h" in reason._shown("price_hourly_micro", 2_000_000, "USD")
    assert reason._shown("in_s", 90, "USD") == "1m30s"
    assert reason._shown("free_bytes", 24 * 2**30, "USD") == "24GB"
    assert reason._shown("used_percent", 80.0, "USD") == "80 %"
    assert reason._shown("used_micro", None, "USD") == "unknown"
    assert reason._shown("why_s", "it is text", "USD") == "it is text"
    assert reason._shown("cap_micro", 10**6, "CNY") == "¥1.00"


def test_a_code_without_a_sentence_shows_itself_and_its_values() -> None:
    assert sentence("no.such", {"a": 1, "b": "x"}) == "no.such a=1 b=x"


def test_a_missing_value_is_no_error() -> None:
    assert "unknown" in sentence("hold.budget", {})
