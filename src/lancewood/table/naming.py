"""The names of a table: ``Table.branches`` and ``Table.tags``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import pyarrow as pa

from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.model.refs import Branch, Tag
from lancewood.table.by_name import ByName
from lancewood.table.handle import Handle, runner_or_threads
from lancewood.table.scan import Rows

if TYPE_CHECKING:
    from lancewood.engine.snapshot import At, Snapshot
    from lancewood.jobs.job import CommitOptions
    from lancewood.jobs.merge.row_merge import RowMerge
    from lancewood.jobs.runner import Runner

H = TypeVar("H", bound=Handle)


class NamingVerbs(Handle):
    """The branches and tags of a table."""

    @property
    def branches(self) -> Branches[Self]:
        """The table's branches, without main."""
        return Branches(self._snapshot, self._after)

    @property
    def tags(self) -> Tags:
        """The table's tags, on versions of any branch."""
        return Tags(self._snapshot)


class Branches(ByName[Branch], Generic[H]):
    """The branches of a table, without main. Made by ``Table.branches``.

    ``branches["exp"]`` is what is recorded about a branch; iterating gives the names, sorted. A
    branch begins as the version it was made from, at no cost, and has its own history from there.
    ``Table.checkout(branch=)`` opens one.
    """

    def __init__(self, snapshot: Snapshot, handle: Callable[..., H]) -> None:
        """``handle`` makes a handle from a snapshot and the counts of a write."""
        self._snapshot = snapshot
        self._handle = handle

    def create(self, name: str, at: At = None, *, metadata: Mapping[str, str] | None = None) -> H:
        """Create a branch; the handle on its first version, which has the number of its source.

        ``at`` is the source version: None is the version of this handle, a number or a moment is
        one of its branch, and a text is as for ``lancewood.open``. A name consists of segments of
        letters, digits, ``.``, ``-`` and ``_``, separated by ``/``.

        Raises AlreadyExistsError, NotFoundError for an unknown version, and RetryableConflictError
        while another writer creates or deletes a branch of that name.
        """
        from lancewood.jobs.refs.creation import create_branch

        return self._handle(create_branch(self._snapshot, name, at, metadata=metadata))

    def list(self) -> dict[str, Branch]:
        """Every branch by its name, sorted; no version is opened."""
        from lancewood.jobs.refs.records import list_branches

        return list_branches(self._snapshot)

    def get(self, name: str) -> Branch:
        """The record of a branch; raises NotFoundError."""
        from lancewood.jobs.refs.records import find_branch

        return find_branch(self._snapshot, name)

    def delete(self, name: str, *, force: bool = False, dry_run: bool = False) -> None:
        """Remove a branch with its versions.

        Refuses a branch that is needed (by branches made from it, tags on it, base paths into it),
        and the branch of this handle. ``force`` also removes the tags, finishes an interrupted
        deletion, and clears away an interrupted creation. ``dry_run`` only checks.
        """
        from lancewood.jobs.refs.deletion import delete_branch

        delete_branch(self._snapshot, name, force=force, dry_run=dry_run)

    def rename(
        self, old: str, new: str, *, dry_run: bool = False, runner: Runner | None = None
    ) -> H:
        """Rename a branch; the handle on its newest version.

        Versions keep their numbers. Refuses what ``delete`` refuses, except the handle's own
        branch. Nobody may write to the branch meanwhile. Run it again if it was interrupted.
        ``dry_run`` only checks; the handle is on the version that the branch is at.
        """
        from lancewood.jobs.refs.renaming import rename_branch

        threads = runner_or_threads(runner)
        return self._handle(
            rename_branch(self._snapshot, old, new, runner=threads, dry_run=dry_run)
        )

    def publish(
        self,
        name: str,
        onto: str | None = None,
        *,
        adopt: bool = True,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> H:
        """Commit the work on a branch, as one version, to the branch it was made from.

        Returns the handle on that version, whose ``counts`` say what was done. If the work
        conflicts with what happened on the target since, by the rules of any commit, a
        ConflictError is raised and nothing has changed. If the target has moved, rows and fragments
        created on the branch get new ids. The branch is closed afterwards: nobody can write to it
        until ``reset``. Run it again if it was interrupted: work is published only once.

        ``onto`` can only be the name of the parent. ``adopt=False`` leaves deletion files and data
        files below the branch, and keeps the branch with a tag ``lw.publish.<uuid>``.
        ``dry_run=True`` writes nothing: it raises what publishing would raise now, or returns the
        handle on the target as it is, whose ``counts`` say what would be done.
        """
        from lancewood.jobs.job import CommitOptions
        from lancewood.jobs.publish.publish import publish

        for argument, flag in {"adopt": adopt, "dry_run": dry_run}.items():
            if not isinstance(flag, bool):
                raise InvalidInputError(f"{argument} takes True or False, got {flag!r}")
        found, counts = publish(
            self._snapshot,
            name,
            onto,
            adopt=adopt,
            commit_options=CommitOptions.of(commit, message, takes_serializable=False),
            runner=runner_or_threads(runner),
            dry_run=dry_run,
        )
        return self._handle(found, counts)

    def merge(
        self,
        name: str,
        into: str | None = None,
        *,
        resolve: Any = None,
        detect: Literal["cells", "rows", "tables"] = "cells",
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> H:
        """Merge a branch into another one by rows, as one version; the handle on it, whose
        ``counts`` say what was done.

        Any branch can be merged into any other, ``"main"`` included, and as often as one likes:
        what came over before is not looked at again. ``into`` is the branch of this handle unless
        it is named. Different rows, and different cells of one row, are put together. What both
        sides changed differently is a conflict: MergeConflictError is raised, and nothing has
        changed. ``resolve`` decides conflicts: ``"ours"`` (the target), ``"theirs"`` or ``"base"``,
        SQL by column (``{"views": "ours.views + theirs.views - base.views"}``), decided rows, or a
        ``Resolve`` of all of these. ``detect="rows"`` makes every row that both changed a conflict,
        ``"tables"`` every table. The branch that is merged stays as it is, and can be written to.
        """
        from lancewood.jobs.job import CommitOptions
        from lancewood.jobs.merge.merge_branch import BranchMerge

        asked = BranchMerge.asked(self._snapshot, name, into, resolve, detect)
        options = CommitOptions.of(commit, message, takes_serializable=False)
        found, counts = asked.run(options, runner_or_threads(runner), dry_run=dry_run)
        return self._handle(found, counts)

    def conflicts(
        self,
        name: str,
        into: str | None = None,
        *,
        resolve: Any = None,
        detect: Literal["cells", "rows"] = "cells",
    ) -> Conflicts:
        """The rows that a merge of a branch would leave to decide; nothing is changed.

        With ``resolve`` those that its rules leave. Decide them by ``_conflict``, and give them to
        ``merge(resolve=)``.
        """
        from lancewood.jobs.merge.merge_branch import BranchMerge

        asked = BranchMerge.asked(self._snapshot, name, into, resolve, detect)
        return Conflicts(asked.row_merge() or asked.nothing())

    def reset(self, name: str, at: At = None, *, force: bool = False) -> H:
        """Start a branch over from its parent's newest version, or from ``at``; the handle on it.

        Older versions of the branch and tags on them stay. Refuses a branch with unpublished work,
        unless ``force`` discards it.
        """
        from lancewood.jobs.publish.closed_branch import reset

        return self._handle(reset(self._snapshot, name, at, force=force))

    def __repr__(self) -> str:
        return f"<branches of {self._snapshot.location.uri}>"


class Conflicts(Rows):
    """The rows that a merge leaves to decide. Made by ``Table.branches.conflicts``.

    A row has the columns ``_conflict``, which names it as long as nobody changes one of its sides,
    ``_kind`` (such as ``update/update`` or ``delete/update``: what ours did, and theirs),
    ``_rowid``, ``_columns`` (the cells in conflict), ``key`` (the primary key, if there is one) and
    ``base``, ``ours`` and ``theirs``: structs of all columns, null where the row is not there.
    """

    def __init__(self, row_merge: RowMerge, columns: Sequence[str] | None = None) -> None:
        self._merge = row_merge
        self._chosen = columns

    def select(self, columns: Sequence[str]) -> Conflicts:
        """The conflicts in some columns, with the values of these columns alone; of whole rows
        those in which a side changed one of them. InvalidInputError is raised for a column that the
        merged table does not have, as soon as something is read."""
        from lancewood.engine.base import as_list

        return Conflicts(self._merge, as_list("columns", columns))

    @property
    def columns(self) -> tuple[tuple[str, str, str, str], ...]:
        """Columns in conflict, for which rows cannot be compared yet: the name, the kind, what ours
        did and what theirs did. A ``Resolve(schema=)`` decides them."""
        try:
            _ = self._merge.columns
        except MergeConflictError as conflict:
            if "schema" not in conflict.facts:
                raise
            return tuple(conflict.facts["schema"])
        return ()

    @property
    def schema(self) -> pa.Schema:
        """The schema of what comes out."""
        from lancewood.jobs.merge.conflicts import selected_schema

        whole = self._merge.shape.resolver.shape.schema
        return whole if self._chosen is None else selected_schema(whole, self._checked())

    def _checked(self) -> list[str]:
        from lancewood.engine.schema import unknown_column

        known, chosen = self._merge.columns.schema, list(self._chosen or ())
        for each in chosen:
            if each not in known.by_name:
                raise unknown_column(known, each, known.names)
        return chosen

    _row_schema = schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The conflicts as record batches, within a bounded memory."""
        from lancewood.jobs.merge.conflicts import selected

        found = self._merge.conflict_batches()
        if self._chosen is None:
            return found
        schema, chosen = self.schema, self._checked()
        return (selected(each, chosen, schema) for each in found)

    def names(self, where: str | None = None) -> list[str]:
        """The names of those that match, SQL over the columns of what comes out."""
        from lancewood.expr import parse_predicate

        matches = None if where is None else parse_predicate(where, self.schema)
        found: list[str] = []
        for each in self.to_batches():
            kept = each if matches is None else each.filter(matches.mask(each))
            found += kept.column("_conflict").to_pylist()
        return found

    def count(self) -> int:
        """Number of conflicts: rows, or columns where these have to be decided first."""
        return len(self.columns) or sum(each.num_rows for each in self.to_batches())

    def decided(self) -> frozenset[str]:
        """The names of conflicts on which decisions were given or kept, also of those that are not
        left; a decision on any other is stale, and decides nothing."""
        return self._merge.used_decisions()


class Tags(ByName[Tag]):
    """The tags of a table, on versions of any branch. Made by ``Table.tags``.

    ``tags["v1"]`` is what is recorded about a tag; iterating gives the names, sorted. A tagged
    version is never cleaned up. For ``at``, None is the version of the handle, a number or a moment
    is a version of its branch, and a text is as for ``lancewood.open``: ``"exp:12"``, ``":12"``
    (main) or another tag.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def create(
        self,
        name: str,
        at: At = None,
        *,
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> Tag:
        """A new tag; raises AlreadyExistsError, or NotFoundError for an unknown version.

        Letters, digits, ``.``, ``-`` and ``_`` are allowed. ``force`` allows a name reserved for
        clones, publishing and repositories.
        """
        from lancewood.jobs.refs.tags import create_tag

        return create_tag(self._snapshot, name, at, metadata=metadata, force=force)

    def update(self, name: str, at: At = None, *, force: bool = False) -> Tag:
        """Move a tag to another version; its creation time and metadata stay."""
        from lancewood.jobs.refs.tags import update_tag

        return update_tag(self._snapshot, name, at, force=force)

    def list(self, *, pins: bool = False) -> dict[str, Tag]:
        """Every tag by its name, sorted; no version is opened.

        ``pins`` includes those left by clones and publishing.
        """
        from lancewood.jobs.refs.tags import list_tags

        return list_tags(self._snapshot, guards=pins)

    def get(self, name: str) -> Tag:
        """The tag of this name; raises NotFoundError."""
        from lancewood.jobs.refs.tags import find_tag

        return find_tag(self._snapshot, name)

    def delete(self, name: str, *, force: bool = False, dry_run: bool = False) -> None:
        """Remove a tag; its version may then be cleaned up.

        ``force`` also removes the pin of a clone, which may lose its files then. ``dry_run`` only
        checks.
        """
        from lancewood.jobs.refs.tags import delete_tag

        delete_tag(self._snapshot, name, force=force, dry_run=dry_run)

    def __repr__(self) -> str:
        return f"<tags of {self._snapshot.location.uri}>"
