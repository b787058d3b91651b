"""A run that was interrupted anywhere ends with the same bits as one that was not."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from frugald.position import Position
from tests.runner.sdk.training import LOADERS, STEPS, Crash, Log, asked_to_stop_at, crash_at, nothing, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes:UserWarning"),  # on one core
]


@cache
def undisturbed(kind: str) -> Log:
    with TemporaryDirectory() as folder:
        return train(Path(folder), LOADERS[kind](), nothing)


def resumed(folder: Path, kind: str, first_step: int) -> None:
    """Go on to the end and compare with the run that nobody disturbed."""
    expected = undisturbed(kind)
    log = train(folder, LOADERS[kind](), nothing)
    assert log.losses == {step: expected.losses[step] for step in range(first_step, STEPS + 1)}
    assert log.weights == expected.weights


@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("kind", ["plain, two workers", "Shuffled, no workers"])
def test_a_stop_at_any_step_changes_no_bit(tmp_path: Path, kind: str, step: int) -> None:
    with pytest.raises(SystemExit) as left:
        train(tmp_path, LOADERS[kind](), asked_to_stop_at(step))
    assert left.value.code == 143
    resumed(tmp_path, kind, step + 1)


@pytest.mark.parametrize("step", [1, 7, 8, 9, 12, 16, 17, 24])
@pytest.mark.parametrize("kind", sorted(set(LOADERS) - {"plain, two workers", "Shuffled, no workers"}))
def test_every_kind_of_loader_goes_on(tmp_path: Path, kind: str, step: int) -> None:
    with pytest.raises(SystemExit):
        train(tmp_path, LOADERS[kind](), asked_to_stop_at(step))
    resumed(tmp_path, kind, step + 1)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_crash_at_any_step_loses_only_what_came_after_the_last_save(tmp_path: Path, step: int) -> None:
    kind, every = "plain, no workers", 5
    with pytest.raises(Crash):
        train(tmp_path, LOADERS[kind](), crash_at(step, every))
    resumed(tmp_path, kind, (step - 1) // every * every + 1)


def test_many_interruptions_in_a_row_change_no_bit(tmp_path: Path) -> None:
    kind = "plain, two workers"
    for step in (2, 3, 8, 13, 23):
        with pytest.raises(SystemExit):
            train(tmp_path, LOADERS[kind](), asked_to_stop_at(step))
    resumed(tmp_path, kind, 24)


def test_a_run_that_has_ended_does_not_train_again(tmp_path: Path) -> None:
    kind = "Shuffled, no workers"
    assert train(tmp_path, LOADERS[kind](), nothing) == undisturbed(kind)
    resumed(tmp_path, kind, STEPS + 1)


@pytest.mark.parametrize("forgotten", ["_start", "_back"])
def test_the_comparison_sees_when_the_random_state_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    kind = "plain, no workers"
    with pytest.raises(SystemExit):
        train(tmp_path, LOADERS[kind](), asked_to_stop_at(12))
    load = Position.load

    def forgetful(self: Position, states: list[dict[str, object]]) -> None:
        load(self, states)
        setattr(self, forgotten, None)

    monkeypatch.setattr(Position, "load", forgetful)
    assert train(tmp_path, LOADERS[kind](), nothing).weights != undisturbed(kind).weights
