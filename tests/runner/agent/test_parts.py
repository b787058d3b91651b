"""The agent's small parts, in virtual time and without processes: the lease, orders, the log, patience, wholeness."""

import pickle
import threading
import zipfile
from collections.abc import Callable
from io import BytesIO
from math import inf, nan
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runner.agent.horizon import Horizon
from runner.agent.lease import Term, write_guard
from runner.agent.logs import CHUNK, TAIL, WAITING, Log
from runner.agent.notices import Metadata
from runner.agent.orders import Orders, Stop
from runner.agent.patience import Patience
from runner.agent.report import Report
from runner.agent.whole import reads_whole
from runner.providers.rack.metadata import MetadataServer
from runner.store import MemoryStore, Missing, StoreError
from runner.store.records import Command, Lease, Phase
from tests.fakes.clock import FakeClock

# ---------------------------------------------------------------------------------------------------- leases


def term() -> Term:
    found = Term("m-1", guard_s=100, booted_at=1000)
    found.wrote(1, 1010)
    found.wrote(2, 1020)
    return found


def test_a_lease_counts_from_when_its_beat_was_written() -> None:
    found = term()
    assert found.ends_at == 1100
    assert found.take(Lease("m-1", 1, beat_seq=2, length_s=200))
    assert found.ends_at == 1220


@pytest.mark.parametrize(
    "lease",
    [
        Lease("m-1", 1, beat_seq=3, length_s=500),  # a beat that was never written
        Lease("m-2", 1, beat_seq=1, length_s=500),
        Lease("m-1", 0, beat_seq=1, length_s=500),
        Lease("m-1", 1, beat_seq=1, length_s=nan),
        Lease("m-1", 1, beat_seq=1, length_s=inf),
        Lease("m-1", 1, beat_seq=1, length_s=-1),
        Lease("m-1", 1, beat_seq=1, length_s="500"),  # type: ignore[arg-type]
    ],
)
def test_a_lease_that_is_not_for_us_changes_nothing(lease: Lease) -> None:
    found = term()
    assert not found.take(lease)
    assert found.ends_at == 1100


def test_only_a_final_lease_shortens() -> None:
    found = term()
    assert found.take(Lease("m-1", 1, beat_seq=1, length_s=10))
    assert found.ends_at == 1100
    assert found.take(Lease("m-1", 2, beat_seq=1, length_s=10, final=True))
    assert found.ends_at == 1020


def test_the_save_starts_early_enough_but_not_before_half_of_the_lease() -> None:
    found = term()
    assert found.save_at(tail_s=10, upload_s=5) == 1085
    assert found.save_at(tail_s=10, upload_s=500) == 1050
    found.take(Lease("m-1", 1, beat_seq=1, length_s=190, final=True))
    assert found.save_at(tail_s=10, upload_s=5) == 1200 - 30


leases = st.builds(
    Lease,
    st.just("m-1"),
    st.integers(0, 20),
    st.integers(0, 8),
    st.floats(0, 1000),
    st.sampled_from([False, False, True]),
)


@given(st.lists(leases))
def test_a_machine_never_ends_later_than_the_daemon_has_set_money_aside_for(given_leases: list[Lease]) -> None:
    found = Term("m-1", 50, 0)
    read_at = {beat: beat * 10 + 3 for beat in range(1, 8)}  # the daemon reads each beat a little after it was written
    for beat in read_at:
        found.wrote(beat, beat * 10)
    latest = max(
        [50.0, *(read_at[lease.beat_seq] + lease.length_s for lease in given_leases if lease.beat_seq in read_at)]
    )
    for lease in given_leases:
        before, final = found.ends_at, lease.final
        found.take(lease)
        assert found.ends_at <= latest
        assert final or found.ends_at >= before


def test_the_guard_file_appears_whole(tmp_path: Path) -> None:
    write_guard(tmp_path / "guard", 12.5)
    first = (tmp_path / "guard").stat().st_ino
    write_guard(tmp_path / "guard", -3)
    assert (tmp_path / "guard").read_text() == "0.000\n"
    assert (tmp_path / "guard").stat().st_ino != first  # the host sees a change even when the time stays the same
    assert [path.name for path in tmp_path.iterdir()] == ["guard"]


def test_the_nearest_end_counts() -> None:
    clock = FakeClock()
    horizon = Horizon(Term("m-1", 100, 0), clock)
    assert (horizon.ends_at(), horizon.notice_in_s) == (100, None)
    horizon.notice(30)
    clock.advance(5)
    horizon.notice(60)
    assert (horizon.ends_at(), horizon.notice_in_s) == (30, 25)
    horizon.shutdown(4)
    assert horizon.left_s() == 4


# ---------------------------------------------------------------------------------------------------- orders


def test_the_newest_word_stands() -> None:
    orders = Orders()
    orders.take(Command(2, "start", restore="x"))
    orders.take(Command(1, "stop"))
    assert orders.start is not None
    assert orders.stop is None
    orders.take(Command(3, "stop"))
    assert orders.stop == Stop("command")
    orders.end(Stop("notice"))
    assert orders.stop == Stop("command")
    orders.take(Command(4, "cancel"))
    assert orders.stop == Stop("command", save=False)


# ------------------------------------------------------------------------------------------------------- log


class FlakyStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.lost_answers = 0

    def put(self, key: str, data: bytes) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("no answer")
        super().put(key, data)
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreError("the answer was lost")


class Told:
    def __init__(self, total: int = 1 << 40) -> None:
        self.store = FlakyStore()
        self.told = (0, 0)
        self.log = Log(self.store, lambda name: name, self._tell, total=total)

    def _tell(self, size: int, chunks: int) -> None:
        self.told = (size, chunks)

    def text(self) -> bytes:
        return b"".join(self.store.get(info.key) for info in self.store.list("log/"))


def test_chunks_are_whole_lines_and_make_up_the_log() -> None:
    told = Told()
    told.log.write(b"one\ntwo\nthr")
    told.log.ship()
    assert told.text() == b"one\ntwo\nthr"[: told.told[0]]
    assert told.store.get("log/000000") == b"one\ntwo\n"
    told.log.write("ee é\n".encode())
    told.log.say("a line of ours")
    told.log.ship(last=True)
    assert told.text() == "one\ntwo\nthree é\n[frugald] a line of ours\n".encode()
    assert told.told == (len(told.text()), len(list(told.store.list("log/"))))


def test_our_line_never_continues_theirs() -> None:
    told = Told()
    told.log.write(b"50 %")
    told.log.say("ours")
    told.log.ship(last=True)
    assert told.text() == b"50 %\n[frugald] ours\n"


def test_a_chunk_whose_answer_was_lost_is_the_same_when_sent_again() -> None:
    told = Told()
    told.store.lost_answers = 1
    told.log.write(b"one\n")
    with pytest.raises(StoreError):
        told.log.ship()
    told.log.write(b"two\n")
    told.log.ship()
    assert [told.store.get(info.key) for info in told.store.list("log/")] == [b"one\n", b"two\n"]


def test_a_flood_is_cut_into_chunks_of_a_bounded_size() -> None:
    told = Told()
    line = b"x" * 99 + b"\n"
    told.log.write(line * 50_000)
    told.log.ship(last=True)
    sizes = [info.size for info in told.store.list("log/")]
    assert max(sizes) <= CHUNK
    assert sum(sizes) == 5_000_000


def test_memory_stays_bounded_while_the_store_is_away() -> None:
    told = Told()
    for number in range(300):
        told.log.write(b"%05d" % number + b"x" * 99_994 + b"\n")
    told.log.ship(last=True)
    text = told.text()
    assert len(text) <= WAITING + 200
    assert b"bytes of output are left out here\n" in text
    assert text.endswith(b"\n")
    assert b"\n00299" in text  # the end is there, and begins with a whole line
    assert "x" in told.log.tail
    assert len(told.log.tail) <= TAIL


def test_past_the_total_only_the_end_is_kept() -> None:
    told = Told(total=1000)
    told.log.write(b"first\n" * 200)
    told.log.ship()
    assert told.log.full
    for number in range(20_000):
        told.log.write(b"line %d\n" % number)
        told.log.ship()
    told.log.ship(last=True)
    assert told.text().startswith(b"first\n")
    assert told.text().endswith(b"line 19999\n")
    assert len(told.text()) < 1200 + TAIL + 100


@given(st.lists(st.one_of(st.binary(max_size=50), st.none()), max_size=30))
def test_nothing_is_lost_or_doubled_whatever_comes_when(parts: list[bytes | None]) -> None:
    told = Told()
    for part in parts:
        if part is None:
            told.log.ship()
        else:
            told.log.write(part)
    told.log.ship(last=True)
    assert told.text() == b"".join(part for part in parts if part)


# -------------------------------------------------------------------------------------------------- patience


def failing(times: int, error: StoreError) -> Callable[[], str]:
    left = [error] * times

    def work() -> str:
        if left:
            raise left.pop()
        return "done"

    return work


def test_a_store_that_comes_back_is_waited_for() -> None:
    said: list[str] = []
    clock = FakeClock()
    patience = Patience(clock, 0.5, said.append)
    assert patience.call(failing(3, StoreError("no")), lambda: inf) == "done"
    assert clock.monotonic() == 0.5 + 1 + 2
    assert said == ["waiting for the store: no"]


def test_patience_ends_when_the_time_is_over_or_is_cut_short() -> None:
    clock = FakeClock()
    patience = Patience(clock, 0.5, lambda _: None)
    with pytest.raises(StoreError):
        patience.call(failing(1000, StoreError("no")), lambda: 100.0)
    assert clock.monotonic() <= 100
    with pytest.raises(StoreError):
        patience.call(failing(1000, StoreError("no")), lambda: 0.0)


def test_what_may_be_missing_is_not_waited_for() -> None:
    clock = FakeClock()
    with pytest.raises(Missing):
        Patience(clock, 0.5, lambda _: None).call(failing(1, Missing("no")), lambda: inf, may_miss=True)
    assert clock.monotonic() == 0


# ---------------------------------------------------------------------------------------------------- report


def test_lost_time_counts_from_the_newest_checkpoint() -> None:
    clock = FakeClock()
    report = Report("j-1", 0, clock)
    assert report.status().lost_s == 0
    report.started()
    clock.advance(100)
    assert (report.status().running_s, report.status().lost_s) == (100, 100)
    report.checkpoint("p/", 5, made_at=90, write_s=10)
    clock.advance(5)
    assert (report.status().lost_s, report.status().checkpoint_age_s) == (15, 15)
    report.ended()
    clock.advance(50)
    assert (report.status().running_s, report.status().lost_s) == (105, 15)
    report.change(phase=Phase.SAVED)
    assert report.status().lost_s == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"step": "x"}', '{"step": 1e999}', '{"step": 3, "metrics": [1]}', '{"step": null}', "\xff"]
)
def test_progress_that_makes_no_sense_changes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress").write_text(text, encoding="latin-1")
    report = Report("j-1", 0, FakeClock())
    report.read_progress(tmp_path / "progress")
    report.read_progress(tmp_path / "nowhere")
    assert report.status().step == -1


def test_progress_keeps_numbers_that_json_can_hold(tmp_path: Path) -> None:
    (tmp_path / "progress").write_text('{"step": 3, "total_steps": null, "metrics": {"loss": NaN, "accuracy": 1}}')
    report = Report("j-1", 0, FakeClock())
    report.read_progress(tmp_path / "progress")
    status = report.status()
    assert (status.step, status.total_steps, status.metrics) == (3, -1, {"accuracy": 1.0})


def test_a_warning_is_told_once() -> None:
    report = Report("j-1", 0, FakeClock())
    assert report.warn("agent.log_full", size_bytes=5)
    assert not report.warn("agent.log_full", size_bytes=9)
    assert report.status().warnings == [["agent.log_full", {"size_bytes": 5}]]


# ------------------------------------------------------------------------------------------------- wholeness


def save_zip(path: Path) -> None:
    torch.save({"weights": torch.arange(3000.0), "step": 4}, path)


def save_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"weights": list(range(3000))}))


def save_safetensors(path: Path) -> None:
    header = b'{"__metadata__":{},"w":{"dtype":"U8","shape":[3000],"data_offsets":[0,3000]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(3000))


def save_npz(path: Path) -> None:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("w.npy", bytes(3000))
    path.write_bytes(file.getvalue())


@pytest.mark.parametrize(
    ("name", "save"),
    [("a.pth", save_zip), ("a.pkl", save_pickle), ("a.safetensors", save_safetensors), ("a.npz", save_npz)],
)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.9999])
def test_only_a_whole_file_reads_whole(tmp_path: Path, name: str, save: Callable[[Path], None], share: float) -> None:
    path = tmp_path / name
    save(path)
    assert reads_whole(path) is True
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert reads_whole(path) is False


def test_a_changed_byte_shows(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    save_zip(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert reads_whole(path) is False


def test_forms_that_do_not_tell_are_left_to_the_quiet_time(tmp_path: Path) -> None:
    old = tmp_path / "old.pth"
    torch.save({"w": torch.arange(9.0)}, old, _use_new_zipfile_serialization=False)
    assert reads_whole(old) is None
    (tmp_path / "a.h5").write_bytes(b"\x89HDF")
    assert reads_whole(tmp_path / "a.h5") is None
    (tmp_path / "DONE").write_bytes(b"")
    assert reads_whole(tmp_path / "DONE") is None


@given(st.binary(max_size=300), st.sampled_from([".pt", ".safetensors", ".pkl", ".npz", ".json"]))
def test_any_bytes_are_judged(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(data)
    assert reads_whole(path) in {True, False, None}


# ------------------------------------------------------------------------------------------------- metadata


def test_a_notice_is_read_with_a_token_that_is_renewed() -> None:
    clock = FakeClock()
    answers: dict[str, str] = {}
    server = MetadataServer(clock, answers.get)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        metadata = Metadata(f"http://127.0.0.1:{server.server_address[1]}/", clock)
        assert metadata.notice_in_s() is None
        at = "2026-03-02T09:02:00Z"
        answers["/latest/meta-data/spot/instance-action"] = f'{{"action": "terminate", "time": "{at}"}}'
        assert metadata.notice_in_s() == 120
        server.tokens.clear()
        clock.advance(30)
        assert metadata.notice_in_s() == 90
        answers["/latest/meta-data/spot/instance-action"] = "soon"
        with pytest.raises(ValueError, match="Expecting value"):
            metadata.notice_in_s()
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(OSError, match="refused"):
        metadata.notice_in_s()
