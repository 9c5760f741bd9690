"""Moving fragments: copy their data files to another home, then one commit switches.

Rows, their ids and versions, deletion files and indices stay as they are, and other writers go on
meanwhile: see ``rules.moves``. Old files stay until cleanup finds that no version needs them, and
those in other homes than the table's own root for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from lancewood.data.home import DataHome
from lancewood.engine.chosen_homes import Base, find_home
from lancewood.engine.homes import NewFile
from lancewood.engine.publish import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.switching import CopiedFile, CopiedFragment, Residents, copy_fragments
from lancewood.jobs.counts import MoveCounts
from lancewood.jobs.execute import Change, Terms, execute
from lancewood.jobs.gathering import gather
from lancewood.jobs.moving.choice import FragmentChoice
from lancewood.jobs.packing import pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.manifest import Manifest
from lancewood.rules.moves import moved_files


@dataclass(frozen=True)
class Move:
    """One wish for a move."""

    choice: FragmentChoice
    base: Base
    runner: Runner = field(repr=False)

    def run(self, snapshot: Snapshot, terms: Terms) -> tuple[Snapshot, MoveCounts]:
        """The version after it, and what was moved; the same version if all is there already."""
        self._check(snapshot)
        after, copied = execute(snapshot, self._prepare, terms)
        landed, others = _sorted(after.manifest, copied)
        snapshot.discard(file for each in others for file in each.files)
        return after, landed

    def plan(self, snapshot: Snapshot) -> MoveCounts:
        """What would be moved, as far as sizes are recorded."""
        self._check(snapshot)
        residents = Residents(snapshot, self._home(snapshot))
        files = [residents.outside(each) for each in self._fragments(snapshot, residents)]
        return MoveCounts(
            len(files),
            sum(map(len, files)),
            sum(file.size or 0 for each in files for file in each),
        )

    def _check(self, snapshot: Snapshot) -> None:
        snapshot.check_writable()
        self.choice.check(snapshot)
        self._home(snapshot)

    def _home(self, snapshot: Snapshot) -> DataHome:
        if self.base is None:
            return snapshot.data_home
        return find_home(snapshot.place, snapshot.manifest, self.base)

    def _fragments(self, snapshot: Snapshot, residents: Residents) -> list[Fragment]:
        chosen = self.choice.fragments(snapshot, self.runner)
        return [each for each in chosen if residents.outside(each)]

    def _prepare(self, snapshot: Snapshot) -> Change[tuple[CopiedFragment, ...]]:
        home = self._home(snapshot)
        tasks = list(
            pack_fragments(self._fragments(snapshot, Residents(snapshot, home)), self.runner.slots)
        )
        if not tasks:
            return Change(None, ())
        PutIfAbsent().check_trust(snapshot.place.store)
        work = partial(move_in, snapshot.bare(), home)
        done = gather(self.runner, work, tasks, what="copying files", snapshot=snapshot)
        copied = tuple(each for part in done for each in part.fragments)
        return Change(
            moved_files(each.image for each in copied),
            copied,
            tuple(file for part in done for file in part.files),
        )


@dataclass(frozen=True, slots=True)
class CopiedFragments:
    """What one task has to tell."""

    fragments: tuple[CopiedFragment, ...]

    @property
    def files(self) -> tuple[NewFile, ...]:
        return tuple(file for each in self.fragments for file in each.files)


def move_in(snapshot: Snapshot, home: DataHome, fragments: Sequence[Fragment]) -> CopiedFragments:
    """The task: copy the data files of some fragments."""
    return CopiedFragments(copy_fragments(snapshot, fragments, home))


def _sorted(
    after: Manifest, copied: Iterable[CopiedFragment]
) -> tuple[MoveCounts, list[CopiedFile]]:
    """What has landed, and the copies that nobody needs, since somebody was faster."""
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
