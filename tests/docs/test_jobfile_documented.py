"""docs/job-files.md lists every word with its real default, and every sentence of a refusal exists."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.fields import FieldInfo

from config.reason import sentences
from config.units import print_duration, print_memory
from daemon.jobfile import JobSpec, read_job
from daemon.jobfile.foreign import _NOT_YET, OURS
from daemon.jobfile.schema import schema_text
from daemon.jobfile.spec import Words

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "job-files.md").read_text(encoding="utf-8")
DROP = (ROOT / "docs" / "drop-folder.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| (.+?) \| ", PAGE, flags=re.MULTILINE))
SOURCES = [path for room in ("jobfile", "inbox") for path in (ROOT / "daemon" / room).glob("*.py")]
DERIVED = {
    "name": "the file's name", "project": "`default`", "budget": "`default_budget` of the settings", "work": "unknown",
    "resources.gpus": "`1`", "resources.disk_size": "`50GB`", "resources.accelerators": "any GPU", "resources.infra": "anywhere",
    "job_recovery.max_restarts_on_errors": "`0`",
}  # fmt: skip


def table_in(annotation: Any) -> type[Words] | None:
    if isinstance(annotation, type) and issubclass(annotation, Words):
        return annotation
    return next((table for part in get_args(annotation) if (table := table_in(part))), None)


def words(table: type[Words] = JobSpec, above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for word, field in table.model_fields.items():
        inner = table_in(field.annotation)
        if inner and word != "any_of":
            yield from words(inner, f"{word}.")
        if not inner or (field.annotation != inner and word not in {"checkpoint", "job_recovery"}):
            yield f"{above}{word}", field


def default(word: str, field: FieldInfo) -> str:
    if word in DERIVED:
        return DERIVED[word]
    if field.is_required():
        return "required"
    value = field.default
    if value in (None, "", (), {}):
        return "any" if word.startswith("resources.") and word != "resources.max_hourly_cost" else "none"
    if isinstance(value, timedelta):
        return f"`{print_duration(value)}`"
    return f"`{', '.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"


EVERY = [(word, default(word, field)) for word, field in words()]


@pytest.mark.parametrize(("word", "shown"), EVERY)
def test_the_page_lists_it_with_its_default(word: str, shown: str) -> None:
    assert ROWS.get(word) == shown


def test_the_page_lists_nothing_else() -> None:
    refused = {".".join(map(str, path)) for path in _NOT_YET}
    assert ROWS.keys() - {word for word, _ in EVERY} - {"matrix"} <= refused


def test_what_is_derived_is_what_the_page_says() -> None:
    spec = read_job(b"run: x", "a.yaml")[0]
    assert (spec.needs()[0].gpus, print_memory(spec.disk_bytes), spec.max_restarts_on_errors) == (1, "50GB", 0)


@pytest.mark.parametrize("path", _NOT_YET, ids=lambda path: ".".join(path))
def test_the_page_names_every_word_that_cannot_be_had_yet(path: tuple[str, ...]) -> None:
    assert f"`{'.'.join(path)}`" in PAGE


def test_what_others_call_it_leads_to_a_word_that_there_is() -> None:
    known = {word for word, _ in EVERY} | {"num_nodes"}
    assert set(OURS.values()) <= known
    assert not set(OURS) & set(JobSpec.model_fields)


@pytest.mark.parametrize(
    ("kind", "text"), re.findall(r"^```(yaml|sh)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
)
def test_the_examples_of_the_page_are_jobs(kind: str, text: str) -> None:
    assert read_job(text.encode(), f"example.{kind}")


def test_the_schema_is_the_published_one() -> None:
    published = (ROOT / "docs" / "jobfile.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(), "run `make schema`"
    assert set(json.loads(published)["properties"]) == {*JobSpec.model_fields, "matrix", "num_nodes"}


def test_the_pages_tell_the_limits_as_they_are() -> None:
    from daemon.inbox import walk
    from daemon.inbox.claim import ACCEPTED, CLAIMED, DONE, REJECTED
    from daemon.jobfile import matrix

    assert f"{matrix.MOST_JOBS:,} jobs" in PAGE
    assert f"{walk.MOST_FILES:,} files" in DROP
    assert f"{walk.DEEPEST} deep" in DROP
    for name in (f"  {ACCEPTED}/", f"  {REJECTED}/", f"  {DONE}/", f"/{CLAIMED}/"):
        assert name in DROP


# ---------------------------------------------------------------- sentences


def used() -> set[str]:
    """Return the codes that the sources name where they refuse something."""
    text = "\n".join(path.read_text() for path in SOURCES)
    calls = r"(?:of_file|wrong|NotTaken|_refuse|_wrong|_written)\(\s*\"(\w+)\""
    drops = r"Reason\([\"']drop\.(\w+)[\"']"
    pointed = r"Problem\.at\([^\n]*, \"(\w+)\"[,)]"
    return {code for pattern in (calls, drops, pointed) for code in re.findall(pattern, text)}


def test_every_refusal_has_its_sentence() -> None:
    known = {code.partition(".")[2] for code in sentences() if code.startswith(("jobfile.", "drop."))}
    assert used() - known == set()
    assert {f"not_yet_{code}" for code in _NOT_YET.values()} <= known


def test_every_sentence_is_used() -> None:
    text = "\n".join(path.read_text() for path in SOURCES)
    known = {code.partition(".")[2] for code in sentences() if code.startswith(("jobfile.", "drop."))}
    unused = {code for code in known if not re.search(rf"[\"'](drop\.)?{code}[\"']", text)}
    assert {code for code in unused if not code.startswith("not_yet_")} == set()
    assert {code for code in unused if code.startswith("not_yet_")} == {f"not_yet_{code}" for code in _NOT_YET.values()}
