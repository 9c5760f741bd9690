"""``Repository.revert`` and ``cherry_pick``: what a commit did is undone, or done once more.

Both are the same in two directions: a table that still has the content of one side of the commit
gets the content of the other side. Content is compared, whatever branch of the table it is on. With
other content the change is merged into it by rows. If tables refuse, the error names all of them,
and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from lancewood.catalog.names import lance_branch
from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.engine.snapshot import Snapshot, load_snapshot, same_content
from lancewood.engine.staging import Stage, find_landing
from lancewood.errors import (
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.objects import Commit, Signature
from lancewood.git.values import Hash
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.row_merge import RowMerge
from lancewood.jobs.publish.branch_work import load_part, load_work, load_work_onto
from lancewood.model.refs import called
from lancewood.repo.commit.swapping import FileChange
from lancewood.repo.commit.transaction import Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.identity import revert_message
from lancewood.repo.inspect.comparing import changed_tables
from lancewood.repo.landing import catch_up, landed_version, pinned_state, same_table
from lancewood.repo.merge.next_state import (
    NextState,
    RowMerges,
    clear,
    current_state,
    judge_published,
    judge_repeated,
    restored,
    with_merged,
)
from lancewood.repo.moving import out_of_place, uncommitted
from lancewood.repo.outcome import Committed, Refusals, TableDone
from lancewood.repo.writable import abandoned_head, abandoned_since, writable_head
from lancewood.store.retry import BRANCH_WORK

_Verb: TypeAlias = Literal["revert", "cherry-pick"]
_EXPECTED: Mapping[_Verb, str] = {
    "revert": (
        "left. Where later commits changed it, revert what came after it first, the newest first "
        "(log(table=…) lists that), or write the rows as they should be"
    ),
    "cherry-pick": "began with; make the change again here",
}


def revert(
    context: RepoContext,
    branch: str,
    revision: str,
    *,
    author: Signature,
    dry_run: bool,
    rows: RowMerges,
) -> Committed:
    """Undo a commit on ``branch``: the work behind ``Repository.revert``."""
    task = _redoing(context, branch, revision, "revert", rows, dry_run=dry_run)
    return task.run(revert_message(task.commit), author, None)


def cherry_pick(
    context: RepoContext,
    branch: str,
    revision: str,
    *,
    by: Signature,
    dry_run: bool,
    rows: RowMerges,
) -> Committed:
    """Repeat a commit on ``branch``: the work behind ``Repository.cherry_pick``."""
    task = _redoing(context, branch, revision, "cherry-pick", rows, dry_run=dry_run)
    return task.run(task.commit.message, task.commit.author, by)


def find_redone(
    context: RepoContext,
    branch: str,
    revision: str,
    verb: Literal["revert", "cherry_pick"],
    rows: RowMerges,
    table: str | None = None,
) -> dict[str, RowMerge]:
    """The tables that a revert or a pick would merge by rows, or one of them; nothing is changed.

    Raises IncompatibleConflictError for those that it would refuse otherwise.
    """
    does: _Verb = "revert" if verb == "revert" else "cherry-pick"
    task = _redoing(context, branch, revision, does, rows, dry_run=True)
    return task.row_merges(context.tip(branch), table)


def _redoing(
    context: RepoContext,
    branch: str,
    revision: str,
    verb: _Verb,
    rows: RowMerges,
    *,
    dry_run: bool,
) -> _Redoing:
    commit = context.git.objects.commit(context.commit(revision))
    before, after = commit.parents[:1], (commit.hash,)
    if verb == "revert":
        refused, before, after = f"{revision!r} cannot be reverted", after, before
    else:
        refused = f"{revision!r} cannot be picked for {branch!r}"
    files = FileChange(context, before, after[0] if after else None, refused, rows.favor)
    return _Redoing(context, branch, revision, commit, refused, verb, files, dry_run, rows)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A table that must have one content, and gets another; None means that there is no table."""

    name: str
    expected: Pin | None
    wanted: Pin | None


@dataclass(frozen=True, slots=True)
class _Step:
    """What to do with a table: pin it, or stage it once all tables are checked."""

    done: TableDone
    pin: Pin | None = None
    stage: Callable[[], Stage] | None = None
    uri: str = ""
    is_new: bool = False
    row_merge: RowMerge | None = None
    """What is merged by rows, before it is judged."""


class _WaitsToLandError(LancewoodError):
    """A dry run lands nothing, and what has not landed cannot be judged yet."""


@dataclass
class _Redoing:
    """One revert or pick: planned for a commit of the branch, and again if that has moved."""

    context: RepoContext
    branch: str
    revision: str
    commit: Commit
    refused: str
    """How the error begins if tables refuse."""
    verb: _Verb
    files: FileChange
    dry_run: bool
    rows: RowMerges
    merged: dict[str, NextState] = field(default_factory=dict)
    """Tables that are merged by rows."""
    title: str = ""
    """What the versions of the tables carry of the message."""

    def run(self, message: str, author: Signature, committer: Signature | None) -> Committed:
        for _ in BRANCH_WORK:
            changes = Transaction(
                self.context, self.branch, message, author, committer=committer, verb=self.verb
            )
            tip, self.title = changes.tip, changes.title
            try:
                return self._once(changes, tip)
            except (ConflictError, InvalidInputError) as conflict:
                is_meanwhile = self.merged and isinstance(conflict, RetryableConflictError)
                for each in self.merged.values():
                    each.discard()
                self.merged.clear()
                if self.context.tip(self.branch) == tip and not is_meanwhile:
                    raise
        raise RetryableConflictError(
            f"branch {self.branch!r} moved {BRANCH_WORK.attempts} times meanwhile; do it when "
            "fewer writers are active",
            branch=self.branch,
        )

    def _once(self, changes: Transaction, tip: Hash | None) -> Committed:
        """Everything is planned for the commit where the transaction began."""
        if not self.dry_run:
            catch_up(self.context, self.branch, tip)
        steps = self._steps(tip)
        changes.bring_files(self.files)
        done = tuple((name, step.done) for name, step in sorted(steps.items()))
        if self.dry_run:
            now = self.context.tree(tip).files
            is_new = bool(steps) or self.files.applied(now) != now
            tables = tuple(sorted(steps))
            made = Committed(tip, self.branch, tables, is_new, done=done, is_dry_run=True)
            return with_merged(made, self.revision, self.merged, self.rows)
        for name, step in steps.items():
            if step.stage is None:
                changes.pin(name, step.pin)
            else:
                changes.bring(name, step.stage(), step.uri, is_new=step.is_new)
        made = replace(changes.commit(), done=done)
        return with_merged(made, self.revision, self.merged, self.rows)

    def row_merges(self, tip: Hash | None, table: str | None) -> dict[str, RowMerge]:
        """The tables that are merged by rows, or one of them, before anything is decided."""
        steps = self._steps(tip, only=table, judges=False)
        return {name: each.row_merge for name, each in steps.items() if each.row_merge is not None}

    def _steps(
        self, tip: Hash | None, *, only: str | None = None, judges: bool = True
    ) -> dict[str, _Step]:
        """What the tables need, or one of them; raises an error naming those that refuse."""
        steps, refusals = dict[str, _Step](), Refusals()
        for each in self._exchanges():
            if only not in (None, each.name):
                continue
            try:
                step = self._step(each, tip)
                if judges and step is not None and step.row_merge is not None:
                    step = self._judged(each.name, step, step.row_merge)
                if step is not None:
                    steps[each.name] = step
            except _WaitsToLandError:
                steps[each.name] = _Step(TableDone.REPEATED)
            except LancewoodError as error:
                refusals.add(each.name, error)
        self.rows.check_columns(self.refused)
        verb = self.verb.replace("-", "_")
        shown = f"conflicts({self.revision!r}, verb={verb!r}) shows them"
        refusals.check(self.refused, f"{shown}, resolve= decides them", self.rows.stale)
        return steps

    def _exchanges(self) -> Iterator[_Exchange]:
        """What the commit did against its first parent, in the direction that is asked for."""
        parent = self.commit.parents[0] if self.commit.parents else None
        tree = self.context.tree
        for each in changed_tables(tree(parent), tree(self.commit.hash)):
            if each.kind != "moved" and self.verb == "revert":
                yield _Exchange(each.name, each.after, each.before)
            elif each.kind != "moved":
                yield _Exchange(each.name, each.before, each.after)

    def _step(self, change: _Exchange, tip: Hash | None) -> _Step | None:
        """What a table needs; None where it is as it should be. Raises where it refuses."""
        tree = self.context.tree(tip)
        now = tree.pin(change.name) if change.name in tree.names() else None
        expected, wanted = change.expected, change.wanted
        if now is None or wanted is None:
            if now is None and wanted is None:
                return None
            if now is None and expected is not None:
                raise IncompatibleConflictError("there is no such table on this branch")
            if now is None:
                assert wanted is not None
                return self._added(wanted)
            assert expected is not None
            self._check(now, expected)
            return _Step(TableDone.REMOVED)
        if same_table(self.context, now, wanted):
            return None
        if expected is None:
            raise IncompatibleConflictError("there is another table of that name on this branch")
        if same_table(self.context, expected, wanted):
            return None
        try:
            self._check(now, expected)
            return self._changed(change.name, now, expected, wanted, tip)
        except IncompatibleConflictError as refusal:
            return self._united(change.name, now, expected, wanted, tip, refusal)

    def _united(
        self,
        name: str,
        now: Pin,
        base: Pin,
        wanted: Pin,
        tip: Hash | None,
        refusal: IncompatibleConflictError,
    ) -> _Step:
        """The change merged into what is there by rows; raises ``refusal`` if rows cannot be told
        apart."""
        context = self.context
        if not now.uri == base.uri == wanted.uri or uncommitted(context, self.branch, now):
            raise refusal
        self.rows.check_table(name)
        ours = current_state(context, self.branch, tip, name, now, dry_run=self.dry_run)
        before, theirs = (pinned_state(context, each) for each in (base, wanted))
        row_merge = self.rows.row_merge(name, Bases(before), ours, theirs)
        if row_merge is None:
            raise refusal
        return _Step(TableDone.MERGED, uri=now.uri, row_merge=row_merge)

    def _judged(self, name: str, step: _Step, row_merge: RowMerge) -> _Step | None:
        """What is merged by rows, prepared; None if it changes nothing."""
        judged = self.rows.judge(row_merge, dry_run=self.dry_run, is_merge=False)
        if judged is None:
            return None
        self.merged[name] = judged
        return replace(step, stage=lambda: judged.stage(self.title))

    def _check(self, now: Pin, expected: Pin) -> None:
        """Raise where a table is not what it is expected to be."""
        if not same_table(self.context, now, expected):
            raise IncompatibleConflictError(
                f"the content here is not what that commit {_EXPECTED[self.verb]}"
            )
        why = uncommitted(self.context, self.branch, now)
        if why is not None:
            raise IncompatibleConflictError(why)

    def _added(self, wanted: Pin) -> _Step:
        """A table that this branch does not pin."""
        context, target = self.context, lance_branch(self.branch)
        if target is None and wanted.branch is not None:
            return self._published(wanted)
        why = out_of_place(context, self.branch, wanted)
        if why is not None:
            raise IncompatibleConflictError(why)
        source = pinned_state(context, wanted)
        head = None if wanted.branch != target else abandoned_head(context, wanted)
        if head is None:
            return _Step(TableDone.TAKEN, wanted)

        def back(head: Snapshot = head) -> Stage:
            return restored(head, source, self.title)

        return _Step(TableDone.RESTORED, None, back, wanted.uri, is_new=True)

    def _published(self, wanted: Pin) -> _Step:
        """A table that was made on another branch, for main."""
        main, runner = self.context.location(wanted.on(None)), self.rows.runner
        work = load_work_onto(self._landed(wanted), None)
        left = abandoned_since(main, work.fork)
        judged = judge_published(main, work, runner) if left is None else None
        if judged is None and left is None:
            return _Step(TableDone.TAKEN, pin_of(load_snapshot(main), wanted.uri))

        def again() -> Stage:
            if left is not None:
                clear(left, work.fork)
            now = judge_published(main, work, runner) if judged is None else judged
            return Stage(load_snapshot(main)) if now is None else now.stage(self.title)

        return _Step(TableDone.REPEATED, None, again, wanted.uri, is_new=True)

    def _changed(self, name: str, now: Pin, expected: Pin, wanted: Pin, tip: Hash | None) -> _Step:
        context, target = self.context, lance_branch(self.branch)

        def head() -> Snapshot:
            found = writable_head(context, self.branch, tip, name, now)
            if not same_content(found, context.open(now)):
                raise RetryableConflictError(
                    f"table {name!r} was written meanwhile; run it again", table=name
                )
            return found

        def back(source: Snapshot) -> _Step:
            return _Step(
                TableDone.RESTORED, None, lambda: restored(head(), source, self.title), now.uri
            )

        if wanted.branch == target:
            return back(pinned_state(context, wanted))
        if now.branch == wanted.branch and out_of_place(context, self.branch, wanted) is None:
            return _Step(TableDone.TAKEN, wanted)
        if now.branch == target and target is not None:
            begun = load_work(load_snapshot(context.location(now))).first
            if same_content(begun, context.open(wanted)):
                return back(begun)
        first, last = self._range(expected, wanted)
        work = load_part(first, last, target)

        def again() -> Stage:
            judged = judge_repeated(context.location(now.on(None)), work, head(), self.rows.runner)
            assert judged is not None, "the content of the two is not the same"
            return judged.stage(self.title)

        return _Step(TableDone.REPEATED, None, again, now.uri)

    def _range(self, expected: Pin, wanted: Pin) -> tuple[Snapshot, Snapshot]:
        """The versions of one branch of the table between which the commit's work lies."""
        last = self._landed(wanted)
        if expected.branch == wanted.branch:
            return self._landed(expected), last
        if wanted.branch is not None:
            begun = load_work(last).first
            if same_content(begun, self.context.open(expected)):
                return begun, last
        raise IncompatibleConflictError(
            f"the commit took it from its {called(expected.branch)} to its "
            f"{called(wanted.branch)}, and that cannot be done elsewhere; merge instead"
        )

    def _landed(self, pin: Pin) -> Snapshot:
        found = landed_version(self.context, pin)
        if found is None:
            if self.dry_run and pin.landing is not None:
                state = find_landing(self.context.location(pin), pin.landing)
                if state.is_waiting:
                    raise _WaitsToLandError("it is not known before it has landed")
            raise IncompatibleConflictError(
                f"it landed on its {called(pin.branch)} together with a write from outside, or not "
                "at all: there is no version to take its work from"
            )
        return found
