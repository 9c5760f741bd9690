"""Whether a store honours the conditions of a put, probed before the first commit depends on them.

Some S3-compatible stores ignore the condition and report success; commits are then lost silently.
The answers are remembered until the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from lancewood.errors import CommitUnknownError, StorageError, UnsupportedError
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.readback import put_new_settled

_proven: set[str] = set()
_swaps_proven: set[str] = set()
_lock = threading.Lock()


def check_put_if_absent(store: Store, directory: str) -> None:
    """Raise UnsupportedError if the store ignores put-if-absent; probe it at most once a process.

    Stores that need no proof are not probed. The key that is tried lies in ``directory`` and is
    deleted again; nothing else is written.
    """
    _check_once(store, _proven, probe_put_if_absent, f"{directory}/probe-{uuid4()}.txn")


def probe_put_if_absent(store: Store, key: str) -> None:
    """Probe with one key, which must be new, whatever is already known of the store.

    Raises StorageError if the store does not answer clearly.
    """
    first, second = f"first {uuid4()}".encode(), f"second {uuid4()}".encode()

    def broken() -> str | None:
        if put_new_settled(store, key, first) is not PutOutcome.CREATED:
            return "a new key was reported to be taken"
        if put_new_settled(store, key, second) is not PutOutcome.EXISTS:
            return "the same key was created twice, the second time over the first"
        if store.get(key) != first:
            return "the second was refused, but the bytes of the first are gone"
        return None

    try:
        seen = _tried(store, key, broken)
    except CommitUnknownError as error:
        raise StorageError(
            f"cannot find out whether {store.uri} honours put-if-absent, and so whether it is safe "
            f"to commit there: {error}",
            uri=store.uri,
            landed=False,
        ) from error
    if seen is not None:
        raise UnsupportedError(
            f"{store.uri} does not honour put-if-absent: {seen}. Of two commits at the same time "
            "one would be lost without a word, so nothing was committed. Say "
            "access=Access(unsafe=True) if nobody else ever writes to this table, or keep its "
            "versions in an external manifest store: Access(manifest_store=…)",
            uri=store.uri,
        )


def check_compare_and_swap(store: Store, directory: str) -> None:
    """Raise UnsupportedError if the store ignores the condition of ``put_new`` or ``replace``;
    probe it at most once a process.

    As above; StorageError if the store does not answer clearly.
    """
    _check_once(store, _swaps_proven, probe_compare_and_swap, f"{directory}/probe-{uuid4()}")


def probe_compare_and_swap(store: Store, key: str) -> None:
    """Probe with one key, which must be new, whatever is already known of the store."""
    texts = [f"{number} {uuid4()}".encode() for number in range(4)]

    def broken() -> str | None:
        if store.put_new(key, texts[0]) is not PutOutcome.CREATED:
            return "a new key was reported to be taken"
        if store.put_new(key, texts[1]) is not PutOutcome.EXISTS or store.get(key) != texts[0]:
            return "the same key was created twice, the second time over the first"
        first = store.head(key).etag
        if store.replace(key, texts[2], first) is not ReplaceOutcome.REPLACED:
            return "an unchanged object was not replaced"
        if store.replace(key, texts[3], first) is not ReplaceOutcome.CHANGED:
            return "an object was replaced although it had changed"
        if store.get(key) != texts[2]:
            return "a replacement was refused, but the bytes before it are gone"
        return None

    seen = _tried(store, key, broken)
    if seen is not None:
        raise UnsupportedError(
            f"{store.uri} does not honour conditional puts: {seen}. Of two writers that move a "
            "branch at the same time one would be lost silently, so nothing was written; keep the "
            "repository on a disk, or in a store that does",
            uri=store.uri,
        )


def _check_once(
    store: Store, proven: set[str], probe: Callable[[Store, str], None], key: str
) -> None:
    """Probe a store, unless it needs no proof or has given it."""
    place = store.probed_as
    if place is None or place in proven:
        return
    with _lock:
        if place not in proven:
            probe(store, key)
            proven.add(place)


def _tried(store: Store, key: str, broken: Callable[[], str | None]) -> str | None:
    """What a trial with a key has shown to be broken, if anything; the key is deleted again."""
    try:
        return broken()
    except UnsupportedError as error:
        if error.facts.get("key") != key:
            raise
        return f"it has no such request ({error})"
    finally:
        with suppress(StorageError, UnsupportedError):
            store.delete([key])
