"""Versions that a cleanup is about to remove, announced beside the refs.

A cleanup keeps a version that has a ref. Whoever makes a ref while it is at work may come too late,
and a clone elsewhere would lose its files. So the cleanup announces what it removes before it looks
at the refs for the last time, and who has made a ref looks for announcements: one of the two sees
the other. What a cleanup announced that died or failed counts for an hour, no longer.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import uuid4

from lancewood.errors import FormatError, NotFoundError, RetryableConflictError, StorageError
from lancewood.format.json_object import decode_object
from lancewood.format.layout import REFS_DIR, TRANSACTIONS_DIR
from lancewood.model.ids import Version
from lancewood.store.base import Store
from lancewood.store.clock import is_older

CLEANUPS_DIR = f"{REFS_DIR}/cleanups"
_HOLDS = timedelta(hours=1)
_MOST_BYTES = 64 << 20


@contextmanager
def announced(main: Store, branch: str | None, versions: Iterable[Version]) -> Iterator[None]:
    """While these versions of a branch (None: of main) are removed, everybody can know it."""
    doomed = sorted(versions)
    if not doomed:
        yield
        return
    key = f"{CLEANUPS_DIR}/{uuid4().hex}.json"
    main.put(key, json.dumps({"branch": branch, "versions": doomed}).encode())
    _forget_the_dead(main, main.head(key).modified)
    yield
    with contextlib.suppress(StorageError):
        main.delete([key])
        main.prune(CLEANUPS_DIR)


def check_not_doomed(main: Store, branch: str | None, version: Version) -> None:
    """Raise RetryableConflictError if a cleanup is removing the version right now.

    To be asked after a ref was made, and before the version is looked at for the last time: a
    cleanup that begins later sees the ref, and one that is done has removed the version. Raises
    FormatError for an announcement that is damaged.
    """
    for name in main.names(CLEANUPS_DIR):
        key = f"{CLEANUPS_DIR}/{name}"
        try:
            if is_older(main, main.head(key).modified, _HOLDS, TRANSACTIONS_DIR):
                continue
            said, doomed = _decode(main.get(key), f"{main.uri}/{key}")
        except NotFoundError:
            continue
        if said == branch and version in doomed:
            raise RetryableConflictError(
                f"version {version} of {branch or 'main'} of {main.uri} is being removed by a "
                "cleanup; take a newer one, or try again when the cleanup is done",
                version=version,
            )


def _decode(data: bytes, name: str) -> tuple[object, list[object]]:
    """The branch of an announcement, and its versions."""
    found = decode_object(data, name=name, most=_MOST_BYTES)
    versions = found.get("versions")
    if "branch" not in found or not isinstance(versions, list):
        raise FormatError(
            f"{name}: does not say which versions a cleanup removes; remove the file if no cleanup "
            "is at work",
            file=name,
        )
    return found["branch"], versions


def _forget_the_dead(main: Store, now: datetime) -> None:
    """Remove old announcements; how old is told by the store's own clock."""
    old = []
    for name in main.names(CLEANUPS_DIR):
        key = f"{CLEANUPS_DIR}/{name}"
        with contextlib.suppress(NotFoundError):
            if now - main.head(key).modified > _HOLDS:
                old.append(key)
    if old:
        main.delete(old)
