"""Whatever is in a file: jobs come out, or one kind of error."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.jobfile import JobFileError, JobSpec, Problem, read_job

NAMES = ["a.yaml", "a.toml", "a.json", "a.sh", "a"]
WORDS = st.sampled_from(
    [
        *JobSpec.model_fields,
        "matrix",
        "num_nodes",
        "image",
        "cap",
        "interval",
        "gpu_memory",
        "accelerators",
        "on_events",
        "zz",
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(["8+", "24GB..:1", "A100:8", "20 USD", "1h30m", "auto", "../..", "2026-12-01T10:00Z", "${{ matrix.a }}"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4)
)
PIECES = st.sampled_from(
    ["run: x\n", "run = 'x'\n", "#FRUGALD ", "--", "resources", ": ", "= ", "{", "}", "[", "]", "- ", "&a ", "*a", "!!x ", "<<",
     "\n", "  ", "\t", '"', "'", "|\n", "\\u202e", "\ufeff", "---\n", "%YAML 1.1\n", "? ", "#", "matrix", "0o9", "é", "\x00"]
)  # fmt: skip


def check(data: bytes, name: str) -> None:
    problems: tuple[Problem, ...] = ()
    specs: list[JobSpec] = []
    try:
        specs = read_job(data, name)
    except JobFileError as error:
        problems = error.problems
    assert bool(specs) != bool(problems)
    for problem in problems:
        assert str(problem).isprintable()
        assert str(problem).encode()
    for spec in specs:
        assert spec.needs()
        assert JobSpec.from_json(json.loads(json.dumps(spec.to_json(), ensure_ascii=False).encode())) == spec


@given(st.binary(max_size=300), st.sampled_from(NAMES))
def test_bytes(data: bytes, name: str) -> None:
    check(data, name)


@given(st.lists(PIECES, max_size=25).map("".join), st.sampled_from(NAMES))
@settings(max_examples=300)
def test_pieces_of_job_files(text: str, name: str) -> None:
    check(text.encode(), name)


@given(st.dictionaries(WORDS, VALUES, max_size=8))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_under_any_word(values: dict[str, Any]) -> None:
    data = json.dumps({"run": "x", **values}).encode("utf-8", "surrogatepass")
    check(data, "a.json")
    check(data, "a.yaml")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".yaml", "a/b/c.yaml", "\ud800.yaml", "a\nb\u202e.yaml", "x" * 250 + ".yaml", "  - .yaml"]
)
def test_any_file_name_makes_a_job_name(name: str) -> None:
    [spec] = read_job(b"run: x", name)
    assert spec.name.isprintable()
    assert 0 < len(spec.name) <= 100
    spec.name.encode()
