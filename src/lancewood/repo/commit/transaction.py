"""A transaction over several tables: stage, swap, land.

    1  each table's next states are built, and written as detached manifests that no reader sees
    2  a commit that pins them is made, and the branch moves to it: from here on it is done
    3  the states land on the branches of the tables, as ordinary versions

An interruption before 2 leaves orphans. After 2, every reader of the repository sees all of it, and
the next writer lands the rest. If another commit was faster, tables that it did not change go on as
they are; the others are judged by the rules of any commit. Writes to a table beside the repository
that were not committed become part of the commit, and its result says so.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lancewood.catalog.names import checked_table, own_table_uri
from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.snapshot import is_table, load_snapshot
from lancewood.engine.staging import Stage, already_made, land
from lancewood.engine.versions import versions_since
from lancewood.engine.write import Layout, WriteRequest
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.objects import Signature
from lancewood.git.values import Hash
from lancewood.repo.commit.creating import NewTable, StagedTable, new_stage
from lancewood.repo.commit.swapping import Beside, FileChange, FilesBeside, swap
from lancewood.repo.context import RepoContext
from lancewood.repo.identity import first_line
from lancewood.repo.landing import catch_up, join_tables
from lancewood.repo.outcome import Committed, Divergence, NotLandedWarning, TakenIn
from lancewood.repo.writable import BranchMovedError, find_taken_in, keep_to_setting, writable_head
from lancewood.store.retry import BRANCH_WORK

_MOVED = (
    "the transaction has met another commit, and this handle is on a state from before: ask "
    "table() of the transaction for the table again"
)
_OVER = "the transaction is over: begin another one with repo.transaction()"


class Pending:
    """One table of a transaction: its stage, and its pin in the commit."""

    def __init__(self, stage: Stage, uri: str, *, is_new: bool = False) -> None:
        self.stage = stage
        self.uri = uri
        self.is_new = is_new
        self._pin: Pin | None = None

    def begin(self, stage: Stage) -> None:
        """Continue with a rebuilt stage; handles on the old one raise from now on."""
        self.stage.close(_MOVED)
        self.stage, self._pin = stage, None

    @property
    def is_changed(self) -> bool:
        return self.is_new or bool(self.stage.steps)

    def keep_to_setting(self, context: RepoContext) -> None:
        """Have the state that will be pinned say who may write to the table."""
        if self._pin is None:
            keep_to_setting(context, self.stage)

    def pinned(self) -> Pin:
        """The pin of the last state, which is written first if need be."""
        if self._pin is None:
            if self.stage.steps:
                landing = self.stage.publish()
                self._pin = pin_of(self.stage.published, self.uri, landing)
            else:
                self._pin = pin_of(self.stage.snapshot, self.uri)
        return self._pin

    def land(self) -> None:
        landing = self.pinned().landing
        if landing is not None:
            land(self.stage.location, landing, stage=self.stage)


class Transaction:
    """Changes to tables that become one commit. Made by ``Repository.transaction``.

    Used with ``with``: committed at the end of the block, abandoned if the block raises.
    """

    def __init__(
        self,
        context: RepoContext,
        branch: str,
        message: str,
        author: Signature,
        *,
        adopt: bool = False,
        merged: tuple[Hash, ...] = (),
        committer: Signature | None = None,
        verb: str = "commit",
        files: FilesBeside | None = None,
    ) -> None:
        """``merged`` are further parents: with any, a commit is made even if nothing changed.
        ``committer`` and ``verb`` are those of ``swap``. ``files`` are put beside the tables; other
        files stay."""
        self._context = context
        self._branch = branch
        self._message = message
        self._author = author
        self._adopt = adopt
        self._merged = merged
        self._committer = committer
        self._verb = verb
        self._beside = Beside(context, files)
        self._tip = context.tip(branch)
        self._tree = context.tree(self._tip)
        self._stages: dict[str, Pending] = {}
        self._file_change: FileChange | None = None
        self._pins: dict[str, Pin | None] = {}
        """Tables to pin as they stand; None removes a table."""
        self._taken_in: dict[str, TakenIn | None] = {}
        self._result: Committed | None = None
        self._is_over = False

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that this transaction sees."""
        gone = {name for name, pin in self._pins.items() if pin is None}
        return tuple(sorted({*self._tree.names(), *self._stages, *self._pins} - gone))

    def uri_of(self, name: str) -> str | None:
        """Where a table is, as pins write it; None if the transaction sees no such table."""
        if name not in self.tables:
            return None
        pin = self._pins.get(name)
        if pin is None and name in self._tree.names():
            pin = self._tree.pin(name)
        return own_table_uri(name) if pin is None else pin.uri

    @property
    def tip(self) -> Hash | None:
        """The commit that it builds on: the tip at the start, or the latest one met since."""
        return self._tip

    @property
    def title(self) -> str:
        """The first line of the message, which the versions of the tables carry."""
        return first_line(self._message).encode("utf-8", "replace").decode()

    @property
    def result(self) -> Committed:
        """What the commit did; raises InvalidInputError before there is one."""
        if self._result is None:
            raise InvalidInputError("the transaction has not been committed")
        return self._result

    def table(self, name: str) -> StagedTable:
        """A table with what this transaction wrote to it; further writes are part of the
        transaction.

        Raises NotFoundError, and IncompatibleConflictError for a table that has diverged.
        """
        self._check_open()
        if not isinstance(name, str):
            raise InvalidInputError(f"a table is asked for by its name, a text; got {name!r}")
        if name not in self._stages:
            if name in self._pins:
                raise InvalidInputError(
                    f"table {name!r} was added or removed in this transaction; write to it in the "
                    "next one",
                    table=name,
                )
            self._stages[name] = self._begin(name)
        return StagedTable(self._stages[name].stage.snapshot)

    def create_table(
        self,
        name: str,
        data: Any,
        *,
        schema: pa.Schema | None = None,
        layout: Layout | None = None,
    ) -> StagedTable:
        """A new table below the repository, with the data, or empty for a ``pyarrow.Schema``.

        The options are those of ``lancewood.create``. A table that the branch had before begins
        anew, with row ids of the same kind unless ``layout`` says otherwise; commits that
        pin its old content still read. Raises AlreadyExistsError.
        """
        self._check_open()
        checked_table(name)
        if name in self.tables:
            raise AlreadyExistsError(
                f"there is a table {name!r} on branch {self._branch!r} already", table=name
            )
        request = WriteRequest.of(
            layout,
            schema=schema,
        )
        new = NewTable(name, data, request, self.title)
        stage = new_stage(self._context, self._branch, self._tip, new)
        self._pins.pop(name, None)
        self._stages[name] = Pending(stage, own_table_uri(name), is_new=True)
        return StagedTable(stage.snapshot)

    def pin(self, name: str, pin: Pin | None) -> None:
        """Have the commit pin a table as it stands; None removes the table."""
        self._check_open()
        checked_table(name)
        self._stages.pop(name, None)
        self._pins[name] = pin

    def bring(self, name: str, stage: Stage, uri: str, *, is_new: bool = False) -> None:
        """Have the commit pin what was staged elsewhere on top of the table's newest version on
        this branch; ``is_new`` if the branch does not pin the table yet."""
        self._check_open()
        checked_table(name)
        self._pins.pop(name, None)
        self._stages[name] = Pending(stage, uri, is_new=is_new)

    def bring_files(self, change: FileChange) -> None:
        """Have the commit apply a change to its files.

        Raises IncompatibleConflictError if it conflicts with the files of the branch.
        """
        self._check_open()
        change.applied(self._tree.files)
        self._file_change = change

    def commit(self) -> Committed:
        """Make the commit; without changes there is none.

        Raises ConflictError if it conflicts with another commit; nothing is visible then. A warning
        and the result name tables that could not land yet.
        """
        self._check_open()
        self._end()
        commit = swap(
            self._context,
            self._branch,
            self,
            message=self._message,
            author=self._author,
            merged=self._merged,
            committer=self._committer,
            verb=self._verb,
        )
        if commit is None:
            self._result = Committed(self._tip, self._branch, (), is_new=False)
            return self._result
        changed = tuple(sorted({*self._written(), *self._pins}))
        taken_in = tuple(each for _, each in sorted(self._taken_in.items()) if each is not None)
        self._result = Committed(commit, self._branch, changed, taken_in=taken_in)
        diverged, messages = self._land()
        self._result = replace(self._result, diverged=diverged)
        for each in messages:
            warnings.warn(each, NotLandedWarning, stacklevel=3)
        return self._result

    def abandon(self) -> None:
        """Abandon the transaction; cleanup removes the files that were written for it."""
        self._end()

    def tree(self, tip: Hash | None) -> TableTree | None:
        """For ``swap``: the tables of a commit after ``tip``."""
        files = self._beside.after(tip)
        if files is None:
            return None
        if tip != self._tip:
            self._meet(tip)
        written = self._written()
        is_any = written or self._pins or self._merged or files or self._file_change
        if not is_any:
            return None
        changes = dict(self._pins)
        for name, each in written.items():
            self._meet_outsiders(name, each)
            if self._tree.blob_hash(name) is not None:
                pin = self._tree.pin(name)
                self._taken_in[name] = find_taken_in(name, pin, each.stage)
            each.keep_to_setting(self._context)
            changes[name] = each.pinned()
        join_tables(self._context, changes)
        found = self._tree.with_pins(changes)
        if self._file_change is not None:
            found = found.with_files(self._file_change.applied(found.files))
        if files:
            found = found.with_files_beside(files)
        is_same = not changes and not self._merged and found.files == self._tree.files
        return None if is_same else found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_over:
            return
        if kind is None:
            self.commit()
        else:
            self.abandon()

    def _written(self) -> dict[str, Pending]:
        return {name: each for name, each in self._stages.items() if each.is_changed}

    def _end(self) -> None:
        self._is_over = True
        for each in self._stages.values():
            each.stage.close(_OVER)

    def _check_open(self) -> None:
        if self._is_over:
            raise InvalidInputError(_OVER)

    def _begin(self, name: str) -> Pending:
        for _ in BRANCH_WORK:
            pin = self._context.pin(self._tree, name)
            try:
                head = writable_head(
                    self._context, self._branch, self._tip, name, pin, adopt=self._adopt
                )
                return Pending(Stage(head, message=self.title), pin.uri)
            except BranchMovedError:
                self._meet(self._context.tip(self._branch))
        raise RetryableConflictError(
            f"branch {self._branch!r} moved {BRANCH_WORK.attempts} times while table {name!r} was "
            "about to be written on it for the first time; run the transaction again",
            table=name,
        )

    def _meet(self, tip: Hash | None) -> None:
        """Look at commits that were faster, and judge tables that both changed."""
        tree = self._context.tree(tip)
        for name in {*self._written(), *self._pins}:
            then = self._tree.blob_hash(name)
            now = tree.blob_hash(name)
            if then == now:
                continue
            staged = self._stages.get(name)
            if staged is None or staged.is_new or now is None:
                raise IncompatibleConflictError(
                    f"table {name!r} of branch {self._branch!r} was "
                    f"{'removed' if now is None else 'changed' if then else 'created'} by another "
                    "commit meanwhile; look at it, and run the transaction again",
                    table=name,
                )
            location = self._context.location(tree.pin(name))
            if location.uri != staged.stage.location.uri:
                raise RetryableConflictError(
                    f"table {name!r} of branch {self._branch!r} goes on at {location.uri} since "
                    "another commit; run the transaction again",
                    table=name,
                )
            for each in catch_up(self._context, self._branch, tip, [name]):
                raise each.conflict
            self._rebuild(name, staged)
        self._tree, self._tip = tree, tip

    def _meet_outsiders(self, name: str, staged: Pending) -> None:
        """Rebuild on what landed since the stage was begun: cheaper here than when landing."""
        base, location = staged.stage.base, staged.stage.location
        if not base.version:
            if is_table(location.store):
                raise already_made(location)
            return
        if versions_since(location.store, base.version, staged.stage.scheme).versions:
            self._rebuild(name, staged)

    def _rebuild(self, name: str, staged: Pending) -> None:
        head = load_snapshot(staged.stage.location)
        if head.manifest.version == staged.stage.base.version:
            return
        try:
            staged.begin(staged.stage.rebuild(head))
        except ConflictError as conflict:
            raise type(conflict)(
                f"table {name!r}: {conflict.message}", **{**conflict.facts, "table": name}
            ) from conflict

    def _land(self) -> tuple[tuple[Divergence, ...], list[str]]:
        """Land every table; returns which diverged, and what to say about those that did not land.
        The commit is done, so nothing is raised."""
        found, messages = [], []
        for name, each in self._written().items():
            try:
                each.land()
            except ConflictError as conflict:
                found.append(Divergence(name, conflict))
                messages.append(
                    f"table {name!r} has diverged and could not land: {conflict.message}"
                )
            except (LancewoodError, OSError) as failure:
                messages.append(
                    f"table {name!r} could not land yet, the next writer does it: {failure}"
                )
        return tuple(found), messages
