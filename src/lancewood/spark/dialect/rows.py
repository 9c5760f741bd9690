"""The statements that change rows: INSERT, DELETE, UPDATE and MERGE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lancewood.query.statements.model import (
    DELETED,
    INSERTED,
    UPDATED,
    Action,
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Path,
    Update,
    When,
)
from lancewood.spark.dialect.reader import NotOursError, Reader
from lancewood.spark.dialect.text import parse_query

_BY_CHANCE = frozenset(
    {
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        *("input_file_block_start", "input_file_block_length"),
    }
)
"""Functions whose results depend on which rows come together, and in which order."""
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
_PARTITION = "tables have no partitions: leave PARTITION out, or write INSERT INTO … REPLACE WHERE"
_EVOLUTION = (
    "columns do not come with rows: leave WITH SCHEMA EVOLUTION out, and write ALTER TABLE … ADD "
    "COLUMNS before"
)
_WHEN = "WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE"


def read_insert(reader: Reader) -> Insert:
    """What follows INSERT."""
    evolves = reader.takes("WITH", "SCHEMA", "EVOLUTION")
    word = reader.takes_one("INTO", "OVERWRITE")
    if not word:
        raise reader.wrong("INTO or OVERWRITE")
    if word == "OVERWRITE" and (reader.sees("DIRECTORY") or reader.sees("LOCAL", "DIRECTORY")):
        raise NotOursError
    reader.takes("TABLE")
    found = Insert(reader.target(), "", overwrite=word == "OVERWRITE")
    if evolves or reader.sees("WITH", "SCHEMA", "EVOLUTION"):
        raise reader.refused(_EVOLUTION)
    if reader.sees("PARTITION") or reader.sees("IF"):
        raise reader.refused(_PARTITION)
    if reader.sees("("):
        found = _with_columns(reader, found)
    elif reader.takes("BY", "NAME"):
        found = replace(found, by_name=True)
    if reader.takes("REPLACE"):
        found = _replacing(reader, found)
    return replace(found, query=_rows(reader))


def read_delete(reader: Reader) -> Delete:
    """What follows DELETE."""
    reader.expect("FROM")
    target = reader.target()
    alias = reader.alias("WHERE", "USING")
    where = _where(reader)
    reader.end("WHERE" if where is None else "the end of the statement")
    return Delete(target, where, alias)


def read_truncate(reader: Reader) -> Delete:
    """What follows TRUNCATE TABLE."""
    target = reader.target()
    if reader.sees("PARTITION"):
        raise reader.refused("tables have no partitions: write DELETE FROM … WHERE")
    reader.end()
    return Delete(target)


def read_update(reader: Reader) -> Update:
    """What follows UPDATE."""
    target = reader.target()
    alias = reader.alias("SET", "WHERE", "FROM")
    reader.expect("SET")
    assignments = _assignments(reader, alias or target.name, "WHERE", "FROM")
    if reader.sees("FROM"):
        raise reader.refused("UPDATE takes no FROM: write MERGE INTO … WHEN MATCHED THEN UPDATE")
    where = _where(reader)
    reader.end("WHERE" if where is None else "the end of the statement")
    return Update(target, assignments, where, alias)


def read_merge(reader: Reader) -> Merge:
    """What follows MERGE."""
    if reader.sees("BRANCH"):
        raise reader.refused(
            "MERGE is about rows: branches are merged by lw merge, or by Repository.merge, and "
            "those of one table by lw table merge-branch"
        )
    evolves = reader.takes("WITH", "SCHEMA", "EVOLUTION")
    reader.expect("INTO")
    target = reader.target()
    if evolves:
        raise reader.refused(_EVOLUTION)
    alias = reader.alias("USING")
    reader.expect("USING")
    source, source_alias = reader.relation("ON")
    reader.expect("ON")
    on = _condition(reader, "WHEN")
    clauses = []
    while not reader.is_done:
        clauses.append(_clause(reader, alias or target.name))
        _check_order(reader, clauses)
    if not clauses:
        raise reader.wrong(_WHEN)
    return Merge(target, source, on, tuple(clauses), alias, source_alias)


def _with_columns(reader: Reader, found: Insert) -> Insert:
    """The columns, unless the parenthesis is that of a query."""
    ahead = 0
    while reader.word(ahead) == "(":
        ahead += 1
    if reader.word(ahead) in ("SELECT", "WITH", "VALUES", "FROM"):
        return found
    return replace(found, columns=reader.names("the name of a column"))


def _replacing(reader: Reader, found: Insert) -> Insert:
    if not reader.takes("WHERE"):
        raise reader.wrong("WHERE: only INSERT INTO … REPLACE WHERE replaces rows")
    if found.overwrite:
        raise reader.refused("OVERWRITE replaces all rows: write INSERT INTO … REPLACE WHERE")
    return replace(found, where=reader.expression("a condition", "SELECT", "WITH", "VALUES"))


def _rows(reader: Reader) -> str:
    if reader.sees("DEFAULT", "VALUES") or (reader.sees("VALUES") and reader.has_default()):
        raise reader.refused("columns have no DEFAULT: write a value, or NULL")
    if reader.word() not in _QUERIES:
        raise reader.wrong("a query or VALUES")
    return reader.query("a query or VALUES")


def _where(reader: Reader) -> str | None:
    return reader.expression("a condition") if reader.takes("WHERE") else None


def _assignments(reader: Reader, table: str, *stops: str) -> tuple[Assignment, ...]:
    found = [_assignment(reader, table, *stops)]
    while reader.takes(","):
        found.append(_assignment(reader, table, *stops))
    reader.check_once([each.path for each in found], "each column")
    return tuple(found)


def _assignment(reader: Reader, table: str, *stops: str) -> Assignment:
    path = _of_target(reader, table)
    if not reader.takes("=") and not reader.takes("=="):
        raise reader.wrong("= and a value")
    return Assignment(path, reader.expression("a value", ",", *stops))


def _of_target(reader: Reader, table: str) -> Path:
    """A column of the target, without the name that qualifies it."""
    path = reader.path("the name of a column")
    folded = reader.settings.folded
    is_qualified = len(path) > 1 and folded(path[0]) == folded(table)
    return path[1:] if is_qualified else path


def _clause(reader: Reader, table: str) -> MergeClause:
    when = _when(reader)
    condition = _condition(reader, "THEN") if reader.takes("AND") else None
    reader.expect("THEN")
    return MergeClause(when, _action(reader, when, table), condition)


def _condition(reader: Reader, stop: str) -> str:
    """A condition that has one answer, however often it is asked."""
    found = reader.expression("a condition", stop)
    calls = parse_query(f"SELECT ({found}\n)", reader.settings).calls()
    by_chance = min(_BY_CHANCE.intersection(calls), default=None)
    if by_chance is not None:
        raise reader.refused(
            f"a condition of MERGE has one answer, and {by_chance}() has another each time: "
            "compute it in the source"
        )
    return found


def _when(reader: Reader) -> When:
    if reader.takes("WHEN", "MATCHED"):
        return When.MATCHED
    if not reader.takes("WHEN", "NOT", "MATCHED"):
        raise reader.wrong(_WHEN)
    if not reader.takes("BY"):
        return When.NOT_MATCHED
    word = reader.takes_one("SOURCE", "TARGET")
    if not word:
        raise reader.wrong("SOURCE or TARGET")
    return When.NOT_MATCHED_BY_SOURCE if word == "SOURCE" else When.NOT_MATCHED


def _action(reader: Reader, when: When, table: str) -> Action:
    if when is When.NOT_MATCHED:
        if not reader.takes("INSERT"):
            raise reader.wrong("INSERT, since the target has no such row")
        return _inserted(reader, table)
    if reader.takes("DELETE"):
        return Action(DELETED)
    if not reader.takes("UPDATE"):
        raise reader.wrong("UPDATE or DELETE")
    reader.expect("SET")
    if not reader.sees("*"):
        return Action(UPDATED, _assignments(reader, table, "WHEN"))
    if when is When.NOT_MATCHED_BY_SOURCE:
        raise reader.wrong("the name of a column, since the source has no such row")
    reader.takes("*")
    return Action(UPDATED)


def _inserted(reader: Reader, table: str) -> Action:
    if reader.takes("*"):
        return Action(INSERTED)
    if not reader.takes("("):
        raise reader.wrong("the columns in parentheses, or *")
    columns = [_of_target(reader, table)]
    while reader.takes(","):
        columns.append(_of_target(reader, table))
    reader.expect(")")
    reader.check_once(columns, "each column")
    if any(len(each) > 1 for each in columns):
        raise reader.refused("INSERT gives whole columns: write named_struct() for a struct")
    reader.expect("VALUES")
    reader.expect("(")
    values = [reader.expression("a value", ",")]
    while reader.takes(","):
        values.append(reader.expression("a value", ","))
    reader.expect(")")
    if len(columns) != len(values):
        raise reader.refused(f"INSERT names {len(columns)} columns and gives {len(values)} values")
    return Action(INSERTED, tuple(map(Assignment, columns, values)))


def _check_order(reader: Reader, clauses: Sequence[MergeClause]) -> None:
    """Raise InvalidInputError where a clause is never reached."""
    *before, last = clauses
    if any(each.when is last.when and each.condition is None for each in before):
        raise reader.refused(
            f"a clause WHEN {last.when.value.upper()} before this one has no AND, and takes every "
            "row: only the last one of a kind can go without"
        )
