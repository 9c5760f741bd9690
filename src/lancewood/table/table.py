"""The handle that people hold: one version of one table, and every verb on it.

Immutable: a write returns the handle on the new version. Each verb is a few lines into the engine
or a job, and nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import pyarrow as pa

from lancewood.data.blob_file import BlobFile
from lancewood.engine.location import Bases
from lancewood.engine.rows import Numbers, plan_scan, take_blobs, take_positions, take_row_ids
from lancewood.engine.schema import (
    Columns,
    Parameters,
    config_update,
    field_metadata_update,
    text_update,
)
from lancewood.engine.snapshot import TableStats, dataset_address, table_stats
from lancewood.errors import InvalidInputError
from lancewood.jobs.job import CommitOptions
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.table_config import marks
from lancewood.model.transaction import Operation, Transaction, UpdateConfig
from lancewood.table.blame import BlameVerbs
from lancewood.table.columns import ColumnVerbs
from lancewood.table.details import DetailVerbs
from lancewood.table.diffs import DiffVerbs
from lancewood.table.handle import TravelVerbs
from lancewood.table.indices import IndexVerbs
from lancewood.table.naming import NamingVerbs
from lancewood.table.rows import MergeVerbs, RowVerbs
from lancewood.table.scan import Scan
from lancewood.table.searching import SearchVerbs
from lancewood.table.storage import BaseVerbs, CloneVerbs, CompactVerbs, MoveVerbs, UpkeepVerbs
from lancewood.table.writes import WriteVerbs


class Table(
    TravelVerbs,
    WriteVerbs,
    RowVerbs,
    MergeVerbs,
    ColumnVerbs,
    CompactVerbs,
    IndexVerbs,
    DiffVerbs,
    BlameVerbs,
    SearchVerbs,
    UpkeepVerbs,
    NamingVerbs,
    BaseVerbs,
    CloneVerbs,
    MoveVerbs,
    DetailVerbs,
):
    """One version of a Lance table. Made by ``lancewood.open`` and ``lancewood.create``."""

    # Facts

    @property
    def uri(self) -> str:
        return self._snapshot.location.uri

    @property
    def version(self) -> int:
        return self._snapshot.manifest.version

    @property
    def branch(self) -> str | None:
        """The branch of this version; None on main."""
        return self._snapshot.manifest.branch

    @property
    def schema(self) -> pa.Schema:
        return self._snapshot.arrow_schema

    @property
    def timestamp(self) -> datetime:
        """When this version was committed (UTC)."""
        return self._snapshot.manifest.timestamp

    @property
    def config(self) -> Mapping[str, str]:
        return self._snapshot.manifest.config

    @property
    def applied_batches(self) -> Mapping[str, int]:
        """The newest batch of each application that the table holds; see ``append``."""
        return {app: mark.batch for app, mark in marks(self.config)}

    @property
    def metadata(self) -> Mapping[str, str]:
        """The table's metadata; the schema's own is ``schema.metadata``."""
        return self._snapshot.manifest.table_metadata

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._snapshot.manifest.fragments

    @property
    def file_version(self) -> str:
        """The version of the data files: 2.0, 2.1, 2.2 or 2.3."""
        return self._snapshot.manifest.file_version

    @property
    def has_stable_row_ids(self) -> bool:
        return self._snapshot.manifest.has_stable_row_ids

    def count_rows(
        self,
        where: str | None = None,
        *,
        parameters: Parameters = None,
        use_indices: bool = True,
    ) -> int:
        """How many rows there are; without a filter from the manifest, if that records them.

        With one, only its columns are read. ``use_indices`` is as for ``scan``.
        """
        return plan_scan(
            self._snapshot, where=where, parameters=parameters, use_indices=use_indices
        ).count()

    def stats(self) -> TableStats:
        """Rows, fragments, files and bytes, from the manifest."""
        return table_stats(self._snapshot)

    # Read

    def scan(
        self,
        columns: Columns = None,
        where: str | None = None,
        *,
        parameters: Parameters = None,
        limit: int | None = None,
        offset: int = 0,
        batch_rows: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragment_ids: Sequence[int] | None = None,
        in_bases: Bases = None,
        use_indices: bool = True,
    ) -> Scan:
        """Rows in table order. Names and the filter are checked now, data is read later.

        ``columns`` are names, dotted for a field inside a struct, or a mapping from names to SQL
        expressions; None means all. ``where`` is a condition in SQL; the other columns are read
        for rows that meet it. ``parameters`` fill in ``$name`` in both (a mapping), or ``?`` in the
        condition (a list). ``offset`` rows are passed over, then at most ``limit`` given, in
        batches of at most ``batch_rows``. ``with_row_id`` and ``with_row_address`` add ``_rowid``
        and ``_rowaddr``. ``fragment_ids`` reads only those, so that processes can share the work.
        ``in_bases`` are names, ids or paths of base paths, and None in a list is the own root: only
        fragments come whose files with columns of this scan are all there, so that a job reads
        what is near it. One that is spread over several roots comes only where all are named;
        ``explain`` tells how many others are in part there.
        Scalar indices on columns of the condition are used where few rows can meet it; the rows are
        the same. ``explain`` tells which index, and ``use_indices=False`` reads without.
        Of a blob column come descriptors, as from pylance: its bytes are for ``take_blobs``.
        """
        return Scan(
            plan_scan(
                self._snapshot,
                columns=columns,
                where=where,
                parameters=parameters,
                limit=limit,
                offset=offset,
                batch_rows=batch_rows,
                with_row_id=with_row_id,
                with_row_address=with_row_address,
                fragment_ids=fragment_ids,
                bases=in_bases,
                use_indices=use_indices,
            )
        )

    def take(
        self,
        positions: Numbers | None = None,
        columns: Sequence[str] | None = None,
        *,
        row_ids: Numbers | None = None,
    ) -> pa.Table:
        """Single rows, by position or by row id, in the order asked for, repeats included."""
        if (positions is None) == (row_ids is None):
            raise InvalidInputError("take needs positions or row_ids=, and not both")
        if positions is not None:
            return take_positions(self._snapshot, positions, columns)
        assert row_ids is not None
        return take_row_ids(self._snapshot, row_ids, columns)

    def take_blobs(
        self,
        column: str,
        positions: Numbers | None = None,
        *,
        row_ids: Numbers | None = None,
    ) -> list[BlobFile | None]:
        """The values of a blob column as files, whose bytes are read when they are asked for.

        In the order of the positions or row ids, None for a null. A scan gives descriptors of
        such a column, not bytes.
        """
        if (positions is None) == (row_ids is None):
            raise InvalidInputError("take_blobs needs positions or row_ids=, and not both")
        return take_blobs(self._snapshot, column, positions, row_ids)

    def head(self, rows: int = 5, columns: Columns = None) -> pa.Table:
        """The first rows."""
        return self.scan(columns, limit=rows).to_arrow()

    def to_arrow(self) -> pa.Table:
        """All rows as one table in memory."""
        return self.scan().to_arrow()

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame (needs pandas)."""
        return self.scan().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame (needs polars)."""
        return self.scan().to_polars()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows as record batches, within a bounded memory."""
        return self.scan().to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    def lance(self) -> Any:
        """pylance's dataset at exactly this version, for what only it can do.

        What is written through it is pylance's doing; open the table anew to see it.
        """
        return dataset_address(self._snapshot).open()

    # Write

    def set_config(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Set keys of the table's configuration; None removes one, ``replace`` clears first."""
        change = UpdateConfig(config=config_update(values, replace=replace))
        commit_options = CommitOptions.of(commit, message)
        return self._commit(change, commit_options, dry_run=dry_run)

    def set_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Set keys of the table's metadata; None removes one, ``replace`` clears first."""
        change = UpdateConfig(table_metadata=text_update(values, replace=replace))
        commit_options = CommitOptions.of(commit, message)
        return self._commit(change, commit_options, dry_run=dry_run)

    def set_field_metadata(
        self,
        values: Mapping[str, Mapping[str, str | None]],
        *,
        replace: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Set keys of columns' metadata, by dotted path: ``{"a.b": {"unit": "m"}}``.

        None removes a key, ``replace`` clears those columns' metadata first. Encodings apply to
        files that are written from now on. What is part of a column's type or of the layout of
        files that are there, and a key that is set already, cannot be changed.
        """
        updates = field_metadata_update(
            self._snapshot.schema, self.file_version, values, replace=replace
        )
        commit_options = CommitOptions.of(commit, message)
        return self._commit(UpdateConfig(field_metadata=updates), commit_options, dry_run=dry_run)

    # Low level

    def transaction(
        self,
        *operations: Operation,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """A transaction on this version: one operation, or a list for consecutive versions."""
        return Transaction.new(
            Version(self.version), *operations, message=message, properties=properties
        )

    def commit(
        self,
        transaction: Transaction,
        *,
        dry_run: bool = False,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Commit a transaction, for example one whose fragments other machines have written.

        The transaction has its message and properties, ``commit`` may say the rest. An app and
        batch are as for ``append``; the transaction is then a single operation.
        """
        if not isinstance(transaction, Transaction):
            raise InvalidInputError(f"commit takes a transaction, got {transaction!r}")
        options = CommitOptions.of(commit, takes_batch=True)
        if options.properties:
            raise InvalidInputError(
                "the transaction has its message and properties already: give them to "
                "Table.transaction(), and not to commit()"
            )
        policy = options.policy
        if dry_run:
            self._snapshot.check_commit(transaction, policy)
            return self._after(self._snapshot)
        return self._after(self._snapshot.commit(transaction, policy))

    def __repr__(self) -> str:
        branch = f" branch {self.branch}" if self.branch else ""
        return f"<Table {self.uri}{branch} version {self.version}>"
