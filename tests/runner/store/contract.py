"""What every store must do: one suite, run against each of them."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from config.clock import SystemClock
from runner.store import Missing, ObjectInfo, Store, StoreError

AWKWARD = ["a b", "é中", "x#1", "p%20q", "100%", "star*", "q?x", "back\\slash", "~", "[z]", ".hidden", "..b", "e.", "nl\nx", "t\tx", '"q"', "{b}", "x:y"]  # fmt: skip
REFUSED = ["", "/", "/abs", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "\udcff", "k" * 1025]
_BIG = 12_000_000  # more than obstore sends in one part


def keys(store: Store, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


class StoreContract:
    """Subclass it and give it a fixture `store`: an empty one for each test."""

    def test_what_is_put_is_got(self, store: Store) -> None:
        store.put("jobs/7/spec.json", b"{}")
        assert store.get("jobs/7/spec.json") == b"{}"

    def test_the_last_word_stands(self, store: Store) -> None:
        store.put("lease.json", b"a long first version")
        store.put("lease.json", b"short")
        assert store.get("lease.json") == b"short"

    def test_an_object_may_be_empty(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.get("empty") == b""
        assert store.get_range("empty", 0, 10) == b""

    @pytest.mark.parametrize("name", AWKWARD)
    def test_any_name_that_people_give_files_is_a_key(self, store: Store, name: str) -> None:
        store.put(f"out/{name}/file", b"1")
        store.put(f"out/{name}.{name}", b"2")
        assert store.get(f"out/{name}/file") == b"1"
        assert sorted(keys(store, f"out/{name}")) == sorted([f"out/{name}/file", f"out/{name}.{name}"])
        store.delete(f"out/{name}/file")
        assert keys(store) == [f"out/{name}.{name}"]

    @pytest.mark.parametrize("key", REFUSED)
    def test_what_names_no_object_is_refused_by_every_call(self, store: Store, key: str, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"x")
        for call in (
            lambda: store.put(key, b"x"),
            lambda: store.put_file(key, tmp_path / "source"),
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.get_file(key, tmp_path / "target"),
            lambda: store.head(key),
            lambda: store.delete(key),
        ):
            with pytest.raises(StoreError, match="is no key"):
                call()
        assert keys(store) == []
        assert not (tmp_path / "target").exists()

    def test_the_longest_key_is_taken(self, store: Store) -> None:
        key = "/".join(["k" * 127] * 8)
        store.put(key, b"x")
        assert keys(store) == [key]

    def test_what_is_not_there_is_missing(self, store: Store, tmp_path: Path) -> None:
        store.put("folder/file", b"x")
        for key in ("nothing", "folder", "folder/nothing"):
            with pytest.raises(Missing, match=key):
                store.get(key)
            with pytest.raises(Missing):
                store.get_range(key, 0, 1)
            with pytest.raises(Missing):
                store.get_file(key, tmp_path / "target")
            assert store.head(key) is None
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, 4, b"0123"),
            (4, 3, b"456"),
            (8, 100, b"89"),
            (10, 1, b""),
            (99, 1, b""),
            (3, 0, b""),
            (0, 10, b"0123456789"),
        ],
    )
    def test_a_range_is_cut_at_the_end(self, store: Store, start: int, length: int, expected: bytes) -> None:
        store.put("log", b"0123456789")
        assert store.get_range("log", start, length) == expected

    def test_a_listing_is_by_text_and_in_the_order_of_keys(self, store: Store) -> None:
        for key in ("b", "a/2", "a/10", "a-1", "a#", "a%", "a/1", "ab/c", "é"):
            store.put(key, b"x")
        assert keys(store) == sorted(["b", "a/2", "a/10", "a-1", "a#", "a%", "a/1", "ab/c", "é"])
        assert keys(store, "a/") == ["a/1", "a/10", "a/2"]
        assert keys(store, "a/1") == ["a/1", "a/10"]
        assert keys(store, "a") == sorted(["a#", "a%", "a-1", "a/1", "a/10", "a/2", "ab/c"])
        assert keys(store, "nothing/") == []

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//b"])
    def test_a_prefix_outside_the_store_is_refused(self, store: Store, prefix: str) -> None:
        with pytest.raises(StoreError):
            keys(store, prefix)

    def test_more_objects_than_one_page_are_listed(self, store: Store) -> None:
        for number in range(120):
            store.put(f"log/{number:06d}", b"x")
        assert keys(store, "log/") == [f"log/{number:06d}" for number in range(120)]

    def test_a_listing_and_a_head_agree(self, store: Store) -> None:
        store.put("a/b", b"12345")
        [listed] = store.list("a/")
        assert listed == store.head("a/b")
        assert (listed.key, listed.size) == ("a/b", 5)
        assert listed.changed_at.tzinfo is not None
        assert abs(listed.changed_at - SystemClock().now()) < timedelta(minutes=5)

    def test_deleting_removes_one_object_and_may_be_repeated(self, store: Store) -> None:
        store.put("a/b", b"x")
        store.put("a/c", b"y")
        store.delete("a/b")
        store.delete("a/b")
        store.delete("never/was")
        assert keys(store) == ["a/c"]

    @pytest.mark.parametrize("size", [0, 1, _BIG])
    def test_files_go_in_and_come_out(self, store: Store, tmp_path: Path, size: int) -> None:
        content = (b"0123456789abcde" * (size // 15 + 1))[:size]
        (tmp_path / "source").write_bytes(content)
        store.put_file("ckpt/model.pt", tmp_path / "source")
        store.get_file("ckpt/model.pt", tmp_path / "new" / "folder" / "target")
        assert (tmp_path / "new" / "folder" / "target").read_bytes() == content
        assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["target"]
        assert [(info.key, info.size) for info in store.list("")] == [("ckpt/model.pt", size)]

    def test_a_file_got_replaces_the_one_before_at_once(self, store: Store, tmp_path: Path) -> None:
        target = tmp_path / "target"
        target.write_bytes(b"old")
        store.put("key", b"new")
        with target.open("rb") as opened:
            store.get_file("key", target)
            assert opened.read() == b"old"
        assert target.read_bytes() == b"new"

    def test_a_file_that_cannot_be_read_or_written_is_a_store_error(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="nowhere"):
            store.put_file("key", tmp_path / "nowhere")
        assert keys(store) == []
        store.put("key", b"x")
        (tmp_path / "target").mkdir()
        for path in (tmp_path / "target", Path("/proc/nowhere/target")):
            with pytest.raises(StoreError, match=r"can't be written") as caught:
                store.get_file("key", path)
            assert not isinstance(caught.value, Missing)
        assert [path.name for path in tmp_path.iterdir()] == ["target"]

    def test_readers_see_a_whole_object_while_it_is_rewritten(self, store: Store) -> None:
        versions = [bytes([letter]) * (200_000 + letter) for letter in b"ABCD"]
        store.put("key", versions[0])
        done = threading.Event()

        def rewrite() -> None:
            for version in versions * 10:
                store.put("key", version)
            done.set()

        writer = threading.Thread(target=rewrite)
        writer.start()
        seen: list[bytes] = []
        listed: list[ObjectInfo] = []
        while not done.is_set():
            seen.append(store.get("key"))
            listed.extend(store.list(""))
        writer.join()
        assert set(seen) <= set(versions)
        assert {(info.key, info.size) for info in listed} <= {("key", len(version)) for version in versions}

    def test_two_writers_leave_one_of_their_objects(self, store: Store) -> None:
        versions = [bytes([letter]) * 300_000 for letter in b"ABCDEF"]
        writers = [threading.Thread(target=store.put, args=("key", version)) for version in versions]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert store.get("key") in versions
        assert keys(store) == ["key"]
