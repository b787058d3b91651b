import pytest

from runner.store import MemoryStore, Store, open_store
from tests.runner.store.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_store("memory://")


def test_each_memory_store_is_its_own() -> None:
    one, two = open_store("memory://"), MemoryStore()
    one.put("a", b"x")
    assert list(two.list("")) == []


def test_what_was_put_does_not_change_with_the_callers_buffer() -> None:
    store, buffer = MemoryStore(), bytearray(b"old")
    store.put("a", buffer)  # type: ignore[arg-type]
    buffer[:] = b"new"
    assert store.get("a") == b"old"
