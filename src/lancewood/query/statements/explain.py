"""EXPLAIN: what a statement would do, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from lancewood.query.statements.model import (
    Action,
    AddColumns,
    Assignment,
    At,
    Change,
    ChangeType,
    Column,
    CreateRef,
    CreateTable,
    Delete,
    DeleteRow,
    DoNothing,
    DropColumns,
    DropRef,
    Existing,
    Fail,
    Insert,
    InsertAll,
    InsertColumns,
    InsertMode,
    Merge,
    MergeClause,
    Moment,
    Optimize,
    RenameColumn,
    Restore,
    SetAll,
    SetColumns,
    Target,
    Update,
)


class Facts(Protocol):
    """What is known of the tables that statements name."""

    def version(self, target: Target | None) -> str | None:
        """Where a table stands, such as ``version 12 on main``, or the repository where none is
        named; None if there is no such table."""
        ...


def explained(statement: Change, facts: Facts) -> str:
    """What a statement would do; raises what ``facts`` raise."""
    return "\n".join(("would " + "".join(_first(statement, facts)), *_more(statement)))


def _first(statement: Change, facts: Facts) -> Iterator[str]:
    """The first line, in pieces."""
    match statement:
        case Insert():
            yield _inserting(statement, _of(statement.target, facts))
        case CreateTable():
            yield from _creating(statement, facts)
        case Delete(target, where):
            yield f"delete {_rows(where)} of {_of(target, facts)}{_where(where)}"
            yield _with(statement.using)
        case Update(target, assignments, where):
            yield f"update {_rows(where)} of {_of(target, facts)}{_where(where)}: "
            yield _set(assignments)
            yield _with(statement.source)
        case Merge(target, source, on):
            same = f"the same {', '.join(statement.using)}" if statement.using else _line(on)
            yield f"merge the rows of {_line(source)} into {_of(target, facts)}, on {same}:"
        case AddColumns(target, columns, unless_there):
            yield f"add to {_of(target, facts)}: {', '.join(map(_column, columns))}"
            yield ", unless they are there" if unless_there else ""
        case DropColumns(target, paths, if_exists):
            yield f"drop from {_of(target, facts)}: {', '.join(map('.'.join, paths))}"
            yield ", if they are there" if if_exists else ""
        case RenameColumn(target, path, name):
            yield f"rename column {'.'.join(path)} of {_of(target, facts)} to {name}"
        case ChangeType(target, path, kind):
            yield f"change column {'.'.join(path)} of {_of(target, facts)} to {_line(kind)}"
        case CreateRef(kind, name, named, at, existing):
            yield f"create {kind} {name} of {_of(named, facts)}{_begun(at)}{_else(existing)}"
        case DropRef(kind, name, named, if_exists):
            yield f"drop {kind} {name} of {_of(named, facts)}"
            yield ", if there is one" if if_exists else ""
        case Restore(target, at):
            yield f"restore {_of(target, facts)}, to {_at(at)}"
        case Optimize(target):
            yield f"compact the files of {_of(target, facts)}"


def _more(statement: Change) -> Iterator[str]:
    """The lines after the first: one for each clause of a merge."""
    if isinstance(statement, Merge):
        for each in statement.clauses:
            yield f"  {_clause(each)}"


def _of(target: Target | None, facts: Facts) -> str:
    """A table and where it stands."""
    name = "the repository" if target is None else target.written
    version = facts.version(target)
    return name if version is None else f"{name}, {version}"


def _inserting(insert: Insert, target: str) -> str:
    query = insert.query or f"{len(insert.values)} VALUES"
    rows = f"the rows of {_line(query)}"
    if insert.columns is not None:
        rows += f" as {', '.join(insert.columns)}"
    if insert.by_name:
        rows += ", by the names of their columns"
    if insert.mode is InsertMode.APPEND:
        return f"add to {target}: {rows}"
    replaced = "all rows" if insert.mode is InsertMode.OVERWRITE else "rows"
    return f"replace {replaced} of {target}{_where(insert.where)}, by {rows}"


def _creating(create: CreateTable, facts: Facts) -> Iterator[str]:
    version = facts.version(create.target)
    yield f"create table {create.target.written}"
    if create.location is not None:
        yield f" at {create.location}"
    if version is not None and create.existing is not Existing.FAIL:
        kept = "keep" if create.existing is Existing.KEEP else "replace"
        yield f", or {kept} the one that is there, {version}"
    if create.query is not None:
        yield f", with the rows of {_line(create.query)}"
    else:
        yield f", with the columns {', '.join(map(_column, create.columns))}"
    if create.primary_key:
        yield f"; its primary key is {', '.join(create.primary_key)}"


def _column(column: Column) -> str:
    words = [".".join(column.path)]
    if column.type is not None:
        words.append(_line(column.type))
    if not column.nullable:
        words.append("not null")
    if column.value is not None:
        words.append(f"as {_line(column.value)}")
    return " ".join(words)


def _clause(clause: MergeClause) -> str:
    condition = "" if clause.condition is None else f" and {_line(clause.condition)}"
    return f"{clause.when.value}{condition}: {_done(clause.action)}"


def _done(action: Action) -> str:
    match action:
        case SetColumns(assignments):
            return f"update the row: {_set(assignments)}"
        case SetAll():
            return "update the row: all columns"
        case DeleteRow():
            return "delete the row"
        case DoNothing():
            return "leave the row as it is"
        case Fail(message):
            return "fail" if message is None else f"fail with {_line(message)}"
        case InsertColumns(assignments):
            return f"insert a row: {_set(assignments)}"
        case InsertAll():
            return "insert a row: all columns"


def _set(assignments: Sequence[Assignment]) -> str:
    return ", ".join(f"{'.'.join(each.path)} = {_line(each.value)}" for each in assignments)


def _rows(where: str | None) -> str:
    return "all rows" if where is None else "rows"


def _with(tables: str | None) -> str:
    return "" if tables is None else f", with the rows of {_line(tables)}"


def _where(where: str | None) -> str:
    return "" if where is None else f", where {_line(where)}"


def _begun(at: At | None) -> str:
    return "" if at is None else f", at {_at(at)}"


def _at(at: At) -> str:
    match at:
        case int():
            return f"version {at}"
        case Moment(sql):
            return f"what it was at {_line(sql)}"
        case _:
            return at


def _else(existing: Existing) -> str:
    return {
        Existing.FAIL: "",
        Existing.KEEP: ", unless there is one",
        Existing.REPLACE: ", or move the one that is there",
    }[existing]


def _line(sql: str) -> str:
    """A text in one line."""
    return " ".join(sql.split())
