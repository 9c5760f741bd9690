"""Deleting the rows that meet a condition: deletion files for some fragments, others go whole.

Reads the columns of the condition and nothing else, in fragments that can match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pyroaring import BitMap

from lancewood.engine.base import Task, in_order
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import NewFile, new_deletion_files
from lancewood.engine.schema import Parameters
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import mark_deleted
from lancewood.errors import InvalidInputError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import AT_ONCE, Change, PreparedJob, gather, pack_fragments
from lancewood.jobs.rows.matching import Matching
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.transaction import Delete


@dataclass(frozen=True)
class DeleteRows(PreparedJob[RowCounts]):
    """What a caller wants to be deleted, and who does it."""

    where: str
    parameters: Parameters = field(repr=False)
    runner: Runner = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.where, str):
            raise InvalidInputError(
                f"delete takes a condition in SQL, got {self.where!r}; 'true' is every row"
            )

    def plan(self, snapshot: Snapshot) -> RowCounts:
        rows, fragments = Matching(snapshot, self.where, self.parameters).count(self.runner)
        return RowCounts(deleted=rows, fragments=fragments)

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Find the rows of one version and write its deletion files.

        Raises InvalidInputError for a condition that does not fit the table, before anything is
        read.
        """
        matching = Matching(snapshot, self.where, self.parameters)
        snapshot.check_writable()
        if matching.is_every_row:
            return self._everything(snapshot)
        tasks = list(pack_fragments(matching.fragments(), self.runner.slots))
        if not tasks:
            return Change(None, RowCounts())
        PutIfAbsent().check_trust(snapshot.location.store)
        done = gather(
            self.runner,
            partial(delete_in, matching.bare()),
            tasks,
            what="deleting rows",
            snapshot=snapshot,
        )
        operation = Delete(
            tuple(each for part in done for each in part.updated),
            tuple(each for part in done for each in part.removed),
            self.where,
        )
        fragments = len(operation.updated_fragments) + len(operation.deleted_fragment_ids)
        return Change(
            operation if fragments else None,
            RowCounts(deleted=sum(each.rows for each in done), fragments=fragments),
            tuple(file for each in done for file in each.files),
        )

    def _everything(self, snapshot: Snapshot) -> Change[RowCounts]:
        """All fragments go, and none is looked into."""
        ids = tuple(each.id for each in snapshot.manifest.fragments)
        return Change(Delete((), ids, self.where) if ids else None, self.plan(snapshot))


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """What became of the fragments of one task: those without a match are in neither list."""

    updated: tuple[Fragment, ...]
    removed: tuple[FragmentId, ...]
    rows: int

    @property
    def files(self) -> tuple[NewFile, ...]:
        return new_deletion_files(self.updated)


def delete_in(matching: Matching, fragments: Sequence[Fragment]) -> DeletedRows:
    """The task: find the rows in some fragments and write their deletion files."""
    updated: list[Fragment] = []
    work = _tasks(matching, fragments, updated)
    try:
        done = list(in_order(work, workers=AT_ONCE))
    except BaseException:
        matching.snapshot.discard(new_deletion_files(updated))
        raise
    return DeletedRows(
        tuple(each.image for each in done if each.image is not None),
        tuple(each.id for each in done if each.image is None),
        sum(each.rows for each in done),
    )


class _Done(NamedTuple):
    id: FragmentId
    image: Fragment | None
    rows: int


def _tasks(
    matching: Matching, fragments: Sequence[Fragment], updated: list[Fragment]
) -> Iterator[Task[_Done]]:
    """What is done at once: small fragments are looked into here, together, others there."""
    for group in matching.groups(fragments):
        if len(group) == 1:
            yield partial(_delete_in_one, matching, group[0], updated)
        else:
            for found in matching.found(group):
                yield partial(_mark, matching, *found, updated)


def _delete_in_one(
    matching: Matching, fragment: Fragment, updated: list[Fragment]
) -> Iterator[_Done]:
    """What becomes of one fragment, if anything does."""
    offsets = matching.offsets(fragment)
    if offsets:
        yield from _mark(matching, fragment, offsets, None, updated)


def _mark(
    matching: Matching,
    fragment: Fragment,
    offsets: BitMap,
    before: BitMap | None,
    updated: list[Fragment],
) -> Iterator[_Done]:
    """The fragment without the rows; notes what was written at once."""
    image = mark_deleted(matching.snapshot, fragment, offsets, before)
    if image is not None:
        updated.append(image)
    yield _Done(fragment.id, image, len(offsets))
