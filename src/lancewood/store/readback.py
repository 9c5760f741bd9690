"""Whether an unanswered put landed, settled by reading it back.

Bytes that carry their writer's identity are their own proof. Nothing is ever deleted.
"""

from __future__ import annotations

from lancewood.errors import CommitUnknownError, NotFoundError, StorageError
from lancewood.store.base import PutOutcome, Store
from lancewood.store.retry import UNCLEAR_PUTS, Retry


def put_new_settled(
    store: Store,
    key: str,
    data: bytes,
    retry: Retry = UNCLEAR_PUTS,
) -> PutOutcome:
    """``store.put_new``, with every unclear answer settled: CREATED means that *these* bytes are
    there. ``data`` must be unlike anyone else's, or another's put is mistaken for ours.

    After a ``StorageError`` the key is read back: our bytes have landed, others have won, nothing
    means another attempt. A clear first answer costs no read. Raises ``CommitUnknownError`` if it
    stays unclear, and the ``StorageError`` if the store guaranteed each time that nothing landed,
    at once if it also said that another attempt is useless (``final`` among the facts).
    """
    unclear = False
    failure: StorageError | None = None
    for _ in retry:
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
        found = _read_back(store, key, retry)
        if found is not None:
            return _settled(store, key) if found == data else PutOutcome.EXISTS
    if failure is not None and not unclear:
        raise failure
    raise _unknown(store, key, f"{retry.attempts} attempts got no clear answer") from failure


def _settled(store: Store, key: str) -> PutOutcome:
    """Our bytes are there; sync them, since the lost answer may have been about durability."""
    try:
        store.sync([key])
    except StorageError as error:
        raise _unknown(store, key, "it is there, but may not outlast a power cut") from error
    return PutOutcome.CREATED


def _read_back(store: Store, key: str, retry: Retry) -> bytes | None:
    for _ in retry:
        try:
            return store.get(key)
        except NotFoundError:
            return None
        except StorageError as error:
            failure = error
    raise _unknown(store, key, "it cannot be read back") from failure


def _unknown(store: Store, key: str, found: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether {key!r} was created in {store.uri} is unknown: {found}; nothing was deleted, "
        "look whether it is there before trying again",
        key=key,
        uri=store.uri,
    )
