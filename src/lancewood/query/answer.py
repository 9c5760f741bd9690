"""An answer: a query with the versions of its tables, computed by DuckDB as often as it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import LancewoodError
from lancewood.expr.syntax import Parameters, kept
from lancewood.query.columns import usual_type
from lancewood.query.database import QUERIES, in_our_words, interruptible
from lancewood.query.functions import sees, state_lines
from lancewood.query.names import NamedTables, name_tables, nodes
from lancewood.query.relation import Relation
from lancewood.query.sources import Sources
from lancewood.table.scan import Rows

_BATCH_ROWS = 65_536
_MOST_COLUMNS = 20


def answer(
    query: str,
    sources: Sources,
    args: Parameters = None,
    *,
    pushdown: bool = True,
    may_be_unused: bool = False,
) -> Answer:
    """The answer to a query. ``may_be_unused`` allows values in `args` that it does not name.

    Raises NotFoundError for an unknown table or revision, InvalidInputError for what is no query,
    and for what DuckDB refuses.
    """
    with QUERIES.cursor() as own:
        named = name_tables(query, sources, own)
    given = kept(args)
    if may_be_unused and isinstance(given, dict):
        given = {name: value for name, value in given.items() if name in named.parameters} or None
    return Answer(named, given, pushdown=pushdown)


class Answer(Rows):
    """The rows of an answer, computed anew by each method that returns rows; always of the versions
    that were resolved when it was made."""

    def __init__(self, named: NamedTables, args: Parameters, *, pushdown: bool = True) -> None:
        self._named = named
        self._args = args
        self._pushdown = pushdown
        with self._opened() as (own, _):
            found = self._asked(own).limit(0).to_arrow_table().schema
        self._schema = pa.schema([pa.field(each.name, usual_type(each.type)) for each in found])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self._schema

    @property
    def _row_schema(self) -> pa.Schema:
        return self._schema

    def sees(self, table: Snapshot) -> bool:
        """Whether the query reads any version of the table on this branch, under any name."""
        return sees(self._named.tables.values(), table)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, with bounded memory."""
        with self._opened() as (own, _):
            reader = interruptible(own, lambda: self._asked(own).to_arrow_reader(_BATCH_ROWS))
            try:
                while (batch := interruptible(own, lambda: next(reader, None))) is not None:
                    if batch.num_rows:
                        arrays = [
                            array.cast(each.type)
                            for array, each in zip(batch.columns, self._schema, strict=True)
                        ]
                        yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            finally:
                reader.close()

    def wrapped(self, wrap: Callable[[str], str]) -> Answer:
        """The answer to a query around this one, over the same versions."""
        named = replace(self._named, sql=wrap(self._named.sql))
        return Answer(named, self._args, pushdown=self._pushdown)

    def explain(self) -> str:
        """What DuckDB asks of each table, as text: its version, the columns, the conditions that a
        scan takes over, and the indices that it uses."""
        with self._opened() as (own, relations):
            text = f"EXPLAIN (FORMAT json) {self._named.sql}"
            found = own.execute(text, self._args).fetchall()[0][1]
            scans = list(_scans(json.loads(found)))
            lines = (_lines(each, scans) for each in relations)
            return "\n".join(line for each in lines for line in each)

    def __repr__(self) -> str:
        return f"<Answer with the columns {', '.join(self._schema.names)}>"

    def _asked(self, own: Any) -> Any:
        return own.sql(self._named.sql, params=self._args)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, list[Relation]]]:
        """A cursor that knows the tables. Failures in the block become errors of ours: the one that
        a scan raised, of which DuckDB keeps the text alone, or else one about what DuckDB says."""
        import duckdb

        relations = [
            Relation(number, name, source, self._pushdown)
            for number, (name, source) in enumerate(self._named.tables.items())
        ]
        try:
            with QUERIES.cursor() as own:
                for relation in relations:
                    relation.register(own)
                yield own, relations
        except (duckdb.Error, pa.ArrowException, OSError, ValueError, TypeError) as error:
            if isinstance(error, LancewoodError):
                raise
            for relation in relations:
                failure = relation.failure or relation.refusal(str(error))
                if failure is not None:
                    raise failure from error
            raise in_our_words(error) from error


def _scans(plan: Any) -> Iterator[list[str]]:
    """The columns that each scan of a plan of DuckDB's reads, as numbers and fields of structs."""
    for node in nodes(plan):
        columns = node.get("extra_info", {}).get("Projections")
        if columns is not None and str(node.get("name", "")).endswith("SCAN"):
            yield [columns] if isinstance(columns, str) else list(columns)


def _lines(relation: Relation, scans: Sequence[Sequence[str]]) -> Iterator[str]:
    """What is asked of one table."""
    yield relation.name
    yield from state_lines(relation.source)
    columns: dict[str, None] = {}
    is_scanned = False
    for number, dot, fields in (each.partition(".") for names in scans for each in names):
        is_scanned = is_scanned or number in relation.schema.names
        if number in relation.fields:
            columns[f"{relation.fields[number].name}{dot}{fields}"] = None
    accepted = list(relation.accepted)
    if is_scanned and not columns and not accepted and relation.rows is not None:
        yield f"  rows     {relation.rows}, from the manifest; no data file is read"
        return
    every = len(relation.source.arrow_schema)
    yield f"  columns  {_listed(list(columns))} ({len(columns)} of {every})"
    yield f"  where    {' AND '.join(accepted) or 'all rows'}"
    yield from (f"  index    {line}" for line in relation.index_lines())
    rest = [each for each in dict.fromkeys(relation.offered) if each not in accepted]
    if rest:
        yield f"  DuckDB   decides {' AND '.join(rest)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_COLUMNS} more" * (len(names) > _MOST_COLUMNS)
    return f"{', '.join(names[:_MOST_COLUMNS])}{more}" or "none"
