"""The statements that change tables, their columns and the names of their versions: CREATE, ALTER
and DROP TABLE, CREATE, DROP and MERGE BRANCH, CREATE and DROP TAG, RESTORE, OPTIMIZE, COPY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lancewood.query.statements import model
from lancewood.query.statements.model import Existing
from lancewood.query.statements.reader import COLUMN, Reader
from lancewood.query.tokens import quoted

_REFUSED_OF_COLUMNS = {
    "DEFAULT": "columns have no DEFAULT: leave it out",
    "GENERATED": "columns are not generated: leave GENERATED out, and compute it in a query",
    "CHECK": "tables have no CHECK: a pipeline has checks",
    "UNIQUE": "tables have no UNIQUE: declare a PRIMARY KEY, which is not enforced",
    "REFERENCES": "tables have no foreign keys: leave REFERENCES out",
    "FOREIGN": "tables have no foreign keys: leave FOREIGN KEY out",
    "COLLATE": "texts have no collation: leave COLLATE out",
}
_AFTER_TYPE = ("NOT", "NULL", "PRIMARY", "AS", "CONSTRAINT", "USING", *_REFUSED_OF_COLUMNS)
_WRITTEN_BY = {each: each for each in ("FORMAT", "OVERWRITE")}
_READ_BY = {each: each for each in ("FORMAT", "HEADER", "DELIMITER", "NULLSTR", "ENCODING")}
_READ_BY |= {"DELIM": "DELIMITER", "SEP": "DELIMITER", "NULL": "NULLSTR"}
"""The options of COPY, each with its usual name."""
_OPTIONS = ("location", "file_version", "stable_row_ids")


def read_create(reader: Reader) -> model.CreateTable | model.CreateRef:
    existing = Existing.REPLACE if reader.takes("OR", "REPLACE") else Existing.FAIL
    what = reader.takes_one("TABLE", "BRANCH", "TAG")
    if not what:
        raise reader.wrong("TABLE, BRANCH or TAG: nothing else can be created here")
    if reader.takes("IF", "NOT", "EXISTS"):
        if existing is Existing.REPLACE:
            raise reader.refused(
                "OR REPLACE and IF NOT EXISTS contradict each other: give one of them"
            )
        existing = Existing.KEEP
    if what == "TABLE":
        return _create_table(reader, existing)
    return _create_ref(reader, "branch" if what == "BRANCH" else "tag", existing)


def _create_table(reader: Reader, existing: Existing) -> model.CreateTable:
    found = model.CreateTable(reader.target(), existing=existing)
    if reader.sees("("):
        found = _with_columns(reader, found)
    if reader.takes("WITH"):
        found = _with_options(reader, found)
    if reader.takes("AS"):
        if found.columns:
            raise reader.refused("the columns are those of the query: leave the parentheses out")
        return replace(found, query=reader.query())
    if not found.columns:
        raise reader.wrong("columns in parentheses, or AS and a query")
    reader.end("WITH (…), AS a query, or the end of the statement")
    return found


def _with_columns(reader: Reader, found: model.CreateTable) -> model.CreateTable:
    columns: list[model.Column] = []
    keys: list[tuple[str, ...]] = []

    def read() -> None:
        if reader.takes("CONSTRAINT"):
            reader.name("the name of the constraint")
        if reader.takes("PRIMARY", "KEY"):
            keys.append(reader.columns())
        elif reader.word() in ("FOREIGN", "CHECK", "UNIQUE") and reader.word(1) in ("(", "KEY"):
            raise reader.refused(_REFUSED_OF_COLUMNS[reader.word()])
        else:
            column, is_key = _column(reader)
            columns.append(column)
            keys.extend([column.path] if is_key else [])

    reader.in_parentheses(read)
    reader.check_once([each.path for each in columns], "each column")
    if len(keys) > 1:
        raise reader.refused("a table has one PRIMARY KEY: name its columns in PRIMARY KEY (a, b)")
    key = []
    for each in keys[0] if keys else ():
        known = reader.identifiers.find(each, [column.path[0] for column in columns])
        if known is None:
            raise reader.refused(f"PRIMARY KEY names {each!r}, and there is no such column")
        key.append(known)
    return replace(found, columns=tuple(columns), primary_key=tuple(key))


def _column(reader: Reader) -> tuple[model.Column, bool]:
    """A column of a new table, and whether it is the primary key."""
    found = model.Column((reader.name(COLUMN),), reader.type(*_AFTER_TYPE))
    is_key = False
    while not reader.is_done and reader.word() not in (",", ")"):
        if reader.takes("NOT", "NULL"):
            found = replace(found, nullable=False)
        elif reader.takes("PRIMARY", "KEY"):
            is_key = True
        elif reader.word() in _REFUSED_OF_COLUMNS or reader.sees("AS"):
            word = "GENERATED" if reader.sees("AS") else reader.word()
            raise reader.refused(_REFUSED_OF_COLUMNS[word])
        elif not reader.takes("NULL"):
            raise reader.wrong("NOT NULL, PRIMARY KEY, a comma or a closing parenthesis")
    return found, is_key


def _with_options(reader: Reader, found: model.CreateTable) -> model.CreateTable:
    """``(location = '…', stable_row_ids = true, 'key' = 'value')``, where other keys are settings
    of the table."""

    def read() -> tuple[str, str]:
        key = reader.text("a key") if reader.kind == "text" else ".".join(reader.path("a key"))
        reader.expect("=")
        if reader.is_done or reader.word() in (",", ")"):
            raise reader.wrong(f"a value for {key!r}: a text, a number, true or false")
        name = key.lower() if key.lower() in _OPTIONS else key
        return name, reader.ref(f"a value for {key!r}")

    pairs = reader.in_parentheses(read)
    reader.check_once([(key,) for key, _ in pairs], "each key")
    options: list[tuple[str, str | bool]] = []
    properties: list[tuple[str, str]] = []
    for name, value in pairs:
        if name == "location":
            found = replace(found, location=value)
        elif name == "file_version":
            options.append((name, value))
        elif name != "stable_row_ids":
            properties.append((name, value))
        elif value.lower() in ("true", "false"):
            options.append((name, value.lower() == "true"))
        else:
            raise reader.refused(f"option {name!r} is true or false, not {value!r}")
    return replace(found, options=tuple(options), properties=tuple(properties))


def _create_ref(reader: Reader, kind: model.RefKind, existing: Existing) -> model.CreateRef:
    name = reader.ref(f"the name of a {kind}")
    table = reader.table() if reader.takes("ON") else None
    at = reader.at() if reader.takes("FROM") else None
    if table is None and reader.takes("ON"):
        table = reader.table()
    reader.end("ON a table, FROM a revision in quotes, or the end of the statement")
    if table is not None and table.revision is not None:
        if at is not None:
            raise reader.refused(f"{table.written} and FROM each say where: leave one out")
        table, at = model.Target(table.name), table.revision
    if table is None and not isinstance(at, str | None):
        raise reader.refused(
            "a repository has commits, not versions and times: name one, FROM 'main~1', or the "
            "table, ON photos"
        )
    return model.CreateRef(kind, name, table, at, existing)


def read_drop(reader: Reader) -> model.DropTable | model.DropRef:
    what = reader.takes_one("TABLE", "BRANCH", "TAG")
    if not what:
        raise reader.wrong("TABLE, BRANCH or TAG")
    if_exists = reader.takes("IF", "EXISTS")
    if what == "TABLE":
        target = reader.target()
        if target.revision is not None:
            raise reader.refused(f"a table goes with all its branches: write {target.name}")
        reader.takes_one("RESTRICT", "CASCADE")
        return model.DropTable(target, if_exists)
    kind: model.RefKind = "branch" if what == "BRANCH" else "tag"
    name = reader.ref(f"the name of a {kind}")
    return model.DropRef(kind, name, _whole_table(reader, "ON a table"), if_exists)


def read_merge_branch(reader: Reader) -> model.MergeBranch:
    name = reader.ref("the name of a branch")
    into = reader.ref("the name of a branch") if reader.takes("INTO") else None
    return model.MergeBranch(name, into, _whole_table(reader, "INTO a branch, ON a table"))


def _whole_table(reader: Reader, expected: str) -> model.Target | None:
    """The table after ON at the end of a statement."""
    table = reader.table() if reader.takes("ON") else None
    reader.end(f"{expected}, or the end of the statement")
    if table is not None and table.revision is not None:
        raise reader.refused(f"branches and tags are of a whole table: write {table.name}")
    return table


def read_alter(reader: Reader) -> model.OfTable:
    reader.expect("TABLE")
    if_exists = reader.takes("IF", "EXISTS")
    target = reader.target()
    if if_exists:
        raise reader.refused("ALTER TABLE changes a table that is there: leave IF EXISTS out")
    what = reader.takes_one("ADD", "DROP", "RENAME", "ALTER")
    if not what:
        raise reader.wrong("ADD, DROP, RENAME or ALTER")
    if what == "RENAME" and reader.sees("TO"):
        raise reader.refused("a table keeps its name: move it with lw table relocate")
    reader.takes("COLUMN")
    if what == "ADD":
        return _added(reader, target)
    is_if_exists = what == "DROP" and reader.takes("IF", "EXISTS")
    path = reader.path(COLUMN)
    if what == "DROP":
        reader.takes_one("RESTRICT", "CASCADE")
        return model.DropColumns(target, (path,), is_if_exists)
    if what == "RENAME":
        reader.expect("TO")
        name = reader.name("the new name")
        reader.end("the end of the statement, since a column stays in its struct")
        return model.RenameColumn(target, path, name)
    reader.takes("SET", "DATA")
    if not reader.takes("TYPE"):
        raise reader.wrong("TYPE: only the type of a column can be changed, and its name")
    kind = reader.type("USING")
    if reader.sees("USING"):
        raise reader.refused("the values are cast: leave USING out, and UPDATE before or after")
    return model.ChangeType(target, path, kind)


def _added(reader: Reader, target: model.Target) -> model.AddColumns:
    unless_there = reader.takes("IF", "NOT", "EXISTS")
    path = reader.path(COLUMN)
    found = model.Column(path, None if reader.sees("AS") else reader.type(*_AFTER_TYPE))
    if reader.takes("AS"):
        if len(path) > 1:
            raise reader.refused("a field of a struct is not computed: add it, then UPDATE")
        found = replace(found, value=reader.expression("an expression"))
    elif reader.takes("NOT", "NULL"):
        raise reader.refused("the rows that are there have no value for it: leave NOT NULL out")
    elif reader.word() in _REFUSED_OF_COLUMNS:
        raise reader.refused(_REFUSED_OF_COLUMNS[reader.word()])
    reader.takes("NULL")
    reader.end("AS an expression, or the end of the statement")
    return model.AddColumns(target, (found,), unless_there)


def read_restore(reader: Reader) -> model.Restore:
    reader.takes("TABLE")
    target = reader.table()
    reader.check_branch(target)
    reader.takes("TO")
    return model.Restore(target, reader.at())


def read_optimize(reader: Reader) -> model.Optimize:
    reader.takes("TABLE")
    return model.Optimize(reader.target())


def read_copy(reader: Reader) -> model.CopyTo | model.CopyFrom:
    if reader.sees("("):
        query, _ = reader.relation("TO")
        reader.expect("TO")
    else:
        table = reader.table()
        if reader.sees("("):
            raise reader.refused(
                "columns go by their names in the file: leave them out, or COPY (…)"
            )
        if reader.sees("FROM"):
            reader.check_branch(table)
            reader.expect("FROM")
            return model.CopyFrom(table, reader.text("a file"), _copy_options(reader, _READ_BY))
        if not reader.takes("TO"):
            raise reader.wrong("TO or FROM")
        query = f"FROM {quoted(table.written)}"
    return model.CopyTo(query, reader.text("a file"), _copy_options(reader, _WRITTEN_BY))


def _copy_options(reader: Reader, known: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """``(FORMAT csv, HEADER false)`` at the end of the statement, by the names in ``known``."""

    def read() -> tuple[str, str]:
        if reader.word() not in known:
            raise reader.wrong(f"one of {', '.join(dict.fromkeys(known.values()))}")
        name = known[reader.name("an option")].lower()
        return name, "true" if reader.word() in (",", ")") else reader.ref("a value")

    found: dict[str, str] = {}
    if reader.sees("(") or reader.sees("WITH", "("):
        reader.takes("WITH")
        found = dict(reader.in_parentheses(read))
    reader.end("options in parentheses, or the end of the statement")
    return tuple(found.items())
