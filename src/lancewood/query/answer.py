"""A query answered in this process, by DuckDB on scans of the tables.

``reads`` has decided what is read of each table; DuckDB gets it as a stream of batches, as often as
it asks, and a text in which every name and cast is ours (``relations``). It may open no file except
those of its own temporary directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancewood.engine.rows import plan_scan
from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.query.diffs import TableDiff
from lancewood.query.kinds import NULL, seen_column
from lancewood.query.names import Occurrence
from lancewood.query.plan import QueryPlan, plan_query
from lancewood.query.readable import check_read
from lancewood.query.reads import Read
from lancewood.query.relations import Given, Relation, Relations
from lancewood.query.scopes import FromSource, NotReadError, ScopeColumn
from lancewood.query.settings import Settings
from lancewood.query.sources import Sources
from lancewood.query.text import shown
from lancewood.query.typed import FAILED, only_spark
from lancewood.table.scan import Rows

_BATCH_ROWS = 65_536
_MEMORY = "60%"


def answer(
    planned: QueryPlan, args: Mapping[str, Any] | None = None, *, pushdown: bool = True
) -> Answer:
    """The answer to a planned query."""
    if args is not None and not isinstance(args, Mapping):
        raise InvalidInputError(f"args takes a mapping for :name, got a {type(args).__name__}")
    _check_text(planned)
    if pushdown:
        with suppress(NotReadError, InvalidInputError):
            return Answer(planned, planned.reads, dict(args or {}))
    return Answer(planned, planned.whole_reads, dict(args or {}))


class Answer(Rows):
    """The rows of an answer, computed anew by each method that returns rows; always of the versions
    that were resolved when it was made."""

    def __init__(
        self, planned: QueryPlan, reads: Mapping[Occurrence, Read], args: Mapping[str, Any]
    ) -> None:
        self._planned = planned
        self._inputs = [_Input(f"t{at}", each) for at, each in enumerate(reads.values())]
        given = {
            id(occurrence.node): Given(
                each.relation, FromSource(occurrence.exposed, each.columns())
            )
            for occurrence, each in zip(reads, self._inputs, strict=True)
        }
        compiled = Relations(given, planned.settings, args)
        check_read(planned.query.tree)
        try:
            self._relation: Relation = compiled.compile(planned.query.tree)
        except RecursionError:
            raise InvalidInputError(f"{shown(planned.query.sql)} nests too deeply") from None

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, kind) for name, kind in self._relation.columns])

    @property
    def _row_schema(self) -> pa.Schema:
        return self.schema

    def explain(self) -> str:
        """What is read of the tables, as text."""
        return self._planned.explain()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, with bounded memory."""
        schema = self.schema
        with _translated_failures(self._inputs), _connected() as connection:
            for each in self._inputs:
                if each.is_read:
                    connection.register(each.name, each)
            reader = connection.sql(self._relation.sql).to_arrow_reader(_BATCH_ROWS)
            for batch in reader:
                arrays = [
                    _given_back(array, field.type)
                    for array, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self._relation.columns)
        return f"<Answer with the columns {names}>"


class InProcess:
    """The surroundings of a query without a session: no tables, only the time."""

    def moment(self, expression: str) -> datetime:
        """The time that an expression means; raises InvalidInputError."""
        takes = "TIMESTAMP AS OF takes a moment, such as '2026-11-15 12:00:00'"
        try:
            asked = f"SELECT CAST(({expression}) AS TIMESTAMP) AS at"
            settings = Settings()
            planned = plan_query(asked, Sources({}, None, None, None, settings), settings, self)
            found: datetime | None = answer(planned).to_arrow()["at"][0].as_py()
        except InvalidInputError as cause:
            raise InvalidInputError(f"{takes}, got {expression}: {cause}") from cause
        if found is None:
            raise InvalidInputError(f"{takes}, and {expression} is NULL")
        return found

    def has_table(self, name: str) -> bool:
        return False


@dataclass(eq=False)
class _Input:
    """What is read of a table, as DuckDB requests it."""

    name: str
    read: Read
    failure: Exception | None = None

    @property
    def is_read(self) -> bool:
        return self.read.known_rows is None

    @property
    def relation(self) -> str:
        return self.name if self.is_read else f"range({self.read.known_rows})"

    def columns(self) -> list[ScopeColumn]:
        """All columns of the table; those that are not read do not exist in DuckDB."""
        places = {name: at for at, name in enumerate(self._names)}
        return [
            ScopeColumn(
                each.name,
                f"c{places[each.name]}" if each.name in places and self.is_read else None,
                seen_column(each),
            )
            for each in self.read.source.arrow_schema
        ]

    @property
    def _names(self) -> Sequence[str]:
        """The columns, without those whose type DuckDB lacks: naming one is an error."""
        names = self.read.columns
        schema = self.read.source.arrow_schema
        return [
            each.name
            for each in schema
            if (names is None or each.name in names) and seen_column(each) is not None
        ]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        names = self._names
        found, batches = self._rows()
        kinds = [seen_column(found.field(name)) for name in names]
        fields = [pa.field(f"c{at}", kind) for at, kind in enumerate(kinds)]
        schema = pa.schema(fields or [pa.field("c0", pa.bool_())])
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(batches, names, schema))
        return reader.__arrow_c_stream__(requested_schema)

    def _rows(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """What is read, and its schema."""
        source = self.read.source
        if isinstance(source, TableDiff):
            return source.arrow_schema, source.batches(self._names)
        plan = plan_scan(
            source,
            columns=self._names or source.arrow_schema.names[:1],
            where=self.read.where,
            parameters=dict(self.read.parameters) or None,
            limit=self.read.limit,
        )
        return plan.schema, plan.batches()

    def _batches(
        self, batches: Iterator[pa.RecordBatch], names: Sequence[str], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                if names:
                    arrays = [
                        _handed_over(name, array, field.type)
                        for name, array, field in zip(names, batch.columns, schema, strict=True)
                    ]
                else:
                    arrays = [pa.repeat(pa.scalar(True), batch.num_rows)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except Exception as error:  # DuckDB would keep only its message
            self.failure = error
            raise


def _handed_over(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of a scan in the type that it has in a query."""
    if array.type.equals(kind):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise UnsupportedError(
            f"column {name!r} of {array.type} holds a value that cannot become {kind}: {cause}; "
            "leave the column out of the query",
            column=name,
        ) from cause


def _given_back(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == NULL:
        return pa.nulls(len(array))
    return array if array.type.equals(kind) else array.cast(kind)


def _check_text(planned: QueryPlan) -> None:
    """Raise UnsupportedError where the tree does not show the text as Spark reads it."""
    query = planned.query
    if query.is_piped:
        raise only_spark("|>")
    if query.has_long_comment:
        raise only_spark("a comment that goes on in the next line, by a backslash")
    if any("\\" in query.sql[each.start : each.end] for each in query.texts):
        raise only_spark("a text with a backslash", "Spark and others read it differently")
    if any(
        each.token_type.name == "HEX_STRING" and query.sql[each.start] == "0"
        for each in query.tokens
    ):
        raise InvalidInputError("bytes are written X'1F', not 0x1F")


@contextmanager
def _connected() -> Iterator[Any]:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="lancewood-sql-") as directory:
        connection = duckdb.connect(
            config={
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": _MEMORY,
                "temp_directory": directory,
            }
        )
        try:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET lock_configuration = true")
            yield connection
        finally:
            connection.close()


@contextmanager
def _translated_failures(inputs: Sequence[_Input]) -> Iterator[None]:
    """Raise our own errors for failures of DuckDB, or of a scan below it."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        for each in inputs:
            if isinstance(each.failure, LancewoodError):
                raise each.failure from error
        text = str(error).strip().partition("\n")[0]
        _, ours, failure = text.partition(FAILED)
        if ours:
            raise InvalidInputError(failure) from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise UnsupportedError(
                f"the query needs more memory than it may take here: {text}; ask for less, or "
                "with lw sql --spark"
            ) from error
        message = text.partition(": ")[2] or text
        if isinstance(error, duckdb.DataError):
            raise InvalidInputError(f"the query fails on a value: {message}") from error
        raise UnsupportedError(
            f"DuckDB does not answer the query: {message}; ask with lw sql --spark, or with "
            "lancewood.spark.sql"
        ) from error
