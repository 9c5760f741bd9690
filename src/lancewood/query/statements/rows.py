"""The statements that change rows, in DuckDB's words: INSERT, DELETE, TRUNCATE, UPDATE, MERGE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lancewood.query.names import nodes
from lancewood.query.statements import model
from lancewood.query.statements.model import DELETED, INSERTED, KEPT, UPDATED
from lancewood.query.statements.parsing import parsed_expression
from lancewood.query.statements.reader import Reader

_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "PIVOT", "UNPIVOT", "DESCRIBE")
_WHEN = "WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE"
_COLUMN = "the name of a column"


def read_insert(reader: Reader) -> model.Insert:
    """What follows INSERT."""
    if reader.sees("OR"):
        raise reader.refused("rows have no key that an INSERT could meet: write MERGE INTO")
    word = reader.takes_one("INTO", "OVERWRITE")
    if not word:
        raise reader.wrong("INTO or OVERWRITE")
    mode = model.InsertMode.OVERWRITE if word == "OVERWRITE" else model.InsertMode.APPEND
    found = model.Insert(reader.target(), "", mode=mode)
    if reader.takes("AS"):
        reader.name("an alias")
    if reader.sees("(") and reader.word(1) not in _QUERIES:
        found = replace(found, columns=reader.names(_COLUMN))
    if reader.takes("BY", "NAME"):
        if found.columns is not None:
            raise reader.refused("BY NAME takes the names of the query: leave the columns out")
        found = replace(found, by_name=True)
    else:
        reader.takes("BY", "POSITION")
    if reader.takes("REPLACE", "WHERE"):
        if mode is model.InsertMode.OVERWRITE:
            raise reader.refused("OVERWRITE replaces all rows: write INSERT INTO … REPLACE WHERE")
        where = reader.expression("a condition", *_QUERIES[:4])
        found = replace(found, mode=model.InsertMode.REPLACE_WHERE, where=where)
    if any(one.word == "ON" and two.word == "CONFLICT" for one, two in pairwise(reader.rest)):
        raise reader.refused("ON CONFLICT is no part of INSERT here: write MERGE INTO")
    if reader.takes("DEFAULT", "VALUES"):
        reader.end()
        return replace(found, values=((),))
    if reader.sees("VALUES") and not found.by_name and found.where is None:
        return _with_values(reader, found)
    if reader.word() not in _QUERIES:
        raise reader.wrong("a query or VALUES")
    return replace(found, query=_rows(reader))


def read_delete(reader: Reader) -> model.Delete:
    """What follows DELETE."""
    reader.expect("FROM")
    target = reader.target()
    alias = reader.alias("WHERE", "USING", "RETURNING")
    using = reader.tables("WHERE", "RETURNING") if reader.takes("USING") else None
    where = _where(reader)
    reader.end("WHERE" if where is None else "the end of the statement")
    return model.Delete(target, where, alias, using)


def read_truncate(reader: Reader) -> model.Delete:
    """What follows TRUNCATE."""
    reader.takes("TABLE")
    target = reader.target()
    reader.end()
    return model.Delete(target)


def read_update(reader: Reader) -> model.Update:
    """What follows UPDATE."""
    target = reader.target()
    alias = reader.alias("SET", "WHERE", "FROM")
    reader.expect("SET")
    assignments = _assignments(reader, "FROM", "WHERE", "RETURNING")
    source = reader.tables("WHERE", "RETURNING") if reader.takes("FROM") else None
    where = _where(reader)
    reader.end("WHERE" if where is None else "the end of the statement")
    return model.Update(target, assignments, where, alias, source)


def read_merge(reader: Reader) -> model.Merge:
    """What follows MERGE."""
    reader.expect("INTO")
    target = reader.target()
    alias = reader.alias("USING")
    reader.expect("USING")
    source, source_alias = reader.relation("ON", "USING")
    on, using = "", tuple[str, ...]()
    if reader.takes("USING"):
        using = reader.names(_COLUMN)
    else:
        reader.expect("ON")
        on = reader.expression("a condition", "WHEN")
    clauses: list[model.MergeClause] = []
    while reader.sees("WHEN"):
        clauses.append(_clause(reader))
        _check_order(reader, clauses)
    reader.end(_WHEN)
    if not clauses:
        raise reader.wrong(_WHEN)
    return model.Merge(target, source, on, tuple(clauses), alias, source_alias, using)


def _with_values(reader: Reader, found: model.Insert) -> model.Insert:
    """The rows after VALUES, whose values are cast one by one."""
    reader.expect("VALUES")
    rows = [_row(reader)]
    while reader.takes(","):
        rows.append(_row(reader))
    reader.end("a comma, or the end of the statement")
    widths = {len(each) for each in rows}
    if len(widths) > 1:
        raise reader.refused(f"VALUES gives rows of {min(widths)} and of {max(widths)} values")
    return replace(found, values=tuple(rows))


def _row(reader: Reader) -> tuple[str | None, ...]:
    reader.expect("(")
    found = [_value(reader)]
    while reader.takes(","):
        found.append(_value(reader))
    reader.expect(")")
    return tuple(found)


def _value(reader: Reader) -> str | None:
    is_default = reader.sees("DEFAULT")
    value = reader.expression("a value", ",")
    return None if is_default else value


def _rows(reader: Reader) -> str:
    if any(each.word == "RETURNING" for each in reader.rest):
        raise reader.refused("RETURNING is not answered: ask with a query after the statement")
    return reader.query("a query or VALUES")


def _where(reader: Reader) -> str | None:
    return reader.expression("a condition", "RETURNING") if reader.takes("WHERE") else None


def _assignments(reader: Reader, *stops: str) -> tuple[model.Assignment, ...]:
    found: list[model.Assignment] = []
    while True:
        if reader.sees("("):
            found += _several(reader, stops)
        else:
            path = reader.path(_COLUMN)
            if len(path) > 1:
                raise reader.refused(
                    f"SET takes the name of a column alone, and {'.'.join(path)!r} has a dot: for "
                    "a field of a struct write the whole, box = struct_update(box, x := 1)"
                )
            reader.expect("=")
            found.append(model.Assignment(path, _new_value(reader, ",", *stops)))
        if not reader.takes(","):
            break
    reader.check_once([each.path for each in found], "each column")
    return tuple(found)


def _several(reader: Reader, stops: Sequence[str]) -> list[model.Assignment]:
    """``(a, b) = (1, 2)``."""
    names = reader.names(_COLUMN)
    reader.expect("=")
    reader.takes("ROW")
    if not reader.sees("(") or reader.word(1) in ("SELECT", "FROM", "WITH"):
        raise reader.refused("several columns are set to as many values: (a, b) = (1, 2)")
    reader.expect("(")
    values = [_new_value(reader, ",")]
    while reader.takes(","):
        values.append(_new_value(reader, ","))
    reader.expect(")")
    if len(names) != len(values):
        raise reader.refused(f"SET names {len(names)} columns and gives {len(values)} values")
    return [model.Assignment((name,), value) for name, value in zip(names, values, strict=True)]


def _new_value(reader: Reader, *stops: str) -> str:
    """An expression that has one value for each row."""
    found = reader.expression("a value", *stops)
    for node in nodes(parsed_expression(found), "SUBQUERY"):
        if node.get("class") == "WINDOW":
            raise reader.refused("a value that is set takes no window function: compute it in FROM")
        if node.get("class") == "STAR" or node.get("function_name") in ("unnest", "unlist"):
            raise reader.refused("a value that is set is one value, and not several")
    return found


def _clause(reader: Reader) -> model.MergeClause:
    when = _when(reader)
    condition = reader.expression("a condition", "THEN") if reader.takes("AND") else None
    reader.expect("THEN")
    return model.MergeClause(when, _action(reader, when), condition)


def _when(reader: Reader) -> model.When:
    if reader.takes("WHEN", "MATCHED"):
        return model.When.MATCHED
    if not reader.takes("WHEN", "NOT", "MATCHED"):
        raise reader.wrong(_WHEN)
    if not reader.takes("BY"):
        return model.When.NOT_MATCHED
    word = reader.takes_one("SOURCE", "TARGET")
    if not word:
        raise reader.wrong("SOURCE or TARGET")
    return model.When.NOT_MATCHED_BY_SOURCE if word == "SOURCE" else model.When.NOT_MATCHED


def _action(reader: Reader, when: model.When) -> model.Action:
    if reader.takes("DO", "NOTHING"):
        return model.Action(KEPT)
    if reader.takes("ERROR"):
        is_last = reader.is_done or reader.word() in ("WHEN", "RETURNING")
        message = "" if is_last else reader.expression("a message", "WHEN", "RETURNING")
        return model.Action(KEPT, failure=message)
    if reader.takes("INSERT"):
        return _inserted(reader)
    if when is model.When.NOT_MATCHED:
        raise reader.wrong("INSERT, DO NOTHING or ERROR, since the target has no such row")
    if reader.takes("DELETE"):
        return model.Action(DELETED)
    if not reader.takes("UPDATE"):
        raise reader.wrong("UPDATE, DELETE, INSERT, DO NOTHING or ERROR")
    by_name = _by_name(reader)
    if by_name is None and reader.takes("SET") and not reader.takes("*"):
        return model.Action(UPDATED, _assignments(reader, "WHEN", "RETURNING"))
    return model.Action(UPDATED, by_name=bool(by_name))


def _by_name(reader: Reader) -> bool | None:
    """Whether columns are matched by their names; None if nothing is said."""
    if reader.takes("BY", "NAME"):
        return True
    return False if reader.takes("BY", "POSITION") else None


def _inserted(reader: Reader) -> model.Action:
    by_name = _by_name(reader)
    if reader.takes("DEFAULT", "VALUES"):
        return model.Action(INSERTED, ())
    if by_name is not None or reader.takes("*"):
        reader.takes("*")
        return model.Action(INSERTED, by_name=bool(by_name))
    columns: tuple[str, ...] | None = reader.names(_COLUMN) if reader.sees("(") else None
    if not reader.takes("VALUES"):
        if columns is not None:
            raise reader.wrong("VALUES")
        return model.Action(INSERTED, by_name=False)
    values = [each or "NULL" for each in _row(reader)]
    if columns is None:
        return model.Action(INSERTED, tuple(model.Assignment((), each) for each in values))
    if len(columns) != len(values):
        raise reader.refused(f"INSERT names {len(columns)} columns and gives {len(values)} values")
    paths: list[model.Path] = [(each,) for each in columns]
    return model.Action(INSERTED, tuple(map(model.Assignment, paths, values)))


def _check_order(reader: Reader, clauses: Sequence[model.MergeClause]) -> None:
    """Raise InvalidInputError where a clause is never reached."""
    *before, last = clauses
    if any(each.when is last.when and each.condition is None for each in before):
        raise reader.refused(
            f"a clause WHEN {last.when.value.upper()} before this one has no AND, and takes every "
            "row: only the last one of a kind can go without"
        )
