"""Verbs on a table: which rows and cells differ between two revisions (``diff``), and what became
of rows from one version of a line to a later one (``changes``)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from lancewood.engine.base import check_number
from lancewood.engine.snapshot import Address, At, Descent, Snapshot, is_there, resolve
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.model.ids import Version, is_detached
from lancewood.model.refs import called
from lancewood.model.transaction import Transaction
from lancewood.table.handle import Handle
from lancewood.table.scan import Rows

if TYPE_CHECKING:
    from lancewood.jobs.diff import ChosenRows, DiffRows, RowChanges
    from lancewood.table.table import Table

CHANGE = "_change"
"""The column that says what became of a row."""


@dataclass(frozen=True, slots=True)
class DiffStat:
    """How many rows differ, and in which columns."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int | None = None
    """Rows that both have with the same values; None where only some rows are asked for, or a
    writer did not record how many there are."""
    cells: Mapping[str, int] = field(default_factory=dict)
    """The columns that differ in updated rows, and in how many of them."""

    def __bool__(self) -> bool:
        return bool(self.inserted or self.updated or self.deleted)


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """How the columns of two revisions differ."""

    added: tuple[pa.Field, ...] = ()
    dropped: tuple[pa.Field, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """The earlier name of each, and the later one."""
    retyped: tuple[tuple[pa.Field, pa.Field], ...] = ()
    """Columns that have another type, or differ in whether they may be null, then and now."""

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.renamed or self.retyped)


class Diff(Rows):
    """The rows that differ between two revisions. Made by ``Table.diff``, ``lancewood.diff`` and
    ``Repository.diff``.

    A row has the columns ``_change`` (deleted, inserted or updated), ``_rowid`` (null where only a
    key tells that two rows are the same), ``_columns`` (of an updated row, the columns that differ)
    and ``before`` and ``after``, structs of its columns then and now. A row is updated if a column
    that both revisions have holds another value: moved rows, rewritten files, new, renamed and cast
    columns are no changes of rows. Revisions and columns are checked when it is made; rows are
    compared and read when they are asked for, and only where something may differ.
    """

    def __init__(self, rows: DiffRows) -> None:
        self._rows = rows
        rows.check()

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """``added`` or ``removed`` where only one of two commits has the table, else
        ``changed``."""
        return self._rows.plan.kind

    @property
    def counts(self) -> RowCounts:
        """How many rows differ, without reading a value: of those that are updated at most so many,
        since somebody may have written the values that were there."""
        return self._rows.most()

    def stat(self) -> DiffStat:
        """How many rows differ, and in which columns; reads the values of rows that may differ."""
        return DiffStat(**self._rows.stat())

    @property
    def schema(self) -> SchemaDiff:
        """How the columns differ."""
        plan = self._rows.plan
        before, after = plan.one.arrow_schema, plan.other.arrow_schema
        if plan.kind != "changed":
            return SchemaDiff(**{"added" if plan.kind == "added" else "dropped": tuple(after)})
        pairs = [(before.field(each.before.name), after.field(each.name)) for each in plan.paired]
        old, new = ({pair[side].name for pair in pairs} for side in (0, 1))
        return SchemaDiff(
            added=tuple(each for each in after if each.name not in new),
            dropped=tuple(each for each in before if each.name not in old),
            renamed=tuple((one.name, two.name) for one, two in pairs if one.name != two.name),
            retyped=tuple(
                (one, two)
                for one, two in pairs
                if one.type != two.type or one.nullable != two.nullable
            ),
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows that come out."""
        return self._rows.schema

    _row_schema = arrow_schema

    @property
    def inserted(self) -> Diff:
        """Only rows that the later revision has and the earlier has not."""
        return self._only("inserted")

    @property
    def updated(self) -> Diff:
        """Only rows that both have, with other values."""
        return self._only("updated")

    @property
    def deleted(self) -> Diff:
        """Only rows that the earlier revision has and the later has not."""
        return self._only("deleted")

    def _only(self, kind: str) -> Diff:
        kinds = tuple(each for each in self._rows.kinds if each == kind)
        return Diff(replace(self._rows, kinds=kinds))

    def _narrowed(self, kinds: Sequence[str], before: Sequence[str], after: Sequence[str]) -> Diff:
        """A diff that shows some kinds of rows and some columns; all columns are still compared."""
        rows = self._rows
        old = tuple(each for each in rows.shape.before if each.name in before)
        new = tuple(each for each in rows.shape.after if each.name in after)
        chosen = tuple(each for each in rows.kinds if each in kinds)
        return Diff(replace(rows, kinds=chosen, shown=(old, new)))

    def cells(self) -> DiffCells:
        """The cells that differ in updated rows, one in each row that comes out.

        Raises InvalidInputError for a key column with the name of one that comes out.
        """
        return DiffCells(self.updated._rows.with_key())

    def explain(self) -> str:
        """How the revisions are compared and what will be read, in a few lines."""
        return self._rows.explain()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, within a bounded memory: what was deleted, what was inserted,
        what was updated. Millions of changes come in ranges of row ids."""
        return self._rows.batches()

    def __repr__(self) -> str:
        return f"<Diff from {self._rows.plan.names[0]} to {self._rows.plan.names[1]}>"


class DiffCells(Rows):
    """Cells that differ. Made by ``Diff.cells``.

    A row has ``_rowid``, the columns of the key if rows are told apart by one, ``column``, and
    ``before`` and ``after``, the values as JSON.
    """

    def __init__(self, rows: DiffRows) -> None:
        self._rows = rows
        _ = rows.cell_schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of what comes out."""
        return self._rows.cell_schema

    _row_schema = arrow_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The cells as record batches, row by row, within a bounded memory."""
        return self._rows.cells()


class ChangedRows(Rows):
    """Rows that met the same fate, read when one of the methods asks for them."""

    def __init__(self, rows: ChosenRows) -> None:
        self._rows = rows

    @property
    def schema(self) -> pa.Schema:
        """The schema of what comes out: ``_rowid``, then the columns."""
        return self._rows.schema

    _row_schema = schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the table, as record batches, within a bounded memory."""
        return self._rows.batches()

    def count(self) -> int:
        """Number of rows; ``Changes.counts`` says what is read for it."""
        return self._rows.row_count


class Changes(Rows):
    """What became of rows between two versions. Made by ``Table.changes``.

    All parts have the columns of ``until``. A deleted row shows in them what it held at ``since``,
    and null in those that are newer.
    """

    def __init__(self, since: Snapshot, until: Snapshot, columns: Sequence[str] | None) -> None:
        from lancewood.jobs.diff import project_changes

        self._since, self._until = since, until
        self._projection = project_changes(since, until, columns)

    @property
    def since(self) -> int:
        return self._since.manifest.version

    @property
    def until(self) -> int:
        return self._until.manifest.version

    @property
    def inserted(self) -> ChangedRows:
        """Rows that ``until`` has and ``since`` has not."""
        from lancewood.jobs.diff import rows_until

        found = self._found
        return ChangedRows(rows_until(found.until, found.inserted, self._projection))

    @property
    def updated(self) -> ChangedRows:
        """Rows that both have and that were changed, with their values at ``until``."""
        from lancewood.jobs.diff import rows_until

        found = self._found
        return ChangedRows(rows_until(found.until, found.updated, self._projection))

    @property
    def deleted(self) -> ChangedRows:
        """Rows that ``since`` has and ``until`` has not, with their values at ``since``."""
        from lancewood.jobs.diff import rows_since

        found = self._found
        rows = rows_since(found.since, self._until, found.deleted, self._projection)
        return ChangedRows(rows)

    @property
    def counts(self) -> RowCounts:
        """How many rows of each; reads a column only where another writer wrote it anew in place
        and marked no row."""
        return RowCounts(
            inserted=self.inserted.count(),
            updated=self.updated.count(),
            deleted=self.deleted.count(),
        )

    @property
    def schema(self) -> pa.Schema:
        """``_rowid``, the columns, and ``_change``."""
        schema = self._projection.arrow_schema()
        if CHANGE in schema.names:
            raise InvalidInputError(
                f"the table has a column {CHANGE!r} of its own; read inserted, updated and "
                "deleted each by itself",
                column=CHANGE,
            )
        return schema.append(pa.field(CHANGE, pa.string(), nullable=False))

    _row_schema = schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All changes: first what was deleted, then what was inserted, then what was updated.

        The column ``_change`` says which: ``deleted``, ``inserted`` or ``updated``.
        """
        schema = self.schema
        for name in ("deleted", "inserted", "updated"):
            part: ChangedRows = getattr(self, name)
            for batch in part.to_batches():
                said = pa.repeat(pa.scalar(name, pa.string()), batch.num_rows)
                yield pa.RecordBatch.from_arrays([*batch.columns, said], schema=schema)

    def __repr__(self) -> str:
        uri = self._until.location.uri
        return f"<Changes of {uri} from version {self.since} to version {self.until}>"

    @cached_property
    def _found(self) -> RowChanges:
        from lancewood.jobs.diff import find_changes

        return find_changes(self._since, self._until)


class DiffVerbs(Handle):
    """Verbs on a table: which rows and cells differ between two revisions, and what became of
    rows from one version to a later one."""

    def diff(
        self,
        a: int | str | datetime | os.PathLike[str] | Table,
        b: int | str | datetime | os.PathLike[str] | Table | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        change: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
    ) -> Diff:
        """The rows that differ between two revisions, on whatever branches, or between two tables:
        from ``a`` to this version, or to ``b``.

        Each is a revision of this table, said as ``at`` is to ``open``, or a ``Table``, or a path
        or uri. A text is a revision if this table has it, and only otherwise a path; one with
        ``://`` is always a uri. A table that needs options is opened first. Rows of two tables that
        share no history are known by key alone.

        A row is known by its stable row id. Rows that only one of the revisions has are paired by
        ``on``, the names of key columns, or else by the primary key of the schema: an overwrite, or
        deleting and inserting again, gives a row another id. Two branches give the same ids to rows
        of their own, which are not the same rows. Without stable row ids rows are the same at the
        same place of a file, and beyond that by key.

        ``columns`` are those that are compared and shown. ``where`` is SQL over what comes out:
        ``before.price < after.price``, ``_change = 'deleted'``; a bare ``price`` is that of the
        later revision, or for a deleted row the earlier one. ``change`` names the kinds of changes
        to be shown.

        Raises NotFoundError for a revision or table that is not there, InvalidInputError for a
        column that one of the states does not have, two tables without a key, a key that is not
        unique and a wrong ``where``, and UnsupportedError, once rows are asked for, where there are
        neither stable row ids nor a key and rows may have moved.
        """
        from lancewood.jobs.diff import DiffRequest, DiffRows

        mine = self._snapshot
        one, other = _state(mine, a), mine if b is None else _state(mine, b)
        return Diff(DiffRows.of(one, other, DiffRequest(columns, where, change, on)))

    def follows(self, other: Handle) -> bool:
        """Whether another version is known to be in the past of this one."""
        return Descent(self._snapshot).find(other._snapshot) is not None

    @property
    def is_detached(self) -> bool:
        """Whether this version is beside the history of the table, as a transaction of a repository
        pins it before it lands there."""
        return is_detached(self._snapshot.manifest.version)

    def earlier(self, version: int) -> Self:
        """A version in the past of this one, on this branch or on one that it comes from.

        Raises NotFoundError if it was cleaned up.
        """
        return self._after(Descent(self._snapshot).load(version))

    def transaction_of(self, version: int) -> Transaction:
        """The transaction that made this version or an earlier one, and not the one that made a
        branch of it. Its uuid tells whether two versions of one number are the same."""
        return Descent(self._snapshot).transaction(Version(version))

    def changes(
        self,
        since: int | str | datetime,
        until: At = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> Changes:
        """The rows that were inserted, updated and deleted after version ``since``, up to and
        with version ``until`` (by default this one). Both are said as ``at`` is to ``open``.

        A row is known by its stable row id. One that came and went in between is not there, one
        that was updated and then deleted is deleted. An update counts even if it wrote the values
        that were there; of columns that another writer wrote anew in place without a mark, values
        that differ do, until a compaction moves the rows. A version that only added, cast, renamed
        or dropped columns counts for nothing, nor does compaction. Versions and columns are checked
        now, rows are compared and read when they are asked for, and only what differs is opened. On
        a branch a version from before it was made is that of the branch it came from; one of its
        own from before a reset is refused.

        Raises UnsupportedError on a table without stable row ids, NotFoundError for a version
        that is not there, or where this handle's own is gone, and later for one in between that is
        needed and was cleaned up.
        """
        mine = self._snapshot
        first = self._version_of("since", since)
        last = mine if until is None else self._version_of("until", until)
        begin = first.manifest.version
        if begin > last.manifest.version:
            raise InvalidInputError(
                f"changes since version {begin} until version {last.manifest.version} run "
                "backwards; since must be the earlier one"
            )
        _check_comparable(first, last)
        reset = Descent(last).reset_after(first)
        if reset is not None:
            later = f"ask for changes since version {reset}, or " if reset > begin else ""
            raise InvalidInputError(
                f"{last.location.uri} was reset in version {reset}, and the row ids of versions "
                f"{begin} and {last.manifest.version}, of which one is from before that, are those "
                f"of different rows; {later}read both versions and compare the rows",
                version=reset,
            )
        return Changes(first, last, columns)

    def _version_of(self, name: str, version: At) -> Snapshot:
        mine = self._snapshot
        if isinstance(version, str | datetime):
            found = resolve(mine, version)
            if found.manifest.branch != mine.manifest.branch:
                return _in_past(found, mine)
            version = found.manifest.version
        number = check_number(name, version, least=1)
        if number == mine.manifest.version:
            return mine
        found = Descent(mine).load(number)
        if not is_there(mine):
            raise NotFoundError(
                f"version {mine.manifest.version} of {mine.location.uri}, which this handle is on, "
                "is gone: it was cleaned up, or the table or its branch was made again. What is "
                f"there now as version {number} may be another table's; open the table again",
                version=mine.manifest.version,
            )
        return found


def _state(mine: Snapshot, side: int | str | datetime | os.PathLike[str] | Handle) -> Snapshot:
    """The state that a caller of ``Table.diff`` names: a table, a place where one is, or a revision
    of the table that ``mine`` is a version of."""
    if isinstance(side, Handle):
        return side._snapshot
    if isinstance(side, os.PathLike) or (isinstance(side, str) and "://" in side):
        return Address(side).open()
    try:
        return resolve(mine, side)
    except (NotFoundError, InvalidInputError):
        # Names of branches may hold "/", too: a text is a path only if it is no revision.
        if isinstance(side, str) and ("/" in side or os.sep in side or ".lance" in side):
            with suppress(NotFoundError, InvalidInputError):
                return Address(side).open()
        raise


def _in_past(since: Snapshot, until: Snapshot) -> Snapshot:
    """A version as a later one knows it; raises InvalidInputError if that may be another."""
    first = Descent(until).find(since)
    if first is None:
        raise InvalidInputError(
            f"version {since.manifest.version} of {called(since.manifest.branch)} is not known to "
            f"be in the past of version {until.manifest.version} of "
            f"{called(until.manifest.branch)} of {until.location.uri}: row ids of the two may be "
            "those of different rows; read both versions and compare the rows",
            version=since.manifest.version,
        )
    return first


def _check_comparable(*versions: Snapshot) -> None:
    for each in versions:
        if is_detached(each.manifest.version):
            raise InvalidInputError(
                f"this state is detached, beside the history of {each.location.uri}: its row ids "
                "may be those of other rows there"
            )
        if not each.manifest.has_stable_row_ids:
            raise UnsupportedError(
                f"version {each.manifest.version} of {each.location.uri} has no stable row ids, "
                "so that rows of two versions cannot be told to be the same; changes need a "
                "table that was created with them"
            )


def files_added(before: Handle, after: Handle) -> tuple[int, int]:
    """The number of data files that only the second version has, and their bytes as far as they
    are recorded. Compares two manifests, and reads nothing else."""
    from lancewood.jobs.publish.branch_work import diff_fragments

    net = diff_fragments(before._snapshot.manifest, after._snapshot.manifest)
    known = {file.path for each in net.changed for file in each.then.files}
    fragments = [*net.added, *(each.now for each in net.changed)]
    files = (file for each in fragments for file in each.files if file.path not in known)
    sizes = {each.path: each.size or 0 for each in files}
    return len(sizes), sum(sizes.values())
