"""Which fragments are old: told from versions and what they wrote, without opening a data file.

A version is as old as its manifest says, and versions are taken to follow each other in time. One
that was cleaned up is at least as old as the oldest that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from lancewood.data.wanted import WantedColumns
from lancewood.engine.projection import row_schema
from lancewood.engine.prune import Pruner
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import list_versions, load_manifest
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.expr import parse_predicate
from lancewood.model.fragment import Fragment
from lancewood.model.manifest import Manifest
from lancewood.model.schema import LAST_UPDATED_AT, Schema


def check_age(older_than: object) -> None:
    """Raises InvalidInputError for what is no span of time."""
    if older_than is not None and (
        not isinstance(older_than, timedelta) or older_than < timedelta(0)
    ):
        raise InvalidInputError(
            f"older_than takes a span of time such as timedelta(days=30), got {older_than!r}"
        )


def old_fragments(
    snapshot: Snapshot, fragments: Sequence[Fragment], older_than: timedelta
) -> list[Fragment]:
    """Those of the fragments of which no row was written or changed so lately.

    With stable row ids every row tells which version last changed it. Without them a fragment is
    as old as the newest of its data files.
    """
    old = _old_version(snapshot, now(), older_than)
    if old is None:
        return []
    is_old = _by_rows(snapshot, old) if snapshot.manifest.has_stable_row_ids else _by_files(old)
    return [each for each in fragments if is_old(each)]


def now() -> datetime:
    """By the clock of this machine, as the times in manifests are by those of their writers."""
    return datetime.now(UTC)


def _old_version(snapshot: Snapshot, today: datetime, older_than: timedelta) -> Manifest | None:
    """The newest version that is old, up to the snapshot's; None if none is."""
    try:
        moment = today - older_than
    except OverflowError:
        return None
    store, newest = snapshot.place.store, snapshot.manifest
    if newest.timestamp <= moment:
        return newest
    found = list_versions(store)
    versions = [each for each in reversed(found.versions) if each < newest.version]
    old: Manifest | None = None
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        try:
            manifest = load_manifest(store, versions[middle], found.scheme)
        except NotFoundError:  # cleaned up since the listing, with all before it
            low = middle + 1
            continue
        if manifest.timestamp <= moment:
            low, old = middle + 1, manifest
        else:
            high = middle
    return old


def _by_rows(snapshot: Snapshot, old: Manifest) -> Callable[[Fragment], bool]:
    younger = parse_predicate(
        f"{LAST_UPDATED_AT} > {old.version}", row_schema(snapshot.schema), None
    )
    pruner = Pruner(snapshot, younger, WantedColumns(Schema(())))
    return lambda fragment: not pruner.can_match(fragment)


def _by_files(old: Manifest) -> Callable[[Fragment], bool]:
    names = {file.path for each in old.fragments for file in each.message.files}
    return lambda fragment: all(file.path in names for file in fragment.message.files)
