"""Whether an unanswered put landed, settled by reading it back.

Bytes that carry their writer's identity are their own proof. Nothing is ever deleted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from lancewood.errors import CommitUnknownError, NotFoundError, StorageError
from lancewood.store.base import PutOutcome, Store
from lancewood.store.retry import pause_before

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0


def put_new_settled(
    store: Store,
    key: str,
    data: bytes,
    attempts: int = 6,
    *,
    sleep: Callable[[float], None] | None = None,
    jitter: Callable[[], float] = random.random,
) -> PutOutcome:
    """``store.put_new``, with every unclear answer settled: CREATED means that *these* bytes are
    there. ``data`` must be unlike anyone else's, or another's put is mistaken for ours.

    After a ``StorageError`` the key is read back: our bytes have landed, others have won, nothing
    means another attempt. A clear first answer costs no read. Raises ``CommitUnknownError`` if it
    stays unclear, and the ``StorageError`` if the store guaranteed each time that nothing landed,
    at once if it also said that another attempt is useless (``final`` among the facts).
    """
    sleep = sleep or time.sleep
    unclear = False
    failure: StorageError | None = None
    for attempt in range(attempts):
        if attempt:
            sleep(pause_before(attempt, _FIRST_PAUSE, _LONGEST_PAUSE, jitter))
        try:
            outcome = store.put_new(key, data)
        except StorageError as error:
            failure = error
            unclear = unclear or error.facts.get("landed") is not False
            if error.facts.get("final") and not unclear:
                raise
        else:
            if outcome is PutOutcome.CREATED or not unclear:
                return outcome
        found = _read_back(store, key, attempts, sleep, jitter)
        if found is not None:
            return _settled(store, key) if found == data else PutOutcome.EXISTS
    if failure is not None and not unclear:
        raise failure
    raise _unknown(store, key, f"{attempts} attempts got no clear answer") from failure


def _settled(store: Store, key: str) -> PutOutcome:
    """Our bytes are there; sync them, since the lost answer may have been about durability."""
    try:
        store.sync([key])
    except StorageError as error:
        raise _unknown(store, key, "it is there, but may not outlast a power cut") from error
    return PutOutcome.CREATED


def _read_back(
    store: Store,
    key: str,
    attempts: int,
    sleep: Callable[[float], None],
    jitter: Callable[[], float],
) -> bytes | None:
    for attempt in range(1, attempts + 1):
        try:
            return store.get(key)
        except NotFoundError:
            return None
        except StorageError as error:
            if attempt == attempts:
                raise _unknown(store, key, "it cannot be read back") from error
        sleep(pause_before(attempt, _FIRST_PAUSE, _LONGEST_PAUSE, jitter))
    raise _unknown(store, key, "it was not read back")


def _unknown(store: Store, key: str, found: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether {key!r} was created in {store.uri} is unknown: {found}; nothing was deleted, "
        "look whether it is there before trying again",
        key=key,
        uri=store.uri,
    )
