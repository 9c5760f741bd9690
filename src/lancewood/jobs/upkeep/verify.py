"""Whether a version is whole, and whether the table around it is.

Reads manifests, refs and listings; in tasks the footers of data files, deletion files and lineage;
with ``deep`` every page of every column as well. Without it no page of a data file is decoded, and
the codec is not used (except for lineage that was spilled into columns), so that damaged files do
no harm. Changes nothing. Whatever is wrong with content comes back as a ``Problem``; only a store
that fails raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from pyroaring import BitMap

from lancewood.data.codec import file_facts
from lancewood.data.open_files import Container, read_container
from lancewood.data.wanted import WantedColumns, layout_of
from lancewood.engine.location import load_deletions
from lancewood.engine.rows import load_row_ids, load_row_versions
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.layout import DATA_DIR, data_key
from lancewood.jobs.job import TASKS_PER_SLOT, pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.deep_check import PageChecker
from lancewood.jobs.upkeep.problems import (
    Problem,
    ProblemKind,
    check_history,
    check_index,
    check_manifest,
    check_refs,
    kind_of,
)
from lancewood.model.fragment import DataFile, Fragment, Lineage, version_name
from lancewood.model.manifest import FLAG_MIXED_FILE_VERSIONS
from lancewood.model.rowids import FIRST_VERSION, IdRanges, RowVersions, union
from lancewood.store.base import Store

_BAD_CONTENT = (FormatError, UnsupportedError, NotFoundError, InvalidInputError)


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """Some fragments, and the sizes of their files as far as a listing told them."""

    fragments: tuple[Fragment, ...]
    sizes: Mapping[str, int] | None = None
    """Size of every file in the table's own ``data/``, by key; None: each is asked for."""


@dataclass
class FragmentsChecked:
    """Problems and figures of the fragments that a task checked."""

    problems: list[Problem] = field(default_factory=list)
    data_files: int = 0
    deletion_files: int = 0
    live_ids: IdRanges | None = None
    """Ids of live rows; None where row ids are not stable, or not all of them can be told."""


def check_fragments(snapshot: Snapshot, deep: bool, task: FragmentTask) -> FragmentsChecked:
    """Check the fragments of a task; the snapshot need not have them."""
    checked = FragmentsChecked()
    ids: list[IdRanges] = []
    wanted = _wanted(snapshot)
    with PageChecker(snapshot) as pages:
        for fragment in task.fragments:
            check = _FragmentCheck(snapshot, fragment, task.sizes, wanted)
            found = [*check.problems()]
            if deep and wanted is not None and not any(each.kind in _UNREADABLE for each in found):
                found += pages.check(fragment)
            checked.problems += found
            checked.data_files += len(fragment.files)
            checked.deletion_files += fragment.deletion_file is not None
            if check.live_ids is not None:
                ids.append(check.live_ids)
    if snapshot.manifest.has_stable_row_ids:
        checked.live_ids, twice = union(ids)
        if twice is not None:
            checked.problems.append(twice_problem(twice, task.fragments[0].id))
    return checked


_UNREADABLE = (ProblemKind.DATA_FILE, ProblemKind.SCHEMA, ProblemKind.OUT_OF_REACH)


def twice_problem(row_id: int, fragment: int | None) -> Problem:
    """The problem of an id that two live rows have."""
    near = "" if fragment is None else f", one of them in fragment {fragment} or not far behind it"
    return Problem(
        ProblemKind.ROW_IDS, f"row id {row_id}", f"two live rows have it{near}", fragment
    )


def _wanted(snapshot: Snapshot) -> WantedColumns | None:
    """All columns; None for a schema that is none, which is told once for the whole table."""
    try:
        return WantedColumns(snapshot.schema)
    except (FormatError, UnsupportedError):
        return None


class _FragmentCheck:
    """One fragment under the glass."""

    def __init__(
        self,
        snapshot: Snapshot,
        fragment: Fragment,
        sizes: Mapping[str, int] | None,
        wanted: WantedColumns | None,
    ) -> None:
        self._snapshot = snapshot
        self._fragment = fragment
        self._sizes = sizes
        self._wanted = wanted
        self.live_ids: IdRanges | None = None

    def problems(self) -> Iterator[Problem]:
        yield from self._data_files()
        yield from self._deletions()
        if self._snapshot.manifest.has_stable_row_ids:
            yield from self._row_ids()
        yield from self._row_versions()

    def _problem(self, kind: ProblemKind, text: str, where: str | None = None) -> Problem:
        number = self._fragment.id
        return Problem(kind, where or f"fragment {number}", text, number)

    # Data files

    def _data_files(self) -> Iterator[Problem]:
        fragment = self._fragment
        if not fragment.physical_rows:
            yield self._problem(
                ProblemKind.ROW_COUNT, "the manifest does not say how many rows it has"
            )
        if not fragment.files:
            yield self._problem(ProblemKind.DATA_FILE, "it has no data files")
        live = [each for file in fragment.files for each in file.fields if each >= 0]
        if len(set(live)) != len(live):
            twice = sorted({each for each in live if live.count(each) > 1})
            yield self._problem(
                ProblemKind.SCHEMA, f"fields {twice} are in more than one of its files"
            )
        opened: dict[int, Container] = {}
        for number, file in enumerate(fragment.files):
            found = self._open(file)
            if isinstance(found, Problem):
                yield found
            else:
                opened[number] = found
                yield from self._contents(file, found)
        yield from self._columns(opened)

    def _open(self, file: DataFile) -> Container | Problem:
        try:
            store, key = self._snapshot.location.data_file(self._snapshot.manifest, file)
        except _BAD_CONTENT as error:
            return self._problem(kind_of(error, ProblemKind.DATA_FILE), str(error), file.path)
        path = f"{store.uri}/{key}"
        try:
            size = self._size(store, key)
            if file.size is not None and file.size != size:
                text = f"it has {size} bytes, the manifest says {file.size}"
                return self._problem(ProblemKind.DATA_FILE, text, path)
            return read_container(path, size, partial(store.get_range, key))
        except NotFoundError:
            return self._problem(ProblemKind.DATA_FILE, "it is missing", path)
        except (FormatError, UnsupportedError) as error:
            return self._problem(kind_of(error, ProblemKind.DATA_FILE), str(error), path)

    def _size(self, store: Store, key: str) -> int:
        if self._sizes is None or store is not self._snapshot.location.store:
            return store.head(key).size
        size = self._sizes.get(key)
        # The listing may be older than the file, where somebody brings one back.
        return store.head(key).size if size is None else size

    def _contents(self, file: DataFile, found: Container) -> Iterator[Problem]:
        rows = self._fragment.physical_rows
        if rows and found.num_rows != rows:
            text = f"it has {found.num_rows} rows, the fragment has {rows}"
            yield self._problem(ProblemKind.DATA_FILE, text, found.name)
        version = (2, 0) if found.footer.version == (0, 3) else found.footer.version
        if version != file.version:
            told = version_name(file.version)
            text = f"it is of version {version_name(version)}, the manifest says {told}"
            yield self._problem(ProblemKind.DATA_FILE, text, found.name)
        manifest = self._snapshot.manifest
        mixed = manifest.reader_flags & FLAG_MIXED_FILE_VERSIONS
        if manifest.file_version not in ("", version_name(file.version)) and not mixed:
            text = f"it is of version {version_name(file.version)}, the table's files are of "
            yield self._problem(ProblemKind.DATA_FILE, text + manifest.file_version, found.name)

    def _columns(self, opened: Mapping[int, Container]) -> Iterator[Problem]:
        """Whether the files hold the columns that the schema and the manifest say they do."""
        if self._wanted is None:
            return
        try:
            plan = self._wanted.plan(self._fragment, layout_of(self._fragment))
        except (FormatError, UnsupportedError) as error:
            yield self._problem(kind_of(error, ProblemKind.SCHEMA), str(error))
            return
        for each in plan.files:
            file = opened.get(each.index)
            if file is None:
                continue
            try:
                facts = file_facts(
                    file.name, file.descriptor, file.num_rows, file.footer.num_columns
                )
                self._wanted.projection(each, facts, file.name)
            except (FormatError, UnsupportedError) as error:
                yield self._problem(kind_of(error, ProblemKind.SCHEMA), str(error), file.name)

    # Deleted rows

    def _deletions(self) -> Iterator[Problem]:
        recorded = self._fragment.deletion_file
        try:
            deleted = self._deleted
        except _BAD_CONTENT as error:
            kind = kind_of(error, ProblemKind.DELETION_FILE)
            yield self._problem(kind, str(error), error.facts.get("path"))
            return
        if recorded is not None and not deleted:
            number = recorded.num_deleted_rows
            kind = ProblemKind.DELETION_FILE if number else ProblemKind.EMPTY_DELETION_FILE
            text = f"its deletion file deletes no row, the manifest says {number}"
            yield self._problem(kind, text)
        elif recorded is not None and recorded.num_deleted_rows != len(deleted):
            told = recorded.num_deleted_rows or "nothing of how many"
            text = f"{len(deleted)} rows are deleted, the manifest says {told}"
            yield self._problem(ProblemKind.DELETED_COUNT, text)

    @cached_property
    def _deleted(self) -> BitMap:
        return read_deleted(self._snapshot, self._fragment)

    # Lineage

    def _row_ids(self) -> Iterator[Problem]:
        try:
            ids = load_row_ids(self._snapshot, self._fragment)
        except _BAD_CONTENT as error:
            yield self._problem(kind_of(error, ProblemKind.ROW_IDS), str(error))
            return
        if ids is None:
            yield self._problem(
                ProblemKind.ROW_IDS, "it has none, though they are stable in this table"
            )
            return
        mark, highest = self._snapshot.manifest.next_row_id, ids.max_value()
        if highest is not None and highest >= mark:
            text = f"it has row id {highest}, but the next one to be handed out is {mark}"
            yield self._problem(ProblemKind.ROW_IDS, text)
        try:
            self.live_ids, twice = IdRanges.of(ids.without(self._deleted))
        except _BAD_CONTENT:
            return  # told already, with the deletion file or the length
        if twice is not None:
            yield twice_problem(twice, self._fragment.id)

    def _row_versions(self) -> Iterator[Problem]:
        loaded: dict[str, RowVersions | None] = {}
        lineage: tuple[Lineage, ...] = ("created_at_versions", "last_updated_at_versions")
        for what in lineage:
            try:
                loaded[what] = load_row_versions(self._snapshot, self._fragment, what)
            except _BAD_CONTENT as error:
                yield self._problem(kind_of(error, ProblemKind.ROW_VERSIONS), str(error))
                return
        created, updated = loaded.values()
        newest = self._snapshot.manifest.version
        highest = updated.max_value() if updated is not None else None
        if highest is not None and highest > newest:
            text = f"rows were last changed in version {highest}, which is after {newest}"
            yield self._problem(ProblemKind.ROW_VERSIONS, text)
        if created is None:
            return
        rows = len(created)
        updated = RowVersions.uniform(FIRST_VERSION, rows) if updated is None else updated
        if len(updated) != rows:
            text = f"{rows} rows were created and {len(updated)} were changed"
            yield self._problem(ProblemKind.ROW_VERSIONS, text)
            return
        starts = np.unique(np.concatenate((created.bounds[:-1], updated.bounds[:-1])))
        wrong = np.flatnonzero(created.values_at(starts) > updated.values_at(starts))
        if len(wrong):
            text = f"row {starts[wrong[0]]} was last changed before the version that created it"
            yield self._problem(ProblemKind.ROW_VERSIONS, text)


def read_deleted(snapshot: Snapshot, fragment: Fragment) -> BitMap:
    """The deleted rows of a fragment, whatever their number is said to be."""
    found = load_deletions(snapshot.location, snapshot.manifest, fragment, is_counted=False)
    return BitMap() if found is None else found


_WORTH_A_LISTING = 1_000
"""Number of data files from which on a listing of all is cheaper than asking for each."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was checked of a table, and what is wrong."""

    version: int
    deep: bool
    problems: tuple[Problem, ...]
    fragments: int
    data_files: int
    deletion_files: int
    indices: int
    refs: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(snapshot: Snapshot, runner: Runner, *, deep: bool = False) -> VerifyReport:
    """Check a version, and the versions and refs around it."""
    refs = [*check_refs(snapshot)]
    problems = [*check_history(snapshot.location, snapshot.manifest)]
    problems += [each for each in refs if each is not None]
    return verify_version(snapshot, runner, deep=deep, problems=problems, refs=len(refs))


def verify_version(
    snapshot: Snapshot,
    runner: Runner,
    *,
    deep: bool = False,
    problems: list[Problem] | None = None,
    refs: int = 0,
) -> VerifyReport:
    """Check a version alone; ``problems`` and ``refs`` are what is known of the rest."""
    manifest = snapshot.manifest
    found = [*(problems or ())]
    data_files = deletion_files = indices = fragments = 0
    try:
        fragments = len(manifest.fragments)
        found += check_manifest(snapshot)
        for index in manifest.indices:
            found += check_index(snapshot, index)
            indices += 1
    except FormatError as error:
        found.append(Problem(ProblemKind.MANIFEST, manifest.name, str(error)))
        return VerifyReport(manifest.version, deep, tuple(found), 0, 0, 0, indices, refs)
    ids: list[IdRanges] = []
    work = partial(check_fragments, snapshot.bare(), deep)
    # Each task of a deep check starts a process, so there are no more than can run at once.
    slots = runner.slots // TASKS_PER_SLOT if deep else runner.slots
    for each in runner.run(work, [*_tasks(snapshot, slots)], what="checking fragments"):
        found += each.problems
        data_files += each.data_files
        deletion_files += each.deletion_files
        if each.live_ids is not None:
            ids.append(each.live_ids)
    _, twice = union(ids)
    if twice is not None:
        found.append(twice_problem(twice, None))
    return VerifyReport(
        manifest.version, deep, tuple(found), fragments, data_files, deletion_files, indices, refs
    )


def _tasks(snapshot: Snapshot, slots: int) -> Iterator[FragmentTask]:
    groups = [*pack_fragments(snapshot.manifest.fragments, slots)]
    sizes = _sizes(snapshot, groups)
    for group in groups:
        if sizes is None:
            yield FragmentTask(group)
        else:
            keys = (key for each in group for key in _own_keys(each))
            yield FragmentTask(group, {key: sizes[key] for key in keys if key in sizes})


def _sizes(snapshot: Snapshot, groups: list[tuple[Fragment, ...]]) -> dict[str, int] | None:
    """The sizes of the data files below the own root; None where asking for each is cheaper."""
    wanted = {key for group in groups for each in group for key in _own_keys(each)}
    if len(wanted) < _WORTH_A_LISTING:
        return None
    listed = snapshot.location.store.list(DATA_DIR)
    return {each.key: each.size for each in listed if each.key in wanted}


def _own_keys(fragment: Fragment) -> Iterator[str]:
    for file in fragment.files:
        if file.base_id is None:
            yield data_key(file.path)
