"""Moving fragments: their data files are copied to another root, then one commit switches.

Rows, their ids and versions, deletion files and indices stay as they are, and other writers are not
blocked: see ``rules.moves``. Old files stay until a cleanup finds that no version needs them; files
outside the table's own root are never removed.

Fragments are chosen by id, by age and by a condition on rows. Ids and ages come from manifests
alone. Only a condition reads data: its own columns, of fragments that can match, up to the first
row that fails it. A version is as old as its manifest says, and versions are assumed to be in the
order of time; one that was cleaned up is at least as old as the oldest that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from lancewood.data.file_root import FileRoot
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import as_list, check_number, in_order
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import Base, NewFile, find_file_root
from lancewood.engine.rows import FragmentScan, Pruner, RowShape
from lancewood.engine.schema import Parameters, project, row_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import list_versions, load_manifest
from lancewood.engine.write import CopiedFile, CopiedFragment, Residents, copy_fragments
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.expr import parse_predicate
from lancewood.jobs.counts import MoveCounts
from lancewood.jobs.job import AT_ONCE, Change, CommitOptions, Job, execute, gather, pack_fragments
from lancewood.jobs.rows.matching import Matching
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.schema import LAST_UPDATED_AT, ROW_ADDRESS, Schema
from lancewood.rules.moves import moved_files


@dataclass(frozen=True)
class Move(Job[MoveCounts]):
    """A move of some fragments to a base path; None is where new files go."""

    choice: FragmentChoice
    base: Base
    runner: Runner = field(repr=False)

    def run(self, snapshot: Snapshot, commit_options: CommitOptions) -> tuple[Snapshot, MoveCounts]:
        """The version after it, and the counts; the same version if all is in place already."""
        self._check(snapshot)
        after, copied = execute(snapshot, self._prepare, commit_options)
        landed, others = _sorted(after.manifest, copied)
        snapshot.discard(file for each in others for file in each.files)
        return after, landed

    def plan(self, snapshot: Snapshot) -> MoveCounts:
        """What would be moved; only recorded sizes count."""
        self._check(snapshot)
        residents = Residents(snapshot, self._file_root(snapshot))
        files = [residents.outside(each) for each in self._fragments(snapshot, residents)]
        return MoveCounts(
            len(files), sum(map(len, files)), sum(file.size or 0 for each in files for file in each)
        )

    def _check(self, snapshot: Snapshot) -> None:
        snapshot.check_writable()
        self.choice.check(snapshot)
        self._file_root(snapshot)

    def _file_root(self, snapshot: Snapshot) -> FileRoot:
        if self.base is None:
            return snapshot.default_file_root
        return find_file_root(snapshot.location, snapshot.manifest, self.base)

    def _fragments(self, snapshot: Snapshot, residents: Residents) -> list[Fragment]:
        chosen = self.choice.fragments(snapshot, self.runner)
        return [each for each in chosen if residents.outside(each)]

    def _prepare(self, snapshot: Snapshot) -> Change[tuple[CopiedFragment, ...]]:
        file_root = self._file_root(snapshot)
        tasks = list(
            pack_fragments(
                self._fragments(snapshot, Residents(snapshot, file_root)), self.runner.slots
            )
        )
        if not tasks:
            return Change(None, ())
        PutIfAbsent().check_trust(snapshot.location.store)
        work = partial(move_in, snapshot.bare(), file_root)
        done = gather(self.runner, work, tasks, what="copying files", snapshot=snapshot)
        copied = tuple(each for part in done for each in part.fragments)
        return Change(
            moved_files(each.image for each in copied),
            copied,
            tuple(file for part in done for file in part.files),
        )


@dataclass(frozen=True, slots=True)
class CopiedFragments:
    """The result of one task."""

    fragments: tuple[CopiedFragment, ...]

    @property
    def files(self) -> tuple[NewFile, ...]:
        return tuple(file for each in self.fragments for file in each.files)


def move_in(
    snapshot: Snapshot, file_root: FileRoot, fragments: Sequence[Fragment]
) -> CopiedFragments:
    """The task: copy the data files of some fragments."""
    return CopiedFragments(copy_fragments(snapshot, fragments, file_root))


def _sorted(
    after: Manifest, copied: Iterable[CopiedFragment]
) -> tuple[MoveCounts, list[CopiedFile]]:
    """What has landed, and the copies that another writer's change made useless."""
    copied = list(copied)
    after.expect_lookups(len(copied))
    fragments, landed, others = 0, list[CopiedFile](), list[CopiedFile]()
    for each in copied:
        names = set()
        if after.position_of(each.image.id) is not None:
            names = {file.path for file in after.fragment(each.image.id).files}
        here = [copy for copy in each.copies if copy.name in names]
        fragments += bool(here)
        landed += here
        others += [copy for copy in each.copies if copy.name not in names]
    return MoveCounts(fragments, len(landed), sum(each.bytes for each in landed)), others


@dataclass(frozen=True)
class FragmentChoice:
    """The fragments to move: those that meet all of the given criteria."""

    ids: frozenset[FragmentId] | None = None
    where: str | None = None
    parameters: Parameters = field(default=None, repr=False)
    older_than: timedelta | None = None

    @classmethod
    def checked(
        cls,
        fragments: Iterable[int] | None,
        where: str | None,
        parameters: Parameters,
        older_than: timedelta | None,
    ) -> FragmentChoice:
        """A caller's choice; raises InvalidInputError for a bad argument."""
        if older_than is not None and (
            not isinstance(older_than, timedelta) or older_than < timedelta(0)
        ):
            raise InvalidInputError(
                f"older_than takes a span of time such as timedelta(days=30), got {older_than!r}"
            )
        ids = None
        if fragments is not None:
            numbers = as_list("fragments", fragments)
            ids = frozenset(FragmentId(check_number("a fragment id", each)) for each in numbers)
        return cls(ids, where, parameters, older_than)

    def check(self, snapshot: Snapshot) -> None:
        """Raise NotFoundError for an unknown fragment, InvalidInputError for a condition that does
        not fit the table."""
        manifest = snapshot.manifest
        for each in sorted(self.ids or ()):
            if manifest.position_of(each) is None:
                raise NotFoundError(
                    f"fragment {each} not found in version {manifest.version} of "
                    f"{snapshot.location.uri}; nothing was moved",
                    fragment=each,
                )
        Matching(snapshot, self.where, self.parameters)

    def fragments(self, snapshot: Snapshot, runner: Runner) -> Sequence[Fragment]:
        """The chosen fragments of one version, in order, without those that are gone."""
        chosen = self._by_id(snapshot)
        if self.older_than is not None:
            chosen = old_fragments(snapshot, chosen, self.older_than)
        if self.where is not None:
            chosen = self._by_rows(snapshot, chosen, runner)
        return chosen

    def _by_id(self, snapshot: Snapshot) -> Sequence[Fragment]:
        manifest = snapshot.manifest
        if self.ids is None:
            return manifest.fragments
        manifest.expect_lookups(len(self.ids))
        there = [each for each in sorted(self.ids) if manifest.position_of(each) is not None]
        return [manifest.fragment(each) for each in there]

    def _by_rows(
        self, snapshot: Snapshot, fragments: Sequence[Fragment], runner: Runner
    ) -> Sequence[Fragment]:
        matching = Matching(snapshot, self.where, self.parameters)
        if matching.is_every_row:
            return fragments
        can_match = {each.id for each in matching.fragments()}
        chosen = [each for each in fragments if each.id in can_match]
        tasks = list(pack_fragments(chosen, runner.slots))
        failing = f"({self.where}\n) IS NOT TRUE"  # also rows for which the condition is null
        work = partial(wholly_matching, Matching(snapshot.bare(), failing, self.parameters))
        found = runner.run(work, tasks, what="finding fragments")
        whole = {each for done in found for each in done}
        return [each for each in chosen if each.id in whole]


def wholly_matching(others: Matching, fragments: Sequence[Fragment]) -> tuple[FragmentId, ...]:
    """The task: the fragments in which no row matches ``others``."""
    projection = project(others.snapshot.schema, [ROW_ADDRESS])
    shape = RowShape(snapshot=others.snapshot, projection=projection, predicate=others.predicate)
    work = (partial(_if_none, shape, each) for each in fragments)
    return tuple(in_order(work, workers=AT_ONCE))


def _if_none(shape: RowShape, fragment: Fragment) -> Iterator[FragmentId]:
    if not any(FragmentScan(shape, fragment).count()):
        yield fragment.id


def old_fragments(
    snapshot: Snapshot, fragments: Sequence[Fragment], older_than: timedelta
) -> list[Fragment]:
    """The fragments without a row that was written or changed more recently.

    With stable row ids, each row records the version that last changed it. Without them, a fragment
    is as old as its newest data file.
    """
    old = _old_version(snapshot, now(), older_than)
    if old is None:
        return []
    is_old = _by_rows(snapshot, old) if snapshot.manifest.has_stable_row_ids else _by_files(old)
    return [each for each in fragments if is_old(each)]


def now() -> datetime:
    """The time by this machine's clock, as manifests hold the times of their writers' clocks."""
    return datetime.now(UTC)


def _old_version(snapshot: Snapshot, today: datetime, older_than: timedelta) -> Manifest | None:
    """The newest version, up to the snapshot's, that is old enough; None if there is none."""
    try:
        moment = today - older_than
    except OverflowError:
        return None
    store, newest = snapshot.location.store, snapshot.manifest
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
        except NotFoundError:  # removed since the listing, with all versions before it
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
