import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from frugald import checkpoint
from frugald.folder import Folder


def run_in(folder: Path, **words: Any) -> checkpoint.Run:
    return checkpoint.Run(folder, model=nn.Linear(2, 2), **words)


def newest(folder: Path) -> int | None:
    return Folder(folder, 1).newest()


def test_a_new_run_starts_at_zero_and_an_old_one_where_it_was(tmp_path: Path) -> None:
    run = run_in(tmp_path, interval=0)
    assert run.resume() == 0
    run.values["best"] = {"accuracy": 0.5, "trials": [1, 2]}
    run.step()
    run.step()
    again = run_in(tmp_path)
    assert again.resume() == again.steps == 2
    assert again.values == {"best": {"accuracy": 0.5, "trials": [1, 2]}}


def test_it_saves_when_the_interval_has_passed_and_not_before(tmp_path: Path) -> None:
    slow = run_in(tmp_path, interval=1e9)
    slow.resume()
    slow.step()
    assert newest(tmp_path) is None
    slow.save()
    assert newest(tmp_path) == 1
    fast = run_in(tmp_path, interval=0)
    fast.resume()
    fast.step()
    assert newest(tmp_path) == 2


def test_the_environment_names_folder_and_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = checkpoint.Run()
    run.save()
    assert newest(tmp_path / "checkpoints") == 0
    monkeypatch.setenv("FRUGALD_CHECKPOINT_DIR", str(tmp_path / "given"))
    monkeypatch.setenv("FRUGALD_CHECKPOINT_INTERVAL", "0")
    run = checkpoint.Run()
    run.step()
    assert newest(tmp_path / "given") == 1
    monkeypatch.setenv("FRUGALD_CHECKPOINT_INTERVAL", "5 minutes")
    with pytest.raises(ValueError, match="write a number of seconds"):
        checkpoint.Run()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_signal_is_noted_and_answered_at_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("FRUGALD_CHECKPOINT_SIGNAL", number.name)
    run = run_in(tmp_path)
    run.resume()
    run.step()
    os.kill(os.getpid(), number)
    assert newest(tmp_path) is None
    with pytest.raises(SystemExit) as left:
        run.step()
    assert left.value.code == 143
    assert newest(tmp_path) == 2


def test_a_signal_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRUGALD_CHECKPOINT_SIGNAL", "SIGSAVE")
    with pytest.raises(ValueError, match="SIGUSR1"):
        run_in(tmp_path).resume()


def test_a_notice_is_answered_with_a_save_and_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notice = tmp_path / "notice.json"
    monkeypatch.setenv("FRUGALD_NOTICE_FILE", str(notice))
    run = run_in(tmp_path / "saved")
    run.resume()
    run.step()
    notice.write_text(json.dumps({"why": "rebalance", "in_s": 600}))
    run.step()
    assert newest(tmp_path / "saved") == 2
    run.step()
    assert newest(tmp_path / "saved") == 2  # once is enough
    notice.write_text(json.dumps({"why": "interruption", "in_s": 120}))
    with pytest.raises(SystemExit) as left:
        run.step()
    assert left.value.code == 143
    assert newest(tmp_path / "saved") == 4


def test_progress_tells_step_total_and_the_newest_of_each_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "progress.json"
    monkeypatch.setenv("FRUGALD_PROGRESS_FILE", str(told))
    run = run_in(tmp_path / "saved", interval=0)
    run.resume()
    for _ in run.epochs(2):
        for batch in run.batches([torch.ones(1), torch.zeros(1)]):
            run.step(loss=(batch.requires_grad_() * 2).sum())
        run.report(accuracy=run.steps / 4)
    assert json.loads(told.read_bytes()) == {"step": 4, "total_steps": 4, "metrics": {"loss": 0.0, "accuracy": 1.0}}
    again = run_in(tmp_path / "saved")
    again.resume()
    assert json.loads(told.read_bytes()) == {"step": 4, "total_steps": -1, "metrics": {"loss": 0.0, "accuracy": 0.5}}
    again.report(more=2)
    assert set(json.loads(told.read_bytes())["metrics"]) == {"loss", "accuracy", "more"}


def test_a_given_total_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRUGALD_PROGRESS_FILE", str(tmp_path / "progress.json"))
    run = run_in(tmp_path / "saved", total_steps=1)
    for _ in run.epochs(1):
        for _batch in run.batches([1, 2, 3, 4]):  # one step for every four batches
            pass
        run.step()
    assert json.loads((tmp_path / "progress.json").read_bytes())["total_steps"] == 1


def test_data_of_unknown_length_goes_on_where_it_was(tmp_path: Path) -> None:
    def numbers() -> Any:
        return (number for number in range(5))

    run = run_in(tmp_path, interval=0)
    run.resume()
    for _ in run.epochs(1):
        for number in run.batches(numbers()):
            run.step()
            if number == 2:
                break
        break
    again = run_in(tmp_path)
    again.resume()
    assert [list(again.batches(numbers())) for _ in again.epochs(1)] == [[3, 4]]


def test_batches_belong_into_epochs_once(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    with pytest.raises(RuntimeError, match="once in each epoch"):
        next(run.batches([1]))
    for _ in run.epochs(1):
        assert list(run.batches([1])) == [1]
        with pytest.raises(RuntimeError, match="once in each epoch"):
            next(run.batches([1]))


def test_processes_without_a_group_go_on_from_what_the_first_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in(tmp_path, interval=0).step()
    monkeypatch.setenv("RANK", "1")
    run = run_in(tmp_path, interval=0)
    assert run.resume() == 1
    run.step()
    assert newest(tmp_path) == 1  # only the first writes


def test_other_parts_are_refused_by_name(tmp_path: Path) -> None:
    run_in(tmp_path).save()
    model = nn.Linear(2, 2)
    run = checkpoint.Run(tmp_path, model=model, optimizer=torch.optim.SGD(model.parameters()))
    with pytest.raises(checkpoint.CheckpointError, match="holds model and the run has model, optimizer"):
        run.resume()


def test_another_shape_is_refused(tmp_path: Path) -> None:
    run_in(tmp_path).save()
    with pytest.raises(RuntimeError, match="size mismatch"):
        checkpoint.Run(tmp_path, model=nn.Linear(3, 2)).resume()


def test_a_corrupt_newest_checkpoint_costs_only_the_steps_since_the_one_before(tmp_path: Path) -> None:
    run = run_in(tmp_path, interval=0)
    run.resume()
    for _ in range(3):
        run.step()
    (tmp_path / "ckpt-3.pt").write_bytes(b"broken")
    with pytest.warns(UserWarning, match=r"ckpt-3\.pt is left out"):
        assert run_in(tmp_path).resume() == 2


@pytest.mark.parametrize("world", [1, 2, 3])
def test_shuffled_shares_every_sample_out(world: int) -> None:
    shares = [list(checkpoint.Shuffled(range(10), seed=4, rank=rank, world=world)) for rank in range(world)]
    assert {index for share in shares for index in share} == set(range(10))
    assert {len(share) for share in shares} == {len(checkpoint.Shuffled(range(10), rank=0, world=world))}


def test_shuffled_has_an_order_for_each_seed_and_epoch() -> None:
    def order(seed: int, epoch: int, skip: int = 0) -> list[int]:
        shuffled = checkpoint.Shuffled(range(50), seed=seed)
        shuffled.start(epoch, skip)
        return list(shuffled)

    assert order(1, 2) == order(1, 2)
    assert order(1, 2, 17) == order(1, 2)[17:]
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    once = checkpoint.Shuffled(range(50))
    once.start(0, 10)
    assert (len(list(once)), len(list(once)), len(once)) == (40, 50, 50)
