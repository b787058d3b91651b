"""What the words of a job file may hold, and what is said when they don't."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import gpus
from config.units import MICRO, Money
from daemon.jobfile import Currency, JobFileError, JobSpec, read_job
from pricing.need import Need

GIB = 1024**3
EVERYTHING = """\
name: resnet
project: vision
setup: pip install -r requirements.txt
workdir: .
run: |
  python train.py --epochs 90
resources:
  accelerators: [A100:2, H100]
  gpu_memory: 40GB+
  gpus: 4
  cpus: 8+
  memory: 64GB
  disk_size: 256
  use_spot: true
  infra: aws/us-east-1/us-east-1a
  max_hourly_cost: 3.5
  cuda: 12.8
  compute_capability: 8.0
envs: {LR: 0.10, DEBUG: true, SEED: 007}
secrets: [WANDB_API_KEY]
outputs: [runs, "*.csv"]
checkpoint: {path: ckpt, interval: 5m, signal: SIGUSR1, grace: 1m30s, keep: 3}
budget: {cap: 20 USD, at_cap: hold}
deadline: 2026-12-24T18:00+08:00
work: {hours: 90, on: A100-40}
max_duration: 2d
retry: {on_events: [no-capacity, interruption, error], duration: 12h}
job_recovery: {max_restarts_on_errors: 5}
recover_on_exit_codes: [75, 99]
priority: -3
not_before: 2026-12-02T00:00Z
after: prepare
"""


def read(text: str, name: str = "train.yaml", currency: Currency | None = None) -> JobSpec:
    [spec] = read_job(text.encode(), name, currency)
    return spec


def problems(text: str, name: str = "train.yaml", currency: Currency | None = None) -> list[str]:
    with pytest.raises(JobFileError) as caught:
        read_job(text.encode(), name, currency)
    return [str(problem) for problem in caught.value.problems]


def needs(resources: str) -> tuple[Need, ...]:
    return read(f"run: x\nresources: {resources}\n").needs()


def test_one_line_is_a_job() -> None:
    spec = read("run: python train.py\n", "résumé – 训练.yaml")
    assert (spec.name, spec.run, spec.checkpoint, spec.cap) == ("résumé – 训练", "python train.py", None, None)
    assert spec.needs() == (Need(),)
    assert spec.recover_on_exit_codes == (75,)
    assert spec.disk_bytes == 50 * GIB


def test_every_word_is_read() -> None:
    spec = read(EVERYTHING)
    assert (spec.name, spec.project, spec.priority, spec.after) == ("resnet", "vision", -3, ("prepare",))
    assert spec.run == "python train.py --epochs 90\n"
    assert (spec.cap, spec.at_cap) == (Money(20 * MICRO), "hold")
    assert spec.checkpoint is not None
    assert spec.checkpoint.model_dump() == {
        "path": "ckpt",
        "interval": timedelta(minutes=5),
        "signal": "SIGUSR1",
        "grace": timedelta(seconds=90),
        "keep": 3,
    }
    assert spec.deadline == datetime(2026, 12, 24, 10, tzinfo=UTC)
    assert spec.not_before == datetime(2026, 12, 2, tzinfo=UTC)
    assert spec.work is not None
    assert (spec.work.hours, spec.work.on, spec.max_duration) == (90, "A100-40", timedelta(days=2))
    assert (spec.retry.on_events, spec.retry.duration) == (
        ("no-capacity", "interruption", "error"),
        timedelta(hours=12),
    )
    assert (spec.max_restarts_on_errors, spec.recover_on_exit_codes) == (5, (75, 99))
    assert (spec.outputs, spec.secrets) == (("runs", "*.csv"), ("WANDB_API_KEY",))
    a100, h100 = spec.needs()
    assert a100 == Need(
        gpus=2,
        gpu_names=frozenset(gpu.key for gpu in gpus.matches("A100")),
        gpu_memory=40 * GIB,
        vcpus=8,
        memory=64 * GIB,
        disk=256 * GIB,
        cuda="12.8",
        min_compute_capability="8.0",
        cloud="aws",
        region="us-east-1",
        zone="us-east-1a",
        max_hourly_micro=3_500_000,
        spot="yes",
    )
    assert h100 == replace(a100, gpus=4, gpu_names=frozenset(gpu.key for gpu in gpus.matches("H100")))


def test_variables_stay_as_they_are_written(tmp_path: Path) -> None:
    spec = read(EVERYTHING)
    (tmp_path / "WANDB_API_KEY").write_text("s3cret\n")
    expected = {"LR": "0.10", "DEBUG": "true", "SEED": "007", "WANDB_API_KEY": "s3cret"}
    assert spec.environment(tmp_path) == expected
    assert "s3cret" not in str(spec.to_json())
    with pytest.raises(FileNotFoundError, match="WANDB_API_KEY"):
        spec.environment(None)


def test_json_brings_the_same_spec_back() -> None:
    for text in (
        EVERYTHING,
        "run: x",
        "run: x\ndeadline: 90m\nany_of: [{infra: aws, use_spot: auto}]\nresources: {use_spot: true}",
    ):
        spec = read(text)
        again = JobSpec.from_json(spec.to_json())
        assert again == spec
        assert again.needs() == spec.needs()


@pytest.mark.parametrize(
    ("written", "count", "names"),
    [
        ("A100", 1, {"A100-40", "A100-80", "A100-80-PCIe"}),
        ("A100:8", 8, {"A100-40", "A100-80", "A100-80-PCIe"}),
        ("{A100: 8}", 8, {"A100-40", "A100-80", "A100-80-PCIe"}),
        ("{'A100:8'}", 8, {"A100-40", "A100-80", "A100-80-PCIe"}),
        ("A100:40GB:2", 2, {"A100-40"}),
        ("A100:40GB..:2", 2, {"A100-40", "A100-80", "A100-80-PCIe"}),
        ("V100-32GB", 1, {"V100-32"}),
        ("1080Ti", 1, {"GTX-1080Ti"}),
        ("T4:0.5", 0.5, {"T4"}),
    ],
)
def test_gpus_are_named_as_people_do(written: str, count: float, names: set[str]) -> None:
    [need] = needs(f"{{accelerators: {written}}}")
    assert need == Need(gpus=count, gpu_names=frozenset(names))


def test_lists_sets_and_commas_are_alternatives() -> None:
    for written in ("[A100:8, H100:8]", "{'A100:8', 'H100:8'}", "{A100: 8, H100: 8}", "'A100,H100:8'"):
        assert [need.gpus for need in needs(f"{{accelerators: {written}}}")] == [8, 8]


def test_a_size_as_on_the_box_finds_the_cards_of_that_size() -> None:
    [need] = needs("{accelerators: '24GB..:1'}")
    fitting = {gpu.key for gpu in gpus.all_gpus() if gpu.usable >= need.gpu_memory}
    assert fitting == {gpu.key for gpu in gpus.all_gpus() if gpu.gb >= 24}
    assert need.gpu_memory < 24 * GIB
    assert needs("{gpu_memory: 24GB+}")[0].gpu_memory == 24 * GIB  # what programs can use is said outright


def test_a_job_without_a_gpu_says_so() -> None:
    assert needs("{cpus: 4}")[0].gpus == 1
    assert needs("{cpus: 4, gpus: 0}")[0].gpus == 0


def test_alternatives_add_to_what_all_have() -> None:
    text = "run: x\nresources: {cpus: 8, use_spot: true}\nany_of: [{infra: aws}, {infra: aliyun/cn-beijing, use_spot: auto}]"
    first, second = read(text).needs()
    assert (first.vcpus, first.cloud, first.spot) == (8, "aws", "yes")
    assert (second.vcpus, second.cloud, second.region, second.spot) == (8, "aliyun", "cn-beijing", "auto")


def test_infra_may_leave_parts_open() -> None:
    [need] = needs("{infra: '*/us-east-1'}")
    assert (need.cloud, need.region, need.zone) == ("", "us-east-1", "")


@pytest.mark.parametrize(("written", "meant"), [("true", "yes"), ("false", "no"), ("auto", "auto"), ("'True'", "yes")])
def test_spot_is_a_switch_with_three_positions(written: str, meant: str) -> None:
    assert needs(f"{{use_spot: {written}}}")[0].spot == meant


def test_short_forms_mean_their_tables() -> None:
    spec = read("run: x\nbudget: $20\ncheckpoint: out\noutputs: a\nsecrets: TOKEN\nrecover_on_exit_codes: 99\n")
    assert spec.checkpoint is not None
    assert (spec.cap, spec.checkpoint.path, spec.outputs) == (Money(20 * MICRO), "out", ("a",))
    assert (spec.secrets, spec.recover_on_exit_codes) == (("TOKEN",), (99,))
    assert spec.checkpoint.interval == timedelta(minutes=10)


def test_a_deadline_is_a_time_or_a_time_from_now() -> None:
    assert read("run: x\ndeadline: 12h").deadline == timedelta(hours=12)
    zone = timezone(timedelta(hours=8))
    assert read("run: x\ndeadline: 2026-12-24 18:00+08:00").deadline == datetime(2026, 12, 24, 18, tzinfo=zone)


def test_a_bare_amount_is_in_the_accounting_currency_and_others_are_exchanged() -> None:
    yuan = Currency("CNY", {"USD": 7.1})
    spec = read("run: x\nbudget: 100\nresources: {max_hourly_cost: 2 USD}", currency=yuan)
    assert spec.cap == Money(100 * MICRO, "CNY")
    assert spec.needs()[0].max_hourly_micro == 14_200_000
    assert JobSpec.from_json(spec.to_json()) == spec
    [said] = problems("run: x\nbudget: 5 EUR", currency=yuan)
    assert said.startswith("line 2: budget.cap: no rate is set for EUR")


def test_failed_commands_run_again_only_when_asked() -> None:
    assert read("run: x").max_restarts_on_errors == 0
    assert read("run: x\nretry: {on_events: error}").max_restarts_on_errors == 3
    assert (
        read("run: x\nretry: {on_events: error}\njob_recovery: {max_restarts_on_errors: 0}").max_restarts_on_errors == 0
    )


def test_a_skypilot_file_runs_unchanged() -> None:
    text = """\
name: sky
resources:
  infra: aws/us-east-1
  accelerators: {H100:8, A100:8}
  use_spot: true
  any_of: [{cpus: 8+}, {cpus: 16+}]
  job_recovery: {strategy: EAGER_NEXT_REGION, max_restarts_on_errors: 3, recover_on_exit_codes: [33]}
num_nodes: 1
envs: {A: b}
secrets: {HF_TOKEN: null}
setup: pip install x
run: python train.py
"""
    spec = read(text)
    assert (spec.max_restarts_on_errors, spec.recover_on_exit_codes, spec.secrets) == (3, (33,), ("HF_TOKEN",))
    assert [(need.gpus, need.vcpus, need.cloud) for need in spec.needs()] == [
        (8, 8, "aws"),
        (8, 8, "aws"),
        (8, 16, "aws"),
        (8, 16, "aws"),
    ]


# ---------------------------------------------------------------- what is refused


def test_everything_that_is_wrong_is_told_at_once_with_its_line() -> None:
    text = """\
name: t
resources:
  gpu_memroy: 4GB
  accelerators: A1000
  cpus: 8-16
  use_spot: maybe
budget: nothing
deadline: 2026-12-01
envs: {OK: 1, C: }
work: {hours: true, on: V1000}
checkpoint: {interval: 0s, path: /data}
priority: 1.5
spice: hot
"""
    assert problems(text) == [
        "run: there is nothing to run: add `run: python train.py`",
        "line 3: resources.gpu_memroy: there is no such word; did you mean `gpu_memory`?",
        "line 4: resources.accelerators: `A1000` is no GPU that frugald knows: did you mean `A100-80`?",
        "line 5: resources.cpus: 8-16 has an upper limit, and machines are only asked for at least so much: write `8`",
        "line 6: resources.use_spot: maybe is not one of true, false, auto",
        "line 7: budget.cap: 'nothing' is not an amount of money: write it like `20 USD`, `$20` or `0.75`",
        "line 8: deadline: 2026-12-01 names no time zone: write it like `2026-12-24T18:00+08:00`, or end it with Z",
        "line 9: envs.C: it has no value: write one, or two quotes for an empty one",
        "line 10: work.hours: true is not a number",
        "line 10: work.on: `V1000` is no GPU that frugald knows: did you mean `Tesla V100`?",
        "line 11: checkpoint.path: /data must be a path inside the job's own folder: relative, without `..` or `~`",
        "line 11: checkpoint.interval: no time at all won't do: write a duration above zero, like `1s`",
        "line 12: priority: 1.5 is not a whole number",
        f"line 13: spice: there is no such word here; known are {', '.join(JobSpec.model_fields)}, matrix",
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("num_nodes: 2", "num_nodes"), ("num_nodes: true", "num_nodes"), ("image: pytorch/pytorch", "image"),
        ("environment: conda", "environment"), ("ports: [8080]", "ports"), ("file_mounts: {/data: s3://x}", "file_mounts"),
        ("schedule: daily", "schedule"), ("idle: 10m", "idle"), ("keep_on_failure: true", "keep_on_failure"),
        ("service: {}", "service"), ("volumes: {}", "volumes"), ("config: {}", "config"),
        ("resources: {ports: 80}", "resources.ports"), ("resources: {cloud: aws}", "resources.cloud"),
        ("resources: {instance_type: p3}", "resources.instance_type"), ("resources: {image_id: x}", "resources.image_id"),
        ("resources: {ordered: []}", "resources.ordered"), ("resources: {labels: {}}", "resources.labels"),
        ("any_of: [{disk_tier: best}]", "any_of[0].disk_tier"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_name(line: str, word: str) -> None:
    [said] = problems(f"run: x\n{line}\n")
    assert said.startswith(f"line 2: {word}: ")
    assert "no such word" not in said


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("commands: [x]", "frugald says `run`"), ("gpu: 24GB", "frugald says `resources.accelerators`"),
        ("stop_grace: 1m", "frugald says `checkpoint.grace`"), ("max_price: 3", "frugald says `resources.max_hourly_cost`"),
        ("gpu_memory: 24GB", "it belongs under `resources:`"), ("interval: 5m", "it belongs under `checkpoint:`"),
        ("resources: {budget: 3}", "it belongs at the top of the file"), ("proiect: x", "did you mean `project`?"),
        ("any_of: [{use_spott: true}]", "did you mean `use_spot`?"), ("matrx: {a: [1]}", "did you mean `matrix`?"),
    ],
)  # fmt: skip
def test_an_unknown_word_leads_to_the_right_one(line: str, hint: str) -> None:
    [said] = problems(f"run: x\n{line}\n")
    assert hint in said


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("workdir: ../..", "inside the job's own folder"), ("workdir: /etc", "inside"), ("workdir: ~/code", "inside"),
        ("workdir: {url: x}", "check the repository out"), ("workdir: https://git.example/x", "check the repository out"),
        ("outputs: [ok, a/../../b]", "outputs[1]: a/../../b must be a path inside"),
        ("secrets: {TOKEN: abc}", "credentials folder"), ("secrets: [../../etc/passwd]", "not written as it should be"),
        ("envs: {'A B': 1}", "not written as it should be"), ("budget: 0", "above zero"), ("budget: -3", "below zero"),
        ("resources: {accelerators: 'H100:1..2'}", "write `1`"), ("resources: {accelerators: 24GB..48GB}", "write `24GB..`"),
        ("resources: {accelerators: 'A100:0'}", "doesn't say how many"), ("resources: {accelerators: ':8'}", "names no GPU"),
        ("resources: {accelerators: 'A100:90GB'}", "40GB or 80GB"), ("resources: {accelerators: 3}", "names no GPU"),
        ("resources: {gpu_memory: true}", "not a number"), ("resources: {cpus: -1}", "at least 0"),
        ("resources: {infra: a/b/c/d}", "not written as it should be"), ("resources: [a]", "not a table"),
        ("name: 'a\\nb'", None), ('name: "a\\nb"', "one line"), ("name: ' a'", "one line"), (f"name: {'x' * 101}", "too long"),
        ("work: {hours: .inf}", "not a number"), ("work: {hours: .nan}", "not a number"), ("work: {on: T4}", "add `hours`"),
        ("checkpoint: {signal: SIGKILL}", "not one of SIGTERM"), ("checkpoint: {keep: 0}", "at least 1"),
        ("priority: 1001", "at most 1000"), ("deadline: soon", "not a time"), ("deadline: 0s", "can't be met"),
        ("not_before: 2026-12-01T10:00", "names no time zone"), ("recover_on_exit_codes: [0]", "at least 1"),
        ("job_recovery: {strategy: FAILOVER}", "can't be had"), ("retry: true", "not a table"),
        ("retry: {on_events: [boredom]}", "not one of no-capacity"), ("max_duration: 30", "not a duration"),
        ("setup: [a]", "not text"), (f"setup: {'ü' * 60_000}", "longer than 100000 bytes"), ("after: {a: b}", "not a list"),
        ("budget: {cap: 3, at_cap: go on}", "not one of stop or hold"),
    ],
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(line: str, says: str | None) -> None:
    if says is None:
        assert read(f"run: x\n{line}\n")
        return
    said = problems(f"run: x\n{line}\n")
    assert any(says in one for one in said), said


def test_a_word_in_two_places_is_refused() -> None:
    [said] = problems("run: x\nany_of: [{cpus: 1}]\nresources:\n  any_of: [{cpus: 2}]\n")
    assert said == "line 4: resources.any_of: `any_of` is said twice: leave one out"


def test_a_wall_of_problems_is_cut() -> None:
    said = problems("run: x\n" + "".join(f"zz{n}: 1\n" for n in range(300)))
    assert len(said) == 51
    assert "and 250 more: these first" in said


def test_messages_stay_on_one_line_and_short() -> None:
    [said] = problems('{"run": "x", "resources": {"accelerators": "1\\n2\u200b' + "x" * 5_000 + '"}}', "a.json")
    assert "\n" not in said
    assert "\u200b" not in said
    assert len(said) < 500


@given(st.randoms(use_true_random=False))
def test_any_spec_survives_json(rng: random.Random) -> None:
    words: dict[str, Any] = {
        "budget": rng.choice(["0.000001", "3 USD", "$1,000"]), "deadline": rng.choice(["1.5s", "3d", "2026-12-24T18:00Z"]),
        "max_duration": rng.choice(["500ms", "1h30m"]), "priority": str(rng.randint(-1000, 1000)),
        "checkpoint": rng.choice(["{}", "{interval: 0.25s}"]), "resources": rng.choice(["{gpu_memory: 1.5GB}", "{gpus: 0.25}"]),
    }  # fmt: skip
    chosen = rng.sample(sorted(words), rng.randint(0, len(words)))
    spec = read("run: x\n" + "".join(f"{word}: {words[word]}\n" for word in chosen))
    assert JobSpec.from_json(spec.to_json()) == spec
