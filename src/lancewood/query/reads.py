"""What a query reads of each table that it names: columns, conditions and limits.

All of this only makes reads smaller. Nothing is taken out of the query: Spark applies everything
again to what is left. So a column is kept wherever a name might mean it: Spark drops surplus
columns, but a missing one would be an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.query.diffs import CHANGE, TableDiff
from lancewood.query.joins import Joined, conjuncts, joined_tables, pushed_limit
from lancewood.query.names import Occurrence, defined_by_with
from lancewood.query.predicates import Condition, Conditions, Constants
from lancewood.query.settings import Settings
from lancewood.query.text import Query

_BY_CHANCE = frozenset(
    {
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        *("input_file_block_start", "input_file_block_length"),
    }
)
"""Functions whose results depend on which rows come together, and in which order."""

Readable: TypeAlias = Snapshot | TableDiff
"""What stands in FROM: a version of a table, or what differs between two."""


@dataclass(frozen=True)
class Read:
    """What is read of one version, or of a diff, at one position of a query."""

    source: Readable
    columns: tuple[str, ...] | None = None
    """None means all."""
    where: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    as_written: tuple[str, ...] = ()
    """The conditions in the query's own words."""
    limit: int | None = None

    @property
    def known_rows(self) -> int | None:
        """The number of rows, if only that matters and the manifest has it."""
        if isinstance(self.source, TableDiff):
            return None
        rows = self.source.manifest.row_count
        if self.columns != () or self.where is not None or rows is None:
            return None
        return rows if self.limit is None else min(rows, self.limit)


def whole_reads(versions: Mapping[Occurrence, Readable]) -> dict[Occurrence, Read]:
    """Everything of every table."""
    return {each: Read(source) for each, source in versions.items()}


def planned_reads(
    query: Query, versions: Mapping[Occurrence, Readable], settings: Settings
) -> dict[Occurrence, Read]:
    """The smallest reads that are sure to suffice for the query."""
    if why_whole(query, settings) is not None:
        return whole_reads(versions)
    shapes = {
        each: TableShape(source.arrow_schema.names, settings) for each, source in versions.items()
    }
    constants = Constants(settings, query.unsure)
    found = {}
    for occurrence, source in versions.items():
        needed = needed_columns(query, occurrence, shapes[occurrence], settings)
        reading = _Reading(occurrence, source, shapes, settings)
        if isinstance(source, TableDiff):
            found[occurrence] = reading.planned_diff(source, query, needed, constants)
        else:
            found[occurrence] = reading.planned(needed, constants)
    return found


def called_by_chance(query: Query) -> str | None:
    """A function in a query whose results depend on more than its arguments; None without one."""
    return min(_BY_CHANCE.intersection(query.calls()), default=None)


def why_whole(query: Query, settings: Settings) -> str | None:
    """Why everything has to be read; None if it does not."""
    by_chance = called_by_chance(query)
    if by_chance is not None:
        return f"{by_chance}() depends on all rows"
    if query.takes_samples:
        return "TABLESAMPLE depends on all rows"
    if query.is_piped:
        return "the query uses |>"
    if query.has_long_comment:
        return "a comment of the query goes on in the next line, by a backslash"
    if "identifier" in query.calls():
        return "IDENTIFIER() names what only Spark knows"
    if settings.names_are_patterns:
        return "names of columns are patterns in this session"
    return None


class _Reading:
    """The read of one table at one position."""

    def __init__(
        self,
        occurrence: Occurrence,
        source: Readable,
        shapes: Mapping[Occurrence, TableShape],
        settings: Settings,
    ) -> None:
        self._occurrence = occurrence
        self._source = source
        self._shape = shapes[occurrence]
        self._by_node = {id(each.node): shape for each, shape in shapes.items()}
        self._settings = settings
        self._columns = {each.name: each for each in source.arrow_schema}
        if isinstance(source, TableDiff):
            self._columns = {CHANGE: self._columns[CHANGE]}

    def planned(self, needed: tuple[str, ...] | None, constants: Constants) -> Read:
        joined = self._joined()
        if joined is None:
            return Read(self._source, needed)
        asked = self._conditions(joined, constants)
        sql = " AND ".join(f"({each.sql})" for _, each in asked)
        parameters = {key: value for _, one in asked for key, value in one.parameters.items()}
        pushed = [node for node, _ in asked]
        return Read(
            self._source,
            needed,
            sql or None,
            parameters,
            tuple(node.sql("spark") for node in pushed),
            pushed_limit(joined, _rest(joined, pushed)),
        )

    def planned_diff(
        self,
        source: TableDiff,
        query: Query,
        needed: tuple[str, ...] | None,
        constants: Constants,
    ) -> Read:
        """The same for a diff: of conditions only those about the kind of change."""
        joined = self._joined()
        asked = [] if joined is None else self._conditions(joined, constants)
        conditions = [each for _, each in asked]
        narrow = source.narrowed(query, self._occurrence.exposed, needed, conditions)
        return Read(narrow, needed, as_written=tuple(node.sql("spark") for node, _ in asked))

    def _joined(self) -> Joined | None:
        """The tables beside this one; None where no condition may be asked of it before."""
        node = self._occurrence.node
        select, alias = select_of(node), node.args.get("alias")
        has_other_names = alias is not None and bool(alias.args.get("columns"))
        if select is None or has_other_names or node.args.get("sample"):
            return None
        return joined_tables(select)

    def _conditions(self, joined: Joined, constants: Constants) -> list[tuple[Any, Condition]]:
        node = self._occurrence.node
        at = next(place for place, each in enumerate(joined.nodes) if each is node)
        conditions = Conditions(lambda column: self._field(column, joined), constants)
        found = []
        for each in joined.pushable_to(at):
            condition = conditions.translate(each.node)
            if condition is None:
                continue
            if condition.when_null is not True or each.may_hold_for_nulls:
                found.append((each.node, condition))
        return found

    def _field(self, column: Any, joined: Joined) -> pa.Field | None:
        """The column of this table that a name means; None if it is another table's, or unclear."""
        if type(column).__name__ != "Column" or column.is_star:
            return None
        parts = [str(each.name) for each in column.parts]
        if len(parts) == 2:
            is_ours = self._is_only_one(parts[0], joined)
        else:
            is_ours = len(parts) == 1 and self._is_ours_alone(parts[0], joined)
        named = self._shape.named(parts[-1])
        return self._columns.get(named[0]) if is_ours and len(named) == 1 else None

    def _is_only_one(self, qualifier: str, joined: Joined) -> bool:
        """Whether a qualifier means this table and no other."""
        wanted = self._settings.folded(qualifier)
        if wanted != self._settings.folded(self._occurrence.exposed):
            return False
        others = [each for each in self._others(joined) if _exposed(each) is not None]
        return all(self._settings.folded(str(_exposed(each))) != wanted for each in others)

    def _is_ours_alone(self, name: str, joined: Joined) -> bool:
        """Whether no other table here can have a column of this name."""
        for each in self._others(joined):
            shape = self._by_node.get(id(each))
            if shape is None:
                names = exposed_columns(each, self._settings)
                if names is None:
                    return False
                shape = TableShape(names, self._settings)
            elif (alias := each.args.get("alias")) is not None and alias.args.get("columns"):
                shape = TableShape([str(one.name) for one in alias.columns], self._settings)
            if shape.named(name):
                return False
        return True

    def _others(self, joined: Joined) -> Sequence[Any]:
        laterals = joined.select.args.get("laterals") or ()
        return [each for each in (*joined.nodes, *laterals) if each is not self._occurrence.node]


def _exposed(node: Any) -> str | None:
    return str(node.alias_or_name) or None


def _rest(joined: Joined, pushed: Sequence[Any]) -> list[Any]:
    """The conditions of WHERE that were not pushed down."""
    where = joined.select.args.get("where")
    done = {id(each) for each in pushed}
    return [] if where is None else [e for e in conjuncts(where.this) if id(e) not in done]


class TableShape:
    """The columns of one table as a session sees them."""

    def __init__(self, names: Sequence[str], settings: Settings) -> None:
        self.names = tuple(names)
        self._by_folded: dict[str, list[str]] = {}
        for each in names:
            self._by_folded.setdefault(settings.folded(each), []).append(each)
        self._settings = settings

    def named(self, name: str) -> list[str]:
        """The columns that a name may mean."""
        return self._by_folded.get(self._settings.folded(name), [])


def needed_columns(
    query: Query, occurrence: Occurrence, shape: TableShape, settings: Settings
) -> tuple[str, ...] | None:
    """The columns of a table that the query may use, in their order; None for all."""
    from sqlglot import exp

    tree, select = query.tree, select_of(occurrence.node)
    if select is None or _takes_whole_rows(tree, select, occurrence):
        return None
    exposed = settings.folded(occurrence.exposed)
    wanted: set[str] = set()

    def want(name: str) -> None:
        wanted.update(shape.named(name))

    for word in query.words:
        want(word)
    for node in tree.find_all(exp.Identifier, exp.Star):
        parent = node.parent
        if isinstance(node, exp.Star):
            if _expands(node) and _is_about(node, select, exposed, settings):
                return None
        elif isinstance(parent, exp.Column):
            parts = [str(each.name) for each in parent.parts]
            if len(parts) == 2 and settings.folded(parts[0]) != exposed:
                want(parts[0])
            else:
                for each in parts:
                    want(each)
        elif not isinstance(parent, exp.Table | exp.TableAlias | exp.CTE | exp.Alias):
            want(str(node.name))
    return tuple(each for each in shape.names if each in wanted)


def select_of(node: Any) -> Any:
    """The SELECT in whose FROM or JOIN a table is; None if it is elsewhere."""
    from sqlglot import exp

    above = node.parent
    if isinstance(above, exp.Join | exp.From) and isinstance(above.parent, exp.Select):
        return above.parent
    return None


def exposed_columns(node: Any, settings: Settings) -> tuple[str, ...] | None:
    """The column names of a subquery, CTE or LATERAL; None if unknown."""
    from sqlglot import exp

    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return tuple(str(each.name) for each in alias.columns)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        if node.args.get("db"):
            return None
        found = defined_by_with(node, str(node.this.this), settings)
        return None if found is None else exposed_columns(found, settings)
    if isinstance(node, exp.Subquery | exp.CTE):
        return _selected(node.this)
    return None


def _selected(query: Any) -> tuple[str, ...] | None:
    from sqlglot import exp

    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    named = query.expressions
    if all(isinstance(each, exp.Alias | exp.Column) and not each.is_star for each in named):
        return tuple(str(each.alias_or_name) for each in named)
    return None


def _takes_whole_rows(tree: Any, select: Any, occurrence: Occurrence) -> bool:
    """Whether all columns matter although they are not named."""
    from sqlglot import exp

    alias = occurrence.node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return True
    if occurrence.node.args.get("sample") or select.args.get("sample"):
        return True
    if select.args.get("operation_modifiers"):
        return True
    joins = select.args.get("joins") or ()
    if any(str(each.args.get("method") or "").upper() == "NATURAL" for each in joins):
        return True
    return tree.find(exp.Pivot) is not None


def _expands(star: Any) -> bool:
    """Whether a star means columns; in count(*) it means rows."""
    from sqlglot import exp

    return not (isinstance(star.parent, exp.Count) and star.arg_key == "this")


def _is_about(star: Any, select: Any, exposed: str, settings: Settings) -> bool:
    """Whether a star may mean columns of the table that is exposed under a name."""
    from sqlglot import exp

    if isinstance(star.parent, exp.Column):
        parts = [str(each.name) for each in star.parent.parts[:-1]]
        return len(parts) != 1 or settings.folded(parts[0]) == exposed
    return star.find_ancestor(exp.Select) is select
