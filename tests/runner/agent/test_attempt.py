"""The life of an attempt on a real machine: real processes, a real store, a daemon's words."""

import json
import os
from hashlib import sha256

import pytest

from runner.store.records import NoticeRecord, Phase, attempt_key, job_key
from tests.runner.agent.site import JOB, PYTHON, Rented, until


def test_a_command_that_ends_well_has_succeeded(rented: Rented) -> None:
    rented.start("echo hello from the job")
    status = rented.end(Phase.SUCCEEDED)
    assert (status.exit_code, status.ended_because, status.lost_s) == (0, "finished", 0.0)
    assert "hello from the job\n" in rented.log()
    assert status.log_bytes == len(rented.log().encode())
    assert status.log_chunks == len(list(rented.store.list(attempt_key(JOB, 0, "log/"))))


def test_a_command_that_fails_tells_its_exit_code(rented: Rented) -> None:
    rented.start("echo oh no >&2\nexit 7")
    status = rented.end(Phase.FAILED)
    assert (status.exit_code, status.ended_because, status.out_of_memory) == (7, "failed", False)
    assert "oh no" in rented.log()


def test_a_command_that_is_killed_tells_the_signal(rented: Rented) -> None:
    rented.start("kill -9 $$")
    assert rented.end(Phase.FAILED).exit_code == 137


def test_a_gpu_that_ran_out_of_memory_is_told(rented: Rented) -> None:
    rented.start("echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; exit 1")
    assert rented.end(Phase.FAILED).out_of_memory


def test_nothing_starts_before_the_word(rented: Rented) -> None:
    rented.boot("touch started", setup="echo in setup; touch prepared", code={"train.py": "print(1)"})
    rented.wait_for(Phase.READY)
    work = rented.root / "work"
    assert sorted(path.name for path in work.iterdir()) == ["checkpoints", "prepared", "train.py"]
    rented.say("start")
    rented.end(Phase.SUCCEEDED)
    assert (work / "started").exists()
    assert "in setup\n" in rented.log()


def test_a_setup_that_fails_ends_the_attempt(rented: Rented) -> None:
    rented.start("touch started", setup="echo no such package >&2\nexit 3")
    status = rented.end(Phase.FAILED)
    assert (status.exit_code, status.ended_because) == (3, "setup")
    assert "no such package" in rented.log()
    assert not (rented.root / "work" / "started").exists()


def test_code_with_another_hash_is_not_run(rented: Rented) -> None:
    rented.start("true", code={"train.py": ""}, code_sha256=sha256(b"other").hexdigest())
    assert rented.end(Phase.FAILED).ended_because == "setup"
    assert "the job order names" in rented.log()


def test_code_that_would_write_outside_its_folder_is_not_run(rented: Rented) -> None:
    rented.start("true", code={"../../outside": "x"})
    assert rented.end(Phase.FAILED).ended_because == "setup"
    assert "can't be unpacked" in rented.log()
    assert not (rented.root / "outside").exists()


def test_the_job_finds_its_environment_and_none_of_the_agents_secrets(rented: Rented) -> None:
    rented.environment = {"FRUGALD_STORE_OPTIONS": "{     }", "SLURM_JOB_ID": "5", "MY_OWN": "kept"}
    show = "import frugald, json, os; print('ENV', json.dumps(dict(os.environ)))"
    rented.start(
        f'cat /proc/[0-9]*/environ 2>/dev/null | grep -zcx "FRUGALD_STORE_OPTIONS={{     }}" > leaks; {PYTHON} -c "{show}"',
        gpus=2, checkpoint_signal="SIGUSR1", envs={"PYTHONPATH": "/theirs", "EPOCHS": "3"}, checkpoint_path="ckpt",
    )  # fmt: skip
    rented.end(Phase.SUCCEEDED)
    [line] = [line for line in rented.log().splitlines() if line.startswith("ENV ")]
    found = json.loads(line[4:])
    assert {name: value for name, value in found.items() if name in {
        "FRUGALD_JOB_ID", "FRUGALD_JOB_NAME", "FRUGALD_ATTEMPT", "FRUGALD_CHECKPOINT_INTERVAL", "FRUGALD_GPUS",
        "FRUGALD_HOURLY_PRICE", "FRUGALD_DEADLINE", "PYTHONUNBUFFERED", "MY_OWN", "EPOCHS", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
    }} == {
        "FRUGALD_JOB_ID": JOB, "FRUGALD_JOB_NAME": "digits", "FRUGALD_ATTEMPT": "0", "FRUGALD_CHECKPOINT_INTERVAL": "1",
        "FRUGALD_GPUS": "2", "FRUGALD_HOURLY_PRICE": "0.350000", "FRUGALD_DEADLINE": "", "PYTHONUNBUFFERED": "1",
        "MY_OWN": "kept", "EPOCHS": "3", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }  # fmt: skip
    assert "SIGUSR1" in found["PET_SIGNALS_TO_HANDLE"].split(",")
    assert found["PYTHONPATH"].endswith(f"runner/sdk{os.pathsep}/theirs")
    assert found["FRUGALD_CHECKPOINT_DIR"] == str(rented.root / "work" / "ckpt")
    assert not {"FRUGALD_STORE_OPTIONS", "SLURM_JOB_ID"} & found.keys()
    leaks = int((rented.root / "work" / "leaks").read_text())
    assert leaks == 0  # not even in the agent's own /proc entry


def test_lines_reach_the_store_while_the_job_runs(rented: Rented) -> None:
    rented.start("echo first; while [ ! -e go ]; do sleep 0.02; done; echo second")
    until(lambda: "first\n" in rented.log())
    rented.wait_for(Phase.RUNNING)
    (rented.root / "work" / "go").touch()
    rented.end(Phase.SUCCEEDED)
    assert "second\n" in rented.log()


def test_progress_is_told(rented: Rented) -> None:
    rented.start(
        f'{PYTHON} -c "import frugald; frugald.progress(41, 100, loss=0.5)"; while [ ! -e go ]; do sleep 0.02; done'
    )
    until(lambda: rented.status().step == 41)
    status = rented.status()
    assert (status.total_steps, status.metrics) == (100, {"loss": 0.5})
    (rented.root / "work" / "go").touch()
    rented.end(Phase.SUCCEEDED)


def test_outputs_are_mirrored_while_the_job_runs_and_at_its_end(rented: Rented) -> None:
    rented.start(
        "mkdir runs; echo 1 > runs/a.csv; echo x > secret; echo b > b.txt; echo own > $FRUGALD_OUTPUT_DIR/own.txt\n"
        "while [ ! -e go ]; do sleep 0.02; done; echo 2 >> runs/a.csv",
        outputs=["runs", "*.txt"],
    )
    until(lambda: rented.read(job_key(JOB, "outputs/runs/a.csv")) == b"1\n")
    (rented.root / "work" / "go").touch()
    status = rented.end(Phase.SUCCEEDED)
    assert rented.read(job_key(JOB, "outputs/runs/a.csv")) == b"1\n2\n"
    assert rented.read(job_key(JOB, "outputs/own.txt")) == b"own\n"
    assert len(list(rented.store.list(job_key(JOB, "outputs/")))) == status.outputs == 3
    assert status.warnings == []


def test_outputs_that_fit_nothing_are_told(rented: Rented) -> None:
    rented.start("true", outputs=["model.pt"])
    assert rented.end(Phase.SUCCEEDED).warnings == [["agent.outputs_missing", {"patterns": "model.pt"}]]


def test_a_later_attempt_appends_to_the_outputs_of_the_one_before(rented: Rented) -> None:
    rented.attempt = 1
    rented.store.put(job_key(JOB, "outputs/loss.csv"), b"1\n")
    rented.store.put(job_key(JOB, "outputs/runs/x"), b"own")
    rented.start("echo 2 >> loss.csv; cp $FRUGALD_OUTPUT_DIR/runs/x seen", outputs=["loss.csv"])
    rented.end(Phase.SUCCEEDED)
    assert rented.read(job_key(JOB, "outputs/loss.csv")) == b"1\n2\n"
    assert (rented.root / "work" / "seen").read_text() == "own"


def test_a_save_word_asks_for_a_checkpoint_and_nothing_else(rented: Rented) -> None:
    rented.start("while [ ! -e $FRUGALD_NOTICE_FILE ]; do sleep 0.02; done; cat $FRUGALD_NOTICE_FILE")
    rented.wait_for(Phase.RUNNING)
    rented.say("save")
    rented.end(Phase.SUCCEEDED)
    assert '"why": "rebalance"' in rented.log()
    assert NoticeRecord.from_json(rented.read(attempt_key(JOB, 0, "notice.json"))).why == "rebalance"


def test_a_clouds_word_that_the_machine_is_in_danger_asks_for_a_checkpoint_once(rented: Rented) -> None:
    wait = "while [ ! -e $FRUGALD_NOTICE_FILE ]; do sleep 0.02; done; "
    rented.start(f"{wait}mv $FRUGALD_NOTICE_FILE first; sleep 0.5; ls $FRUGALD_NOTICE_FILE; cat first")
    rented.wait_for(Phase.RUNNING)
    rented.rebalance = '{"noticeTime": "2026-03-02T09:00:00Z"}'
    rented.end(Phase.SUCCEEDED)
    assert '"why": "rebalance"' in rented.log()
    assert "No such file" in rented.log()


@pytest.mark.parametrize("word", ["stop", "cancel"])
def test_a_machine_told_to_stop_before_the_start_just_ends(rented: Rented, word: str) -> None:
    rented.boot("touch started")
    rented.wait_for(Phase.READY)
    rented.say(word)
    assert rented.end(Phase.NOT_SAVED).ended_because == "command"
    assert not (rented.root / "work" / "started").exists()
