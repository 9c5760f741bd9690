"""A transaction: what one commit did, on which version, under which identity. Plain values.

Operations say what happened, one small class each; ``rules.conflicts`` decides whether it fits,
``rules.apply`` what follows from it, as a patch of the manifest, and ``format.transaction`` encodes
it. A list of operations becomes consecutive versions; ``steps`` splits it into one transaction
each. A new operation is a class here and a member of ``Operation``, a line in each of those, and a
place in ``rules.columns``, ``jobs.publish.branch_work`` and ``spark.streaming.history``, which say
what it means for columns, for the work on a branch, and for a stream.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyroaring import BitMap

from lancewood.errors import InvalidInputError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version, is_detached
from lancewood.model.index import Index, RewrittenIndex
from lancewood.proto import schema_pb2, table_pb2, transaction_pb2

MESSAGE_PROPERTY = "__lance_commit_message"
RESERVED = "lancewood."
"""The prefix of properties that Lancewood itself sets."""
MARKS_PROPERTY = "lancewood.marks"
"""Marks a version in which every row recorded as changed really got other values, whatever its
operation records."""
MOVED_PROPERTY = "lancewood.moved"
"""Marks an Update that only moved data files; set when it is encoded."""
EXACT_PROPERTY = "lancewood.exact"
"""The reason why a staged step can follow only the version that it was built on."""
STAGED_PROPERTY = "lancewood.staged"
"""Marks a version made by a transaction of a repository: the identity of all its steps."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One operation, or a list of them that becomes consecutive versions."""

    read_version: Version
    uuid: str
    operations: tuple[Operation, ...]
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def new(
        cls,
        read_version: Version,
        *operations: Operation,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """A transaction with a fresh identity."""
        if not operations:
            raise InvalidInputError("a transaction needs at least one operation, none was given")
        return cls(
            read_version, str(uuids.uuid4()), operations, commit_properties(message, properties)
        )

    @property
    def operation(self) -> Operation:
        """The only operation; raises InvalidInputError for a list."""
        if len(self.operations) != 1:
            names = ", ".join(operation_name(each) for each in self.operations)
            raise InvalidInputError(f"this transaction is a list of operations: {names}")
        return self.operations[0]

    @property
    def message(self) -> str | None:
        """The commit message that its author gave."""
        return self.properties.get(MESSAGE_PROPERTY)

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties without the commit message."""
        return {key: value for key, value in self.properties.items() if key != MESSAGE_PROPERTY}

    def steps(self) -> tuple[Transaction, ...]:
        """One transaction per version to be written.

        The first keeps the uuid, the others get uuids derived from it, so that a crash in the
        middle of a list can be recognised afterwards.
        """
        if len(self.operations) == 1:
            return (self,)
        return tuple(
            replace(self, uuid=step_uuid(self.uuid, number), operations=(operation,))
            for number, operation in enumerate(self.operations)
        )

    def rebased(self, read_version: Version) -> Transaction:
        """This transaction, built on another version."""
        return replace(self, read_version=read_version)


def step_uuid(uuid: str, number: int) -> str:
    """The identity of one step of a transaction; the first one has that of the whole."""
    return uuid if number == 0 else str(uuids.uuid5(uuids.UUID(uuid), str(number)))


def built_on(transaction: Transaction) -> Version | None:
    """The version of the history on which the transaction that left a detached version began; None
    where that is unknown, or was no version.

    A stage counts its steps from there, under the numbers that they have if nobody else writes.
    """
    read, stage = transaction.read_version, transaction.properties.get(STAGED_PROPERTY)
    if stage is None:
        return None if is_detached(read) else read or None
    try:
        steps = (at for at in range(read + 1) if step_uuid(stage, at) == transaction.uuid)
        begun = next(steps, None)
    except ValueError:
        return None
    return None if begun is None or begun == read else Version(read - begun)


def commit_properties(message: str | None, properties: Mapping[str, str] | None) -> dict[str, str]:
    """A commit's message and properties as one map; raises InvalidInputError for invalid values.

    Keys that begin with ``lancewood.`` are reserved for Lancewood.
    """
    if properties is not None and not isinstance(properties, Mapping):
        raise InvalidInputError(f"properties takes a map of texts, got {properties!r}")
    facts = dict(properties or {})
    if message is not None:
        facts[MESSAGE_PROPERTY] = message
    for key, value in facts.items():
        check_text("a property's key", key)
        if key.startswith(RESERVED):
            raise InvalidInputError(
                f"property {key!r} cannot be set: keys that begin with {RESERVED!r} say "
                "how a version is to be read; choose another name"
            )
        check_text("the message" if key == MESSAGE_PROPERTY else f"property {key!r}", value)
    return facts


def check_text(what: str, value: object) -> None:
    """Raise InvalidInputError unless the value is a string that can be encoded."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a text, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"{what} is not valid text: {value!r}") from cause


FieldMessages: TypeAlias = tuple[schema_pb2.Field, ...]


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes to one map of strings; a value of None deletes the key."""

    entries: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False
    """Clear the map first."""

    def applied_to(self, old: Mapping[str, str]) -> dict[str, str]:
        """The map after the changes."""
        new = {} if self.replace else dict(old)
        for key, value in self.entries.items():
            if value is None:
                new.pop(key, None)
            else:
                new[key] = value
        return new

    def __bool__(self) -> bool:
        return self.replace or bool(self.entries)


@dataclass(frozen=True, slots=True)
class Append:
    """New fragments, nothing else."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows marked as deleted, or whole fragments removed."""

    updated_fragments: tuple[Fragment, ...]
    deleted_fragment_ids: tuple[FragmentId, ...]
    predicate: str = ""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A new schema and new fragments instead of all the old ones; also creates a table."""

    fragments: tuple[Fragment, ...]
    fields: FieldMessages
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    config_upserts: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[table_pb2.BasePath, ...] = ()
    file_version: str | None = None
    """The file version of a table without rows, which no file shows; not encoded."""


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Indices added and removed."""

    new_indices: tuple[Index, ...]
    removed_indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Fragments whose rows moved into other fragments."""

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Compaction: the same rows in other fragments."""

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """A new schema and the final list of fragments: columns were added or replaced, and rows may
    have come with them."""

    fragments: tuple[Fragment, ...]
    fields: FieldMessages
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """An older version becomes the newest one again."""

    version: Version
    base_paths: tuple[table_pb2.BasePath, ...] | None = None
    """The new base paths, where other locations hold the same files now; not encoded, since no
    operation of the format says so. Then ``version`` is the newest one."""
    config: Mapping[str, str] | None = None
    """The new configuration of a table with base paths, where it mentions them."""


@dataclass(frozen=True, slots=True)
class ReserveFragments:
    """Fragment ids reserved for a rewrite."""

    num_fragments: int


@dataclass(frozen=True, slots=True)
class Update:
    """Rows moved to new fragments with new values, or columns rewritten in place."""

    removed_fragment_ids: tuple[FragmentId, ...]
    updated_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]
    fields_modified: tuple[FieldId, ...] = ()
    fields_for_preserving_frag_bitmap: tuple[FieldId, ...] = ()
    rewrites_columns: bool = False
    inserted_rows: transaction_pb2.KeyExistenceFilter | None = None
    compacted_sstables: tuple[bytes, ...] = ()
    updated_offsets: Mapping[FragmentId, BitMap] = field(default_factory=dict)
    """The rows whose values changed, for columns rewritten in place; all rows of a fragment that is
    not listed."""
    moves_files: bool = False
    """The updated fragments have the same columns in copies of their files, in another root: no
    value changed. Other implementations see columns rewritten in place."""
    indices_in_own_root: frozenset[bytes] = frozenset()
    """Indices, by uuid, whose files are in the own root now, for moved files; not encoded."""
    bases_left: frozenset[BaseId] = frozenset()
    """Base paths to remove once nothing refers to them, for moved files; not encoded."""


@dataclass(frozen=True, slots=True)
class Project:
    """A new schema over the same files: columns dropped, renamed or reordered."""

    fields: FieldMessages
    preserves_nullability: bool = False


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Changes to the four maps of a table."""

    config: MapUpdate = field(default_factory=MapUpdate)
    table_metadata: MapUpdate = field(default_factory=MapUpdate)
    schema_metadata: MapUpdate = field(default_factory=MapUpdate)
    field_metadata: Mapping[FieldId, MapUpdate] = field(default_factory=dict)

    @property
    def touches_schema(self) -> bool:
        """Whether schema or field metadata changes."""
        return bool(self.schema_metadata) or any(self.field_metadata.values())


@dataclass(frozen=True, slots=True)
class Replacement:
    """The new file of one fragment."""

    fragment_id: FragmentId
    new_file: DataFile


@dataclass(frozen=True, slots=True)
class DataReplacement:
    """Whole columns of some fragments replaced by new files."""

    replacements: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class UpdateMemWalState:
    """State of pylance's write-ahead log; read, never written."""

    compacted_sstables: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Clone:
    """The first commit of a clone or a branch."""

    is_shallow: bool
    ref_version: Version
    ref_path: str
    ref_name: str | None = None
    branch_name: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateBases:
    """New roots for files. An id of 0 asks for the next free one."""

    new_bases: tuple[table_pb2.BasePath, ...]


@dataclass(frozen=True, slots=True)
class DataOverlay:
    """Values laid over those of existing files; read, never written."""

    fragment_ids: tuple[FragmentId, ...]
    fields: tuple[FieldId, ...]


@dataclass(frozen=True, slots=True)
class UnknownOperation:
    """An operation from a newer writer, or none at all. It conflicts with everything."""

    number: int | None


@dataclass(frozen=True, slots=True)
class MissingTransaction:
    """A version whose transaction cannot be found. It conflicts with everything."""

    why: str


Operation: TypeAlias = (
    Append
    | Delete
    | Overwrite
    | CreateIndex
    | Rewrite
    | Merge
    | Restore
    | ReserveFragments
    | Update
    | Project
    | UpdateConfig
    | DataReplacement
    | UpdateMemWalState
    | Clone
    | UpdateBases
    | DataOverlay
    | UnknownOperation
    | MissingTransaction
)


def operation_name(operation: Operation) -> str:
    """The operation's name as the specification spells it."""
    return type(operation).__name__


def operation_text(operation: Operation) -> str:
    """The name for messages, with an explanation where it alone would mislead: Merge adds columns,
    and merges neither rows nor branches."""
    name = operation_name(operation)
    return f"{name} ({_EXPLAINED[name]})" if name in _EXPLAINED else name


_EXPLAINED = {
    "Merge": "columns added or cast",
    "Project": "columns dropped or renamed",
    "Rewrite": "a compaction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadChanges:
    """New values for parts of the head; None leaves a part as it is."""

    fields: tuple[schema_pb2.Field, ...] | None = None
    schema_metadata: Mapping[str, bytes] | None = None
    config: Mapping[str, str] | None = None
    table_metadata: Mapping[str, str] | None = None
    base_paths: tuple[table_pb2.BasePath, ...] | None = None
    indices: tuple[Index, ...] | None = None
    file_version: str | None = None
    max_fragment_id: int | None = None
    """At least this: the mark never falls."""
    next_row_id: int | None = None
    """At least this: the mark never falls."""
    max_allocated_field_id: int | None = None
    """At least this: the mark never falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPatch:
    """Changes to the head, and fragments to add, to replace by id, to remove by id."""

    head: HeadChanges = field(default_factory=HeadChanges)
    flags: tuple[int, int]
    """Reader and writer feature flags of the result."""
    keep: bool = True
    """False: start without any fragments."""
    add: tuple[Fragment, ...] = ()
    replace: Mapping[FragmentId, Fragment] = field(default_factory=dict)
    remove: frozenset[FragmentId] = frozenset()
    live_fields: frozenset[FieldId] | None = None
    """Drop data files that hold none of these; None drops nothing."""
