"""Verbs on a table: see what changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Self

import pyarrow as pa

from lancewood.engine.base import check_number
from lancewood.engine.changes import (
    ChosenRows,
    RowChanges,
    find_changes,
    project_changes,
    rows_since,
    rows_until,
)
from lancewood.engine.snapshot import At, Descent, Snapshot, is_there, resolve
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.model.ids import Version, is_detached
from lancewood.model.refs import called
from lancewood.model.transaction import Transaction
from lancewood.table.handle import Handle
from lancewood.table.scan import Rows

CHANGE = "_change"
"""The column that says what became of a row."""


class ChangedRows(Rows):
    """Rows that met the same fate, read when one of the methods asks for them."""

    def __init__(self, rows: ChosenRows) -> None:
        self._rows = rows

    @property
    def schema(self) -> pa.Schema:
        """The schema of what comes out: ``_rowid``, then the columns."""
        return self._rows.schema

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

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
        found = self._found
        return ChangedRows(rows_until(found.until, found.inserted, self._projection))

    @property
    def updated(self) -> ChangedRows:
        """Rows that both have and that were changed, with their values at ``until``."""
        found = self._found
        return ChangedRows(rows_until(found.until, found.updated, self._projection))

    @property
    def deleted(self) -> ChangedRows:
        """Rows that ``since`` has and ``until`` has not, with their values at ``since``."""
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

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

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
        return find_changes(self._since, self._until)


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
    from lancewood.jobs.publish.branch_work import find_net

    net = find_net(before._snapshot.manifest, after._snapshot.manifest)
    known = {file.path for each in net.changed for file in each.then.files}
    fragments = [*net.added, *(each.now for each in net.changed)]
    files = (file for each in fragments for file in each.files if file.path not in known)
    sizes = {each.path: each.size or 0 for each in files}
    return len(sizes), sum(sizes.values())


class ChangeVerbs(Handle):
    """Verbs on a table: see what changed between two versions."""

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
