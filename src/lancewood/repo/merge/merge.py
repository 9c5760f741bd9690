"""``Repository.merge``: the work of one branch comes into another, all tables in one commit.

The work on the branches of the tables is published, each as the next state of its table, and what
cannot be published is merged by rows; all of them become visible with one commit that has two
parents. Where that commit follows ours without anything to publish, a branch other than main just
moves to theirs. If tables refuse, the error names all of them, and nothing has changed. Decisions
that were kept for the merge decide, and go when it is done.

A squashed merge does the same work, and its commit has one parent: nothing of the target leads to
theirs afterwards, and no note says that it was merged. It is for branches that are deleted then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from lancewood.catalog.names import lance_branch
from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.snapshot import Snapshot, branch_location, load_snapshot
from lancewood.errors import (
    ConflictError,
    IncompatibleConflictError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.history import is_ancestor, merge_bases
from lancewood.git.objects import Signature
from lancewood.git.values import Hash
from lancewood.jobs.merge.row_merge import RowMerge
from lancewood.jobs.publish.branch_work import BranchWork
from lancewood.model.refs import MAIN
from lancewood.repo.commit.swapping import FileChange, FilesBeside
from lancewood.repo.commit.transaction import Pending, Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.decisions import decisions_ref, forget_decisions
from lancewood.repo.identity import author_of, merge_message
from lancewood.repo.landing import catch_up, land_rest, landed_version, pinned_state
from lancewood.repo.merge.next_state import (
    NextState,
    RowMerges,
    clear,
    current_state,
    judge_published,
    load_bases,
    restored,
    with_merged,
)
from lancewood.repo.merge.plan import (
    MADE_TWICE,
    MergePlan,
    TableMerge,
    check_only_committed,
    find_work,
    writes_over,
)
from lancewood.repo.moving import BranchMove
from lancewood.repo.notes import note_merges
from lancewood.repo.outcome import Committed, Refusals, TableDone
from lancewood.repo.writable import abandoned_head, abandoned_since, diverged, writable_head
from lancewood.store.retry import BRANCH_WORK


def merge(
    context: RepoContext,
    name: str,
    into: str,
    *,
    message: str | None,
    author: Signature,
    dry_run: bool,
    adopt: bool,
    squash: bool = False,
    files: FilesBeside | None = None,
    only_committed: Collection[str] = (),
    rows: RowMerges | None = None,
) -> Committed:
    """Merge the work of ``name`` into the branch ``into``: the work behind ``Repository.merge``."""
    theirs, is_branch = context.commit(name), context.is_branch(name)
    kept = None if squash else context.git.refs.read(decisions_ref(into, name))
    rows = (rows or RowMerges()).with_decisions(context, kept)
    for _ in BRANCH_WORK:
        changes = _MergeTransaction(
            context,
            into,
            message or merge_message(name, into, is_branch=is_branch),
            author,
            adopt=adopt,
            merged=() if squash else (theirs,),
            verb=f"merge {name}",
            files=files,
        )
        changes.only_committed = frozenset(only_committed)
        task = _Merging(context, name, into, changes.tip, theirs, author, adopt, changes, rows)
        try:
            done = task.run(dry_run=dry_run)
        except ConflictError as conflict:
            is_meanwhile = task.has_row_merges and isinstance(conflict, RetryableConflictError)
            if context.tip(into) == task.tip and not is_meanwhile:
                raise
            continue
        if done is not None:
            if kept is not None and not dry_run:
                with suppress(LancewoodError):  # one that is left decides nothing
                    forget_decisions(context, into, name, by=author, only=kept)
            return done
    raise RetryableConflictError(
        f"branch {into!r} moved {BRANCH_WORK.attempts} times while {name!r} was merged into it; "
        "merge when fewer writers are active",
        branch=into,
    )


def find_row_merges(
    context: RepoContext, name: str, into: str, rows: RowMerges, table: str | None = None
) -> dict[str, RowMerge]:
    """The tables that a merge would merge by rows, or one of them; nothing is changed.

    Raises IncompatibleConflictError for those that it would refuse otherwise.
    """
    theirs, by = context.commit(name), author_of(context.git)
    kept = context.git.refs.read(decisions_ref(into, name))
    changes = _MergeTransaction(context, into, "merge", by, merged=(theirs,))
    rows = rows.with_decisions(context, kept)
    task = _Merging(context, name, into, changes.tip, theirs, by, False, changes, rows)
    return task.row_merges(table)


@dataclass
class _Merging:
    """One attempt to merge, onto one commit."""

    context: RepoContext
    name: str
    into: str
    tip: Hash | None
    """The commit that everything is planned for: the transaction began there."""
    theirs: Hash
    author: Signature
    adopt: bool
    changes: _MergeTransaction
    rows: RowMerges
    bases: tuple[Hash, ...] = ()
    judged: dict[str, NextState | None] = field(default_factory=dict)
    works: dict[str, BranchWork] = field(default_factory=dict)

    @property
    def has_row_merges(self) -> bool:
        """Whether tables were merged by rows."""
        return any(each is not None and each.prepared for each in self.judged.values())

    def run(self, *, dry_run: bool) -> Committed | None:
        """What was done; None if the branch is at another commit by now."""
        objects = self.context.git.objects
        if self.tip is not None:
            self.bases = tuple(merge_bases(objects, self.tip, self.theirs))
        base = self.bases[0] if self.bases else None
        is_merged = base == self.theirs and not self.changes.has_files
        if is_merged or self.changes.is_done(self.tip):
            return Committed(self.tip, self.into, (), is_new=False, is_dry_run=dry_run)
        if not dry_run:
            catch_up(self.context, self.into, self.tip)
        steps = self._steps(dry_run=dry_run)
        if base == self.tip and self.tip is not None and self._only_moves(steps):
            return self._moved(_done(steps), dry_run=dry_run)
        if not (self.changes.is_squashed and self.changes.has_files):
            favor = self.rows.favor
            change = FileChange(self.context, self.bases, self.theirs, self._refused(), favor)
            self.changes.bring_files(change)
        steps = self._judge(steps, dry_run=dry_run)
        tables = tuple(each.name for each in steps)
        if dry_run:
            made = Committed(self.tip, self.into, tables, done=_done(steps), is_dry_run=True)
            return with_merged(made, self.name, self.judged, self.rows)
        return self._committed(steps)

    def row_merges(self, table: str | None) -> dict[str, RowMerge]:
        """The tables that are merged by rows, or one of them, before anything is decided."""
        if self.tip is None:
            return {}
        self.bases = tuple(merge_bases(self.context.git.objects, self.tip, self.theirs))
        refusals, found = Refusals(), dict[str, RowMerge]()
        for each in self._steps(dry_run=True):
            if table not in (None, each.name):
                continue
            try:
                if each.done is TableDone.PUBLISHED and self._published(each, dry_run=True) is None:
                    continue
                if each.done in (TableDone.PUBLISHED, TableDone.MERGED):
                    found[each.name] = self._row_merge(each, dry_run=True)
            except LancewoodError as error:
                refusals.add(each.name, error)
        self.rows.check_columns(self._refused())
        refusals.check(self._refused(), self._way_out())
        return found

    def _steps(self, *, dry_run: bool) -> Sequence[TableMerge]:
        tree = self.context.tree
        base, crossing = (self.bases[0] if self.bases else None), self.bases[1:]
        plan = MergePlan(
            self.context,
            self.into,
            tree(base),
            tree(self.tip),
            tree(self.theirs),
            crossing=tuple(map(tree, crossing)),
            is_squashed=self.changes.is_squashed,
        )
        refusals, found = Refusals(), []
        for each in plan.steps(refusals):
            try:
                found.append(self._with_work(each, dry_run=dry_run))
            except LancewoodError as error:
                refusals.add(each.name, error)
        refusals.check(self._refused())
        return found

    def _with_work(self, step: TableMerge, *, dry_run: bool) -> TableMerge:
        """The step with the work that it publishes, if that can be told; else by rows."""
        if step.done is not TableDone.PUBLISHED:
            return step
        try:
            work = self._work(step, dry_run=dry_run)
        except IncompatibleConflictError as refusal:
            if not self._may_merge_rows(step):
                raise
            return replace(step, done=TableDone.MERGED, refusal=refusal.message)
        if work is not None:
            self.works[step.name] = work
        return step

    def _may_merge_rows(self, step: TableMerge) -> bool:
        """What is squashed is merged by rows only where it is said what decides."""
        is_asked = not self.changes.is_squashed or self.rows.resolve_of(step.name).is_any
        is_kept = is_asked and step.name not in self.changes.only_committed
        return is_kept and step.ours is not None and step.base is not None

    def _work(self, step: TableMerge, *, dry_run: bool) -> BranchWork | None:
        """The work to publish; what has not landed lands first. A dry run lands nothing, and has
        None for such work: it cannot be judged yet."""
        assert step.theirs is not None
        if not dry_run:
            for each in land_rest(self.context, self.theirs, [step.name]):
                raise diverged(each)
        head = landed_version(self.context, step.theirs)
        if head is not None:
            work = find_work(self.context, head, step.base, lance_branch(self.into))
            if step.is_made_twice and writes_over(work):
                raise IncompatibleConflictError(MADE_TWICE)
            return replace(work, is_part=True) if self.changes.is_squashed else work
        if dry_run:
            return None
        raise IncompatibleConflictError(
            "it landed together with a write from outside, and no version of it is exactly what "
            f"{self.name!r} pins; commit() it there as it stands, and merge that"
        )

    def _only_moves(self, steps: Sequence[TableMerge]) -> bool:
        if self.into == MAIN or self.changes.is_squashed or self.changes.has_files:
            return False
        ours, theirs = self.context.tree(self.tip), self.context.tree(self.theirs)
        names = {*ours.names(), *theirs.names()}
        differing = {each for each in names if ours.blob_hash(each) != theirs.blob_hash(each)}
        if differing != {each.name for each in steps}:  # some stay where this branch pins them
            return False
        return not any(each.done in (TableDone.PUBLISHED, TableDone.MERGED) for each in steps)

    def _moved(self, done: tuple[tuple[str, TableDone], ...], *, dry_run: bool) -> Committed | None:
        """The branch at their commit: nothing of ours is missing there."""
        move = BranchMove(
            self.context,
            self.into,
            self.theirs,
            f"merge {self.name}: Fast-forward",
            self.author,
            keeps=True,
            refused=self._refused(),
        )
        tables = tuple(name for name, _ in done)
        moved = move.dry_run() if dry_run else move.run(only_from=self.tip)
        return None if moved is None else replace(moved, tables=tables, done=done)

    def _judge(self, steps: Sequence[TableMerge], *, dry_run: bool) -> Sequence[TableMerge]:
        """Judge the work on every table, and say how it is done; raises an error naming those that
        refuse. Of the tables only what was committed lands."""
        refusals, found = Refusals(), []
        for each in steps:
            try:
                found.append(self._judged(each, dry_run=dry_run))
            except LancewoodError as error:
                refusals.add(each.name, error)
        try:
            self.rows.check_columns(self._refused())
            refusals.check(self._refused(), self._way_out(), self.rows.stale)
        except LancewoodError:
            for judged in self.judged.values():
                if judged is not None:
                    judged.discard()
            raise
        return found

    def _judged(self, step: TableMerge, *, dry_run: bool) -> TableMerge:
        if step.is_changed_by_both:
            self.rows.check_table(step.name)
        if step.done is TableDone.PUBLISHED:
            refusal = self._published(step, dry_run=dry_run)
            if refusal is None:
                return step
            step = replace(step, done=TableDone.MERGED, refusal=refusal)
        if step.done is TableDone.MERGED:
            row_merge = self._row_merge(step, dry_run=dry_run)
            is_merge = not self.changes.is_squashed
            judged = self.rows.judge(row_merge, dry_run=dry_run, is_merge=is_merge)
            self.judged[step.name] = judged
        return step

    def _published(self, step: TableMerge, *, dry_run: bool) -> str | None:
        """Judge the work of a table; why it cannot be published, if it may be merged by rows."""
        work = self.works.get(step.name)
        if step.theirs is None or work is None:
            return None
        main = self.context.location(step.theirs.on(None))
        if not dry_run and step.ours is not None:
            self._head(step.name, step.ours)
        elif step.ours is None:
            left = abandoned_since(branch_location(main, work.parent), work.fork)
            if left is not None and dry_run:
                return None
            if left is not None:
                clear(left, work.fork)
        try:
            self.judged[step.name] = judge_published(main, work, self.rows.runner)
        except ConflictError as conflict:
            if step.is_made_twice and isinstance(conflict, IncompatibleConflictError):
                raise IncompatibleConflictError(
                    f"{MADE_TWICE}. It says: {conflict.message}", **conflict.facts
                ) from conflict
            if not self._may_merge_rows(step):
                raise
            del self.works[step.name]
            return conflict.message
        return None

    def _row_merge(self, step: TableMerge, *, dry_run: bool) -> RowMerge:
        """The states of a table that meet; raises what it is refused with if their rows cannot be
        told apart."""
        assert step.ours is not None, "both sides have it"
        assert step.theirs is not None, "both sides have it"
        if not dry_run:
            for each in land_rest(self.context, self.theirs, [step.name]):
                raise diverged(each)
        base = load_bases(self.context, self.bases, step.name)
        theirs = pinned_state(self.context, step.theirs)
        ours = current_state(
            self.context,
            self.into,
            self.tip,
            step.name,
            step.ours,
            dry_run=dry_run,
            adopt=self.adopt,
        )
        found = None if base is None else self.rows.row_merge(step.name, base, ours, theirs)
        if found is None:
            raise IncompatibleConflictError(step.refusal)
        return found

    def _committed(self, steps: Sequence[TableMerge]) -> Committed | None:
        for each in steps:
            self._bring(self.changes, each)
        self.changes.works = self.works
        if not self.changes.is_squashed:
            closed = [each for each in self.works.values() if not each.keeps_ids]
            branches = {held.branch for work in closed for held in work.own}
            note_merges(self.context, sorted(branches), self.theirs, self.into)
        made = self.changes.commit()
        if made.is_new:
            made = replace(made, done=_done(steps))
            return with_merged(made, self.name, self.judged, self.rows)
        return made if self.changes.is_squashed else None

    def _bring(self, changes: Transaction, step: TableMerge) -> None:
        title = changes.title
        if step.done in (TableDone.TAKEN, TableDone.REMOVED):
            changes.pin(step.name, step.theirs)
            return
        assert step.theirs is not None
        if step.done is TableDone.RESTORED:
            ours, theirs = step.ours, step.theirs
            if ours is None:
                head = abandoned_head(self.context, theirs)
            else:
                head = self._head(step.name, ours)
            if head is None:
                changes.pin(step.name, theirs)
                return
            stage = restored(head, pinned_state(self.context, theirs), title)
            changes.bring(step.name, stage, theirs.uri, is_new=ours is None)
            return
        judged = self.judged[step.name]
        if judged is not None:
            is_new = step.ours is None
            changes.bring(step.name, judged.stage(title), step.theirs.uri, is_new=is_new)
        elif step.ours is None:
            own = step.theirs.on(lance_branch(self.into))
            changes.pin(step.name, pin_of(load_snapshot(self.context.location(own)), own.uri))

    def _head(self, name: str, ours: Pin) -> Snapshot:
        return writable_head(self.context, self.into, self.tip, name, ours, adopt=self.adopt)

    def _way_out(self) -> str:
        return f"conflicts({self.name!r}) shows them, resolve() or resolve= decides them"

    def _refused(self) -> str:
        return f"{self.name!r} cannot be merged into {self.into!r}"


def _done(steps: Sequence[TableMerge]) -> tuple[tuple[str, TableDone], ...]:
    return tuple((each.name, each.done) for each in steps)


class _MergeTransaction(Transaction):
    """The commit of a merge; none if another process merged the same meanwhile."""

    only_committed: frozenset[str] = frozenset()
    works: Mapping[str, BranchWork] = MappingProxyType({})

    @property
    def is_squashed(self) -> bool:
        return not self._merged

    @property
    def has_files(self) -> bool:
        return self._beside.is_any

    def is_done(self, tip: Hash | None) -> bool:
        """Whether the function that gives the files says that nothing is left to do."""
        return self._beside.after(tip) is None

    def tree(self, tip: Hash | None) -> TableTree | None:
        objects = self._context.git.objects
        if tip != self._tip and tip is not None and not self.is_squashed:
            (theirs,) = self._merged
            if is_ancestor(objects, theirs, tip):
                return None
        return super().tree(tip)

    def _meet_outsiders(self, name: str, staged: Pending) -> None:
        super()._meet_outsiders(name, staged)
        if name in self.only_committed and name in self.works:
            check_only_committed(name, self.works[name], staged.stage.base)
