"""What a write of rows is: which table it goes to, whether it makes, extends or replaces one, and
where and how its files are written.

Everything is checked here and no file is written, so that Python, Spark and a dry run decide alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from lancewood.data.encodings import check_encoding_keys
from lancewood.data.file_root import FileRoot
from lancewood.data.writer import check_columns
from lancewood.engine.base import FileLimits, as_list, check_choice, check_file_version
from lancewood.engine.commit import PutIfAbsent, manifest_store_mark
from lancewood.engine.location import (
    BasePath,
    Bases,
    Location,
    NewBase,
    file_roots_to_write,
    new_base_paths,
    own_file_root,
    uri_of_base,
)
from lancewood.engine.schema import (
    config_update,
    missing_columns,
    next_field_id,
    plan_new_columns,
)
from lancewood.engine.snapshot import TAG, Address, Snapshot, is_table, open_revision
from lancewood.engine.write.file_writer import FileWriter
from lancewood.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.expr import Predicate, parse_predicate
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.format.schema import (
    encode_schema,
    schema_from_arrow,
    to_arrow_schema,
    to_scan_schema,
)
from lancewood.model.fragment import DEFAULT_FILE_VERSION, Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import (
    FLAG_FIELD_IDS_NOT_REUSED,
    FLAG_STABLE_ROW_IDS,
    Manifest,
    ManifestHead,
)
from lancewood.model.refs import MAIN, AtTag, OnBranch, parse_revision
from lancewood.model.schema import Schema
from lancewood.model.table_config import AppliedBatch
from lancewood.model.transaction import Append, Merge, Overwrite, Project
from lancewood.proto import table_pb2
from lancewood.rules.features import is_applied
from lancewood.rules.numbering import next_fragment_id

WriteMode: TypeAlias = Literal["append", "overwrite", "ignore", "error", "merge"]
WriteKind: TypeAlias = Literal["create", "append", "overwrite", "replace", "merge", "nothing"]
"""``replace`` is an overwrite of the rows that meet a condition."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows become files, and where these are: ``layout=`` of every verb that writes rows.

    A data file is closed at ``max_rows_per_file`` rows or ``max_bytes_per_file`` Arrow bytes.
    ``into`` says where the files go, to one root after the other: the names, ids or paths of base
    paths, None in a list for the own root, or ``"all"``. By default that is the own root, and on a
    branch the main root. Bytes of blobs in files of version 2.1 are found in a base path by us, but
    not by pylance 14.

    The rest is decided when a table is made, and an existing table must match it, but for the file
    version of an overwrite. ``stable_row_ids`` gives every row an id that stays with it, and does
    so unless it is False. ``file_version`` is 2.0, 2.1 or 2.2. ``bases`` declares other roots for
    the table's files: ``BasePath`` values, or paths.
    """

    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    into: Bases = None
    stable_row_ids: bool | None = None
    file_version: str | None = None
    bases: Iterable[NewBase] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "bases", tuple(as_list("bases", self.bases)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What a caller asks of a write, besides its rows and its commit; None leaves the choice.

    Raises InvalidInputError for values of the wrong kind, and for those that a merge does not take.
    """

    mode: WriteMode = "error"
    branch: str | None = None
    schema: pa.Schema | None = None
    """The columns of a new table, where they are not those of the rows."""
    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    into: Bases = None
    """Which of the table's roots get the files."""
    stable_row_ids: bool | None = None
    file_version: str | None = None
    bases: Iterable[NewBase] = ()
    """Other roots for the files of a new table, that are declared with it."""
    merge_schema: bool = False
    """Columns that only the rows have are added to the table."""
    overwrite_schema: bool = False
    """An overwrite replaces the columns, too; otherwise the table keeps its own."""
    replace_where: str | None = None
    """An overwrite replaces the rows that meet this condition, which new rows have to meet."""
    config: Mapping[str, str] | None = None
    """Keys of the configuration, which a table that is made or replaced gets with its rows."""

    @classmethod
    def of(cls, layout: Layout | None, **asked: Any) -> WriteRequest:
        """A request with the files that ``layout=`` of a verb asks for."""
        if layout is None:
            return cls(**asked)
        if not isinstance(layout, Layout):
            raise InvalidInputError(
                f"layout takes lancewood.Layout(max_rows_per_file=…), got {layout!r}"
            )
        return cls(**asked, **{each.name: getattr(layout, each.name) for each in fields(layout)})

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, WriteMode)
        self._check_columns()
        object.__setattr__(self, "bases", tuple(as_list("bases", self.bases)))
        for each in fields(self)[2:] if self.mode == "merge" else ():
            if getattr(self, each.name) is not each.default:
                raise not_for(each.name, self.mode)
        if self.schema is not None and not isinstance(self.schema, pa.Schema):
            raise InvalidInputError(f"schema takes a pyarrow.Schema, got {self.schema!r}")
        if self.stable_row_ids is not None and not isinstance(self.stable_row_ids, bool):
            raise InvalidInputError(f"stable_row_ids is True or False, got {self.stable_row_ids!r}")
        if self.file_version is not None:
            check_file_version(self.file_version)
        if self.config:
            config_update(self.config)
        _ = self.limits

    def _check_columns(self) -> None:
        """Raise InvalidInputError for what is said of columns and does not go together."""
        for name in ("merge_schema", "overwrite_schema"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name} is True or False, got {getattr(self, name)!r}")
        where = self.replace_where
        if where is not None and not isinstance(where, str):
            raise InvalidInputError(f"replace_where takes a condition in SQL, got {where!r}")
        if self.merge_schema and self.mode not in ("append", "overwrite"):
            raise not_for("merge_schema", self.mode)
        for name in ("overwrite_schema", "replace_where"):
            if getattr(self, name) and self.mode != "overwrite":
                raise InvalidInputError(f"{name} is for mode 'overwrite', not for {self.mode!r}")
        if self.merge_schema and self.overwrite_schema:
            raise InvalidInputError(
                "merge_schema keeps the table's columns and adds to them, overwrite_schema "
                "replaces them: say one of the two"
            )
        for name in ("merge_schema", "overwrite_schema", "schema", "file_version"):
            if where is not None and getattr(self, name):
                raise InvalidInputError(
                    f"{name} is not for an overwrite with replace_where, which keeps the other "
                    "rows as they are; add columns first (add_columns, or mode 'append' with "
                    "merge_schema), or leave it out"
                )

    @property
    def limits(self) -> FileLimits:
        """When a file is closed."""
        most, rows, size = FileLimits(), self.max_rows_per_file, self.max_bytes_per_file
        return FileLimits.checked(
            most.max_rows if rows is None else rows, most.max_bytes if size is None else size
        )


def not_for(name: str, mode: WriteMode) -> InvalidInputError:
    """The error for an argument that another mode takes."""
    return InvalidInputError(f"{name} is not for mode {mode!r}; leave it out")


@dataclass(frozen=True)
class PlannedWrite:
    """What one write of rows is."""

    kind: WriteKind
    before: Snapshot = field(repr=False)
    """The version that it builds on; version 0 of a table that it makes."""
    request: WriteRequest
    declared: tuple[table_pb2.BasePath, ...] = field(default=(), repr=False)
    """The base paths that a new table declares."""

    @property
    def roots(self) -> Manifest:
        """What declares the base paths that its files may be in."""
        if not self.declared:
            return self.before.manifest
        head = empty_manifest(self.before.manifest.file_version)
        head.message.base_paths.extend(self.declared)
        return head

    def files(self, rows: pa.Schema, table: pa.Schema | None = None) -> FileWriter:
        """How rows with the columns ``rows`` are written.

        ``table`` has the columns of a table that is made or replaced, where those are others.
        Raises InvalidInputError for columns that do not fit, UnsupportedError for a type that the
        file version cannot hold, and for a store that could not be trusted with the commit.
        """
        before, request = self.before, self.request
        version = request.file_version or before.manifest.file_version
        schema = self._schema(rows, table)
        condition, roots = self._condition(schema), self._file_roots(schema)
        try:
            made = FileWriter.of(schema, rows, roots, version, request.limits, condition)
        except InvalidInputError as refused:
            raise self.misfit(refused) from None
        check_columns(made.alignment.schema, version)
        PutIfAbsent().check_trust(before.location.store)
        return made

    def misfit(self, refused: InvalidInputError) -> InvalidInputError:
        """The error for columns that do not fit, with what this write might be told."""
        ways = []
        if self.keeps_columns and not self.request.merge_schema and self.kind != "replace":
            ways.append(
                "merge_schema (option mergeSchema, --merge-schema of lw table import) adds columns "
                "that are new"
            )
        if self.keeps_columns and self.kind == "overwrite":
            ways.append("overwrite_schema (option overwriteSchema) replaces the table's columns")
        if "problems" not in refused.facts or not ways:
            return refused
        return InvalidInputError(f"{refused.message}; {', '.join(ways)}", **refused.facts)

    @property
    def follows_newest(self) -> bool:
        """Whether its commit has to be prepared again where another one came first: it names what
        is in the version before it."""
        return self.kind == "replace" or (self.kind == "append" and self.request.merge_schema)

    @property
    def keeps_columns(self) -> bool:
        """Whether the table has its own columns afterwards, perhaps with new ones beside them."""
        if self.kind == "overwrite":
            return not self.request.overwrite_schema
        return self.kind in ("append", "replace")

    def with_columns(self, new: pa.Schema) -> Schema:
        """The table's own columns, and new ones, as ``missing_columns`` gives them, that hold
        nulls in the rows that are there.

        Raises InvalidInputError for names that cannot be, UnsupportedError for types that the
        table's files cannot hold and for a struct that takes no new field.
        """
        before = self.before
        if not len(new):
            return before.schema
        return plan_new_columns(
            before.schema,
            new,
            first_id=next_field_id(before.manifest),
            file_version=before.manifest.file_version,
            are_null=True,
        ).schema

    def _schema(self, rows: pa.Schema, table: pa.Schema | None) -> Schema:
        """The columns of the table after the write."""
        first_id = first_field_id(self.before.manifest)
        if not self.keeps_columns:
            return _new_schema(rows if table is None else table, first_id)
        known = self.before.arrow_schema
        new = missing_columns(known, rows) if self.request.merge_schema else pa.schema([])
        kept = self.with_columns(new)
        return kept if self.kind != "overwrite" else _new_schema(to_arrow_schema(kept), first_id)

    def _condition(self, schema: Schema) -> Predicate | None:
        where = self.request.replace_where
        return None if where is None else parse_predicate(where, to_scan_schema(schema))

    def operation(
        self, files: FileWriter, fragments: tuple[Fragment, ...], base: Snapshot | None = None
    ) -> Append | Overwrite | Merge | Project:
        """What a commit of written fragments does to ``base``, a version with the columns that the
        write was planned for; by default that version itself.

        Raises RetryableConflictError if columns are to be added to others than those.
        """
        if self.kind not in ("append", "replace"):
            return self.overwrite(files, fragments)
        if files.schema is self.before.schema or files.schema == self.before.schema:
            return Append(fragments)
        return self._with_rows(files, fragments, (base or self.before).manifest)

    def _with_rows(
        self, files: FileWriter, fragments: tuple[Fragment, ...], base: Manifest
    ) -> Merge | Project:
        """New columns, which the rows that are there hold nulls in, and new rows."""
        if base.fields != self.before.manifest.fields:
            raise RetryableConflictError(
                f"columns were to be added to {self.before.location.uri}, and others have changed "
                f"its columns up to version {base.version}; write again on that version",
                version=base.version,
            )
        fields = tuple(encode_schema(files.schema))
        if not fragments:
            return Project(fields, preserves_nullability=True)
        first = next_fragment_id(base)
        new = (each.numbered(FragmentId(first + at)) for at, each in enumerate(fragments))
        return Merge((*base.fragments, *new), fields, base.schema_metadata, True)

    def overwrite(self, files: FileWriter, fragments: tuple[Fragment, ...]) -> Overwrite:
        """The operation that makes or replaces the table."""
        return Overwrite(
            fragments,
            tuple(encode_schema(files.schema)),
            files.schema.metadata,
            dict(self.request.config or {}),
            initial_bases=self.declared,
            file_version=files.file_version,
        )

    def _file_roots(self, schema: Schema) -> list[FileRoot]:
        location, into = self.before.location, self.request.into
        if into is not None:
            return file_roots_to_write(location, self.roots, into)
        # Pylance 14 finds blobs of the first layout in the table's own root only.
        has_new_blobs = self.kind == "overwrite" and any(e.is_blob_v1 for e in schema.walk())
        if self.kind == "create" or has_new_blobs:
            return [own_file_root(location)]
        return [self.before.default_file_root]


def plan_write(
    address: Address, request: WriteRequest, applied: AppliedBatch | None = None
) -> PlannedWrite:
    """What a write is, as far as that does not depend on its columns: see ``PlannedWrite.files``.

    It is nothing if the table has the batch already, or if ``mode`` is "ignore" and there is a
    table. The uri may carry the name of a branch. Raises AlreadyExistsError in mode "error" if
    there is a table; NotFoundError for a branch that does not exist, and for the table of a merge;
    InvalidInputError for a uri that means a tag or a single version, and for a request that does
    not hold for the table; IncompatibleConflictError for a branch that was published and closed.
    """
    location, there = _find_table(address, request.branch)
    if there is None:
        if request.mode == "merge":
            raise NotFoundError(
                f"no table at {location.uri} to merge into; write the first rows with mode "
                "'append', or create an empty table",
                table=location.uri,
            )
        return plan_first(location, request)
    return plan_on(there, request, applied)


def plan_on(
    there: Snapshot, request: WriteRequest, applied: AppliedBatch | None = None
) -> PlannedWrite:
    """What a write is for a table that is there, at one of its versions."""
    if request.mode == "error":
        raise table_exists(there.location.uri)
    if request.mode == "ignore" or is_applied(there.manifest.config, applied):
        return PlannedWrite("nothing", there, request)
    _check_same(there, request)
    kind: WriteKind = request.mode if request.replace_where is None else "replace"
    return PlannedWrite(kind, there, request)


def plan_first(location: Location, request: WriteRequest) -> PlannedWrite:
    """The write that makes a table; whether there is one already is not looked at."""
    flags = 0 if request.stable_row_ids is False else FLAG_STABLE_ROW_IDS
    nothing = empty_manifest(request.file_version or DEFAULT_FILE_VERSION, flags=flags)
    nothing.message.config.update(manifest_store_mark(location.store))
    before = Snapshot(location, nothing, NamingScheme.V2)
    return PlannedWrite("create", before, request, new_base_paths(location, (), request.bases))


def table_exists(uri: str) -> AlreadyExistsError:
    """The error of mode "error"."""
    return AlreadyExistsError(
        f"there is a table at {uri} already: write with mode 'append' or 'overwrite', leave it "
        "alone with 'ignore', or drop it first",
        uri=uri,
    )


def first_field_id(head: ManifestHead) -> int:
    """Where the field ids of a new schema start: anew, unless the table never reuses them."""
    if head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED:
        return head.message.max_allocated_field_id + 1
    return 0


def _new_schema(columns: pa.Schema, first_id: int) -> Schema:
    new = schema_from_arrow(columns, first_id=first_id)
    if not new.fields:
        raise InvalidInputError("a table needs at least one column, the data has none")
    check_encoding_keys(new)
    return new


def _find_table(address: Address, branch: str | None) -> tuple[Location, Snapshot | None]:
    """Where a writer's uri and branch lead, and the newest version that is there."""
    location, revision = address.find()
    if revision is None and not is_table(location.store):
        if branch is not None and branch != MAIN:
            raise NotFoundError(
                f"no table at {location.uri}, so it has no branch {branch!r}: write to main first, "
                "then create the branch",
                table=location.uri,
                branch=branch,
            )
        return location, None
    snapshot = open_revision(location, branch=branch, in_uri=revision)
    if revision is not None:
        _check_branch(revision, snapshot)
    snapshot.check_writable()
    snapshot.check_open()
    return snapshot.location, snapshot


def _check_branch(revision: str, snapshot: Snapshot) -> None:
    meant = parse_revision(revision)
    is_version = isinstance(meant, OnBranch) and meant.version is not None
    if is_version or isinstance(meant, AtTag) or TAG in snapshot.derived:
        raise InvalidInputError(
            f"the uri carries {revision!r}, which is one version of {snapshot.location.uri}, and "
            "versions do not change; write to a branch: give its name there, or as branch=",
            revision=revision,
        )


def _check_same(there: Snapshot, request: WriteRequest) -> None:
    """Raise InvalidInputError for a request for a new table that does not hold for this one."""
    uri, has_ids = there.location.uri, there.manifest.has_stable_row_ids
    if request.stable_row_ids not in (None, has_ids):
        raise InvalidInputError(
            f"stable_row_ids={request.stable_row_ids} is asked for, but {uri} was "
            f"made {'with' if has_ids else 'without'} them, and that does not change; leave it out"
        )
    there.location.settle(there.manifest)
    bases = there.manifest.base_paths if request.bases else ()
    known = {uri_of_base(there.location, each) for each in bases}
    for each in request.bases:
        path = (each if isinstance(each, BasePath) else BasePath(each)).path
        if path not in known:
            raise InvalidInputError(
                f"base path {path!r} is asked for, but {uri} is there and does not "
                "declare it; do so with add_base first",
                path=path,
            )
    has_schema = request.schema is None or request.schema.equals(there.arrow_schema)
    if request.mode != "append":
        if not has_schema and not (request.overwrite_schema or request.merge_schema):
            raise InvalidInputError(
                f"schema= is not the schema of {uri}, and an overwrite keeps that one; give "
                "overwrite_schema=True to replace the columns, or leave it out"
            )
        return
    version = there.manifest.file_version
    if request.file_version not in (None, version):
        raise InvalidInputError(
            f"file_version {request.file_version!r} is asked for, but {uri} has data "
            f"files of version {version}, and new ones are like them; leave it out, or overwrite "
            "the table"
        )
    if not has_schema and not request.merge_schema:
        raise InvalidInputError(
            f"schema= is not the schema of {uri}, and rows that are added keep "
            "that one; leave it out, or overwrite the table"
        )
