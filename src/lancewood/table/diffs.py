"""Verbs on a table: which rows and cells differ between two revisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancewood.engine.snapshot import At, Snapshot, resolve
from lancewood.jobs.counts import RowCounts
from lancewood.table.handle import Handle
from lancewood.table.scan import Rows

if TYPE_CHECKING:
    from lancewood.jobs.diffing import DiffRows


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

    @property
    def _row_schema(self) -> pa.Schema:
        return self.arrow_schema

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

    @property
    def _row_schema(self) -> pa.Schema:
        return self.arrow_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The cells as record batches, row by row, within a bounded memory."""
        return self._rows.cells()


class DiffVerbs(Handle):
    """Verbs on a table: which rows and cells differ between two revisions."""

    def diff(
        self,
        a: int | str | datetime,
        b: At = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        change: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
    ) -> Diff:
        """The rows that differ between two revisions, on whatever branches: from ``a`` to this
        version, or to ``b``. Each is said as ``at`` is to ``open``.

        A row is known by its stable row id. Rows that only one of the revisions has are paired by
        ``on``, the names of key columns, or else by the primary key of the schema: an overwrite, or
        deleting and inserting again, gives a row another id. Two branches give the same ids to rows
        of their own, which are not the same rows. Without stable row ids rows are the same at the
        same place of a file, and beyond that by key.

        ``columns`` are those that are compared and shown. ``where`` is SQL over what comes out:
        ``before.price < after.price``, ``_change = 'deleted'``; a bare ``price`` is that of the
        later revision, or for a deleted row the earlier one. ``change`` names the kinds of changes
        to be shown.

        Raises NotFoundError for a revision that is not there, InvalidInputError for a column that
        one of the revisions does not have, a key that is not unique and a wrong ``where``, and
        UnsupportedError, once rows are asked for, where there are neither stable row ids nor a key
        and rows may have moved.
        """
        mine = self._snapshot
        return diff_of(
            resolve(mine, a),
            mine if b is None else resolve(mine, b),
            columns=columns,
            where=where,
            change=change,
            on=on,
            is_same_table=True,
        )


def diff_of(
    one: Snapshot,
    other: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    change: str | Sequence[str] | None = None,
    on: str | Sequence[str] | None = None,
    is_same_table: bool | None = None,
) -> Diff:
    """The rows that differ between two states that are open already, of one table or of two: where
    a caller does not know, their locations say it."""
    from lancewood.jobs.diffing import DiffRows, check_kinds, is_one_table, plan_diff

    is_same = is_one_table(one, other) if is_same_table is None else is_same_table
    plan = plan_diff(one, other, columns=columns, on=on, is_one_table=is_same)
    return Diff(DiffRows(plan, check_kinds(change), where))
