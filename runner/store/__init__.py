"""The object store: the one thing that the daemon and every machine must both reach."""

from runner.store.base import Missing, ObjectInfo, Store, StoreError

__all__ = ["Missing", "ObjectInfo", "Store", "StoreError"]
