"""One file, many jobs."""

import pytest

from daemon.jobfile import JobFileError, JobSpec, read_job


def read(text: str) -> list[JobSpec]:
    return read_job(text.encode(), "sweep.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def test_each_combination_is_a_job_with_its_own_name_and_variables() -> None:
    text = "run: train --lr ${{ matrix.lr }} --opt=${{matrix.opt}}\nmatrix: {lr: [0.10, 1e-4], opt: [adam w, sgd]}\n"
    specs = read(text)
    assert [(spec.name, spec.run, spec.envs["MATRIX_LR"], spec.envs["MATRIX_OPT"]) for spec in specs] == [
        ("sweep-0.10-adam-w", "train --lr 0.10 --opt=adam w", "0.10", "adam w"),
        ("sweep-0.10-sgd", "train --lr 0.10 --opt=sgd", "0.10", "sgd"),
        ("sweep-1e-4-adam-w", "train --lr 1e-4 --opt=adam w", "1e-4", "adam w"),
        ("sweep-1e-4-sgd", "train --lr 1e-4 --opt=sgd", "1e-4", "sgd"),
    ]


def test_any_value_may_depend_on_the_matrix() -> None:
    text = """\
name: on-${{ matrix.gpu }}
run: x
resources: {accelerators: "${{ matrix.gpu }}:2"}
priority: ${{ matrix.rank }}
outputs: ["out/${{ matrix.gpu }}"]
envs: {MATRIX_GPU: mine}
matrix: {gpu: [T4], rank: [3]}
"""
    [spec] = read(text)
    assert (spec.name, spec.priority, spec.outputs, spec.envs["MATRIX_GPU"]) == ("on-T4", 3, ("out/T4",), "mine")
    assert spec.needs()[0].gpu_names == {"T4"}


def test_dangerous_names_touch_no_variable_of_the_system() -> None:
    [spec] = read("run: x\nmatrix: {path: [a]}")
    assert spec.envs == {"MATRIX_PATH": "a"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run: x\nmatrix: [a]", "line 2: matrix: it is a table of lists"),
        ("run: x\nmatrix: {}", "line 2: matrix: it is a table of lists"),
        ("run: x\nmatrix: {a: 1}", "line 2: matrix.a: it is a table of lists"),
        ("run: x\nmatrix: {a: []}", "line 2: matrix.a: it is a table of lists"),
        ("run: x\nmatrix: {a: [[1]]}", "line 2: matrix.a: it is a table of lists"),
        ("run: x\nmatrix: {a: [~]}", "line 2: matrix.a: it is a table of lists"),
        ("run: x\nmatrix: {a-b: [1]}", "line 2: matrix.a-b: its name must be letters"),
        ("run: x ${{ matrix.b }}\nmatrix: {a: [1]}", "line 2: matrix: `matrix.b` is used and there is no such list"),
        ("run: x ${{ matrix.b }}", "matrix: `matrix.b` is used and there is no such list"),
    ],
)
def test_a_wrong_matrix_is_refused(text: str, says: str) -> None:
    [said] = problems(text)
    assert says in said


def test_a_value_that_does_not_fit_is_told_once() -> None:
    assert problems("run: x\npriority: ${{ matrix.p }}\nmatrix: {p: [1, a, a, b]}") == [
        "line 2: priority: a is not a whole number",
        "line 2: priority: b is not a whole number",
    ]


def test_a_hundred_wrong_values_are_not_all_told() -> None:
    values = ", ".join(f"a{n}" for n in range(100))
    assert len(problems(f"run: x\npriority: ${{{{ matrix.p }}}}\nmatrix: {{p: [{values}]}}")) == 20


def test_other_problems_are_told_along_with_those_of_the_matrix() -> None:
    assert len(problems("run: x\nspice: 1\nmatrix: {a: 1}")) == 2


def test_a_matrix_has_an_end() -> None:
    letters = ", ".join("abcdefghij")
    assert len(read(f"run: x\nmatrix: {{a: [{letters}], b: [{letters}], c: [{letters}]}}")) == 1_000
    [said] = problems(f"run: x\nmatrix: {{a: [{letters}], b: [{letters}], c: [{letters}, k]}}")
    assert "it makes 1100 jobs; 1000 of this size are the most" in said
    [said] = problems(f"run: {'x' * 90_000}\nmatrix: {{a: [{letters}], b: [{letters}], c: [{letters}]}}")
    assert "554 of this size are the most" in said
