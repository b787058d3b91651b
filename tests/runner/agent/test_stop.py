"""How an attempt ends before its job does: in time, saved if that is possible, and with nothing left running."""

import os
import signal

import pytest

from runner.agent.processes import below, table
from runner.store.records import NoticeRecord, Phase, attempt_key, job_key
from tests.runner.agent.site import CLOCK, JOB, PYTHON, Rented, python, until

# A training script as people write them: a handler sets a flag, the loop saves and leaves.
TRAIN = """
import json, os, signal, sys, time, hashlib, zipfile
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
folder = os.environ["FRUGALD_CHECKPOINT_DIR"]
def save(step):
    path = f"{folder}/ckpt-{step}.pt"
    with open(path, "wb") as file:
        file.write(b"state %d" % step)
    told = {"step": step, "file": f"ckpt-{step}.pt", "size": os.path.getsize(path),
            "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest()}
    with open(f"{folder}/.tmp-json", "w") as file:
        json.dump(told, file)
    os.rename(f"{folder}/.tmp-json", f"{folder}/ckpt-{step}.json")
def tell(step):
    with open("progress.part", "w") as file:
        json.dump({"step": step, "total_steps": 10_000, "metrics": {}}, file)
    os.rename("progress.part", os.environ["FRUGALD_PROGRESS_FILE"])
step = 0
while True:
    step += 1
    tell(step)
    if stop:
        save(step)
        print("saved", step, flush=True)
        sys.exit(0)
    time.sleep(0.01)
"""
TRAINING = {"train.py": TRAIN}
STUBBORN = python(
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('ready', 'w').close()\ntime.sleep(600)"
)
RUNS = {
    "one line": f"{PYTHON} train.py",
    "several lines": f"set -e\necho begin\n{PYTHON} train.py\ntouch after",
    "a pipe": f"{PYTHON} train.py 2>&1 | tee log.txt\ntouch after",
    "a script": "sh run.sh",
    "a subshell": f"(cd . && {PYTHON} ./train.py); touch after",
    "in the background": f"{PYTHON} train.py &\nwait\ntouch after",
    "with a trap of its own": f"{PYTHON} train.py & pid=$!\ntrap 'kill -TERM $pid; wait $pid' TERM\nwait $pid; wait $pid",
    "another session": f"setsid --wait {PYTHON} train.py; touch after",
    "a launcher that dies of the signal": f"{PYTHON} -c \"import subprocess; subprocess.run(['{PYTHON}', 'train.py'])\"",
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_the_signal_reaches_the_training_however_it_is_started(rented: Rented, run: str) -> None:
    rented.start(run, code=TRAINING | {"run.sh": f"{PYTHON} train.py\ntouch after\n"})
    until(lambda: rented.status().step > 3)
    rented.say("stop")
    status = rented.end(Phase.SAVED)
    assert status.ended_because == "command"
    assert status.checkpoint_step == status.step == rented.manifests()[-1].step > 3
    assert status.lost_s == 0
    assert rented.read(status.checkpoint + f"0/ckpt-{status.step}.pt") == b"state %d" % status.step
    assert not (rented.root / "work" / "after").exists()  # the script must not go on with its next line


def test_an_interruption_is_noticed_and_answered(rented: Rented) -> None:
    rented.start(RUNS["several lines"], code=TRAINING)
    until(lambda: rented.status().step > 3)
    rented.interrupt(8.0)
    until(lambda: rented.beat().notice_in_s is not None)
    assert 0 < (rented.beat().notice_in_s or 0) <= 8
    status = rented.end(Phase.SAVED)
    assert status.ended_because == "notice"
    notice = NoticeRecord.from_json(rented.read(attempt_key(JOB, 0, "notice.json")))
    assert (notice.why, notice.in_s <= 8) == ("interruption", True)
    assert (rented.root / "notice.json").exists()


def test_the_signal_that_the_job_file_asks_for_is_sent(rented: Rented) -> None:
    code = {"train.py": TRAIN.replace("signal.SIGTERM", "signal.SIGWINCH")}  # SIGTERM would kill it
    rented.start(f"{PYTHON} train.py", code=code, checkpoint_signal="SIGUSR1")
    until(lambda: rented.status().step > 3)
    rented.say("stop")
    rented.end(Phase.SAVED)


def test_a_job_that_ignores_the_signal_is_killed_after_its_grace(rented: Rented) -> None:
    rented.start(STUBBORN, checkpoint_grace_s=0.5)
    rented.wait_for_file("ready")
    began = CLOCK.monotonic()
    rented.say("stop")
    status = rented.end(Phase.NOT_SAVED)
    assert 0.5 <= CLOCK.monotonic() - began < 5
    assert (status.exit_code, status.ended_because) == (137, "command")
    assert status.lost_s > 0


def test_a_job_that_ignores_the_signal_is_killed_before_the_machine_ends(rented: Rented) -> None:
    rented.start(STUBBORN, checkpoint_grace_s=600)
    rented.wait_for_file("ready")
    began = CLOCK.monotonic()
    rented.interrupt(2.0)
    rented.end(Phase.NOT_SAVED)
    assert CLOCK.monotonic() - began < 2.0


def test_a_cancelled_job_gets_no_grace(rented: Rented) -> None:
    rented.start(STUBBORN, checkpoint_grace_s=600)
    rented.wait_for_file("ready")
    rented.say("cancel")
    assert rented.end(Phase.NOT_SAVED, seconds=5).ended_because == "command"


def test_a_stop_may_turn_into_a_cancel(rented: Rented) -> None:
    rented.start(STUBBORN, checkpoint_grace_s=600)
    rented.wait_for_file("ready")
    rented.say("stop")
    rented.wait_for(Phase.SAVING)
    rented.say("cancel")
    rented.end(Phase.NOT_SAVED, seconds=5)


def test_without_a_daemon_the_machine_saves_and_ends_before_its_lease(rented: Rented) -> None:
    rented.guard_s, rented.tail_s = 3.0, 1.0
    began = CLOCK.monotonic()
    rented.start(RUNS["several lines"], code=TRAINING)
    status = rented.end(Phase.SAVED)
    assert status.ended_because == "lease"
    assert 1.0 < CLOCK.monotonic() - began < 3.0


def test_a_lease_moves_the_end_and_the_guests_timer(rented: Rented) -> None:
    rented.guard_s, rented.tail_s = 4.0, 0.5
    rented.start(RUNS["one line"], code=TRAINING)
    until(lambda: rented.status().step > 3)
    rented.lease(1, 30.0)
    guard = rented.disk / "guard"
    until(guard.exists)
    assert 25 < float(guard.read_text()) <= 30
    until(lambda: rented.beat().lease_seq == 1)
    assert rented.beat().lease_left_s > 20
    rented.lease(2, 2.0)  # not final: shortens nothing
    until(lambda: rented.beat().lease_seq == 2)
    assert rented.beat().lease_left_s > 20
    rented.lease(3, 4.0, final=True)
    began = CLOCK.monotonic()
    assert rented.end(Phase.SAVED).ended_because == "lease"
    assert CLOCK.monotonic() - began < 4.0
    assert float(guard.read_text()) <= 4


def test_a_store_that_is_away_stops_no_job_but_the_lease_does(rented: Rented) -> None:
    rented.guard_s, rented.tail_s = 4.0, 1.0
    rented.start(RUNS["one line"], code=TRAINING)
    until(lambda: rented.status().step > 3)
    (rented.base / "store").rename(rented.base / "away")
    (rented.base / "store").write_text("not a folder")
    assert rented.agent is not None
    assert rented.agent.wait(10) == 0
    (rented.base / "store").unlink()
    (rented.base / "away").rename(rented.base / "store")
    assert rented.status().phase == Phase.RUNNING  # nobody could be told better
    assert rented.strays() == []


def test_a_store_that_comes_back_hears_the_end(rented: Rented) -> None:
    rented.start("while [ ! -e go ]; do sleep 0.02; done; echo last words; exit 4")
    rented.wait_for(Phase.RUNNING)
    (rented.base / "store").rename(rented.base / "away")
    (rented.base / "store").write_text("not a folder")
    (rented.root / "work" / "go").touch()
    until(lambda: not rented.strays())
    (rented.base / "store").unlink()
    (rented.base / "away").rename(rented.base / "store")
    assert rented.end(Phase.FAILED).exit_code == 4
    assert "last words\n" in rented.log()


def test_a_job_may_run_no_longer_than_its_file_says(rented: Rented) -> None:
    rented.start(RUNS["one line"], code=TRAINING, max_duration_s=0.5)
    assert rented.end(Phase.SAVED).ended_because == "max_duration"


def test_sigterm_stops_like_a_word_and_a_second_one_at_once(rented: Rented) -> None:
    rented.start(RUNS["several lines"], code=TRAINING)
    until(lambda: rented.status().step > 3)
    assert rented.agent is not None
    rented.agent.terminate()
    assert rented.end(Phase.SAVED).ended_because == "agent_stopped"


def test_a_second_sigterm_ends_at_once(rented: Rented) -> None:
    rented.start(STUBBORN, checkpoint_grace_s=600)
    rented.wait_for_file("ready")
    assert rented.agent is not None
    rented.agent.terminate()
    rented.wait_for(Phase.SAVING)
    began = CLOCK.monotonic()
    rented.agent.terminate()
    rented.end(Phase.NOT_SAVED)
    assert CLOCK.monotonic() - began < 3


def test_what_a_job_leaves_behind_is_ended(rented: Rented) -> None:
    rented.start("setsid sh -c 'sleep 600 & setsid sleep 600 & sleep 600' & sleep 0.1; exit 0")
    rented.end(Phase.SUCCEEDED)
    assert "left behind were killed" in rented.log()


BUSY = "setsid sh -c 'touch ready; trap \"\" TERM; sleep 600' & sleep 600; sleep 600"


def test_nothing_outlives_a_killed_agent(rented: Rented) -> None:
    rented.start(BUSY)
    rented.wait_for_file("ready")
    assert rented.agent is not None
    [agent] = [process for process in below([rented.agent.pid], table()) if process.parent == rented.agent.pid]
    os.kill(agent.pid, signal.SIGKILL)
    assert rented.agent.wait(10) == 137
    assert rented.strays() == []


def test_nothing_outlives_a_killed_keeper(rented: Rented) -> None:
    rented.start(BUSY, checkpoint_grace_s=0.3)
    rented.wait_for_file("ready")
    assert rented.agent is not None
    [agent] = [process.pid for process in below([rented.agent.pid], table()) if process.parent == rented.agent.pid]
    rented.agent.kill()
    rented.agent.wait()
    until(lambda: not rented.strays() and agent not in table())
    assert rented.status().phase == Phase.NOT_SAVED


def test_a_finished_job_that_was_told_to_stop_has_succeeded(rented: Rented) -> None:
    code = {"train.py": TRAIN.replace('"total_steps": 10_000', '"total_steps": step')}
    rented.start(f"exec {PYTHON} train.py", code=code)
    until(lambda: rented.status().step > 3)
    rented.say("stop")
    rented.end(Phase.SUCCEEDED)


def test_a_killed_training_process_is_a_failure_of_the_job(rented: Rented) -> None:
    rented.start(f"exec {PYTHON} train.py", code=TRAINING)
    until(lambda: rented.status().step > 3)
    for process in rented.strays():
        os.kill(process.pid, signal.SIGKILL)
    assert rented.end(Phase.FAILED).exit_code == 137
    assert list(rented.store.list(job_key(JOB, "checkpoints/"))) == []
