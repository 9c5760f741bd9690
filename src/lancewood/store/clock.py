"""What time it is by the clock of a store: that by which it says how old its objects are.

The clock of the machine that asks may be days ahead, and whoever removes what is old would take
what is being written.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from lancewood.errors import StorageError
from lancewood.store.base import Store


def time_by(store: Store, directory: str) -> datetime:
    """The time of an object that is written to the directory for it, and removed again."""
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

    The store's is asked only where ours says so: to take over from somebody who is still at work
    does harm, to wait a while longer does not.
    """
    if datetime.now(UTC) - modified < age:
        return False
    return time_by(store, directory) - modified >= age
