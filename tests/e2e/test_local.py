"""This computer as a cloud: a job from a dropped file to its results, with `restart` in between."""

import json
import threading
from pathlib import Path
from typing import Any

from config.clock import SystemClock
from daemon.client import Client
from daemon.demo.setting import DaemonProcess, write_settings
from tests.e2e.light import TRAIN
from tests.e2e.test_serve import answers, wait_until

CLOCK = SystemClock()
JOB = """\
name: here
run: python train.py 60
workdir: code
resources: {gpus: 0, infra: local}
checkpoint: {path: checkpoints, interval: 1s, grace: 3s}
outputs: [lines.json]
"""


def test_a_job_runs_on_this_computer_at_no_cost(tmp_path: Path) -> None:
    config = write_settings(tmp_path, [])
    config.write_text(config.read_text() + "\n[clouds.local]\nenabled = true\ncpu_machines = 1\n")
    code = tmp_path / "drop" / "code"
    code.mkdir(parents=True)
    code.joinpath("train.py").write_bytes(TRAIN.read_bytes())
    daemon = DaemonProcess(config)
    daemon.start()
    try:
        wait_until(lambda: answers(tmp_path))
        client = Client(tmp_path / "frugald.sock")
        (tmp_path / "drop" / "here.yaml").write_text(JOB)
        wait_until(lambda: [j for j in client.get("/jobs") if j["step"] > 10], 60)
        daemon.stop()  # the machine goes on
        daemon.start()
        CLOCK.wait(threading.Event(), 0.2)
        wait_until(lambda: answers(tmp_path))
        wait_until(lambda: client.get("/jobs")[0]["state"] == "succeeded", 60)
        job: dict[str, Any] = client.get("/jobs/here")
        assert (job["attempts"], job["interruptions"], job["cost_micro"]) == (1, 0, 0)
        assert job["runs"][0]["machine"]["cloud"] == "local"
        (folder,) = (tmp_path / "drop" / "done").iterdir()
        wait_until(lambda: json.loads((folder / "status.json").read_text())["state"] == "succeeded")
        assert json.loads((folder / "outputs" / "lines.json").read_text()) == list(range(1, 61))
        assert "from step 0" in (folder / "log.txt").read_text()
        wait_until(lambda: client.get("/machines") == [])
        client.close()
    finally:
        daemon.stop()
