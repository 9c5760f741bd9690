"""An answer: a query with the versions of its tables, computed by DuckDB as often as it is read.

Each version, diff or blame is a relation of DuckDB, which asks it for columns and offers it the
conditions that its optimizer found. It knows the columns by numbers (`t0c1` is the second of the
first relation), and a view gives them their names. The first of all, `ROWS`, is not in the view:
DuckDB asks for it where it only needs to know how many rows there are, which the manifest says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.engine.rows import plan_scan
from lancewood.engine.schema import row_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import LancewoodError, UnsupportedError
from lancewood.expr.columns import duckdb_type, folded, readable_column, usual_type, why_not
from lancewood.expr.database import QUERIES, in_our_words, interruptible
from lancewood.expr.expression import Predicate, TreePredicate
from lancewood.expr.syntax import Parameters, kept
from lancewood.expr.tree import TRIED_WITH, tree_of
from lancewood.query.names import (
    NamedTables,
    Readable,
    name_tables,
    nodes,
    sees,
    state_lines,
    states_of,
)
from lancewood.query.sources import Sources
from lancewood.query.tokens import literal, quoted
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
            found = own.sql(self._named.sql, params=self._args).limit(0).to_arrow_table().schema
        self._schema = pa.schema([pa.field(each.name, usual_type(each.type)) for each in found])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self._schema

    _row_schema = schema

    def sees(self, table: Snapshot) -> bool:
        """Whether the query reads any version of the table on this branch, under any name."""
        return sees(self._named.tables.values(), table)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, with bounded memory."""
        with self._opened() as (own, _):
            asked = partial(own.sql, self._named.sql, params=self._args)
            reader = interruptible(own, lambda: asked().to_arrow_reader(_BATCH_ROWS))
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
    more = f" and {len(columns) - _MOST_COLUMNS} more" * (len(columns) > _MOST_COLUMNS)
    listed = ", ".join(list(columns)[:_MOST_COLUMNS])
    yield f"  columns  {listed or 'none'}{more} ({len(columns)} of {every})"
    yield f"  where    {' AND '.join(accepted) or 'all rows'}"
    yield from (f"  index    {line}" for line in relation.index_lines())
    rest = [each for each in dict.fromkeys(relation.offered) if each not in accepted]
    if rest:
        yield f"  DuckDB   decides {' AND '.join(rest)}"


_MOST_ROWS = 1 << 20
_is_plain = re.compile(r"[a-z_]\w*", re.IGNORECASE).fullmatch


@dataclass(eq=False)
class Relation:
    """What DuckDB reads of one version or diff; each reading is a new scan."""

    number: int
    name: str
    """The name in the text of the query: `photos@v1`."""
    source: Readable
    pushdown: bool = True
    accepted: dict[str, Any] = field(default_factory=dict)
    """The conditions that DuckDB handed over while it planned, by their text in the words of the
    table."""
    offered: list[str] = field(default_factory=list)
    """All conditions that it offered."""
    failure: Exception | None = None
    """Our error from a reading, of which DuckDB keeps the text alone."""

    @cached_property
    def fields(self) -> dict[str, pa.Field]:
        """The columns of the table that DuckDB can have, by the names that it knows them by."""
        columns = self._columns
        return {
            f"t{self.number}c{at}": each
            for at, each in enumerate(columns)
            if why_not(each, columns.names) is None
        }

    @cached_property
    def schema(self) -> pa.Schema:
        """The declared columns: `ROWS`, and those of `fields`."""
        declared = [pa.field(self._rows, pa.null())]
        declared += [pa.field(name, duckdb_type(each)) for name, each in self.fields.items()]
        return pa.schema(declared)

    def register(self, cursor: Any) -> None:
        """Have the name mean this relation, for one cursor."""
        import duckdb

        inner = f"__lancewood_{self.number}"
        tried = duckdb.__version__.startswith(TRIED_WITH)
        source = _as_source(self) if tried else None
        cursor.register(inner, _as_dataset(self) if source is None else source)
        view = f"SELECT {self._selected()} FROM {inner}"
        cursor.execute(f"CREATE TEMP VIEW {quoted(self.name)} AS {view}")

    def accepts(self, node: Any) -> bool:
        """Whether a reading applies a condition as DuckDB would, and gains from it: an index tells
        which rows, or large values of other rows need not be read."""
        written = self._in_words(str(node.fragment()))
        self.offered.append(written)
        predicate = self._predicate([node]) if self.pushdown else None
        if predicate is None or not self._gains(predicate):
            return False
        self.accepted[written] = node
        return True

    def batches(
        self, columns: Sequence[str], conditions: Sequence[Any] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows that meet all conditions, which were accepted, in the declared types."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        names = [self.fields[name].name for name in columns if name != self._rows]
        try:
            if not names and not conditions and (rows := self.rows) is not None:
                for start in range(0, rows, _MOST_ROWS):
                    size = min(_MOST_ROWS, rows - start)
                    yield pa.RecordBatch.from_arrays([pa.nulls(size)], schema=schema)
                return
            for batch in self._scanned(names, conditions):
                arrays = [pa.nulls(batch.num_rows)] * len(schema)
                for at, each in enumerate(schema):
                    if each.name != self._rows:
                        name = self.fields[each.name].name
                        arrays[at] = readable_column(name, batch.column(name), each.type)
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except Exception as error:
            self.failure = error
            raise

    def reader(self, columns: Sequence[str], conditions: Sequence[Any] = ()) -> Any:
        """The batches as a stream."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self.batches(columns, conditions))

    @property
    def rows(self) -> int | None:
        """The number of rows, if the manifest has it."""
        state = states_of(self.source).get("version")
        found: int | None = None if state is None else state.manifest.row_count
        return found

    def index_lines(self) -> Iterator[str]:
        """Which indices find the rows for the accepted conditions, and why others do not."""
        if not isinstance(self.source, Snapshot) or not self.accepted:
            return
        predicate = self._predicate(list(self.accepted.values()))
        yield from plan_scan(self.source, columns=(), predicate=predicate).explain_indices()

    def refusal(self, message: str) -> UnsupportedError | None:
        """Our error, if DuckDB failed because a column was asked for that it cannot have."""
        for each in self._columns:
            reason = why_not(each, self._columns.names)
            if reason is not None and reason in message:
                return UnsupportedError(reason, column=each.name)
        return None

    @property
    def _rows(self) -> str:
        return f"t{self.number}rows"

    @cached_property
    def _columns(self) -> pa.Schema:
        """The columns as they are read: of a blob, its position and size."""
        if not isinstance(self.source, Snapshot):
            return self.source.arrow_schema
        return plan_scan(self.source, columns=self.source.arrow_schema.names).schema

    def _selected(self) -> str:
        """The columns of the view; one that DuckDB cannot have is an error if it is asked for."""
        known = {each.name: name for name, each in self.fields.items()}
        listed, done = [], set[str]()
        for each in self._columns:
            if each.name in known:
                listed.append(f"{known[each.name]} AS {quoted(each.name)}")
            elif folded(each.name) not in done:
                reason = literal(str(why_not(each, self._columns.names)))
                listed.append(f"CAST(error({reason}) AS VARCHAR) AS {quoted(each.name)}")
            done.add(folded(each.name))
        return ", ".join(listed)

    def _in_words(self, text: str) -> str:
        """A condition of DuckDB's with the names of the table."""

        def named(match: re.Match[str]) -> str:
            name = self.fields[match[1]].name
            return name if _is_plain(name) else quoted(name)

        found = re.sub(rf'"(t{self.number}c\d+)"', named, text)
        is_whole = found.startswith("(") and found.endswith(")") and found.count("(") == 1
        return found[1:-1] if is_whole else found

    def _predicate(self, nodes: Sequence[Any]) -> Predicate | None:
        """Conditions of DuckDB's, if any, as one about the table's columns; None where a scan may
        decide one of them otherwise."""
        names = {name: each.name for name, each in self.fields.items()}
        found = [tree_of(node, self._row_schema, names) for node in nodes]
        trees = tuple(each for each in found if each is not None)
        if not trees or len(trees) < len(nodes):
            return None
        return TreePredicate("what DuckDB asks for", self._row_schema, trees=trees)

    @cached_property
    def _row_schema(self) -> pa.Schema:
        """The columns as conditions see them."""
        if not isinstance(self.source, Snapshot):
            return self.source.arrow_schema
        return row_schema(self.source.schema)

    def _scanned(self, names: list[str], conditions: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        source, predicate = self.source, self._predicate(conditions)
        if not isinstance(source, Snapshot):
            return source.read(names, predicate)
        if self.pushdown:
            return plan_scan(source, columns=names, predicate=predicate).batches()
        every = [each.name for each in self.fields.values()]
        return plan_scan(source, columns=every).batches()

    def _gains(self, predicate: Predicate) -> bool:
        """Whether a scan that applies a condition has less to do."""
        asked = predicate.columns
        if not isinstance(self.source, Snapshot):
            return self.source.gains(asked)
        if plan_scan(self.source, columns=(), predicate=predicate).is_narrowed:
            return True
        return any(_is_large(each.type) for each in self._columns if each.name not in asked)


def _is_large(kind: pa.DataType) -> bool:
    """Whether the values of a type can be so large that reading only some of them pays."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    tests = (pt.is_nested, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _as_source(relation: Relation) -> Any:
    """The relation in DuckDB's own protocol; None in a release that has it no longer."""
    try:
        from duckdb._sources import ArrowScanSource
    except ImportError:
        return None

    class RelationSource(ArrowScanSource):
        schema_is_stable = True

        def rows(self) -> int | None:
            return relation.rows

        def __arrow_c_schema__(self) -> object:
            return relation.schema.__arrow_c_schema__()

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return relation.reader(relation.schema.names).__arrow_c_stream__(requested_schema)

        def accepts(self, predicate: Any) -> bool:
            try:
                return relation.accepts(predicate)
            except Exception as error:
                relation.failure = error
                raise

        def stream(self, columns: Sequence[int] | None, filters: Any) -> tuple[object, bool]:
            names = relation.schema.names
            chosen = names if columns is None else [names[at] for at in columns]
            return relation.reader(chosen, filters).__arrow_c_stream__(), columns is not None

    return RelationSource(relation)


def _as_dataset(relation: Relation) -> Any:
    """The relation by pyarrow's class, which every release of DuckDB reads: conditions come as
    expressions of pyarrow, which are applied to the batches."""
    import pyarrow.dataset as ds  # loads pandas where that is installed

    class RelationDataset(ds.Dataset):  # type: ignore[misc]
        def __init__(self) -> None:
            """Without pyarrow's own, which makes no dataset."""

        @property
        def schema(self) -> pa.Schema:
            return relation.schema

        def scanner(self, columns: Any = None, filter: Any = None, **_: Any) -> Any:
            wanted = list(relation.schema.names if columns is None else columns)
            asked = re.findall(r"\bt\d+c\d+\b", "" if filter is None else str(filter))
            others = set(relation.fields).intersection(asked).difference(wanted)
            rows = relation.reader([*wanted, *others])
            return ds.Scanner.from_batches(rows, columns=wanted, filter=filter)

    return RelationDataset()
