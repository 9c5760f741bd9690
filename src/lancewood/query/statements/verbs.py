"""What each statement does: to rows, to whole tables and files, to branches and tags. Branches and
tags without a table are those of the repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import Layout
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.files.csv_source import CsvOptions
from lancewood.files.formats import FileFormat, checked_encoding, require_format
from lancewood.files.sinks import check_target, writing
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.jobs.counts import Counts, Merged, RowCounts
from lancewood.jobs.job import CommitOptions
from lancewood.model.schema import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lancewood.query.sources import AddressedSnapshot, Sources
from lancewood.query.statements import model
from lancewood.query.statements.engine import TARGET, Answered, Engine, NewTable, values_query
from lancewood.query.statements.model import OfTable, Target, Written
from lancewood.query.statements.workplace import Workplace, commit_message
from lancewood.table.by_uri import drop
from lancewood.table.by_uri import open as open_table
from lancewood.table.table import Table

_COMMENT = "comment"
"""The key under which a table or a column has what COMMENT says."""


@dataclass(frozen=True)
class Done:
    """What a statement did."""

    statement: str
    """The first words of the statement: ``insert``, ``merge``, …"""
    table: str | None
    counts: Counts = None
    version: int | None = None
    commit: str | None = None
    """The commit of the repository, if the statement was one by itself."""

    @property
    def row(self) -> dict[str, Any]:
        """What a report says of it."""
        row: dict[str, Any] = {"statement": self.statement, "table": self.table}
        row |= {"version": self.version, "commit": self.commit}
        rows = self.counts
        if isinstance(rows, RowCounts | Merged):
            row |= {"inserted": rows.inserted, "updated": rows.updated, "deleted": rows.deleted}
        return row


class Statements:
    """Runs statements: those that change rows, those about tables as a whole, about files, branches
    and tags."""

    def __init__(self, workplace: Workplace, engine: Engine, *, dry_run: bool = False) -> None:
        self._workplace = workplace
        self._engine = engine
        self._dry_run = dry_run

    def run(self, statement: model.Change) -> Done:
        """What a statement did, or would do. Raises what the verbs raise."""
        match statement:
            case model.CreateTable():
                return self._create_table(statement)
            case model.DropTable():
                return self._drop_table(statement)
            case model.CopyTo():
                return self._copy_to(statement)
            case model.CreateRef():
                return self._create_ref(statement)
            case model.DropRef():
                return self._drop_ref(statement)
            case model.MergeBranch():
                return self._merge_branch(statement)
            case model.CopyFrom():
                word = "copy"
            case (
                model.AddColumns() | model.DropColumns() | model.RenameColumn() | model.ChangeType()
            ):
                word = "alter table"
            case _:
                word = type(statement).__name__.lower()
        return self._done(word, statement, lambda: self._changed(statement))

    def _changed(self, statement: model.OfTable) -> Table:
        """The table after a statement about its rows or its columns."""
        table, how = self._table(statement.target), self._how(statement)
        runner, spelled = self._engine.runner, self._engine.identifiers.path
        match statement:
            case model.Insert() | model.Delete() | model.Update() | model.Merge():
                return self._rows(statement, table)
            case model.CopyFrom():
                return table.append(_file_rows(statement, table.schema), **how)
            case model.Optimize():
                return table.compact(runner=runner, **how)
            case model.Restore(target=target, at=asked):
                at = self._state(target, asked)
                return table.restore(**{"version" if isinstance(at, int) else "at": at}, **how)
            case model.AddColumns():
                return self._added(statement, table)
            case model.DropColumns(paths=paths):
                if statement.if_exists:
                    paths = tuple(each for each in paths if self._found(each, table.schema))
                names = [".".join(spelled(each, table.schema)) for each in paths]
                return table.drop_columns(names, runner=runner, **how) if names else table
            case model.RenameColumn():
                path = spelled(statement.path, table.schema)
                new = (*path[:-1], statement.name)
                there = self._found(new, table.schema)
                if there is not None and there not in (path, new):
                    raise InvalidInputError(
                        f"column {'.'.join(new)!r} cannot be made: the table has "
                        f"{'.'.join(there)!r}, and upper and lower case are the same here; choose "
                        "another name"
                    )
                return table.rename_column(".".join(path), statement.name, **how)
            case model.ChangeType():
                kind = self._engine.arrow_type(statement.type)
                name = ".".join(spelled(statement.path, table.schema))
                return table.cast_column(name, kind, runner=runner, **how)
        raise AssertionError(f"{type(statement).__name__} is run elsewhere")

    def _rows(self, statement: model.RowChange, table: Table) -> Table:
        """The table after its rows were changed. Which change, and what they become, the engine
        computes; a DELETE of all rows needs none, and an INSERT asks no row."""
        how = self._how(statement)
        if isinstance(statement, model.Insert) and statement.where is None:
            return self._workplace.tried(
                lambda attempt: self._inserted(statement, table.latest() if attempt else table)
            )
        if isinstance(statement, model.Delete) and not (statement.where or statement.others):
            return table.delete("true", runner=self._engine.runner, **how)
        return self._engine.change(table, partial(self._asked, statement), **how)

    def _inserted(self, statement: model.Insert, table: Table) -> Table:
        """The table with the rows of the query, which sees the version that is built on. If they
        come from the table itself, they may only follow the version that was read."""
        engine, target, schema = self._engine, statement.target, table.schema
        sources = self._workplace.sources()
        sources.put(target.name, target.revision, table._snapshot)
        query, names = statement.query, tuple[str, ...]()
        if statement.values:
            nothing = ("NULL",) * len(statement.columns or schema.names)
            values = [each or nothing for each in statement.values]
            names = self._columns(statement, schema.names, values[0])
            query = values_query(values, names, schema)
        planned = engine.planned(query, sources)
        rows = engine.answer(planned)
        return engine.insert(
            table,
            rows,
            names or self._columns(statement, schema.names, engine.names(rows)),
            overwrite=statement.overwrite,
            commit=CommitOptions(serializable=planned.sees(table._snapshot)),
            **self._how(statement),
        )

    def _asked(self, statement: model.RowChange, snapshot: Snapshot) -> Answered:
        """The query for what a statement changes in a version, and the engine's answer."""
        target, table, names = statement.target, snapshot.arrow_schema, self._engine.names
        sources = self._workplace.sources()
        sources.put(target.name, target.revision, snapshot)
        given: Sequence[str] = ()
        if isinstance(statement, model.Merge):
            given = names(self._answer(f"{statement.queries} {statement.source}", sources))
        elif isinstance(statement, model.Insert):
            new = names(self._answer(statement.query, sources))
            given = self._columns(statement, table.names, new)
        query = self._engine.change_query(statement, table, given)
        addressed = AddressedSnapshot(snapshot.location, snapshot.manifest, snapshot.scheme)
        sources.put(TARGET, None, addressed)
        planned = self._engine.planned(query.sql, sources)
        query = replace(query, serializable=planned.sees(snapshot))
        return query, self._engine.answer(planned)

    def _columns(
        self, statement: model.Insert, table: Sequence[str], given: Sequence[str]
    ) -> tuple[str, ...]:
        """The columns of the table that the query's are for, in the order of the query."""
        named = given if statement.by_name else statement.columns
        names = tuple(table)
        if named is not None:
            column = self._engine.identifiers.column
            names = tuple(column(each, table, "the table") for each in named)
        if len(names) != len(given):
            raise InvalidInputError(
                f"INSERT INTO {statement.target.written} gives {len(given)} values for "
                f"{len(names)} columns: {', '.join(names)}; name the columns that are given",
                table=statement.target.name,
            )
        return names

    def _added(self, statement: model.AddColumns, table: Table) -> Table:
        missing = [each for each in statement.columns if not self._found(each.path, table.schema)]
        if len(missing) < len(statement.columns) and not statement.if_not_exists:
            there = next(each.path for each in statement.columns if each not in missing)
            name, found = ".".join(there), ".".join(self._found(there, table.schema) or there)
            case = f" as {found!r}, and upper and lower case are the same here"
            raise InvalidInputError(
                f"column {name!r} exists already{case if found != name else ''}: ADD COLUMNS IF "
                "NOT EXISTS leaves it as it is, UPDATE changes its values, and ALTER COLUMN its "
                "type",
                column=name,
            )
        how = self._how(statement)
        if not missing:
            return table
        if all(each.value is None for each in missing):
            fields = zip(arrow_schema(missing, self._engine.arrow_type), missing, strict=True)
            named = [field.with_name(".".join(each.path)) for field, each in fields]
            return table.add_columns(named, **how)
        values = {}
        for each in missing:
            value = f"({each.value}\n)"
            values[each.path[0]] = value if each.type is None else f"CAST({value} AS {each.type})"
        return self._engine.add_columns(table, values, **how)

    def _found(self, path: model.Path, table: pa.Schema) -> model.Path | None:
        """A path in the table's own spelling; None if there is no such column."""
        try:
            return self._engine.identifiers.path(path, table)
        except InvalidInputError:
            return None

    def _state(self, target: model.Target | None, at: model.At | None) -> Any:
        """The number, revision or time of a state; in a repository, the number of the version that
        a commit of it has."""
        if isinstance(at, model.Moment):
            return self._engine.moment(at.sql)
        workplace = self._workplace
        if target is None or not isinstance(at, str) or not workplace.is_in_repository(target):
            return at
        sources = workplace.sources()
        landed = sources.landed(sources.known_as(target.name) or target.name, at).landed_version
        if landed is None:
            raise UnsupportedError(
                f"{target.name}@{at} has not landed in the history of the table yet, and cannot be "
                "restored; write to it once, or name a version"
            )
        return int(landed)

    def _create_table(self, statement: model.CreateTable) -> Done:
        def made(_: int) -> Table:
            there = self._there(statement)
            if there is not None and statement.existing is model.Existing.KEEP:
                return there
            return self._made(statement, self._new(statement, there))

        if not self._dry_run:
            tried = self._workplace.tried
            return self._done("create table", statement, lambda: tried(made))
        if self._there(statement) is None or statement.existing is model.Existing.REPLACE:
            self._new(statement)
        return Done("create table", statement.target.written)

    def _there(self, statement: model.CreateTable) -> Table | None:
        """The table that is there already, to be kept or replaced; raises AlreadyExistsError if it
        may not be there."""
        workplace, target, location = self._workplace, statement.target, statement.location
        in_repository = workplace.is_in_repository(target)
        if in_repository and location is not None:
            raise InvalidInputError(
                "a table of the repository has its place there: leave LOCATION out"
            )
        if not workplace.exists(target, location):
            return None
        if statement.existing is model.Existing.FAIL:
            raise AlreadyExistsError(
                f"there is a table {target.written} already: write to it with INSERT, or "
                "CREATE OR REPLACE TABLE",
                table=target.name,
            )
        if in_repository or (statement.existing is model.Existing.KEEP and location is None):
            return self._table(target)
        return open_table(workplace.uri(target, location), access=workplace.given.access)

    def _new(self, statement: model.CreateTable, there: Table | None = None) -> NewTable:
        """What is made, perhaps of the table that it replaces; raises InvalidInputError for what
        cannot be."""
        options, config = dict(statement.options), dict(statement.properties)
        if statement.comment is not None:
            config[_COMMENT] = statement.comment
        if statement.query is None:
            arrow_type = self._engine.arrow_type
            schema = arrow_schema(statement.columns, arrow_type, statement.primary_key)
            return NewTable(schema, None, options, config, there)
        sources = self._workplace.sources()
        if there is not None:
            sources.put(statement.target.name, statement.target.revision, there._snapshot)
        planned = self._engine.planned(statement.query, sources)
        rows = self._engine.answer(planned)
        is_own = there is not None and planned.sees(there._snapshot)
        return NewTable(self._engine.columns(rows), rows, options, config, there, is_own)

    def _made(self, statement: model.CreateTable, new: NewTable) -> Table:
        workplace, target = self._workplace, statement.target
        if not workplace.is_in_repository(target):
            uri = workplace.uri(target, statement.location)
            message, access = self._how(statement)["message"], workplace.given.access
            return self._engine.create(uri, access, new, message)
        if new.there is not None:
            commit = CommitOptions(serializable=new.is_own)
            table: Table = new.there.overwrite(new.schema.empty_table(), commit=commit)
        else:
            assert workplace.transaction is not None
            layout = Layout(**new.options)
            table = workplace.transaction.create_table(target.name, new.schema, layout=layout)
        if new.config:
            table = table.set_config(new.config)
        if new.rows is None:
            return table
        return self._engine.insert(table, new.rows, new.schema.names, overwrite=False)

    def _drop_table(self, statement: model.DropTable) -> Done:
        workplace, target = self._workplace, statement.target
        done = Done("drop table", target.written)
        if statement.if_exists and not workplace.exists(target):
            return done
        table, given = workplace.table(target, dry_run=True), workplace.given
        if not workplace.is_in_repository(target):
            drop(table.uri, dry_run=self._dry_run, access=given.access)
        elif not self._dry_run:
            name, message = str(given.known_as(target.name)), self._how(statement)["message"]
            made = workplace.repository.remove(name, branch=given.revision, message=message)
            return replace(done, commit=str(made.hash))
        return done

    def _copy_to(self, statement: model.CopyTo) -> Done:
        """Write all rows of a query to the file, whole or not at all."""
        options = dict(statement.options)
        file, force = _checked_file(statement.file), _flag(options, "overwrite")
        format = _format(file, options)
        check_target(file, force=force)
        rows = self._answer(statement.query, self._workplace.sources())
        if self._dry_run:
            return Done("copy", file)
        count = 0
        with writing(file, format, rows.schema, force=force) as sink:
            for batch in rows.to_batches():
                sink.write(batch)
                count += batch.num_rows
        return Done("copy", file, RowCounts(inserted=count))

    def _refs(self, statement: model.CreateRef | model.DropRef | model.MergeBranch) -> Any:
        """The branches or the tags that a statement is about, of a table or of the repository."""
        target, workplace = statement.target, self._workplace
        if target is not None and workplace.is_in_repository(target):
            raise InvalidInputError(
                f"{target.name!r} is a table of the repository, which has the branches and tags: "
                f"leave the table out of the statement, or give it in tables= for its own",
                table=target.name,
            )
        owner: Any = workplace.repository if target is None else self._table(target)
        is_tag = not isinstance(statement, model.MergeBranch) and statement.kind == "tag"
        return owner.tags if is_tag else owner.branches

    def _create_ref(self, statement: model.CreateRef) -> Done:
        refs, name, kind = self._refs(statement), statement.name, statement.kind
        table = None if statement.target is None else statement.target.name
        at = self._state(statement.target, statement.at)
        is_there = statement.existing is not model.Existing.FAIL and name in refs.list()
        if self._dry_run or (is_there and statement.existing is model.Existing.KEEP):
            return Done(f"create {kind}", table)
        if table is None and is_there:
            raise UnsupportedError(
                f"OR REPLACE does not move {kind} {name!r} of the repository: drop it first, or "
                "reset the branch with lw reset"
            )
        if table is None:
            commit = refs.create(name, "HEAD" if at is None else at)
            return Done(f"create {kind}", None, commit=str(commit))
        if not is_there:
            found = refs.create(name, at)
        elif kind == "branch":
            found = refs.reset(name, at, force=True)
        else:
            found = refs.update(name, at)
        return Done(f"create {kind}", table, version=int(found.version))

    def _drop_ref(self, statement: model.DropRef) -> Done:
        refs, name, kind = self._refs(statement), statement.name, statement.kind
        done = Done(f"drop {kind}", None if statement.target is None else statement.target.name)
        is_there = name in refs.list()
        if statement.if_exists and not is_there:
            return done
        if self._dry_run and not is_there:
            raise NotFoundError(f"{kind} {name!r} not found", name=name)
        try:
            if not self._dry_run:
                refs.delete(name)
        except IncompatibleConflictError as refused:
            if statement.target is not None:
                raise
            raise IncompatibleConflictError(
                f"branch {name!r} has commits that no other branch has: merge it first, or give "
                f"them up with lw branch -D {name}",
                branch=name,
            ) from refused
        return done

    def _merge_branch(self, statement: model.MergeBranch) -> Done:
        refs, how = self._refs(statement), self._how(statement)
        if statement.target is None:
            verb = self._workplace.repository.merge
            merged = verb(statement.name, branch=statement.into, **how)
            return Done("merge branch", None, commit=None if self._dry_run else str(merged.hash))
        runner = self._engine.runner
        found = refs.merge(statement.name, statement.into or "main", runner=runner, **how)
        return Done("merge branch", statement.target.name, found.counts, found.version)

    def _how(self, statement: Written) -> dict[str, Any]:
        """``dry_run`` and ``message``, as verbs take them; the commit of a transaction has a
        message of its own."""
        is_alone = self._workplace.transaction is None
        return {
            "dry_run": self._dry_run,
            "message": commit_message(statement.sql) if is_alone else None,
        }

    def _table(self, target: Target) -> Table:
        return self._workplace.table(target, dry_run=self._dry_run)

    def _answer(self, sql: str, sources: Sources) -> Any:
        return self._engine.answer(self._engine.planned(sql, sources))

    def _done(self, word: str, statement: OfTable, run: Callable[[], Table]) -> Done:
        """Run a statement in the transaction that is under way, or as a commit of its own, and say
        what it did."""
        workplace, target, commit = self._workplace, statement.target, None

        def noted() -> Table:
            after = run()
            if not self._dry_run:
                workplace.wrote(target, after)
            return after

        in_repository = workplace.is_in_repository(target)
        in_transaction = workplace.transaction is not None
        if in_transaction and not in_repository and not self._dry_run:
            raise InvalidInputError(
                f"{target.written} is no table of the repository, and cannot be part of its "
                "transaction: write to it before BEGIN or after COMMIT",
                table=target.name,
            )
        if in_transaction or self._dry_run or not in_repository:
            after = noted()
        else:
            after, made = workplace.alone(target, statement.sql, noted)
            commit = str(made.hash) if made.is_new else None
        return Done(word, target.written, after.counts, after.version, commit)


def arrow_schema(
    columns: Sequence[model.Column],
    arrow_type: Callable[[str], pa.DataType],
    primary_key: Sequence[str] = (),
) -> pa.Schema:
    """The schema of a table with these columns, whose types ``arrow_type`` knows."""
    positions = {name: str(at) for at, name in enumerate(primary_key, 1)}
    fields = []
    for each in columns:
        name = each.path[-1]
        metadata = {} if each.comment is None else {_COMMENT: each.comment}
        if name in positions:
            metadata |= {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: positions[name]}
        nullable = each.nullable and name not in positions
        fields.append(pa.field(name, arrow_type(str(each.type)), nullable, metadata or None))
    return pa.schema(fields)


def _file_rows(statement: model.CopyFrom, table: pa.Schema) -> pa.RecordBatchReader:
    """The rows of the file, by the names of its columns, in the types that the table has."""
    options = dict(statement.options)
    delimiter = options.get("delimiter")
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise InvalidInputError(f"DELIMITER is one character between values, not {delimiter!r}")
    nulls = [options["nullstr"]] if "nullstr" in options else []
    csv = CsvOptions(delimiter, _flag(options, "header", default=True), None, nulls)
    encoding = checked_encoding(options["encoding"]) if "encoding" in options else None
    format = _format(statement.file, options)
    asked = ImportOptions(format, table=table, csv=csv, encoding=encoding)
    return SourceFiles([_checked_file(statement.file)], asked).reader(lambda rows, size: None)


def _checked_file(file: str) -> str:
    if file in ("", "-"):
        raise InvalidInputError(f"COPY takes the path of a file in quotes, not {file!r}")
    return file


def _format(file: str, options: dict[str, str]) -> FileFormat:
    given = options.get("format", "").lower()
    if given and given not in [*FileFormat]:
        raise InvalidInputError(
            f"FORMAT {given!r} is not known: it is one of {', '.join(FileFormat)}"
        )
    return require_format(file, FileFormat(given) if given else None)


def _flag(options: dict[str, str], name: str, *, default: bool = False) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise InvalidInputError(f"{name.upper()} is true or false, not {value!r}")
    return value == "true"
