"""Changes to the base paths of a table: a new one, or another place for one that is there.

No operation of the format re-points a base path. It is recorded as a Restore of the newest version,
which says that rows, schema and indices are those of that version, and whose meeting with others is
the careful one: whoever was writing files meanwhile, we or pylance, must run again, so that none of
them ends where the base path no longer leads. It is never built on anything but the newest version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.location import (
    Base,
    NewBase,
    check_location,
    checked_bases,
    find_base_path,
    is_table_root,
    uri_of_base,
)
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.upkeep import PINS_CONFIG, read_record
from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lancewood.format.layout import DATA_DIR, check_file_name, key_in_base
from lancewood.jobs.job import Change, CommitOptions, LightJob
from lancewood.model.transaction import Restore, UpdateBases
from lancewood.proto import table_pb2
from lancewood.store.base import Store

MOST_CHECKED = 64
"""Number of data files that are looked for at the new place of a base path."""


@dataclass(frozen=True)
class AddBase(LightJob[None]):
    """A base path that is to be declared."""

    base: NewBase

    def prepare(self, snapshot: Snapshot) -> Change[None]:
        """Raises InvalidInputError for a base path that may not be."""
        snapshot.location.settle(snapshot.manifest)
        new = checked_bases(snapshot.location, snapshot.manifest.base_paths, [self.base])
        return Change(UpdateBases(new), None)


@dataclass(frozen=True)
class SetBase(LightJob[None]):
    """A base path that is to be at another place; ``check`` looks for some of its files there, by
    name and size."""

    base: Base
    path: str
    check: bool

    def run(self, snapshot: Snapshot, commit_options: CommitOptions) -> tuple[Snapshot, None]:
        return super().run(self._newest(snapshot, commit_options), commit_options)

    def dry_run(self, snapshot: Snapshot, commit_options: CommitOptions) -> None:
        super().dry_run(self._newest(snapshot, commit_options), commit_options)

    def prepare(self, snapshot: Snapshot) -> Change[None]:
        old = find_base_path(snapshot.location, snapshot.manifest, self.base)
        if old is None:
            raise InvalidInputError(
                f"{snapshot.location.uri} is the table's own root, which is where the table is; "
                "base paths alone can be set"
            )
        if old.path == self.path:
            return Change(None, None)
        moved = {each.id: self._moved(each) for each in _ids_of(snapshot, old)}
        new = moved[old.id]
        _check_goal(snapshot, new, moved)
        if self.check:
            for each in moved.values():
                _check_files(snapshot, each)
        bases = tuple(moved.get(each.id, each) for each in snapshot.manifest.base_paths)
        config = _with_moved_pins(snapshot, old, new)
        return Change(Restore(snapshot.manifest.version, bases, config), None)

    def _moved(self, base: table_pb2.BasePath) -> table_pb2.BasePath:
        new = table_pb2.BasePath()
        new.CopyFrom(base)
        new.path = self.path
        return new

    def _newest(self, snapshot: Snapshot, commit_options: CommitOptions) -> Snapshot:
        newest = snapshot.newest()
        read, last = snapshot.manifest.version, newest.manifest.version
        if commit_options.policy.serializable and read != last:
            raise RetryableConflictError(
                f"setting base path {self.base!r} is serializable and asked of version {read} of "
                f"{snapshot.location.uri}, but version {last} has landed; ask it of latest()",
                version=last,
            )
        return newest


def _with_moved_pins(
    snapshot: Snapshot, old: table_pb2.BasePath, new: table_pb2.BasePath
) -> dict[str, str] | None:
    """The configuration of a clone that finds its pins at the new place, too; None: as it is."""
    config, location = snapshot.manifest.config, snapshot.location
    record = read_record(config)
    if record is None:
        return None
    moved = record.with_moved(uri_of_base(location, old), uri_of_base(location, new))
    return None if moved == record else {**config, PINS_CONFIG: moved.encode()}


def _ids_of(snapshot: Snapshot, base: table_pb2.BasePath) -> Iterator[table_pb2.BasePath]:
    """The base path under all its ids: one that blobs of a merged branch name has that of the
    branch as well, and all of them mean one place."""
    location, uri = snapshot.location, uri_of_base(snapshot.location, base)
    for each in snapshot.manifest.base_paths:
        if each.is_dataset_root == base.is_dataset_root and uri_of_base(location, each) == uri:
            yield each


def _check_goal(snapshot: Snapshot, base: table_pb2.BasePath, moved: Collection[int]) -> None:
    location = snapshot.location
    others = {
        uri_of_base(location, each): f"base path {each.id}"
        for each in snapshot.manifest.base_paths
        if each.id not in moved
    }
    taken = {location.uri: "the table's own root", **others}.get(base.path)
    if taken is not None:
        raise InvalidInputError(
            f"base path {base.id} cannot be set to {base.path!r}: that is {taken}", path=base.path
        )
    if not (base.is_dataset_root and is_table_root(location.base_store(base))):
        check_location(location, base)


def _check_files(snapshot: Snapshot, base: table_pb2.BasePath) -> None:
    store = snapshot.location.base_store(base)
    checks = (partial(_problems, store, key, size) for key, size in _some_files(snapshot, base))
    for problem in in_order(checks, workers=WORKERS):
        raise InvalidInputError(
            f"base path {base.id} cannot be set to {base.path!r}: {problem}; bring its files "
            "there first, or say check=False",
            path=base.path,
        )


def _some_files(snapshot: Snapshot, base: table_pb2.BasePath) -> list[tuple[str, int | None]]:
    """Keys and sizes of data files below the base path, from the first to the last fragment."""
    found = [
        file
        for fragment in snapshot.manifest.fragments
        for file in fragment.message.files
        if file.HasField("base_id") and file.base_id == base.id
    ]
    step = max(1, len(found) / MOST_CHECKED)
    locations = sorted({int(at * step) for at in range(min(len(found), MOST_CHECKED))})
    some = [found[at] for at in locations]
    if found and locations[-1] != len(found) - 1:
        some[-1] = found[-1]
    return [
        (
            key_in_base(base, DATA_DIR, check_file_name(each.path, "a data file")),
            each.file_size_bytes or None,
        )
        for each in some
    ]


def _problems(store: Store, key: str, size: int | None) -> Iterator[str]:
    try:
        found = store.head(key).size
    except NotFoundError:
        yield f"{store.uri}/{key} is missing"
        return
    if size is not None and found != size:
        yield f"{store.uri}/{key} has {found} bytes, not {size}"
