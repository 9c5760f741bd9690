"""Manifest names from scheme V1 to V2, for a table and the branches below it.

Names cannot be changed for all versions in one step, and no reader opens a directory with both
schemes. So each step leaves a state that running again completes, and in which a reader of one
scheme only still finds the newest version there:

1. every manifest is put under its V2 name as well, the newest first;
2. when all of them are there, the V1 names go, the newest last.

No name is ever overwritten, and none is removed before its bytes are durable under the other one.
Writers must pause meanwhile: one that began before and lands after leaves a V1 name behind, which
the next run migrates. Manifests are not opened; damaged ones are renamed as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.versions import branch_roots
from lancewood.errors import (
    IncompatibleConflictError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import (
    VERSIONS_DIR,
    NamingScheme,
    manifest_key,
    parse_manifest_name,
)
from lancewood.model.ids import Version
from lancewood.store.base import PutOutcome, Store
from lancewood.store.readback import put_new_settled

_ROUNDS = 5
_WORKERS = 8
_AT_ONCE = 1_000

Progress = Callable[[int], None]
"""Called with the number of manifests that were just renamed."""


@dataclass(frozen=True, slots=True)
class MigratedNames:
    """What was done: how many manifests were renamed, and in which roots."""

    renamed: int
    roots: tuple[str, ...]
    """The roots with renamed manifests: ``""`` is the table's own root, ``tree/exp`` a branch."""


def migrate_names(store: Store, on_progress: Progress | None = None) -> MigratedNames:
    """Give every manifest of the table and its branches its V2 name; finish what was begun.

    Raises NotFoundError where there is no table, IncompatibleConflictError if one version has two
    manifests that differ, RetryableConflictError if new V1 names keep appearing. Every error leaves
    all versions in place; run it again.
    """
    if not any(parse_manifest_name(name) for name in store.names(VERSIONS_DIR)):
        raise NotFoundError(
            f"no table at {store.uri}: it has no {VERSIONS_DIR} with a manifest", table=store.uri
        )
    PutIfAbsent().check_trust(store)
    report = on_progress or (lambda done: None)
    renamed = {
        root: _migrate_root(store.at(root) if root else store, report)
        for root in ("", *branch_roots(store))
    }
    return MigratedNames(
        sum(renamed.values()), tuple(root for root, count in renamed.items() if count)
    )


def _migrate_root(store: Store, report: Progress) -> int:
    """Rename all V1 names of one directory, and return how many there were."""
    done = 0
    with store.turn(VERSIONS_DIR):
        for _ in range(_ROUNDS):
            old = _old_names(store)
            if not old:
                return done
            _put_new_names(store, old, report)
            # Another writer may have committed meanwhile: its version is copied before any name is
            # removed.
            if _old_names(store) == old:
                _remove(store, [name for name, _ in old])
                done += len(old)
    raise RetryableConflictError(
        f"V1 manifest names keep appearing in {store.uri}/{VERSIONS_DIR}: somebody writes there; "
        "stop the writers and run it again",
        uri=store.uri,
    )


def _old_names(store: Store) -> list[tuple[str, Version]]:
    """The V1 names with their versions, newest first."""
    found = [
        (name, parsed.version)
        for name in store.names(VERSIONS_DIR)
        if (parsed := parse_manifest_name(name))
        and parsed.scheme is NamingScheme.V1
        and not parsed.detached
    ]
    return sorted(found, key=lambda each: (each[1], each[0]), reverse=True)


def _put_new_names(store: Store, old: Sequence[tuple[str, Version]], report: Progress) -> None:
    def put(each: tuple[str, Version]) -> None:
        _put_new_name(store, *each)

    put(old[0])
    report(1)
    with ThreadPoolExecutor(min(_WORKERS, len(old))) as pool:
        for start in range(1, len(old), _AT_ONCE):
            for _ in pool.map(put, old[start : start + _AT_ONCE]):
                report(1)


def _put_new_name(store: Store, name: str, version: Version) -> None:
    target = manifest_key(version, NamingScheme.V2)
    try:
        data = store.get(f"{VERSIONS_DIR}/{name}")
    except NotFoundError:
        return  # cleaned up since the listing
    if put_new_settled(store, target, data) is PutOutcome.CREATED:
        return
    if store.get(target) != data:
        raise IncompatibleConflictError(
            f"version {version} of {store.uri} has two manifests that differ, "
            f"{VERSIONS_DIR}/{name} and {target}: two writers used two schemes. Nothing was "
            "removed; look at both, move away the one that shall not count, and run it again",
            version=version,
        )
    # It exists from an earlier run, whose last sync may have failed.
    store.sync([target])


def _remove(store: Store, names: Sequence[str]) -> None:
    newest, *others = (f"{VERSIONS_DIR}/{name}" for name in names)
    for start in range(0, len(others), _AT_ONCE):
        store.delete(others[start : start + _AT_ONCE])
    store.delete([newest])
