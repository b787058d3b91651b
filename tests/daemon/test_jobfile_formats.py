"""YAML, TOML, JSON and shell scripts: the same words, each with its own traps."""

import json
from pathlib import Path

import pytest

from daemon.jobfile import JobFileError, JobSpec, read_job

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/job.yaml"))


def read(data: str | bytes, name: str = "train.yaml") -> JobSpec:
    [spec] = read_job(data.encode() if isinstance(data, str) else data, name)
    return spec


def problems(data: str | bytes, name: str = "train.yaml") -> list[str]:
    with pytest.raises(JobFileError) as caught:
        read_job(data.encode() if isinstance(data, str) else data, name)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.parent.name))
def test_the_examples_are_jobs(path: Path) -> None:
    assert read(path.read_bytes(), path.name).name == path.parent.name


def test_three_formats_say_the_same() -> None:
    yaml = "name: a\nrun: x\nresources: {cpus: 8, infra: aws}\nany_of:\n- {gpus: 1}\n- {gpus: 2}\n"
    toml = 'name="a"\nrun="x"\nresources={cpus=8, infra="aws"}\n[[any_of]]\ngpus=1\n[[any_of]]\ngpus=2\n'
    text = json.dumps(
        {"name": "a", "run": "x", "resources": {"cpus": 8, "infra": "aws"}, "any_of": [{"gpus": 1}, {"gpus": 2}]}
    )
    assert read(yaml) == read(toml, "a.toml") == read(text, "a.json")


@pytest.mark.parametrize("name", ["a.yaml", "a.toml", "a.json", "a.sh"])
def test_byte_order_marks_and_line_ends_of_others_are_fine(name: str) -> None:
    text = {
        "a.yaml": "# c\nrun: |\n  one\n  two\n", "a.toml": "# c\nrun = '''\none\ntwo\n'''\n",
        "a.json": '{\n"run": "one\\ntwo\\n"\n}', "a.sh": "one\ntwo\n",
    }[name]  # fmt: skip
    for data in (text, text.replace("\n", "\r\n"), "\ufeff" + text):
        assert read(data, name).run == "one\ntwo\n"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"run: x\n# \xe9t\xe9\n", "line 2: it is not UTF-8: save it again as UTF-8"),
        ("run: x".encode("utf-16"), "it is not a text file"),
        (b"\x7fELF\x00\x00", "it is not a text file"),
        ("run: x\n# \u202eevil\n".encode(), "line 2: the character U+202E is invisible"),
        (b"run: x\n\n# \x1b[31m\n", "line 3: the character U+001B is invisible"),
        (b"", "a job file is a table of words"),
        (b"- a\n- b\n", "a job file is a table of words"),
        (b"just words\n", "a job file is a table of words"),
    ],
)
def test_what_is_no_text_is_no_job(data: bytes, says: str) -> None:
    [said] = problems(data)
    assert says in said


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.toml"])
@pytest.mark.parametrize("escape", ["\\u202e", "\\u001b", "\\u2028", "\\u0085"])
def test_escapes_smuggle_nothing_in(name: str, escape: str) -> None:
    text = {"a.yaml": f'run: "x{escape}"', "a.json": f'{{"run": "x{escape}"}}', "a.toml": f'run = "x{escape}"'}[name]
    [said] = problems(text, name)
    assert said.startswith("line 1: run: the character U+")


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_half_a_character_is_none(name: str) -> None:
    [said] = problems({"a.yaml": 'run: "\\ud800"', "a.json": '{"run": "\\ud800"}'}[name], name)
    assert "U+D800" in said
    assert read('{"run": "\\ud83d\\ude00"}', "a.json").run == "😀"


# ---------------------------------------------------------------- YAML


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run: x\nenvs: &a {B: 1}\n", "line 2: anchors and aliases"),
        ("run: x\nenvs: *a\n", "line 2: anchors and aliases"),
        ("run: !!python/name:os.system x\n", "line 1: tags"),
        ("run: !x y\n", "line 1: tags"),
        ("run: x\n<<: {name: y}\n", "line 2: merge keys"),
        ("run: x\nbudget: 10\nbudget: 1000000\n", "line 3: `budget` is said twice"),
        ("run: x\n---\nrun: y\n", "a file holds one job"),
        ("%YAML 1.1\n---\nrun: no\n", "job files are YAML 1.2"),
        ("run: x\n? [a, b]\n: c\n", "a word in front of a colon must be text"),
        ("run: x\n~: c\n", "a word in front of a colon must be text"),
        ("run: [", "line 1: not YAML"),
        ("run: x\n\tname: y\n", "line 2: not YAML"),
        ("run: x\nname: 'a\n", "not YAML"),
        ("run: x\nenvs: " + "[" * 30 + "]" * 30, "more than 20 levels"),
        ("run: x\nenvs:\n" + "".join(f"  A{n}: {n}\n" for n in range(1500)), "2000 values"),
        ("run: x\npriority: " + "9" * 5_000, "not YAML: Exceeds the limit"),
    ],
)
def test_yaml_that_grows_or_surprises_is_refused(text: str, says: str) -> None:
    [said] = problems(text)
    assert says in said


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
    )
    assert problems(bomb) == ["line 1: anchors and aliases (`&x`, `*x`) are not taken: write the value out"]


def test_words_mean_what_yaml_1_2_says() -> None:
    spec = read(
        "run: no\nname: on\nsetup: 12:30:00\nproject: 2026-12-01\nenvs: {A: off, B: 0o17, C: ~a, D: '', E: '~'}\n"
    )
    assert (spec.run, spec.name, spec.setup, spec.project) == ("no", "on", "12:30:00", "2026-12-01")
    assert spec.envs == {"A": "off", "B": "0o17", "C": "~a", "D": "", "E": "~"}
    assert read("run: x\npriority: 010").priority == 10
    assert read("run: x\npriority: 0o10").priority == 8
    assert read("run: x\npriority: -0").priority == 0


# ---------------------------------------------------------------- TOML and JSON


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run = 'x'\nname: y\n", "line 2: not TOML"),
        ("run = 'x'\n[resources]\ncpuss = 1\n", "line 3: resources.cpuss: there is no such word"),
        ("run = 'x'\n[[any_of]]\ngpus = 1\n[[any_of]]\ngpuss = 1\n", "line 5: any_of[1].gpuss: there is no such word"),
        ("run = 'x'\nrun = 'y'\n", "line 2: not TOML: Cannot overwrite a value"),
        ("run = 'x'\nenvs = " + "[" * 30 + "]" * 30, "more than 20 levels"),
        ("run = 'x'\n" + "a." * 100_000 + "a = 1", "more than 20 levels"),
        ("run = 'x'\nenvs = " + "[" * 100_000, "not TOML"),
    ],
)
def test_toml_that_is_wrong_is_told_with_its_line(text: str, says: str) -> None:
    [said] = problems(text, "a.toml")
    assert says in said


def test_dots_in_toml_texts_are_no_long_keys() -> None:
    text = f"# {'a.' * 50}\nrun = '''\necho {'.' * 60} {'a.' * 30}\n'''\nname = \"{'b.' * 30}\" # {'c.' * 30}\n"
    assert read(text, "a.toml").name == "b." * 30


def test_times_of_toml_are_times() -> None:
    spec = read("run = 'x'\ndeadline = 2026-12-24T18:00:00+08:00\nnot_before = 2026-12-01T00:00:00Z", "a.toml")
    assert str(spec.deadline) == "2026-12-24 18:00:00+08:00"
    [said] = problems("run = 'x'\ndeadline = 2026-12-24T18:00:00", "a.toml")
    assert "names no time zone" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"run": "x",\n "name": }', "line 2: not JSON"),
        ('{"run": "x", "run": "y"}', "`run` is said twice"),
        ('{"run": "x",\n\t"work": {\n\t"hours": -1}}', "line 3: work.hours: -1 won't do: it must be above 0"),
        ('{"run": "x", "work": {"hours": NaN}}', "NaN is not a number of JSON"),
        ('{"run": "x", "envs": ' + "[" * 30 + "]" * 30 + "}", "more than 20 levels"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_json_that_is_wrong_is_told_with_its_line(text: str, says: str) -> None:
    [said] = problems(text, "a.json")
    assert says in said


# ---------------------------------------------------------------- scripts


def test_a_script_is_a_job() -> None:
    script = """\
#!/bin/bash -e
#FRUGALD --accelerators=A100:1
#FRUGALD --use-spot
# FRUGALD budget: 5 USD
#FRUGALD checkpoint.interval=5m
#FRUGALD checkpoint.path = ckpt
#FRUGALD envs.LR 0.1
#FRUGALD outputs: [runs, logs]
# an ordinary comment
python train.py
"""
    spec = read(script, "train.sh")
    assert (spec.name, spec.run) == ("train", script)
    assert spec.checkpoint is not None
    assert (str(spec.cap), spec.checkpoint.path, spec.envs, spec.outputs) == (
        "$5.00",
        "ckpt",
        {"LR": "0.1"},
        ("runs", "logs"),
    )
    assert (spec.resources.accelerators, spec.resources.use_spot) == (("A100:1",), "yes")


def test_every_wrong_line_of_a_script_is_told() -> None:
    script = (
        "#!/bin/sh\n#FRUGALD\n#FRUGALD budget\n#FRUGALD name: a\n#FRUGALD name: b\n#FRUGALD run: c\n#FRUGALD x: [\n"
    )
    said = problems(script, "a.sh")
    assert [one.partition(":")[0] for one in said] == ["line 2", "line 3", "line 5", "line 6", "line 7"]
    assert "the script itself is what is run" in said[3]


def test_words_of_a_script_are_checked_like_any() -> None:
    assert problems("#FRUGALD --gpu-memroy=1GB\nx", "a.sh")[0].startswith("line 1: gpu_memroy: there is no such word")
    [said] = problems("#FRUGALD num_nodes: 2\nx", "a.sh")
    assert said.startswith("line 1: num_nodes: jobs on several machines can't be had yet")


def test_a_bomb_in_a_comment_is_none() -> None:
    [said] = problems("#FRUGALD envs: [&a [x], *a]\nx", "a.sh")
    assert said == "line 1: envs: anchors and aliases (`&x`, `*x`) are not taken: write the value out"


def test_scripts_of_other_programs_are_refused() -> None:
    assert problems("#!/usr/bin/env python3\nprint()", "a.sh")[0].startswith("line 1: only scripts of sh and bash")
    assert problems("#!/bin/bash\n#SBATCH --gres=gpu:2\nx", "a.sh")[0].startswith("line 2: Slurm's lines are not read")
    assert read("#!/usr/bin/env bash\n#SBATCH --gres=gpu:2\n#FRUGALD --gpus=2\nx", "a.sh").needs()[0].gpus == 2
