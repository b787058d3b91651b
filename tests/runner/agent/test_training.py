"""Training scripts of several kinds on real machines, from one attempt to the next."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from runner.bootstrap import build_bundle
from runner.store.records import MANIFEST, Phase, job_key
from tests.runner.agent.site import JOB, PYTHON, Rented, until

# Knows nothing of frugald; the save takes long enough to be looked at in the middle.
IN_PLACE = """
import os, time, zipfile
step = 0
if os.path.exists("checkpoints/checkpoint.pth"):
    with zipfile.ZipFile("checkpoints/checkpoint.pth") as saved:
        step = int(saved.read("step"))
    print("resumed at", step, flush=True)
while step < 1000:
    step += 1
    time.sleep(0.002)
    if step % 100 == 0:
        with open("checkpoints/checkpoint.pth", "wb") as file, zipfile.ZipFile(file, "w") as saved:
            saved.writestr("step", str(step))
            saved.writestr("weights", os.urandom(100_000))
            file.flush()
            time.sleep(0.15)
        time.sleep(0.3)
"""
TORCH = """
import os, time, torch
path, step = "checkpoints/checkpoint.pth", 0
model = torch.nn.Linear(64, 64)
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    step = saved["step"]
    print("resumed at", step, flush=True)
while not os.path.exists("go"):
    step += 1
    torch.save({"model": model.state_dict(), "step": step}, path)
    time.sleep(0.05)  # less than the quiet time
"""
SDK = """
import os, time, torch
from torch.utils.data import DataLoader, TensorDataset
from frugald import checkpoint
model = torch.nn.Linear(4, 2)
run = checkpoint.Run(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), interval=0.2)
print("resumed at", run.resume(), flush=True)
data = DataLoader(TensorDataset(torch.randn(400, 4)), batch_size=2, num_workers=1)
for epoch in run.epochs(2):
    for (batch,) in run.batches(data):
        model(batch).sum().backward()
        run.step(loss=1.0)
        time.sleep(0.005 if os.environ["FRUGALD_ATTEMPT"] == "0" else 0)
"""


def next_attempt(rented: Rented, run: str, **order: object) -> Rented:
    """Rent another machine for the same job, and have it go on from the checkpoint of the one before."""
    before = rented.status()
    other = Rented(rented.base, attempt=rented.attempt + 1)
    other.disk = rented.base / "other"
    other.start(run, restore=before.checkpoint, restore_step=before.checkpoint_step, **order)
    return other


def test_a_script_that_overwrites_its_checkpoint_survives_a_kill_at_any_moment(rented: Rented) -> None:
    run = f"{PYTHON} train.py"
    rented.start(run, code={"train.py": IN_PLACE}, checkpoint_grace_s=0.1)
    until(lambda: ["agent.overwrites_in_place", {"file": "checkpoint.pth"}] in rented.status().warnings)
    assert len(rented.manifests()) == 2
    rented.interrupt(3.0)
    assert rented.agent is not None
    assert rented.agent.wait(10) == 0
    other = next_attempt(rented, run, code={"train.py": IN_PLACE})
    try:
        other.end(Phase.SUCCEEDED)
    finally:
        other.close()
    [line] = [line for line in other.log().splitlines() if line.startswith("resumed at")]
    assert int(line.split()[-1]) % 100 == 0
    assert int(line.split()[-1]) >= 100


def test_a_real_torch_file_that_never_rests_is_saved(rented: Rented) -> None:
    run = f"exec {PYTHON} train.py"
    rented.start(run, code={"train.py": TORCH})
    until(lambda: rented.status().checkpoint)
    rented.say("cancel")
    rented.end(Phase.NOT_SAVED)
    other = next_attempt(rented, run, code={"train.py": TORCH})
    try:
        until(lambda: "resumed at" in other.log())
        (other.root / "work" / "go").touch()
        other.end(Phase.SUCCEEDED)
    finally:
        other.close()


def test_the_sdk_saves_on_the_notice_and_goes_on_from_there(rented: Rented) -> None:
    run = f"echo begin\n{PYTHON} train.py\necho end"
    rented.start(run, code={"train.py": SDK}, checkpoint_path="")
    until(lambda: rented.status().step > 20)
    rented.interrupt(10.0)
    status = rented.end(Phase.SAVED)
    assert status.step == status.checkpoint_step > 20
    assert status.total_steps == 400
    other = next_attempt(rented, run, code={"train.py": SDK}, checkpoint_path="")
    try:
        ended = other.end(Phase.SUCCEEDED)
    finally:
        other.close()
    assert f"resumed at {status.step}\n" in other.log()
    assert (ended.restored_step, ended.step, ended.checkpoint_step) == (status.step, 400, 400)
    assert ended.warnings == []


def test_a_damaged_checkpoint_is_passed_over(rented: Rented) -> None:
    run = "cat checkpoints/* ; true"
    rented.start("for i in 1 2; do echo state $i > checkpoints/step_$i.bin; sleep 0.5; done")
    rented.end(Phase.SUCCEEDED)
    first, second = sorted(
        key.key for key in rented.store.list(job_key(JOB, "checkpoints/")) if key.key.endswith(".bin")
    )
    rented.store.put(second, b"state X\n")
    other = next_attempt(rented, run)
    try:
        status = other.end(Phase.SUCCEEDED)
    finally:
        other.close()
    assert status.restored_step == 1
    assert "state 1\n" in other.log()
    assert [code for code, _ in status.warnings] == ["agent.checkpoint_corrupt"]
    assert rented.read(first) == b"state 1\n"


def test_an_upload_cut_off_by_a_kill_does_not_exist(rented: Rented) -> None:
    rented.start(f"{PYTHON} train.py", code={"train.py": IN_PLACE})
    assert rented.agent is not None
    until(lambda: list(rented.store.list(job_key(JOB, "checkpoints/"))))
    os.killpg(rented.agent.pid, signal.SIGKILL)
    for manifest in rented.manifests():
        assert all(rented.store.head(key) for _, _, _, key in manifest.files)


def test_the_bundle_runs_by_itself(rented: Rented, tmp_path: Path) -> None:
    """The one file that a rented machine gets brings the job's package with it, and heeds nobody's own `config.py`."""
    bundle = tmp_path / "agent.pyz"
    bundle.write_bytes(build_bundle())
    (tmp_path / "config.py").write_text("raise SystemExit('the wrong config')")
    rented.launcher = [PYTHON, "-P", str(bundle)]
    rented.start(f'{PYTHON} -c "import frugald; print(frugald.__file__)"', code={"config.py": "1 / 0"})
    rented.end(Phase.SUCCEEDED)
    assert f"{rented.disk}/sdk/frugald/__init__.py" in rented.log()


def test_the_command_line_says_what_is_missing() -> None:
    told = subprocess.run(
        [PYTHON, "-P", "-m", "runner.agent", "--machine", "m"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 2
    assert "--store" in told.stderr


@pytest.mark.parametrize("keep", [1, 3])
def test_as_many_checkpoints_are_kept_as_the_job_file_says(rented: Rented, keep: int) -> None:
    rented.start("for i in 1 2 3 4 5; do echo $i > checkpoints/step_$i.bin; sleep 0.4; done", checkpoint_keep=keep)
    rented.end(Phase.SUCCEEDED)
    keys = [info.key for info in rented.store.list(job_key(JOB, "checkpoints/")) if info.key.endswith(MANIFEST)]
    assert len(keys) == keep
