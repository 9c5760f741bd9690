"""What a commit can do: one small class per operation of the format.

Plain values. They say what happened; ``rules.conflicts`` decides whether it fits, ``rules.apply``
what follows from it, and ``format.transaction`` encodes it. A new operation is a class here and a
member of ``Operation``, a line in each of those, and a place in ``rules.columns``,
``jobs.publishing.preparing`` and ``spark.streaming.history``, which say what it means for columns,
for the work on a branch, and for a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pyroaring import BitMap

from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.index import Index, RewrittenIndex
from lancewood.proto import schema_pb2, table_pb2, transaction_pb2

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
