"""Moving a branch to an existing commit, with its tables; and moving HEAD.

    1  every table of the commit is checked: what it needs, or why it cannot follow
    2  a note records what the tables are to get
    3  the branch moves: from here on it is done
    4  the tables get it, as new versions, and the note is removed

An interruption before 3 has changed nothing; after it, the next writer does the rest. A table that
the commit pins on the branch's own branch of the table is restored. One that it pins on another
branch of the table begins anew from there when it is next written, or at once if it has versions of
its own. Moving HEAD touches no table.
"""

from __future__ import annotations

import uuid as uuids
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from lancewood.catalog.names import branch_ref, lance_branch
from lancewood.catalog.pin import Pin
from lancewood.engine.snapshot import branch_location, load_snapshot
from lancewood.engine.staging import Stage, find_landing
from lancewood.engine.versions import load_branch, require_newest
from lancewood.errors import (
    ConflictError,
    FormatError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.git.objects import Signature
from lancewood.git.refs import Head
from lancewood.git.values import Hash
from lancewood.model.refs import called
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import (
    catch_up,
    is_as_pinned,
    is_beginning,
    land_rest,
    landed_version,
    move_table,
    pinned_state,
    restoring,
)
from lancewood.repo.notes import (
    MoveNote,
    PendingMove,
    load_move_notes,
    remove_move_note,
    save_move_note,
)
from lancewood.repo.outcome import Committed, Divergence, NotLandedWarning, Refusals
from lancewood.repo.refs import Branches
from lancewood.repo.writable import changed_head, why_not_ours, working_location
from lancewood.store.retry import BRANCH_WORK


@dataclass
class BranchMove:
    """The move of one branch to another commit."""

    context: RepoContext
    branch: str
    target: Hash
    why: str
    by: Signature
    soft: bool = False
    """Move the ref only."""
    keeps: bool = False
    """Refuse uncommitted writes, and leave tables alone that both commits pin alike."""
    refused: str = ""
    """How an error begins if a table is in the way."""
    messages: list[str] = field(default_factory=list)
    """Warnings about tables that did not follow."""

    def dry_run(self) -> Committed:
        """What ``run`` would do now; raises as it does. Writes nothing."""
        tip = self.context.tip(self.branch)
        tables = tuple(sorted(self.plan(tip)))
        is_new = bool(tables) or tip != self.target
        return Committed(self.target, self.branch, tables, is_new, is_dry_run=True)

    def run(self, only_from: Hash | None = None) -> Committed | None:
        """Move the branch; None if it is not at ``only_from``.

        Raises IncompatibleConflictError with every table that is in the way; nothing has changed
        then. A warning and the result name tables that could not follow.
        """
        refs, ref = self.context.git.refs, branch_ref(self.branch)
        for _ in BRANCH_WORK:
            tip = refs.read(ref)
            if only_from is not None and tip != only_from:
                return None
            self._land(tip)
            pending = self.plan(tip)
            if tip == self.target:
                for name, each in pending.items():
                    move_table(self.context, self.branch, self.context.tree(tip).pin(name), each)
                return Committed(tip, self.branch, tuple(sorted(pending)), is_new=bool(pending))
            note = (
                save_move_note(self.context, self.branch, tip, self.target, pending)
                if pending
                else None
            )
            if self.soft:  # it does not want what interrupted moves to this commit were to do
                here = tip if tip is not None and tip in self.context.git.objects else None
                for unwanted in load_move_notes(self.context, self.branch):
                    has_happened = unwanted.has_happened(self.context, here)
                    if unwanted.after == self.target and not has_happened:
                        remove_move_note(self.context, unwanted)
            if self._moves(tip, note):
                return self._finish(pending, note)
            if note is not None:
                remove_move_note(self.context, note)
        raise RetryableConflictError(
            f"branch {self.branch!r} moved {BRANCH_WORK.attempts} times while it was to be moved "
            f"to {self.target[:12]}; do it when nobody commits to it",
            branch=self.branch,
        )

    def _land(self, tip: Hash | None) -> None:
        """Bring the tables up to the commit that the branch leaves. A commit that cannot be read is
        no obstacle: the branch leaves it."""
        try:
            catch_up(self.context, self.branch, tip)
        except (FormatError, NotFoundError, UnsupportedError):
            if self.keeps or tip == self.target:
                raise
            land_rest(self.context, self.target)

    def plan(self, tip: Hash | None) -> dict[str, PendingMove]:
        """What the tables are to get; raises IncompatibleConflictError. Writes nothing."""
        wanted = self.context.tree(self.target)
        now = self.context.tree(tip if self.keeps else None)
        refusals, pending = Refusals(), dict[str, PendingMove]()
        for name in wanted.names():
            if self.keeps and wanted.blob_hash(name) == now.blob_hash(name):
                continue
            try:
                pin = wanted.pin(name)
                why = out_of_place(self.context, self.branch, pin)
                if why is None and self.keeps and now.blob_hash(name) is not None:
                    why = uncommitted(self.context, self.branch, now.pin(name))
                if why is not None:
                    refusals.add(name, why)
                elif not self.soft:
                    needed = self._needed(pin)
                    if needed is not None:
                        pending[name] = needed
            except LancewoodError as error:
                refusals.add(name, error)
        refusals.check(self.refused or f"branch {self.branch!r} cannot go to {self.target[:12]}")
        return pending

    def _needed(self, pin: Pin) -> PendingMove | None:
        wanted = lance_branch(self.branch)
        if pin.branch == wanted:
            return self._restoration(pin)
        main = self.context.location(pin.on(None))
        if wanted is None or load_branch(main.store, wanted) is None:
            return None
        source = landed_version(self.context, pin)
        if source is None:
            raise ConflictError(
                f"the commit pins a state of its {called(pin.branch)} that did not land as it is; "
                "no branch can begin there"
            )
        head = load_snapshot(branch_location(main, wanted))
        if is_beginning(head, source.manifest.branch, source.manifest.version):
            return None
        return PendingMove(head.manifest.version, None)

    def _restoration(self, pin: Pin) -> PendingMove | None:
        """What restores a state on its own branch; tried in memory first, to see if it can be
        done."""
        location = self.context.location(pin)
        head = load_snapshot(location)
        landing = pin.landing
        has_landed = landing is None or find_landing(location, landing).is_landed
        if has_landed and is_as_pinned(self.context, pin, head):
            return None
        Stage(head).commit(restoring(head, pinned_state(self.context, pin)))
        # Under the identity of its last step a state has landed with that, and lands no more.
        uuid = str(uuids.uuid4()) if landing is None or has_landed else landing.uuids[-1]
        return PendingMove(head.manifest.version, uuid)

    def _moves(self, tip: Hash | None, note: MoveNote | None) -> bool:
        refs, ref = self.context.git.refs, branch_ref(self.branch)
        try:
            return refs.move(ref, tip, self.target, why=self.why, by=self.by)
        except RetryableConflictError:
            if note is not None:
                remove_move_note(self.context, note)
            raise
        except (LancewoodError, OSError):
            if refs.read(ref) == self.target:
                return True
            raise

    def _finish(self, pending: Mapping[str, PendingMove], note: MoveNote | None) -> Committed:
        tree = self.context.tree(self.target)
        diverged, is_settled = [], True
        for name, each in pending.items():
            try:
                move_table(self.context, self.branch, tree.pin(name), each)
            except ConflictError as conflict:
                is_settled = False
                diverged.append(Divergence(name, conflict))
                self.messages.append(f"table {name!r} could not follow: {conflict.message}")
            except (LancewoodError, OSError) as failure:
                is_settled = False
                self.messages.append(
                    f"table {name!r} did not follow yet, the next writer does it: {failure}"
                )
        if note is not None and is_settled:
            with suppress(LancewoodError, OSError):  # a stale note is recognized as done
                remove_move_note(self.context, note)
        for each_text in self.messages:
            warnings.warn(each_text, NotLandedWarning, stacklevel=5)
        return Committed(self.target, self.branch, tuple(sorted(pending)), diverged=tuple(diverged))


def out_of_place(context: RepoContext, branch: str, pin: Pin) -> str | None:
    """Why a branch of the repository cannot continue from a pin; None if it can."""
    wanted = lance_branch(branch)
    if pin.branch == wanted:
        return None
    if wanted is None:
        return (
            f"it is pinned on its {called(pin.branch)}, and main is written on main; merge "
            f"{str(pin.branch)!r} into main instead"
        )
    record = load_branch(context.location(pin.on(None)).store, wanted)
    if record is None:
        return None
    why = why_not_ours(context, record, pin.branch)
    return None if why is None else f"it {why}"


def uncommitted(context: RepoContext, branch: str, pin: Pin) -> str | None:
    """Why a table must not be replaced: it has uncommitted writes. None if it has not."""
    location = working_location(context, branch, pin)
    if location is None:
        return None
    is_pinned_branch = pin.branch == lance_branch(branch)
    if is_pinned_branch and pin.landing is not None:
        state = find_landing(location, pin.landing)
        if state.conflict is not None:
            return (
                f"it has diverged: {state.conflict.message}. commit() takes it as it stands, "
                "reset() brings back what is committed"
            )
        if not state.versions:
            return None
    newest = require_newest(location.store).version
    if changed_head(context, pin, location, newest, is_pinned_branch=is_pinned_branch) is None:
        return None
    return f"it was written up to version {newest}, and that is not committed; commit() it first"


def reset(
    context: RepoContext, branch: str, revision: str, *, soft: bool, dry_run: bool
) -> Committed:
    """Move a branch and its tables to the commit of a revision; ``soft`` moves the ref alone."""
    move = BranchMove(
        context,
        branch,
        context.commit(revision),
        f"reset: moving to {revision}",
        context.author(),
        soft=soft,
        refused=f"branch {branch!r} cannot be reset to {revision!r}",
    )
    if dry_run:
        return move.dry_run()
    done = move.run()
    assert done is not None, "asked from wherever it is"
    return done


def switch(context: RepoContext, branch: str, *, create: bool, at: str) -> Head:
    """Set HEAD to a branch; a new branch is made first."""
    refs = context.git.refs
    ref = branch_ref(branch)
    before = _before(context)
    if create:
        Branches(context).create(branch, at)
    elif refs.read(ref) is None and before.branch != branch:
        known = ", ".join(Branches(context).list()) or "none yet"
        way = "create=True makes it"
        if _is_commit(context, branch):
            way = "it names a commit, and detach() goes there"
        raise NotFoundError(
            f"there is no branch {branch!r} (there is {known}); {way}", branch=branch
        )
    refs.switch_head(branch, why=_checkout(before, branch), by=context.author())
    return refs.head()


def _is_commit(context: RepoContext, revision: str) -> bool:
    try:
        context.commit(revision)
    except LancewoodError:
        return False
    return True


def _before(context: RepoContext) -> Head:
    """What HEAD names; nothing if it cannot be read, since moving HEAD repairs it."""
    try:
        return context.git.refs.head()
    except FormatError:
        return Head(None, None)


def detach(context: RepoContext, revision: str) -> Head:
    """Set HEAD to a commit."""
    refs = context.git.refs
    commit = context.commit(revision)
    why = _checkout(_before(context), revision)
    refs.detach_head(commit, why=why, by=context.author())
    return refs.head()


def _checkout(before: Head, to: str) -> str:
    came = before.branch or str(before.hash or "nowhere")[:12]
    return f"checkout: moving from {came} to {to}"
