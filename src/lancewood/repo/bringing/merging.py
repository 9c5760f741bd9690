"""``Repository.merge``: the work of one branch comes into another, all tables in one commit.

The work on the branches of the tables is published, each as the next state of its table, and all
of them become visible with one commit that has two parents. Where that commit follows ours without
anything to publish, a branch other than main just moves to theirs. If tables refuse, the error
names all of them, and nothing has changed.

A squashed merge does the same work, and its commit has one parent: nothing of the target leads to
theirs afterwards, and no note says that it was merged. It is for branches that are deleted then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    InvalidInputError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.hashes import Hash
from lancewood.git.history import is_ancestor, merge_bases
from lancewood.git.objects import Signature
from lancewood.jobs.publishing.work import Work
from lancewood.model.refs import MAIN
from lancewood.repo.bringing.merge_plan import (
    MADE_TWICE,
    MergePlan,
    TableMerge,
    check_only_committed,
    find_work,
    writes_over,
)
from lancewood.repo.bringing.next_state import (
    JudgedWork,
    clear,
    judge_published,
    restored,
)
from lancewood.repo.committing.swapping import FileChange, FilesBeside
from lancewood.repo.committing.transaction import Pending, Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import catch_up, land_rest, landed_version, pinned_state
from lancewood.repo.moving import BranchMove
from lancewood.repo.notes import note_merges
from lancewood.repo.outcome import Committed, Refusals, TableDone
from lancewood.repo.writing.abandoned import abandoned_head, abandoned_since
from lancewood.repo.writing.writable import diverged, writable_head
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
) -> Committed:
    """See ``Repository.merge``."""
    theirs = context.commit(name)
    for _ in BRANCH_WORK:
        changes = _MergeTransaction(
            context,
            into,
            message or _message(context, name, into),
            author,
            adopt=adopt,
            merged=() if squash else (theirs,),
            verb=f"merge {name}",
            files=files,
        )
        changes.only_committed = frozenset(only_committed)
        task = _Merging(context, name, into, changes.tip, theirs, author, adopt, changes)
        try:
            done = task.run(dry_run=dry_run)
        except ConflictError:
            if context.tip(into) == task.tip:
                raise
            continue
        if done is not None:
            return done
    raise RetryableConflictError(
        f"branch {into!r} moved {BRANCH_WORK.attempts} times while {name!r} was merged into it; "
        "merge when fewer writers are active",
        branch=into,
    )


@dataclass
class _Merging:
    """One attempt, onto one commit."""

    context: RepoContext
    name: str
    into: str
    tip: Hash | None
    """The commit that everything is planned for: the transaction began there."""
    theirs: Hash
    author: Signature
    adopt: bool
    changes: _MergeTransaction
    judged: dict[str, JudgedWork | None] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)

    def run(self, *, dry_run: bool) -> Committed | None:
        """What was done; None if the branch is at another commit by now."""
        objects = self.context.git.objects
        bases = [] if self.tip is None else merge_bases(objects, self.tip, self.theirs)
        base, crossing = (bases[0] if bases else None), tuple(bases[1:])
        is_merged = base == self.theirs and not self.changes.has_files
        if is_merged or self.changes.is_done(self.tip):
            return Committed(self.tip, self.into, (), is_new=False, is_dry_run=dry_run)
        if not dry_run:
            catch_up(self.context, self.into, self.tip)
        steps = self._steps(base, crossing, dry_run=dry_run)
        done = tuple((each.name, each.done) for each in steps)
        if base == self.tip and self.tip is not None and self._only_moves(steps):
            return self._moved(done, dry_run=dry_run)
        if not (self.changes.is_squashed and self.changes.has_files):
            change = FileChange(self.context, base, self.theirs, self._refused(), crossing)
            self.changes.bring_files(change)
        self._judge(steps, dry_run=dry_run)
        tables = tuple(each.name for each in steps)
        if dry_run:
            return Committed(self.tip, self.into, tables, done=done, is_dry_run=True)
        return self._committed(steps, done)

    def _steps(
        self, base: Hash | None, crossing: tuple[Hash, ...], *, dry_run: bool
    ) -> Sequence[TableMerge]:
        tree = self.context.tree
        plan = MergePlan(
            self.context,
            self.into,
            tree(base),
            tree(self.tip),
            tree(self.theirs),
            crossing=tuple(map(tree, crossing)),
            is_squashed=self.changes.is_squashed,
        )
        refusals = Refusals()
        steps = [*plan.steps(refusals)]
        for each in steps:
            if each.done is TableDone.PUBLISHED:
                try:
                    work = self._work(each, dry_run=dry_run)
                    if work is not None:
                        self.works[each.name] = work
                except LancewoodError as error:
                    refusals.add(each.name, error)
        refusals.check(self._refused())
        return steps

    def _work(self, step: TableMerge, *, dry_run: bool) -> Work | None:
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
            return work
        if dry_run:
            return None
        raise IncompatibleConflictError(
            "it landed together with a write from outside, and no version of it is exactly what "
            f"{self.name!r} pins; commit() it there as it stands, and merge that"
        )

    def _only_moves(self, steps: Sequence[TableMerge]) -> bool:
        if self.into == MAIN or self.changes.is_squashed or self.changes.has_files:
            return False
        return all(each.done is not TableDone.PUBLISHED for each in steps)

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

    def _judge(self, steps: Sequence[TableMerge], *, dry_run: bool) -> None:
        """Judge the work on every table; raises IncompatibleConflictError naming those that
        refuse. Of the tables only what was committed lands."""
        refusals = Refusals()
        for each in steps:
            work = self.works.get(each.name)
            if each.theirs is None or work is None:
                continue
            try:
                main = self.context.location(each.theirs.on(None))
                if not dry_run and each.ours is not None:
                    self._head(each.name, each.ours)
                elif each.ours is None:
                    left = abandoned_since(branch_location(main, work.parent), work.fork)
                    if left is not None and dry_run:
                        continue
                    if left is not None:
                        clear(left, work.fork)
                self.judged[each.name] = judge_published(main, work)
            except IncompatibleConflictError as conflict:
                why = f"{MADE_TWICE}. It says: {conflict.message}"
                refusals.add(each.name, why if each.is_made_twice else conflict)
            except LancewoodError as error:
                refusals.add(each.name, error)
        refusals.check(self._refused())

    def _committed(
        self, steps: Sequence[TableMerge], done: tuple[tuple[str, TableDone], ...]
    ) -> Committed | None:
        for each in steps:
            self._bring(self.changes, each)
        self.changes.works = self.works
        if not self.changes.is_squashed:
            branches = {held.branch for work in self.works.values() for held in work.own}
            note_merges(self.context, sorted(branches), self.theirs, self.into)
        made = self.changes.commit()
        if made.is_new:
            return replace(made, done=done)
        return made if self.changes.is_squashed else None

    def _bring(self, changes: Transaction, step: TableMerge) -> None:
        title = changes.title
        if step.done is not TableDone.PUBLISHED and step.done is not TableDone.RESTORED:
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

    def _refused(self) -> str:
        return f"{self.name!r} cannot be merged into {self.into!r}"


def _message(context: RepoContext, name: str, into: str) -> str:
    try:
        is_branch = context.tip(name) is not None
    except InvalidInputError:
        is_branch = False
    onto = "" if into == MAIN else f" into {into}"
    return f"Merge {'branch' if is_branch else 'commit'} '{name}'{onto}"


class _MergeTransaction(Transaction):
    """The commit of a merge; none if another process merged the same meanwhile."""

    only_committed: frozenset[str] = frozenset()
    works: Mapping[str, Work] = MappingProxyType({})

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
