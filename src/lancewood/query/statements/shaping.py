"""Running statements about tables as a whole: made, restored, compacted, with other columns, under
other names. Branches and tags without a table are those of the repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.query.sources import AddressedSnapshot
from lancewood.query.statements.model import (
    AddColumns,
    At,
    Change,
    ChangeType,
    Column,
    CreateRef,
    CreateTable,
    DropColumns,
    DropRef,
    Existing,
    Moment,
    Optimize,
    Path,
    RenameColumn,
    Restore,
    Target,
)
from lancewood.query.statements.queries import TARGET
from lancewood.query.statements.running import Answered, Done, NewPlace, Runs
from lancewood.table.by_uri import exists
from lancewood.table.by_uri import open as open_table
from lancewood.table.table import Table


class TableStatements(Runs):
    """Runs them, one by one."""

    def run(self, statement: Change, *, dry_run: bool = False) -> Done:
        """What a statement did, or would do. Raises what the verbs raise."""
        verb: Callable[..., Done] = _VERBS[type(statement)]
        return verb(self, statement, dry_run=dry_run)

    # Columns

    def add_columns(self, statement: AddColumns, *, dry_run: bool) -> Done:
        def run(table: Table, message: str | None) -> Table:
            columns = self._missing(statement, table.schema)
            if not columns:
                return table
            if any(each.value is not None for each in columns):
                return self._computed(statement, table, columns, dry_run=dry_run, message=message)
            fields = [self._field(each) for each in columns]
            return table.add_columns(fields, dry_run=dry_run, message=message)

        return self._verb("alter table", statement, run, dry_run=dry_run)

    def _missing(self, statement: AddColumns, table: pa.Schema) -> list[Column]:
        """The columns that are added: with IF NOT EXISTS, those that are not there. Raises
        InvalidInputError for others."""
        missing = [each for each in statement.columns if not self._has(each.path, table)]
        if statement.if_not_exists or len(missing) == len(statement.columns):
            return missing
        there = next(each.path for each in statement.columns if each not in missing)
        self._check_new(there, table)
        name = ".".join(there)
        raise InvalidInputError(
            f"column {name!r} exists already: ADD COLUMNS IF NOT EXISTS leaves it as it is, UPDATE "
            "changes its values, and ALTER COLUMN its type",
            column=name,
        )

    def _check_new(self, path: Path, table: pa.Schema, but: Path | None = None) -> None:
        """Raise InvalidInputError if a column but one has that name in another case: no query could
        tell them apart."""
        if self._has(path, table):
            found = self._path_in(path, table)
            if found not in (path, but):
                raise InvalidInputError(
                    f"column {'.'.join(path)!r} cannot be made: the table has {'.'.join(found)!r}, "
                    "and upper and lower case are the same here; choose another name"
                )

    def _path_in(self, path: Path, table: pa.Schema) -> Path:
        """A path in the table's own spelling; raises InvalidInputError if there is no such
        column."""
        found: list[str] = []
        names, where = table.names, "the table"
        kind: Any = table
        for part in path:
            found.append(self._identifiers.column(part, names, where))
            kind = kind.field(found[-1]).type
            names = [each.name for each in kind] if pa.types.is_struct(kind) else []
            where = ".".join(found)
        return tuple(found)

    def _field(self, column: Column) -> pa.Field:
        (field,) = self._engine.dialect.arrow_schema([column], ())
        return field.with_name(".".join(column.path))

    def _has(self, path: Path, table: pa.Schema) -> bool:
        try:
            self._path_in(path, table)
        except InvalidInputError:
            return False
        return True

    def _computed(
        self,
        statement: AddColumns,
        table: Table,
        columns: list[Column],
        *,
        dry_run: bool,
        message: str | None,
    ) -> Table:
        dialect = self._engine.dialect
        values = {each.path[0]: dialect.computed(str(each.value), each.type) for each in columns}
        name = statement.target.name

        def ask(snapshot: Snapshot) -> Answered:
            sources = self._workplace.sources()
            sources.put(TARGET, None, AddressedSnapshot.of(snapshot))
            query = dialect.column_query(list(values.values()), name)
            return query, self._engine.answer(self.planned(query.sql, sources))

        return self._engine.add_columns(table, values, ask, dry_run=dry_run, message=message)

    def drop_columns(self, statement: DropColumns, *, dry_run: bool) -> Done:
        def run(table: Table, message: str | None) -> Table:
            paths = statement.paths
            if statement.if_exists:
                paths = tuple(each for each in paths if self._has(each, table.schema))
            if not paths:
                return table
            names = [".".join(self._path_in(each, table.schema)) for each in paths]
            runner = self._engine.runner
            return table.drop_columns(names, dry_run=dry_run, message=message, runner=runner)

        return self._verb("alter table", statement, run, dry_run=dry_run)

    def rename_column(self, statement: RenameColumn, *, dry_run: bool) -> Done:
        def run(table: Table, message: str | None) -> Table:
            path = self._path_in(statement.path, table.schema)
            self._check_new((*path[:-1], statement.name), table.schema, path)
            old = ".".join(path)
            return table.rename_column(old, statement.name, dry_run=dry_run, message=message)

        return self._verb("alter table", statement, run, dry_run=dry_run)

    def change_type(self, statement: ChangeType, *, dry_run: bool) -> Done:
        kind = self._engine.dialect.arrow_type(statement.type)

        def run(table: Table, message: str | None) -> Table:
            name = ".".join(self._path_in(statement.path, table.schema))
            return table.cast_column(
                name, kind, dry_run=dry_run, message=message, runner=self._engine.runner
            )

        return self._verb("alter table", statement, run, dry_run=dry_run)

    def optimize(self, statement: Optimize, *, dry_run: bool) -> Done:
        def run(table: Table, message: str | None) -> Table:
            return table.compact(dry_run=dry_run, message=message, runner=self._engine.runner)

        return self._verb("optimize", statement, run, dry_run=dry_run)

    def restore(self, statement: Restore, *, dry_run: bool) -> Done:
        def run(table: Table, message: str | None) -> Table:
            at = self._state(statement.target, statement.at)
            if isinstance(at, int):
                return table.restore(at, dry_run=dry_run, message=message)
            return table.restore(at=at, dry_run=dry_run, message=message)

        return self._verb("restore", statement, run, dry_run=dry_run)

    def _state(self, target: Target, at: At) -> int | str | datetime:
        """The state that is meant; in a repository, the version that a commit of it has."""
        if isinstance(at, Moment):
            return self._engine.moment(at.sql)
        if isinstance(at, int) or not self._workplace.is_in_repository(target):
            return at
        landed = self._workplace.sources().landed(target.name, at).landed_version
        if landed is None:
            raise UnsupportedError(
                f"{target.name}@{at} has not landed in the history of the table yet, and cannot be "
                "restored; write to it once, or name a version"
            )
        return int(landed)

    def _verb(
        self,
        word: str,
        statement: AddColumns | DropColumns | RenameColumn | ChangeType | Restore | Optimize,
        verb: Callable[[Table, str | None], Table],
        *,
        dry_run: bool,
    ) -> Done:
        target = statement.target

        def run() -> Table:
            table = self._workplace.table(target, dry_run=dry_run)
            return verb(table, self._message(statement))

        return self._done(word, target, statement.sql, run, dry_run=dry_run)

    # New tables

    def create_table(self, statement: CreateTable, *, dry_run: bool) -> Done:
        word, target = "create table", statement.target
        if dry_run:
            if not self._is_kept(statement):
                self._new(statement)
            return Done(word, target.written)

        def run() -> Table:
            return self._tried(lambda _: self._made(statement))

        return self._done(word, target, statement.sql, run, dry_run=False)

    def _is_kept(self, statement: CreateTable) -> bool:
        """Whether there is such a table, which stays; raises AlreadyExistsError if it may not."""
        if not self._workplace.exists(statement.target):
            return False
        if statement.existing is Existing.FAIL:
            raise AlreadyExistsError(
                f"there is a table {statement.target.written} already: write to it with INSERT, or "
                "CREATE OR REPLACE TABLE",
                table=statement.target.name,
            )
        return statement.existing is Existing.KEEP

    def _new(self, statement: CreateTable, there: Table | None = None) -> _NewTable:
        """What is made, perhaps of the table that it replaces; raises InvalidInputError for what
        cannot be."""
        options, config = dict(statement.options), dict(statement.properties)
        if statement.comment is not None:
            config["comment"] = statement.comment
        if statement.query is None:
            schema = self._engine.dialect.arrow_schema(statement.columns, statement.primary_key)
            return _NewTable(schema, None, options, config)
        sources = self._workplace.sources()
        if there is not None:
            sources.put(statement.target.name, statement.target.revision, there._snapshot)
        planned = self.planned(statement.query, sources)
        rows = self._engine.answer(planned)
        is_own = there is not None and planned.sees(there._snapshot)
        return _NewTable(self._engine.columns(rows), rows, options, config, is_own)

    def _made(self, statement: CreateTable) -> Table:
        workplace, target = self._workplace, statement.target
        if self._is_kept(statement):
            return workplace.table(target)
        if workplace.transaction is not None and workplace.is_in_repository(target):
            return self._staged(statement)
        uri, options = statement.location or workplace.uri(target), workplace.storage_options
        assert uri is not None
        replaces = statement.existing is Existing.REPLACE and exists(uri, storage_options=options)
        there = open_table(uri, storage_options=options) if replaces else None
        new = self._new(statement, there)
        return self._engine.create(
            NewPlace(uri, options, new.schema, new.config, **new.options),
            new.rows,
            there=there,
            serializable=new.is_own,
            message=self._message(statement),
        )

    def _staged(self, statement: CreateTable) -> Table:
        """A table of the repository, in its transaction."""
        transaction = self._workplace.transaction
        assert transaction is not None
        if statement.location is not None:
            raise InvalidInputError(
                "a table of the repository has its place there: leave LOCATION out"
            )
        is_there = self._workplace.exists(statement.target)
        there = self._workplace.table(statement.target) if is_there else None
        new = self._new(statement, there)
        table: Table
        if there is not None:
            table = there.overwrite(new.schema.empty_table(), serializable=new.is_own)
        else:
            table = transaction.create_table(statement.target.name, new.schema, **new.options)
        if new.config:
            table = table.set_config(new.config)
        if new.rows is None:
            return table
        return self._engine.insert(
            table, new.rows, new.schema.names, overwrite=False, dry_run=False, message=None
        )

    # Names

    def create_ref(self, statement: CreateRef, *, dry_run: bool) -> Done:
        names, asked = self._names(statement), statement.at
        at = self._engine.moment(asked.sql) if isinstance(asked, Moment) else asked
        is_there = statement.existing is not Existing.FAIL and names.has(statement.name)
        if dry_run or (is_there and statement.existing is Existing.KEEP):
            return Done(f"create {statement.kind}", names.table)
        return names.moved(statement.name, at) if is_there else names.made(statement.name, at)

    def drop_ref(self, statement: DropRef, *, dry_run: bool) -> Done:
        names, kind = self._names(statement), statement.kind
        done = Done(f"drop {kind}", names.table)
        if statement.if_exists and not names.has(statement.name):
            return done
        if not dry_run:
            names.drop(statement.name)
        elif not names.has(statement.name):
            raise NotFoundError(f"{kind} {statement.name!r} not found", name=statement.name)
        return done

    def _names(self, statement: CreateRef | DropRef) -> _Names:
        """The branches or tags that a statement is about."""
        target, kind = statement.target, statement.kind
        if target is None:
            repository = self._workplace.repository
            found: Any = repository.branches if kind == "branch" else repository.tags
            return _Names(kind, None, found)
        if self._workplace.is_in_repository(target):
            raise InvalidInputError(
                f"{target.name!r} is a table of the repository, which has the branches and tags: "
                f"leave the table out of the statement, or give it in tables= for its own",
                table=target.name,
            )
        table = self._workplace.table(target, dry_run=True)
        return _Names(kind, target.name, table.branches if kind == "branch" else table.tags)


@dataclass(frozen=True)
class _NewTable:
    """A table that is to be made."""

    schema: pa.Schema
    rows: Any
    """Those of a query, by the engine; None for an empty table."""
    options: Mapping[str, Any]
    config: Mapping[str, str]
    is_own: bool = False
    """Whether they are made of the rows of the table that is replaced."""


@dataclass(frozen=True)
class _Names:
    """The branches or the tags of a table, or of the repository."""

    kind: str
    table: str | None
    names: Any

    def has(self, name: str) -> bool:
        return name in self.names.list()

    def made(self, name: str, at: int | str | datetime | None) -> Done:
        if self.table is None:
            commit = self.names.create(name, "HEAD" if at is None else at)
            return Done(f"create {self.kind}", None, commit=str(commit))
        found = self.names.create(name, at)
        return Done(f"create {self.kind}", self.table, version=int(found.version))

    def moved(self, name: str, at: int | str | datetime | None) -> Done:
        """The same where there is one of the name already."""
        if self.table is None:
            raise UnsupportedError(
                f"OR REPLACE does not move {self.kind} {name!r} of the repository: drop it first, "
                "or reset the branch with lw reset"
            )
        if self.kind == "branch":
            found = self.names.reset(name, at, force=True)
        else:
            found = self.names.update(name, at)
        return Done(f"create {self.kind}", self.table, version=int(found.version))

    def drop(self, name: str) -> None:
        """Raises IncompatibleConflictError for a branch with work that is nowhere else."""
        try:
            self.names.delete(name)
        except IncompatibleConflictError as refused:
            if self.table is not None:
                raise
            raise IncompatibleConflictError(
                f"branch {name!r} has commits that no other branch has: merge it first, or give "
                f"them up with lw branch -D {name}",
                branch=name,
            ) from refused


_VERBS: Mapping[type, Callable[..., Done]] = {
    AddColumns: TableStatements.add_columns,
    ChangeType: TableStatements.change_type,
    CreateRef: TableStatements.create_ref,
    CreateTable: TableStatements.create_table,
    DropColumns: TableStatements.drop_columns,
    DropRef: TableStatements.drop_ref,
    Optimize: TableStatements.optimize,
    RenameColumn: TableStatements.rename_column,
    Restore: TableStatements.restore,
}
