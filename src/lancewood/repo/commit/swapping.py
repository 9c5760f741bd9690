"""The commit point: a branch moves from one commit to the next, or not at all.

The tree of the new commit is built anew for every attempt, so the loser of a race sees what the
winner committed and decides again. Files beside the tables may depend on that too, and can
therefore be given as a function of the parent commit. After an unclear answer the branch is walked
from its tip back to where we began: if our commit is there, it has landed.

Two proposals record what is there. ``StandingTables`` are the tables of a branch as they stand at
one moment: the newest version of every table is looked at twice, before and after the tree is
written. If one moved in between, the states may never have been there together, and it is done
again. ``FileSet`` is a whole set of files: what it leaves out is gone from the branch. Tables stay
as they are pinned, for a history that has both would otherwise lose its tables by recording a
file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from lancewood.catalog.files import checked_files, merge_files, put_files
from lancewood.catalog.names import branch_ref, lance_branch
from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.location import Location
from lancewood.engine.versions import Watch
from lancewood.errors import (
    CommitUnknownError,
    IncompatibleConflictError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.history import walk
from lancewood.git.objects import Signature, TreeEntry
from lancewood.git.text_merge import Favor
from lancewood.git.values import Hash
from lancewood.model.ids import Version
from lancewood.repo.context import Kept, RepoContext
from lancewood.repo.identity import checked_message, first_line
from lancewood.repo.inspect.view import View
from lancewood.repo.landing import finish_moves, join_tables, land_rest
from lancewood.repo.outcome import Committed
from lancewood.repo.writable import changed_head, working_location
from lancewood.store.retry import SWAPS, Retry

FilesBeside: TypeAlias = Mapping[str, bytes] | Callable[[View | None], Mapping[str, bytes] | None]
"""Files by path; or a function of the parent commit (None for the first commit) that returns them,
or None if nothing is left to commit. It may raise ConflictError."""
_MOST_NAMED = 10


class CommitProposal(Protocol):
    """What is to be committed."""

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The tables of a commit that follows ``tip``; None if nothing is left to commit.

        Called again with the new tip if another commit was faster. Raises ConflictError if the
        two are incompatible; nothing is visible then.
        """


def swap(
    context: RepoContext,
    branch: str,
    proposal: CommitProposal,
    *,
    message: str,
    author: Signature,
    merged: Sequence[Hash] = (),
    committer: Signature | None = None,
    verb: str = "commit",
    retry: Retry = SWAPS,
) -> Hash | None:
    """The commit that the branch moved to; None if there was nothing to commit.

    ``merged`` are further parents, ``committer`` defaults to the author, ``verb`` is for the log of
    the branch. Raises RetryableConflictError if others were faster too often, CommitUnknownError if
    it is unknown whether the branch moved; after any other error it did not.
    """
    objects = context.git.objects

    def make(tip: Hash | None) -> Hash | None:
        tables = proposal.tree(tip)
        if tables is None:
            return None
        parents = ((tip,) if tip is not None else ()) + tuple(merged)
        return objects.put_commit(tables.put(), parents, author, message, committer)

    return swap_ref(
        context,
        branch_ref(branch),
        make,
        what=f"branch {branch!r}",
        verb=verb,
        title=first_line(message),
        by=committer or author,
        retry=retry,
        branch=branch,
    )


def swap_ref(
    context: RepoContext,
    ref: str,
    make: Callable[[Hash | None], Hash | None],
    /,
    *,
    what: str,
    verb: str,
    title: str,
    by: Signature,
    retry: Retry = SWAPS,
    **facts: str,
) -> Hash | None:
    """Move any ref to a commit that ``make`` makes after the ref's value; returns that commit, or
    None if ``make`` returns none.

    ``what`` is how errors call the ref, ``facts`` what they carry besides.
    """
    refs = context.git.refs
    with ExitStack() as stack:
        for attempt in retry:
            tip = refs.read(ref)
            commit = make(tip)
            if commit is None:
                return None
            why = f"{verb}{' (initial)' if tip is None else ''}: {title}"
            try:
                if refs.move(ref, tip, commit, why=why, by=by):
                    return commit
            except RetryableConflictError:
                raise
            except (LancewoodError, OSError) as unclear:
                landed = has_landed(context, ref, commit, since=tip)
                if landed:
                    return commit
                if landed is None:
                    raise CommitUnknownError(
                        f"nobody can tell yet whether {what} moved to commit {commit[:12]}: "
                        f"{unclear}. Look at log(): if the commit is there it is done, else run "
                        "it again",
                        **facts,
                        commit=commit,
                    ) from unclear
                raise
            if not attempt:
                # From here on in order of arrival: crowds would rebuild the same things in vain.
                stack.enter_context(context.git.turn())
    raise RetryableConflictError(
        f"{what} of {context.root} moved {retry.attempts} times while a commit was about to be "
        "made; run it again when fewer writers are active",
        **facts,
        attempts=retry.attempts,
    )


def has_landed(context: RepoContext, ref: str, commit: Hash, since: Hash | None) -> bool | None:
    """Whether a commit is between the tip of a ref and ``since``; None if unreadable."""
    try:
        tip = context.git.refs.read(ref)
        if tip is None:
            return False
        for each in walk(context.git.objects, [tip], first_parent=True):
            if each.hash == commit:
                return True
            if each.hash == since:
                return False
    except (LancewoodError, OSError):
        return None
    return False


class Beside:
    """The files of one commit that is about to be made."""

    def __init__(self, context: RepoContext, files: FilesBeside | None) -> None:
        self._context = context
        self._files = files if files is None or callable(files) else checked_files(files)
        self._seen: tuple[Hash | None, dict[str, bytes] | None] | None = None

    @property
    def is_any(self) -> bool:
        return self._files is not None

    def after(self, tip: Hash | None) -> dict[str, bytes] | None:
        """The files of a commit that follows ``tip``; None if nothing is left to commit."""
        if self._files is None:
            return {}
        if not callable(self._files):
            return dict(self._files)
        if self._seen is None or self._seen[0] != tip:
            found = self._files(None if tip is None else View(self._context, tip))
            self._seen = tip, None if found is None else checked_files(found)
        return self._seen[1]


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change from the files that some commits have in common, to those of another."""

    context: RepoContext
    bases: tuple[Hash, ...]
    """Commits before the change, newest first, several after criss-cross merges; none: no files."""
    after: Hash | None
    """The commit after the change; None stands for no files."""
    refused: str
    """What to say is refused, if files are in the way."""
    favor: Favor | None = None
    """Which side counts where both changed the same."""

    def applied(self, now: Mapping[str, TreeEntry]) -> Mapping[str, TreeEntry]:
        """The entries of a tree with the change applied.

        Raises IncompatibleConflictError with the files in conflict.
        """
        theirs = self.context.tree(self.after).files
        found, conflicts = merge_files(
            self.context.git.objects, self.bases, now, theirs, favor=self.favor
        )
        if not conflicts:
            return found
        some, files = conflicts[:_MOST_NAMED], [each.path for each in conflicts]
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        raise IncompatibleConflictError(
            f"{self.refused}, and nothing has changed. Files that do not go together: "
            f"{', '.join(map(str, some))}{more}; make them the same on one side with snapshot(), "
            "and do it again",
            files=files,
        )


_ROUNDS = 20


@dataclass
class StandingTables:
    """A proposal to commit the tables of a branch as they stand."""

    context: RepoContext
    branch: str
    adopt: bool = False
    changed: tuple[str, ...] = ()
    """The tables that differ from the commit before."""
    _landed: set[Hash] = field(default_factory=set)
    _diverged: set[str] = field(default_factory=set)

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The tables as they stood at one moment; None if they are as they were committed.

        Raises RetryableConflictError if they never stand still.
        """
        tables = self.context.tree(tip)
        kept, strays = self._pinned(tables)
        held = {name: each.held for name, each in kept.items() if each.held is not None}
        if tip is not None and tip not in self._landed:
            finish_moves(self.context, self.branch, tip)
            self._land(tip, [*(kept.keys() - held.keys()), *strays])
            self._landed.add(tip)
        away = self._away(strays)
        watches = {name: each.watch for name, each in kept.items()}
        watches |= {name: Watch(each.store) for name, (_, each) in away.items()}
        for _ in range(_ROUNDS):
            seen = {name: _newest(name, each) for name, each in watches.items()}
            lost = [name for name, version in held.items() if seen[name] < version]
            if lost:
                for name in lost:
                    kept[name].forget()
                    del held[name]
                self._land(tip, lost)
                continue
            moved = {name: each for name, each in seen.items() if held.get(name) != each}
            changes = self._changes(kept, away, moved)
            self.changed = tuple(sorted(changes))
            if not changes:
                return None
            join_tables(self.context, changes, new=away)
            found = tables.with_pins(changes)
            found.put()
            if all(_newest(name, each) == seen[name] for name, each in watches.items()):
                return found
        raise RetryableConflictError(
            f"the tables of branch {self.branch!r} moved {_ROUNDS} times while they were to be "
            "recorded together; commit when fewer writers are active",
            branch=self.branch,
        )

    def _pinned(self, tables: TableTree) -> tuple[dict[str, Kept], dict[str, Pin]]:
        """The tables that are pinned on their branch of this name, with what is known of each; and
        the pins of the others."""
        known, wanted = self.context.memory.kept(self.branch), lance_branch(self.branch)
        kept, strays = dict[str, Kept](), dict[str, Pin]()
        for name, entry in tables.entries().items():
            found = known.get(name)
            if found is not None and (found.entry is entry or found.entry == entry):
                kept[name] = found
                continue
            pin = tables.pin(name)
            if pin.branch != wanted:
                strays[name] = pin
                continue
            is_there = found is not None and found.pin.uri == pin.uri
            watch = found.watch if found and is_there else Watch(self.context.location(pin).store)
            kept[name] = known[name] = Kept.new(entry, pin, watch)
        return kept, strays

    def _land(self, tip: Hash | None, names: Collection[str]) -> None:
        if names:
            found = land_rest(self.context, tip, names)
            self._diverged.update(each.table for each in found)

    def _away(self, strays: Mapping[str, Pin]) -> dict[str, tuple[Pin, Location]]:
        """The tables that are written on another branch of theirs than is pinned, and where."""
        found = {}
        for name, pin in strays.items():
            location = working_location(self.context, self.branch, pin, adopt=self.adopt)
            if location is not None:
                found[name] = pin, location
        return found

    def _changes(
        self,
        kept: Mapping[str, Kept],
        away: Mapping[str, tuple[Pin, Location]],
        moved: Mapping[str, Version],
    ) -> dict[str, Pin | None]:
        changes: dict[str, Pin | None] = {}
        for name, newest in moved.items():
            known = kept.get(name)
            pin, location = (
                away[name] if known is None else (known.pin, self.context.location(known.pin))
            )
            head = changed_head(
                self.context, pin, location, newest, is_pinned_branch=known is not None
            )
            if head is not None:
                changes[name] = pin_of(head, pin.uri)
            elif known is not None and name not in self._diverged:
                known.held = newest
        return changes


def _newest(name: str, watch: Watch) -> Version:
    """The newest version of a table; raises NotFoundError where it is gone."""
    try:
        return watch.newest().version
    except NotFoundError as gone:
        raise NotFoundError(
            f"table {name!r} is gone: {gone.message}. Bring its files back from a copy, or "
            f"remove({name!r}) leaves it out from now on",
            **{**gone.facts, "table": name},
        ) from gone


@dataclass
class FileSet:
    """A proposal to commit files; their paths are checked."""

    context: RepoContext
    branch: str
    files: Mapping[str, bytes]
    changed: tuple[str, ...] = ()
    """No table differs from the commit before."""
    _seen: list[Mapping[str, TreeEntry]] = field(default_factory=list)
    """Files that the branch had when the change was begun."""

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The files, with the tables of ``tip``; None if the branch has exactly these already.

        Raises RetryableConflictError if another commit changed the files meanwhile.
        """
        before = self.context.tree(tip)
        now = before.files
        if self._seen and self._seen[0] != now:
            raise RetryableConflictError(
                f"another commit changed the files of branch {self.branch!r} meanwhile; look at "
                "them, and make the snapshot again",
                branch=self.branch,
            )
        self._seen.append(now)
        found = before.with_files(put_files(self.context.git.objects, self.files))
        return None if tip is not None and found.files == now else found


def record(proposal: StandingTables | FileSet, message: str, author: str | None) -> Committed:
    """Commit a proposal to its branch; without a change there is no commit, and the result says
    so."""
    context, branch = proposal.context, proposal.branch
    text, by = checked_message(message), context.author(author)
    commit = swap(context, branch, proposal, message=text, author=by)
    if commit is None:
        return Committed(context.tip(branch), branch, (), is_new=False)
    return Committed(commit, branch, proposal.changed)
