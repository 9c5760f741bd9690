"""The statements that change tables, their columns and the names of their versions: CREATE TABLE,
ALTER TABLE, CREATE and DROP BRANCH and TAG, RESTORE, OPTIMIZE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lancewood.query.statements.model import (
    AddColumns,
    At,
    ChangeType,
    Column,
    CreateRef,
    CreateTable,
    DropColumns,
    DropRef,
    Existing,
    Optimize,
    RefKind,
    RenameColumn,
    Restore,
    Target,
)
from lancewood.spark.dialect.reader import NotOursError, Reader

_COLUMN = "the name of a column"
_STATE = "VERSION AS OF 12, TIMESTAMP AS OF '2026-11-15' or a revision in quotes"
_OPTIONS = {"fileversion": "file_version", "stablerowids": "stable_row_ids"}
_REFUSED = {
    "PARTITIONED BY": "tables have no partitions: leave PARTITIONED BY out",
    "CLUSTERED": "tables have no buckets: leave CLUSTERED BY out",
    "CLUSTER BY": "tables are not clustered: leave CLUSTER BY out",
    "LIKE": "CREATE TABLE takes no LIKE: write AS SELECT * FROM the other table LIMIT 0",
    "CLONE": "CREATE TABLE takes no CLONE: lw table clone makes one",
    "SHALLOW": "CREATE TABLE takes no CLONE: lw table clone makes one",
    "DEEP": "CREATE TABLE takes no CLONE: lw table clone makes one",
}
_REFUSED_OF_COLUMNS = {
    "DEFAULT": "columns have no DEFAULT: leave it out",
    "GENERATED": "columns are not generated: leave GENERATED out, and compute it in a query",
    "CHECK": "tables have no CHECK: a pipeline has checks",
    "UNIQUE": "tables have no UNIQUE: declare a PRIMARY KEY, which is not enforced",
    "REFERENCES": "tables have no foreign keys: leave REFERENCES out",
    "FOREIGN KEY": "tables have no foreign keys: leave FOREIGN KEY out",
    "COLLATE": "texts have no collation: leave COLLATE out",
    "MASK": "columns have no MASK: leave it out",
}


def read_create_table(reader: Reader, existing: Existing) -> CreateTable:
    """What follows CREATE TABLE."""
    existing = _unless_there(reader, existing)
    _check_format(reader)
    found = CreateTable(reader.target(), existing=existing)
    if reader.sees("(") and reader.word(1) not in ("SELECT", "WITH", "VALUES", "FROM", "("):
        found = _with_columns(reader, found)
    while not reader.is_done and not _sees_query(reader):
        found = _with_clause(reader, found)
    if not reader.is_done:
        reader.takes("AS")
        if found.columns:
            raise reader.refused("the columns are those of the query: leave the parentheses out")
        found = replace(found, query=reader.query())
    if found.query is None and not found.columns:
        raise reader.wrong("columns in parentheses, or AS and a query")
    return found


def read_alter_table(
    reader: Reader,
) -> AddColumns | DropColumns | RenameColumn | ChangeType | CreateRef | DropRef:
    """What follows ALTER TABLE. Raises NotOursError for what only an engine's own tables have."""
    target = reader.table()
    if not reader.sees("CREATE") and not reader.sees("REPLACE"):
        reader.check_branch(target)
    if reader.takes("ADD"):
        if not reader.takes_one("COLUMN", "COLUMNS"):
            raise NotOursError
        return _added(reader, target)
    if reader.takes("DROP"):
        if reader.takes_one("COLUMN", "COLUMNS"):
            return _dropped(reader, target)
        return read_drop_ref(reader, ref_kind(reader), target)
    if reader.takes("RENAME", "COLUMN"):
        return _renamed(reader, target)
    if reader.takes_one("ALTER", "CHANGE"):
        reader.takes("COLUMN")
        return _changed(reader, target)
    if reader.takes("CREATE"):
        existing = or_replace(reader)
        return read_create_ref(reader, ref_kind(reader), existing, target)
    if reader.sees("REPLACE", "BRANCH") or reader.sees("REPLACE", "TAG"):
        raise reader.refused(f"write CREATE OR REPLACE {reader.word(1)}")
    raise NotOursError


def read_create_ref(
    reader: Reader, kind: RefKind, existing: Existing, table: Target | None = None
) -> CreateRef:
    """What follows CREATE BRANCH or TAG."""
    existing = _unless_there(reader, existing)
    name = reader.ref(f"the name of a {kind}")
    is_named = table is None and reader.takes("ON")
    table = reader.table() if is_named else table
    at = _from(reader)
    if table is None and reader.takes("ON"):
        table = reader.table()
    if reader.sees("RETAIN") or reader.sees("WITH", "SNAPSHOT"):
        raise reader.refused("branches and tags stay until they are dropped: leave RETAIN out")
    reader.end("ON a table, AS OF VERSION, FROM a revision in quotes, or the end of the statement")
    if table is not None and table.revision is not None:
        if at is not None:
            raise reader.refused(f"{table.written} and AS OF or FROM each say where: leave one out")
        table, at = Target(table.name), table.revision
    if table is None and not isinstance(at, str | None):
        raise reader.refused(
            "a repository has commits, not versions and times: name one, FROM 'main~1', or the "
            "table, ON photos"
        )
    return CreateRef(kind, name, table, at, existing)


def read_drop_ref(reader: Reader, kind: RefKind, table: Target | None = None) -> DropRef:
    """What follows DROP BRANCH or TAG."""
    if_exists = reader.takes("IF", "EXISTS")
    name = reader.ref(f"the name of a {kind}")
    if table is None and reader.takes("ON"):
        table = reader.table()
    reader.end("ON a table, or the end of the statement")
    if table is not None and table.revision is not None:
        raise reader.refused(f"branches and tags are of a whole table: write {table.name}")
    return DropRef(kind, name, table, if_exists)


def read_restore(reader: Reader) -> Restore:
    """What follows RESTORE."""
    reader.takes("TABLE")
    target = reader.table()
    reader.check_branch(target, may_be_as_of=True)
    reader.takes("TO")
    at = reader.text(_STATE) if reader.kind() == "STRING" else reader.at()
    if at is None:
        raise reader.wrong(_STATE)
    reader.end()
    return Restore(target, at)


def read_optimize(reader: Reader) -> Optimize:
    """What follows OPTIMIZE."""
    reader.takes("TABLE")
    target = reader.target()
    reader.takes("FULL")
    if reader.sees("ZORDER"):
        raise reader.refused("rows keep their order: leave ZORDER BY out")
    if reader.sees("WHERE"):
        raise reader.refused("files are joined by their size, whatever they hold: leave WHERE out")
    reader.end()
    return Optimize(target)


def ref_kind(reader: Reader) -> RefKind:
    """Read BRANCH or TAG; raises NotOursError for anything else."""
    if reader.takes("BRANCH"):
        return "branch"
    if reader.takes("TAG"):
        return "tag"
    raise NotOursError


def or_replace(reader: Reader) -> Existing:
    """Read OR REPLACE."""
    return Existing.REPLACE if reader.takes("OR", "REPLACE") else Existing.FAIL


def _unless_there(reader: Reader, existing: Existing) -> Existing:
    """Read IF NOT EXISTS, which OR REPLACE contradicts."""
    if not reader.takes("IF", "NOT", "EXISTS"):
        return existing
    if existing is Existing.REPLACE:
        raise reader.refused("OR REPLACE and IF NOT EXISTS contradict each other: give one of them")
    return Existing.KEEP


def _from(reader: Reader) -> At | None:
    if not reader.takes("FROM"):
        return reader.at()
    found = reader.at() if reader.kind() != "STRING" else reader.text("a revision")
    if found is None:
        raise reader.wrong("a revision in quotes")
    return found


def _check_format(reader: Reader) -> None:
    """Raise NotOursError if the table is to be of another format than Lance."""
    ahead, depth = 0, 0
    while reader.kind(ahead):
        word = reader.word(ahead)
        depth += (word == "(") - (word == ")")
        if not depth and word in ("STORED", "ROW"):
            raise NotOursError
        if not depth and word == "USING":
            if reader.word(ahead + 1) not in ("LANCE", "") or reader.word(ahead + 2) == ".":
                raise NotOursError
            return
        if not depth and word in ("AS", "SELECT"):
            return
        ahead += 1


def _sees_query(reader: Reader) -> bool:
    return reader.word() in ("AS", "SELECT", "WITH", "VALUES", "FROM", "(")


def _with_columns(reader: Reader, found: CreateTable) -> CreateTable:
    reader.expect("(")
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    while True:
        if reader.takes("CONSTRAINT"):
            reader.name("the name of the constraint")
        if reader.sees("PRIMARY KEY", "("):
            key = _only_key(reader, key, _key(reader))
        elif reader.word() in ("FOREIGN KEY", "CHECK", "UNIQUE") and reader.word(1) == "(":
            raise reader.refused(_REFUSED_OF_COLUMNS[reader.word()])
        else:
            column, is_key = _column(reader, may_be_key=True)
            columns.append(column)
            key = _only_key(reader, key, column.path) if is_key else key
        if not reader.takes(","):
            break
    reader.expect(")")
    reader.check_once([each.path for each in columns], "each column")
    known = {reader.settings.folded(each.path[0]): each.path[0] for each in columns}
    for each in key:
        if reader.settings.folded(each) not in known:
            raise reader.refused(f"PRIMARY KEY names {each!r}, and there is no such column")
    key = tuple(known[reader.settings.folded(each)] for each in key)
    return replace(found, columns=tuple(columns), primary_key=key)


def _key(reader: Reader) -> tuple[str, ...]:
    reader.expect("PRIMARY KEY")
    found = reader.names(_COLUMN)
    _not_enforced(reader)
    return found


def _not_enforced(reader: Reader) -> None:
    if not reader.takes("NOT", "ENFORCED") and reader.sees("ENFORCED"):
        raise reader.refused("a PRIMARY KEY is not enforced: leave ENFORCED out")
    reader.takes_one("RELY", "NORELY")


def _only_key(reader: Reader, before: tuple[str, ...], key: tuple[str, ...]) -> tuple[str, ...]:
    if before:
        raise reader.refused("a table has one PRIMARY KEY: name its columns in PRIMARY KEY (a, b)")
    return key


def _column(reader: Reader, *, may_be_key: bool = False) -> tuple[Column, bool]:
    """A column, and whether it is the primary key."""
    path = reader.path(_COLUMN)
    if may_be_key and len(path) > 1:
        raise reader.refused(f"{'.'.join(path)!r} is no name of a column: a struct has fields")
    reader.takes(":")
    kind = None if reader.sees("AS") else reader.type()
    found, is_key = Column(path, kind), False
    while not reader.is_done and reader.word() not in (",", ")"):
        if reader.takes("NOT", "NULL"):
            found = replace(found, nullable=False)
        elif reader.takes("COMMENT"):
            found = replace(found, comment=reader.text("a comment"))
        elif may_be_key and reader.takes("PRIMARY KEY"):
            is_key = True
            _not_enforced(reader)
        elif not may_be_key and reader.takes("AS"):
            found = replace(found, value=reader.expression("an expression", ","))
        elif reader.word() in ("FIRST", "AFTER"):
            raise reader.refused(f"columns are added at the end: leave {reader.word()} out")
        elif reader.word() in _REFUSED_OF_COLUMNS:
            raise reader.refused(_REFUSED_OF_COLUMNS[reader.word()])
        else:
            raise reader.wrong("NOT NULL, COMMENT, a comma or a closing parenthesis")
    return found, is_key


def _with_clause(reader: Reader, found: CreateTable) -> CreateTable:
    """The next of the clauses after the columns of a table."""
    if reader.takes("USING"):
        reader.expect("LANCE")
        return found
    if reader.takes("LOCATION"):
        return replace(found, location=reader.text("a path or uri"))
    if reader.takes("COMMENT"):
        return replace(found, comment=reader.text("a comment"))
    if reader.takes("TBLPROPERTIES"):
        return replace(found, properties=reader.pairs("a property"))
    if reader.takes("OPTIONS"):
        return replace(found, options=tuple(_options(reader)))
    if reader.word() in _REFUSED:
        raise reader.refused(_REFUSED[reader.word()])
    raise reader.wrong("USING lance, LOCATION, COMMENT, TBLPROPERTIES, OPTIONS, or AS and a query")


def _options(reader: Reader) -> Iterator[tuple[str, str | bool]]:
    """OPTIONS in the words of the verbs."""
    for name, value in reader.pairs("an option"):
        known = _OPTIONS.get(name.lower().replace("_", ""))
        if known is None:
            raise reader.refused(f"OPTIONS has {name!r}, and takes file_version and stable_row_ids")
        if known == "stable_row_ids" and value.lower() not in ("true", "false"):
            raise reader.refused(f"option {name!r} is true or false, not {value!r}")
        yield known, value if known == "file_version" else value.lower() == "true"


def _added(reader: Reader, target: Target) -> AddColumns:
    unless_there = reader.takes("IF", "NOT", "EXISTS")
    in_parentheses = reader.takes("(")
    columns = [_column(reader)[0]]
    while reader.takes(","):
        columns.append(_column(reader)[0])
    if in_parentheses:
        reader.expect(")")
    reader.end()
    reader.check_once([each.path for each in columns], "each column")
    is_computed = any(each.value is not None for each in columns)
    if is_computed and any(each.value is None or len(each.path) > 1 for each in columns):
        raise reader.refused(
            "ADD COLUMNS computes whole columns, and all of them: add others, and fields of "
            "structs, in a statement of their own"
        )
    return AddColumns(target, tuple(columns), unless_there)


def _dropped(reader: Reader, target: Target) -> DropColumns:
    if_exists = reader.takes("IF", "EXISTS")
    in_parentheses = reader.takes("(")
    paths = [reader.path(_COLUMN)]
    while reader.takes(","):
        paths.append(reader.path(_COLUMN))
    if in_parentheses:
        reader.expect(")")
    reader.end()
    reader.check_once(paths, "each column")
    return DropColumns(target, tuple(paths), if_exists)


def _renamed(reader: Reader, target: Target) -> RenameColumn:
    path = reader.path(_COLUMN)
    reader.expect("TO")
    name = reader.name("the new name")
    reader.end("the end of the statement, since a column stays in its struct")
    return RenameColumn(target, path, name)


def _changed(reader: Reader, target: Target) -> ChangeType:
    path = reader.path(_COLUMN)
    is_said = reader.takes("TYPE") or reader.takes("SET", "DATA", "TYPE")
    if not is_said and not reader.takes(path[-1].upper()):
        raise reader.wrong("TYPE: only the type of a column can be changed, and its name by RENAME")
    kind = reader.type()
    reader.end()
    return ChangeType(target, path, kind)
