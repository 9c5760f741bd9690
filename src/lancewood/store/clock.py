"""The time by the clock of a store, which also dates its objects.

The clock of the calling machine may be days ahead, and a cleanup by age would then remove what is
being written.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from lancewood.errors import StorageError
from lancewood.store.base import Store


def time_by(store: Store, directory: str) -> datetime:
    """The time of an object that is written to the directory for this purpose, and removed
    again."""
    key = f"{directory}/clock-{uuid4()}.txn"
    store.put(key, b"")
    try:
        return store.head(key).modified
    finally:
        with suppress(StorageError):
            store.delete([key])
            store.prune(directory)


def is_older(store: Store, modified: datetime, age: timedelta, directory: str) -> bool:
    """Whether an object of that time is as old as that, by our clock and by the store's.

    The store is asked only if our clock says so: taking over from a process that is still at work
    does harm, waiting a while longer does not.
    """
    if datetime.now(UTC) - modified < age:
        return False
    return time_by(store, directory) - modified >= age
