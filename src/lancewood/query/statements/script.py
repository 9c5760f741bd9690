"""``lancewood.sql``: from the text of a script to its statements, in DuckDB's words.

The first words decide: a statement that we know is read to its end, and what is wrong in it is an
error before anything runs; all others, queries among them, are passed on as they were written. What
changes rows is read here, with the transactions around it; all else in ``table_grammar``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.expr import Parameters
from lancewood.expr.database import QUERIES
from lancewood.query.answer import Answer, answer
from lancewood.query.names import functions, kind_of_query, nodes, parsed_expression
from lancewood.query.sources import Identifiers, Source, Sources
from lancewood.query.statements import model, table_grammar
from lancewood.query.statements.model import DELETED, INSERTED, KEPT, UPDATED, Script, When
from lancewood.query.statements.reader import COLUMN, Reader
from lancewood.query.tokens import Token, shown, statements, with_revisions_quoted

if TYPE_CHECKING:
    from lancewood.engine.snapshot import Access
    from lancewood.repo.repository import Repository

_NO_PART = (model.CreateRef, model.DropRef, model.MergeBranch, model.DropTable, model.CopyTo)
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", "PIVOT", "UNPIVOT", "DESCRIBE")
_WHEN = "WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE"


def sql(
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    args: Parameters = None,
    access: Access | None = None,
    files: bool = False,
    pushdown: bool = True,
) -> Answer:
    """The answer to a query in DuckDB's SQL, whose tables may be named with revisions; computed by
    DuckDB in this process. Statements that change tables are run, too.

    ``tables`` maps names to uris and handles, ``repository`` has the tables of a commit, HEAD's or
    that of ``revision``. Where neither is given, a quoted name may be a uri: ``SELECT * FROM
    'photos.lance@v1.0'``. A name in the query may carry its own revision: ``photos@exp``,
    ``photos@v1.0``, ``photos@:12``, ``photos AT (VERSION => 12)``, ``photos AT (TIMESTAMP =>
    '2026-11-15')``; others go in double quotes. ``FROM diff('photos', 'v1.0', 'exp')`` has the rows
    that differ between two revisions, as ``Table.diff`` gives them, ``FROM blame('photos', 'exp')``
    who wrote the rows of one. ``args`` are values for ``$name`` (a mapping), or for ``$1`` and
    ``?`` (a list).

    Every version is resolved now, and once for the same name and revision; rows are read and
    computed on demand, with bounded memory. ``pushdown=False`` reads all of every table, for the
    same answer. ``files=True`` lets COPY read and write files of this machine. Raises
    NotFoundError, and InvalidInputError for what DuckDB refuses.

    INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE and the like are done before this returns, each
    by the verb of ``Table`` and as one commit, on ``photos@exp`` as well. In a repository, what
    stands between BEGIN and COMMIT 'message' is one commit over many tables. Several statements
    are separated by semicolons; the answer is that of the last one if it is a query, else a row for
    each statement, with the columns statement, table, inserted, updated, deleted, version, commit.
    """
    script = parse_script(query)
    for each in () if files else script:
        meant = each.statement if isinstance(each, model.Explain) else each
        if isinstance(meant, model.CopyTo | model.CopyFrom):
            raise InvalidInputError(
                f"{shown(meant.sql)} reads or writes a file, and texts may not do that here: give "
                "files=True to lancewood.sql, or use lw sql"
            )
    sources = Sources(tables, repository, revision, access, Identifiers())
    if is_query(script):
        return answer(script[0].sql, sources, args, pushdown=pushdown)
    if args is not None and not isinstance(args, Mapping):
        raise InvalidInputError("statements take values for $name, not a list for $1 and ?")
    from lancewood.query.statements.engine import Engine
    from lancewood.query.statements.running import Report, ScriptRun
    from lancewood.query.statements.workplace import Workplace

    found = ScriptRun(script, Workplace(sources), Engine(args, pushdown=pushdown)).run()
    return Report(found) if isinstance(found, pa.Table) else found


def parse_script(text: str) -> Script:
    """The statements of a script, which semicolons separate.

    A text that is one statement of none of ours, such as a query, is passed on whole. Raises
    InvalidInputError for a statement that we know and that is wrong, and for a transaction that
    does not begin, or does not end.
    """
    found = tuple(_statement(text, each) for each in statements(text))
    if not found:
        return (model.Passed(text),)
    if is_query(found):
        return found
    check_transactions(found)
    with QUERIES.cursor() as cursor:
        for each in found:
            meant = each.statement if isinstance(each, model.Explain) else each
            if isinstance(meant, model.Passed):
                try:
                    kind_of_query(meant.sql, with_revisions_quoted(meant.sql), cursor)
                except InvalidInputError as error:
                    raise InvalidInputError(f"at line {each.line}: {error.message}") from error
    return found


def is_query(script: Script) -> bool:
    """Whether a script is no script, but one text that goes on as it is."""
    return len(script) == 1 and isinstance(script[0], model.Passed)


def check_transactions(script: Script) -> None:
    """Raise InvalidInputError unless every BEGIN has its COMMIT or ROLLBACK, and no other, and what
    stands between them can be part of a commit."""

    def misplaced(statement: model.Statement, why: str) -> InvalidInputError:
        return InvalidInputError(f"{shown(statement.sql)} at line {statement.line}: {why}")

    begun: model.Begin | None = None
    for each in script:
        if isinstance(each, model.Begin):
            if begun is not None:
                raise misplaced(each, f"the transaction of line {begun.line} has not ended yet")
            begun = each
        elif isinstance(each, model.Commit | model.Rollback):
            if begun is None:
                raise misplaced(each, "no BEGIN stands before it")
            begun = None
        elif begun is not None and isinstance(each, _NO_PART):
            raise misplaced(
                each,
                "branches and tags, DROP TABLE and files that are written are no part of a "
                "transaction: put it before BEGIN, or after COMMIT",
            )
    if begun is not None:
        raise misplaced(begun, "no COMMIT follows: end the script with COMMIT 'message'")


def _statement(script: str, tokens: Sequence[Token]) -> model.Statement:
    line = script.count("\n", 0, tokens[0].start) + 1
    text = script[tokens[0].start : tokens[-1].end]
    reader, read = Reader(script, tokens), _READING.get(tokens[0].word)
    if reader.sees("WITH"):
        ahead = Reader(script, tokens)
        ahead.skip_to("SELECT", "FROM", "VALUES", "PIVOT", "UNPIVOT", *_ROW_CHANGES)
        read = _with_queries if ahead.word() in _ROW_CHANGES else None
    if read is None:
        return model.Passed(text, line)
    reader.expect(tokens[0].word)
    found = read(reader)
    reader.end()
    return replace(found, sql=text, line=line)


def _with_queries(reader: Reader) -> model.RowChange:
    """WITH … INSERT and its like: the queries belong to the statement."""
    queries = reader.queries(*_ROW_CHANGES)
    word = reader.takes_one(*_ROW_CHANGES)
    found = _ROW_CHANGES[word](reader)
    if not isinstance(found, model.Insert):
        return replace(found, queries=queries)
    if found.values:
        raise reader.refused("WITH stands before a query, and VALUES is none: leave it out")
    return replace(found, query=f"{queries} {found.query}")


def _begin(reader: Reader) -> model.Begin:
    if not reader.takes_one("TRANSACTION", "WORK") and reader.word(-1) == "START":
        raise reader.wrong("TRANSACTION")
    reader.end("a semicolon")
    return model.Begin()


def _commit(reader: Reader) -> model.Commit:
    reader.takes_one("TRANSACTION", "WORK")
    if reader.is_done:
        return model.Commit()
    message = reader.text("a message")
    if not message.strip():
        raise reader.refused("the message is empty: write one, or none")
    return model.Commit(message)


def _rollback(reader: Reader) -> model.Rollback:
    reader.takes_one("TRANSACTION", "WORK")
    return model.Rollback()


def _explain(reader: Reader) -> model.Explain:
    if reader.sees("ANALYZE") or reader.sees("("):
        raise reader.refused("EXPLAIN says what would be asked of tables, and takes no options")
    if reader.is_done or reader.sees("EXPLAIN"):
        raise reader.wrong("a statement or a query")
    refusal = reader.refused("EXPLAIN is about one statement that changes something, or a query")
    found = _statement(reader.script, reader.rest())
    if isinstance(found, model.Explain | model.Begin | model.Commit | model.Rollback):
        raise refusal
    return model.Explain(found)


def _insert(reader: Reader) -> model.Insert:
    if reader.sees("OR"):
        raise reader.refused("rows have no key that an INSERT could meet: write MERGE INTO")
    word = reader.takes_one("INTO", "OVERWRITE")
    if not word:
        raise reader.wrong("INTO or OVERWRITE")
    found = model.Insert(reader.target(), "", overwrite=word == "OVERWRITE")
    if reader.takes("AS"):
        reader.name("an alias")
    if reader.sees("(") and reader.word(1) not in _QUERIES:
        found = replace(found, columns=reader.columns())
    by_name = _by_name(reader)
    if by_name and found.columns is not None:
        raise reader.refused("BY NAME takes the names of the query: leave the columns out")
    found = replace(found, by_name=bool(by_name))
    if reader.takes("REPLACE", "WHERE"):
        if found.overwrite:
            raise reader.refused("OVERWRITE replaces all rows: write INSERT INTO … REPLACE WHERE")
        found = replace(found, where=reader.expression("a condition", *_QUERIES[:4]))
    if any(reader.has("ON", "CONFLICT", word) for word in ("DO", "(", "ON")):
        raise reader.refused("ON CONFLICT is no part of INSERT here: write MERGE INTO")
    if reader.takes("DEFAULT", "VALUES"):
        return replace(found, values=((),))
    if not found.by_name and found.where is None and reader.takes("VALUES"):
        rows = reader.listed(reader.values)
        reader.end("a comma, or the end of the statement")
        widths = {len(each) for each in rows}
        if len(widths) > 1:
            raise reader.refused(f"VALUES gives rows of {min(widths)} and of {max(widths)} values")
        return replace(found, values=tuple(rows))
    if reader.word() not in _QUERIES:
        raise reader.wrong("a query or VALUES")
    return replace(found, query=reader.query())


def _delete(reader: Reader) -> model.Delete:
    reader.expect("FROM")
    target = reader.target()
    alias = reader.alias("WHERE", "USING", "RETURNING")
    others = reader.tables("WHERE", "RETURNING") if reader.takes("USING") else None
    return model.Delete(target, _where(reader), alias, others)


def _truncate(reader: Reader) -> model.Delete:
    reader.takes("TABLE")
    return model.Delete(reader.target())


def _update(reader: Reader) -> model.Update:
    target = reader.target()
    alias = reader.alias("SET", "WHERE", "FROM")
    reader.expect("SET")
    assignments = _assignments(reader, "FROM", "WHERE", "RETURNING")
    others = reader.tables("WHERE", "RETURNING") if reader.takes("FROM") else None
    return model.Update(target, assignments, _where(reader), alias, others)


def _merge_into(reader: Reader) -> model.Merge:
    reader.expect("INTO")
    target = reader.target()
    alias = reader.alias("USING")
    reader.expect("USING")
    source, source_alias = reader.relation("ON", "USING")
    on, using = "", tuple[str, ...]()
    if reader.takes("USING"):
        using = reader.columns()
    else:
        reader.expect("ON")
        on = _for_one_row(reader, "a condition", "WHEN")
    clauses: list[model.MergeClause] = []
    while reader.sees("WHEN") or not clauses:
        when = _when(reader)
        condition = _for_one_row(reader, "a condition", "THEN") if reader.takes("AND") else None
        reader.expect("THEN")
        if any(each.when is when and each.condition is None for each in clauses):
            raise reader.refused(
                f"a clause WHEN {when.value.upper()} before this one has no AND, and takes every "
                "row: only the last one of a kind can go without"
            )
        clauses.append(model.MergeClause(when, _action(reader, when), condition))
    reader.end(_WHEN)
    return model.Merge(target, source, on, tuple(clauses), alias, source_alias, using)


def _where(reader: Reader) -> str | None:
    """The condition at the end of a statement."""
    if not reader.takes("WHERE"):
        reader.end("WHERE")
        return None
    return _for_one_row(reader, "a condition", "RETURNING")


def _by_name(reader: Reader) -> bool | None:
    """Whether columns are matched by their names; None if nothing is said."""
    if reader.takes("BY", "NAME"):
        return True
    return False if reader.takes("BY", "POSITION") else None


def _assignments(reader: Reader, *stops: str) -> tuple[model.Assignment, ...]:
    def read() -> list[model.Assignment]:
        if reader.sees("("):
            return _several(reader)
        path = reader.path(COLUMN)
        if len(path) > 1:
            raise reader.refused(
                f"SET takes the name of a column alone, and {'.'.join(path)!r} has a dot: for a "
                "field of a struct write the whole, box = struct_update(box, x := 1)"
            )
        reader.expect("=")
        return [model.Assignment(path, _for_one_row(reader, "a value", ",", *stops))]

    found = [each for some in reader.listed(read) for each in some]
    reader.check_once([each.path for each in found], "each column")
    return tuple(found)


def _several(reader: Reader) -> list[model.Assignment]:
    """``(a, b) = (1, 2)``."""
    names = reader.columns()
    reader.expect("=")
    reader.takes("ROW")
    if not reader.sees("(") or reader.word(1) in ("SELECT", "FROM", "WITH"):
        raise reader.refused("several columns are set to as many values: (a, b) = (1, 2)")
    values = reader.in_parentheses(lambda: _for_one_row(reader, "a value", ","))
    if len(names) != len(values):
        raise reader.refused(f"SET names {len(names)} columns and gives {len(values)} values")
    return [model.Assignment((name,), value) for name, value in zip(names, values, strict=True)]


def _for_one_row(reader: Reader, what: str, *stops: str) -> str:
    """An expression that has one value for each row, and looks at no other row."""
    found = reader.expression(what, *stops)
    for node in nodes(parsed_expression(found), "SUBQUERY"):
        function = str(node.get("function_name", "")).lower()
        if node.get("class") == "WINDOW" or function in functions("aggregate"):
            raise reader.refused(f"{what} is about one row: compute {function} in a query, in FROM")
        if node.get("class") == "STAR" or function in ("unnest", "unlist"):
            raise reader.refused(f"{what} is one for each row, and not several")
    return found


def _when(reader: Reader) -> When:
    if reader.takes("WHEN", "MATCHED"):
        return When.MATCHED
    if not reader.takes("WHEN", "NOT", "MATCHED"):
        raise reader.wrong(_WHEN)
    if reader.takes("BY", "SOURCE"):
        return When.NOT_MATCHED_BY_SOURCE
    if reader.takes("BY") and not reader.takes("TARGET"):
        raise reader.wrong("SOURCE or TARGET")
    return When.NOT_MATCHED


def _action(reader: Reader, when: When) -> model.Action:
    if reader.takes("DO", "NOTHING"):
        return model.Action(KEPT)
    if reader.takes("ERROR"):
        is_last = reader.is_done or reader.word() in ("WHEN", "RETURNING")
        message = "" if is_last else reader.expression("a message", "WHEN", "RETURNING")
        return model.Action(KEPT, failure=message)
    if reader.takes("INSERT"):
        return _inserted(reader)
    if when is When.NOT_MATCHED:
        raise reader.wrong("INSERT, DO NOTHING or ERROR, since the target has no such row")
    if reader.takes("DELETE"):
        return model.Action(DELETED)
    if not reader.takes("UPDATE"):
        raise reader.wrong("UPDATE, DELETE, INSERT, DO NOTHING or ERROR")
    by_name = _by_name(reader)
    if by_name is None and reader.takes("SET") and not reader.takes("*"):
        return model.Action(UPDATED, _assignments(reader, "WHEN", "RETURNING"))
    return model.Action(UPDATED, by_name=bool(by_name))


def _inserted(reader: Reader) -> model.Action:
    """What follows INSERT in a clause of a merge."""
    by_name = _by_name(reader)
    if reader.takes("DEFAULT", "VALUES"):
        return model.Action(INSERTED, ())
    if by_name is not None or reader.takes("*"):
        reader.takes("*")
        return model.Action(INSERTED, by_name=bool(by_name))
    columns: tuple[str, ...] | None = reader.columns() if reader.sees("(") else None
    if not reader.takes("VALUES"):
        if columns is not None:
            raise reader.wrong("VALUES")
        return model.Action(INSERTED, by_name=False)
    values = reader.values()
    paths = [()] * len(values) if columns is None else [(each,) for each in columns]
    if len(paths) != len(values):
        raise reader.refused(f"INSERT names {len(paths)} columns and gives {len(values)} values")
    return model.Action(INSERTED, tuple(map(model.Assignment, paths, values)))


_ROW_CHANGES: dict[str, Callable[[Reader], model.RowChange]] = {
    "INSERT": _insert,
    "DELETE": _delete,
    "UPDATE": _update,
    "MERGE": _merge_into,
}
"""What changes rows, and may come after WITH."""
_READING: dict[str, Callable[[Reader], model.Statement]] = {
    **_ROW_CHANGES,
    "MERGE": lambda reader: (
        table_grammar.read_merge_branch if reader.takes("BRANCH") else _merge_into
    )(reader),
    "COPY": table_grammar.read_copy,
    "TRUNCATE": _truncate,
    "CREATE": table_grammar.read_create,
    "DROP": table_grammar.read_drop,
    "ALTER": table_grammar.read_alter,
    "RESTORE": table_grammar.read_restore,
    "OPTIMIZE": table_grammar.read_optimize,
    "BEGIN": _begin,
    "START": _begin,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "EXPLAIN": _explain,
}
