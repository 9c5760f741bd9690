"""Does a store hold to the conditions of a put? Asked before the first commit rests on them.

Some stores that speak S3 ignore the condition and say that all went well; commits are then lost
without a word. Knows keys and bytes only, and forgets its answers when the process ends.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from uuid import uuid4

from lancewood.errors import CommitUnknownError, StorageError, UnsupportedError
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.readback import put_new_settled

_proven: set[str] = set()
_swaps_proven: set[str] = set()
_lock = threading.Lock()


def check_put_if_absent(store: Store, directory: str) -> None:
    """Raise UnsupportedError if the store ignores put-if-absent; ask it at most once a process.

    Stores that need no proof are not asked. The key that is tried lies in ``directory`` and is
    deleted again; nothing else is written.
    """
    place = store.probed_as
    if place is None or place in _proven:
        return
    with _lock:
        if place not in _proven:
            probe_put_if_absent(store, f"{directory}/probe-{uuid4()}.txn")
            _proven.add(place)


def probe_put_if_absent(store: Store, key: str) -> None:
    """The same for one key, which must be new, and whatever is known of the store by now.

    Raises StorageError if the store does not answer clearly.
    """
    first, second = f"first {uuid4()}".encode(), f"second {uuid4()}".encode()
    seen = None
    try:
        if put_new_settled(store, key, first) is not PutOutcome.CREATED:
            seen = "a key that nobody had was said to be taken"
        elif put_new_settled(store, key, second) is not PutOutcome.EXISTS:
            seen = "the same key was created twice, the second time over the first"
        elif store.get(key) != first:
            seen = "the second was refused, but the bytes of the first are gone"
    except CommitUnknownError as error:
        raise StorageError(
            f"cannot find out whether {store.uri} honours put-if-absent, and so whether it is safe "
            f"to commit there: {error}",
            uri=store.uri,
            landed=False,
        ) from error
    except UnsupportedError as error:
        if error.facts.get("key") != key:
            raise
        seen = f"it has no such request ({error})"
    finally:
        with suppress(StorageError, UnsupportedError):
            store.delete([key])
    if seen:
        raise _refused(store, seen)


def check_compare_and_swap(store: Store, directory: str) -> None:
    """Raise UnsupportedError if the store ignores the condition of ``put_new`` or ``replace``; ask
    it at most once a process.

    As above; StorageError if the store does not answer clearly.
    """
    place = store.probed_as
    if place is None or place in _swaps_proven:
        return
    with _lock:
        if place not in _swaps_proven:
            probe_compare_and_swap(store, f"{directory}/probe-{uuid4()}")
            _swaps_proven.add(place)


def probe_compare_and_swap(store: Store, key: str) -> None:
    """The same for one key, which must be new, and whatever is known of the store by now."""
    texts = [f"{number} {uuid4()}".encode() for number in range(4)]
    seen = None
    try:
        if store.put_new(key, texts[0]) is not PutOutcome.CREATED:
            seen = "a key that nobody had was said to be taken"
        elif store.put_new(key, texts[1]) is not PutOutcome.EXISTS or store.get(key) != texts[0]:
            seen = "the same key was created twice, the second time over the first"
        else:
            first = store.head(key).etag
            if store.replace(key, texts[2], first) is not ReplaceOutcome.REPLACED:
                seen = "what nobody had changed was not replaced"
            elif store.replace(key, texts[3], first) is not ReplaceOutcome.CHANGED:
                seen = "what had changed since was replaced all the same"
            elif store.get(key) != texts[2]:
                seen = "a replacement was refused, but the bytes before it are gone"
    except UnsupportedError as error:
        if error.facts.get("key") != key:
            raise
        seen = f"it has no such request ({error})"
    finally:
        with suppress(StorageError, UnsupportedError):
            store.delete([key])
    if seen:
        raise UnsupportedError(
            f"{store.uri} does not honour conditional puts: {seen}. Of two who move a branch at "
            "the same time one would be lost without a word, so nothing was written; keep the "
            "repository on a disk, or in a store that does",
            uri=store.uri,
        )


def _refused(store: Store, seen: str) -> UnsupportedError:
    return UnsupportedError(
        f"{store.uri} does not honour put-if-absent: {seen}. Of two commits at the same time one "
        "would be lost without a word, so nothing was committed. Pass unsafe=True to create or "
        "open if nobody else ever writes to this table, or keep its versions in an external "
        "manifest store: manifest_store=",
        uri=store.uri,
    )
