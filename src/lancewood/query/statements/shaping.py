"""Running statements about whole tables and files: made, dropped, copied, restored, compacted, with
other columns, under other names. Branches and tags without a table are those of the repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.jobs.counts import RowCounts
from lancewood.query.statements import model
from lancewood.query.statements.copying import check_file, file_rows, write_file
from lancewood.query.statements.engine import NewTable
from lancewood.query.statements.running import Done, Runs
from lancewood.table.by_uri import drop, exists
from lancewood.table.by_uri import open as open_table
from lancewood.table.table import Table

How: TypeAlias = Mapping[str, Any]
"""``dry_run`` and ``message``, as verbs take them."""


class TableStatements(Runs):
    """Runs them, one by one."""

    def run(self, statement: model.Change, *, dry_run: bool = False) -> Done:
        """What a statement did, or would do. Raises what the verbs raise."""
        if isinstance(statement, model.CreateRef):
            return self._create_ref(statement, dry_run=dry_run)
        if isinstance(statement, model.DropRef):
            return self._drop_ref(statement, dry_run=dry_run)
        if isinstance(statement, model.MergeBranch):
            return self._merge_branch(statement, dry_run=dry_run)
        if isinstance(statement, model.CreateTable):
            return self._create_table(statement, dry_run=dry_run)
        if isinstance(statement, model.DropTable):
            return self._drop_table(statement, dry_run=dry_run)
        if isinstance(statement, model.CopyTo):
            return self._copy_to(statement, dry_run=dry_run)
        word, verb = _VERBS[type(statement)]

        def run() -> Table:
            table = self._workplace.table(statement.target, dry_run=dry_run)
            how = {"dry_run": dry_run, "message": self._message(statement)}
            return verb(self, statement, table, how)

        return self._done(word, statement.target, statement.sql, run, dry_run=dry_run)

    # Columns

    def add_columns(self, statement: model.AddColumns, table: Table, how: How) -> Table:
        columns = self._missing(statement, table.schema)
        if not columns:
            return table
        if any(each.value is not None for each in columns):
            values = {each.path[0]: computed(each) for each in columns}
            return self._engine.add_columns(table, values, **how)
        return table.add_columns([self._field(each) for each in columns], **how)

    def _missing(self, statement: model.AddColumns, table: pa.Schema) -> list[model.Column]:
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

    def _check_new(self, path: model.Path, table: pa.Schema, but: model.Path | None = None) -> None:
        """Raise InvalidInputError if a column but one has that name in another case: no query could
        tell them apart."""
        if self._has(path, table):
            found = self._path_in(path, table)
            if found not in (path, but):
                raise InvalidInputError(
                    f"column {'.'.join(path)!r} cannot be made: the table has {'.'.join(found)!r}, "
                    "and upper and lower case are the same here; choose another name"
                )

    def _path_in(self, path: model.Path, table: pa.Schema) -> model.Path:
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

    def _field(self, column: model.Column) -> pa.Field:
        (field,) = self._engine.arrow_schema([column], ())
        return field.with_name(".".join(column.path))

    def _has(self, path: model.Path, table: pa.Schema) -> bool:
        try:
            self._path_in(path, table)
        except InvalidInputError:
            return False
        return True

    def drop_columns(self, statement: model.DropColumns, table: Table, how: How) -> Table:
        paths = statement.paths
        if statement.if_exists:
            paths = tuple(each for each in paths if self._has(each, table.schema))
        if not paths:
            return table
        names = [".".join(self._path_in(each, table.schema)) for each in paths]
        return table.drop_columns(names, runner=self._engine.runner, **how)

    def rename_column(self, statement: model.RenameColumn, table: Table, how: How) -> Table:
        path = self._path_in(statement.path, table.schema)
        self._check_new((*path[:-1], statement.name), table.schema, path)
        return table.rename_column(".".join(path), statement.name, **how)

    def change_type(self, statement: model.ChangeType, table: Table, how: How) -> Table:
        kind = self._engine.arrow_type(statement.type)
        name = ".".join(self._path_in(statement.path, table.schema))
        return table.cast_column(name, kind, runner=self._engine.runner, **how)

    def copy_from(self, statement: model.CopyFrom, table: Table, how: How) -> Table:
        return table.append(file_rows(statement, table.schema), **how)

    def _copy_to(self, statement: model.CopyTo, *, dry_run: bool) -> Done:
        check_file(statement)
        rows = self._engine.answer(self.planned(statement.query))
        count = 0 if dry_run else write_file(statement, rows)
        return Done("copy", statement.file, None if dry_run else RowCounts(inserted=count))

    def optimize(self, statement: model.Optimize, table: Table, how: How) -> Table:
        return table.compact(runner=self._engine.runner, **how)

    def restore(self, statement: model.Restore, table: Table, how: How) -> Table:
        at = self._state(statement.target, statement.at)
        return table.restore(at, **how) if isinstance(at, int) else table.restore(at=at, **how)

    def _state(self, target: model.Target, at: model.At) -> int | str | datetime:
        """The state that is meant; in a repository, the version that a commit of it has."""
        if isinstance(at, model.Moment):
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

    # New tables

    def _create_table(self, statement: model.CreateTable, *, dry_run: bool) -> Done:
        word, target = "create table", statement.target
        if dry_run:
            if not self._is_kept(statement):
                self._new(statement)
            return Done(word, target.written)

        def run() -> Table:
            return self._tried(lambda _: self._made(statement))

        return self._done(word, target, statement.sql, run, dry_run=False)

    def _is_kept(self, statement: model.CreateTable) -> bool:
        """Whether there is such a table, which stays; raises AlreadyExistsError if it may not."""
        if not self._workplace.exists(statement.target):
            return False
        if statement.existing is model.Existing.FAIL:
            raise AlreadyExistsError(
                f"there is a table {statement.target.written} already: write to it with INSERT, or "
                "CREATE OR REPLACE TABLE",
                table=statement.target.name,
            )
        return statement.existing is model.Existing.KEEP

    def _new(self, statement: model.CreateTable, there: Table | None = None) -> NewTable:
        """What is made, perhaps of the table that it replaces; raises InvalidInputError for what
        cannot be."""
        options, config = dict(statement.options), dict(statement.properties)
        if statement.comment is not None:
            config["comment"] = statement.comment
        if statement.query is None:
            schema = self._engine.arrow_schema(statement.columns, statement.primary_key)
            return NewTable(schema, None, options, config)
        sources = self._workplace.sources()
        if there is not None:
            sources.put(statement.target.name, statement.target.revision, there._snapshot)
        planned = self.planned(statement.query, sources)
        rows = self._engine.answer(planned)
        is_own = there is not None and planned.sees(there._snapshot)
        return NewTable(self._engine.columns(rows), rows, options, config, is_own)

    def _made(self, statement: model.CreateTable) -> Table:
        workplace, target = self._workplace, statement.target
        if self._is_kept(statement):
            return workplace.table(target)
        if workplace.transaction is not None and workplace.is_in_repository(target):
            return self._staged(statement)
        uri, options = statement.location or workplace.uri(target), workplace.storage_options
        assert uri is not None
        replaces = statement.existing is model.Existing.REPLACE and exists(
            uri, storage_options=options
        )
        there = open_table(uri, storage_options=options) if replaces else None
        new, message = self._new(statement, there), self._message(statement)
        return self._engine.create(uri, options, new, there=there, message=message)

    def _staged(self, statement: model.CreateTable) -> Table:
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

    def _drop_table(self, statement: model.DropTable, *, dry_run: bool) -> Done:
        workplace, target = self._workplace, statement.target
        if statement.if_exists and not workplace.exists(target):
            return Done("drop table", target.written)
        table = workplace.table(target, dry_run=True)
        if not workplace.is_in_repository(target):
            drop(table.uri, dry_run=dry_run, storage_options=workplace.storage_options)
            return Done("drop table", target.written)
        made = None if dry_run else workplace.remove(target, self._message(statement))
        return Done("drop table", target.written, commit=made)

    # Names

    def _merge_branch(self, statement: model.MergeBranch, *, dry_run: bool) -> Done:
        names = self._names(statement, "branch")
        message, into = self._message(statement), statement.into
        if names.table is None:
            merged = self._workplace.repository.merge(
                statement.name, branch=into, message=message, dry_run=dry_run
            )
            return Done("merge branch", None, commit=None if dry_run else str(merged.hash))
        how = {"message": message, "dry_run": dry_run, "runner": self._engine.runner}
        found = names.names.merge(statement.name, into or "main", **how)
        return Done("merge branch", names.table, found.counts, found.version)

    def _create_ref(self, statement: model.CreateRef, *, dry_run: bool) -> Done:
        names, asked = self._names(statement, statement.kind), statement.at
        at = self._engine.moment(asked.sql) if isinstance(asked, model.Moment) else asked
        is_there = statement.existing is not model.Existing.FAIL and names.has(statement.name)
        if dry_run or (is_there and statement.existing is model.Existing.KEEP):
            return Done(f"create {statement.kind}", names.table)
        return names.moved(statement.name, at) if is_there else names.made(statement.name, at)

    def _drop_ref(self, statement: model.DropRef, *, dry_run: bool) -> Done:
        names, kind = self._names(statement, statement.kind), statement.kind
        done = Done(f"drop {kind}", names.table)
        if statement.if_exists and not names.has(statement.name):
            return done
        if not dry_run:
            names.drop(statement.name)
        elif not names.has(statement.name):
            raise NotFoundError(f"{kind} {statement.name!r} not found", name=statement.name)
        return done

    def _names(self, statement: model.Change, kind: model.RefKind) -> _Names:
        """The branches or tags that a statement is about."""
        target = statement.target
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


def computed(column: model.Column) -> str:
    """The expression of a column that is computed, in its type."""
    value = f"({column.value}\n)"
    return value if column.type is None else f"CAST({value} AS {column.type})"


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


_VERBS: Mapping[type, tuple[str, Callable[..., Table]]] = {
    model.AddColumns: ("alter table", TableStatements.add_columns),
    model.CopyFrom: ("copy", TableStatements.copy_from),
    model.ChangeType: ("alter table", TableStatements.change_type),
    model.DropColumns: ("alter table", TableStatements.drop_columns),
    model.RenameColumn: ("alter table", TableStatements.rename_column),
    model.Optimize: ("optimize", TableStatements.optimize),
    model.Restore: ("restore", TableStatements.restore),
}
