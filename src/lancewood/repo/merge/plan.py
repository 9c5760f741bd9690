"""What a merge does to each table, given what three commits pin: the base, ours and theirs.

    changed on theirs only      published if it is on a branch of the table that comes from ours,
                                else pinned or restored as it is there; merged by rows if the
                                target cannot go on from there
    changed on ours only        stays
    changed on both             published, if the rules of the table allow it, else merged by rows
    removed on one side         removed, unless the other changed it

After criss-cross merges there are several bases, and a table that differs between them is merged by
rows. A merge is about the changes since the commits parted, while publishing brings everything
since the table's branch was made. Where the two are not the same, a part would come twice or be
left out, and the table is merged by rows as well. Rows that cannot be told apart by their ids are
never merged: such a table is refused. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lancewood.catalog.names import lance_branch
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.snapshot import (
    Snapshot,
    branch_location,
    load_snapshot,
    main_location,
    same_content,
    same_indices,
)
from lancewood.engine.versions import load_branch, versions_since
from lancewood.errors import IncompatibleConflictError, LancewoodError, RetryableConflictError
from lancewood.format.manifest import content_digest
from lancewood.jobs.publish.branch_work import BranchWork, HeldWork, load_work, load_work_onto
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName, called
from lancewood.model.transaction import Clone, Operation, Overwrite, Restore
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import pinned_state, same_table
from lancewood.repo.moving import out_of_place, uncommitted
from lancewood.repo.outcome import Refusals, TableDone
from lancewood.repo.writable import abandoned_head, working_location
from lancewood.table.table import Table

_DEEPEST = 100


_CROSSED = (
    "the two were merged crosswise before, and which side took back what cannot be told; make a "
    "fresh branch of one side, and write there again what the other changed"
)


MADE_TWICE = (
    "both sides made a table of this name since they parted, and the two do not go together; "
    "remove() it on one side, and merge again"
)


@dataclass(frozen=True, slots=True)
class TableMerge:
    """One table, and what the merge does to it."""

    name: str
    done: TableDone
    theirs: Pin | None
    ours: Pin | None = None
    base: Pin | None = None
    refusal: str = ""
    """Why a table is refused whose rows cannot be merged."""

    @property
    def is_made_twice(self) -> bool:
        """Whether both sides have it, but the base does not."""
        return self.base is None and self.ours is not None

    @property
    def is_changed_by_both(self) -> bool:
        """Whether the work of both sides is put together."""
        is_joined = self.done in (TableDone.PUBLISHED, TableDone.MERGED)
        return is_joined and self.ours is not None and self.ours != self.base


@dataclass(frozen=True)
class MergePlan:
    """Three commits, and the name of the branch that is merged into."""

    context: RepoContext
    into: str
    base: TableTree
    ours: TableTree
    theirs: TableTree
    crossing: tuple[TableTree, ...] = ()
    """Further bases, after criss-cross merges."""
    is_squashed: bool = False
    """The branch goes afterwards: where possible, what is pinned is the target's own."""

    def steps(self, refusals: Refusals) -> Iterator[TableMerge]:
        """The tables that change; those that cannot are added to the refusals."""
        for name in sorted({*self.base.names(), *self.ours.names(), *self.theirs.names()}):
            base, ours = self.base.blob_hash(name), self.ours.blob_hash(name)
            theirs = self.theirs.blob_hash(name)
            if theirs == ours or (theirs == base and not self.crossing):
                continue
            found: TableMerge | str | None
            bases, sides = (self.base, *self.crossing), (self.ours, self.theirs)
            try:
                if not (self._all_same(name, bases) or self._all_same(name, sides)):
                    found = self._crossed(name)
                elif theirs == base:
                    continue
                else:
                    found = self._decided(name, ours_changed=ours != base)
            except LancewoodError as error:
                refusals.add(name, error)
                continue
            if (
                isinstance(found, TableMerge)
                and found.done is TableDone.MERGED
                and self.is_squashed
            ):
                found = found.refusal  # what goes afterwards, with others' row ids: published only
            if isinstance(found, str):
                refusals.add(name, found)
            elif found is not None:
                yield found

    def _crossed(self, name: str) -> TableMerge | str:
        """The step for a table in which both the bases and the two sides differ."""
        base, ours, theirs = (each.find(name) for each in (self.base, self.ours, self.theirs))
        if ours is None or theirs is None or ours.uri != theirs.uri:
            return _CROSSED
        return TableMerge(name, TableDone.MERGED, theirs, ours, base, _CROSSED)

    def _all_same(self, name: str, trees: Sequence[TableTree]) -> bool:
        """Whether all commits pin the same rows and columns of a table, or none of them pins it."""
        if len({each.blob_hash(name) for each in trees}) == 1:
            return True
        if any(each.blob_hash(name) is None for each in trees):
            return False
        first, *others = (each.pin(name) for each in trees)
        return all(same_table(self.context, first, each) for each in others)

    def _decided(self, name: str, *, ours_changed: bool) -> TableMerge | str | None:
        """The step for a table that theirs changed; None for no change, a text for a refusal."""
        base, ours, theirs = (
            None if tree.blob_hash(name) is None else tree.pin(name)
            for tree in (self.base, self.ours, self.theirs)
        )
        if theirs is None or (ours is None and base is not None):
            if not ours_changed:
                return TableMerge(name, TableDone.REMOVED, None, ours, base)
            gone, kept = ("there", "here") if theirs is None else ("here", "there")
            return f"it was removed {gone} and changed {kept}; do the one or the other on both"
        if ours is not None and ours.uri != theirs.uri and ours_changed:
            return f"it is at {ours.uri!r} here and at {theirs.uri!r} there: two tables of one name"
        return self._brought(name, base, ours, theirs, ours_changed=ours_changed)

    def _brought(
        self, name: str, base: Pin | None, ours: Pin | None, theirs: Pin, *, ours_changed: bool
    ) -> TableMerge | str | None:
        wanted = lance_branch(self.into)
        is_written_here = wanted is None or (ours is not None and ours.branch == wanted)
        if self.is_squashed:
            if base is not None and same_table(self.context, base, theirs):
                one, other = (self.context.open(each).manifest for each in (base, theirs))
                if same_indices(one, other):
                    return None
            # or the table's branch for the target continues, without a commit so far, what the
            # target pins on another branch
            is_written_here |= ours is None or (
                working_location(self.context, self.into, ours) is not None
            )
        if theirs.branch != wanted and is_written_here and self._comes_from(theirs, wanted):
            return TableMerge(name, TableDone.PUBLISHED, theirs, ours, base)
        if ours is not None and same_table(self.context, ours, theirs):
            if ours_changed or out_of_place(self.context, self.into, theirs) is not None:
                return None
            return TableMerge(name, TableDone.TAKEN, theirs, ours, base)
        store = self.context.location(theirs.on(None)).store
        if theirs.branch is not None and load_branch(store, theirs.branch) is None:
            its = f"its {called(theirs.branch)}, where the other commit pins it,"
            why = self.context.why_elsewhere(theirs)
            if why is not None:
                return f"{its} is not here: {why}"
            return (
                f"{its} is gone: another program deleted it. Bring it back from a copy, or reset "
                "the branch to a commit that reads"
            )
        if ours is not None and ours_changed:
            if base is None:
                return MADE_TWICE
            twice = self._changed_twice(ours, theirs)
            return TableMerge(name, TableDone.MERGED, theirs, ours, base, twice)
        why = out_of_place(self.context, self.into, theirs)
        if why is not None and ours is not None and base is not None:
            return TableMerge(name, TableDone.MERGED, theirs, ours, base, why)
        if why is None and ours is not None:
            why = uncommitted(self.context, self.into, ours)
        if why is not None:
            return why
        is_older = False
        if theirs.branch == wanted and (ours is None or ours.uri == theirs.uri):
            is_older = ours is not None or abandoned_head(self.context, theirs) is not None
        return TableMerge(
            name, TableDone.RESTORED if is_older else TableDone.TAKEN, theirs, ours, base
        )

    def _changed_twice(self, ours: Pin, theirs: Pin) -> str:
        if ours.branch == theirs.branch:
            return (
                f"both sides changed it on its {called(ours.branch)}, one after the other was "
                "taken back; write the rows again on one of them"
            )
        return (
            f"both sides changed it, and its {called(theirs.branch)} does not come from its "
            f"{called(ours.branch)}: its work cannot be published there; merge in the other "
            "direction first; after that, this merge is a fast-forward"
        )

    def _comes_from(self, pin: Pin, target: BranchName | None) -> bool:
        """Whether the branch of a pin was made from the target, directly or indirectly."""
        main = self.context.location(pin.on(None)).store
        branch = pin.branch
        for _ in range(_DEEPEST):
            if branch is None:
                return False
            record = load_branch(main, branch)
            if record is None:
                return False
            branch = record.parent_branch
            if branch == target:
                return True
        return False


def find_work(
    context: RepoContext, head: Snapshot, base: Pin | None, target: BranchName | None
) -> BranchWork:
    """The work up to a version, to be published on an ancestor branch of the table; ``base`` is
    what both commits have in common.

    Raises IncompatibleConflictError if that is more or less than what changed since.
    """
    work = load_work_onto(head, target)
    if base is None:
        return work
    known = pinned_state(context, base)
    version = known.manifest.version
    _check_new(base, version, work)
    if base.branch != target or version > work.fork:
        if not same_content(known, work.first):
            raise IncompatibleConflictError(
                f"its {called(work.branch)} began at version {work.fork} of {called(work.parent)}, "
                "which is not what both sides had in common: it was taken back there first, and "
                "publishing brings only what was written since. Take it back on both, or write "
                "the rows again on a fresh branch"
            )
    elif version < work.fork:  # what came in between is the target's own
        _check_not_back(load_snapshot(context.location(base)), work)
    return work


def writes_over(work: BranchWork) -> bool:
    """Whether the work replaces the whole table, as making a new one of the same name does."""
    return any(isinstance(each.operation, Overwrite) for each in work.steps)


def check_only_committed(name: str, work: BranchWork, target: Manifest) -> None:
    """Raise RetryableConflictError if rows were written to the target beside the repository since
    the work began."""
    if target.version == work.fork:
        return
    parent = branch_location(main_location(work.head), work.parent)
    fork = load_snapshot(parent, version=work.fork).manifest
    if content_digest(fork.message) != content_digest(target.message):
        raise RetryableConflictError(
            f"somebody wrote to table {name!r} beside the repository: its {called(work.parent)} is "
            f"at version {target.version}, and what is committed is version {work.fork}. commit() "
            "takes that in, reset() gives it up; then try again",
            table=name,
        )


def check_nothing_beside(name: str, table: Table) -> None:
    """Raise RetryableConflictError if rows of a branch's parent were written beside the repository
    since the branch was made."""
    work = load_work(table._snapshot)
    target = load_snapshot(branch_location(main_location(work.head), work.parent))
    check_only_committed(name, work, target.manifest)


def _check_new(base: Pin, version: Version, work: BranchWork) -> None:
    if base.branch is None:
        return
    merged = HeldWork(base.branch, Version(version - 1), version)
    if any(each.meets(merged) for each in work.own):
        raise IncompatibleConflictError(
            f"its {called(base.branch)} went on after it was merged up to version {version}, and "
            "is published as a whole only: that work would be there twice. Make a fresh branch of "
            "what is merged, and cherry-pick what is new, or write its rows there again"
        )


def _check_not_back(target: Snapshot, work: BranchWork) -> None:
    """The target must still have what it had when the branch was made from it."""

    def goes_behind(operation: Operation) -> bool:
        if isinstance(operation, Restore):
            return operation.version < work.fork or is_detached(operation.version)
        return isinstance(operation, Clone)

    for version in versions_since(target.location.store, work.fork, target.scheme).versions:
        operations = target.transaction_of(version).operations
        if any(goes_behind(each) for each in operations):
            raise IncompatibleConflictError(
                f"its {called(work.branch)} began at version {work.fork} of {called(work.parent)}, "
                f"which went back behind that in version {version}; make the change again on a "
                "fresh branch"
            )
