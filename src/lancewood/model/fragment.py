"""Fragments and the files they consist of: thin, read-only views over messages.

A view never changes its message; ``with_…`` methods return a new fragment, and what they do not
touch, unknown fields included, is carried over unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from lancewood.errors import FormatError, UnsupportedError
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto import table_pb2

Lineage: TypeAlias = Literal["row_ids", "created_at_versions", "last_updated_at_versions"]
"""What a fragment may record for each of its rows, besides its columns."""
_LINEAGE: tuple[Lineage, ...] = get_args(Lineage)
LINEAGE_FIELDS: Mapping[Lineage, FieldId] = {
    "row_ids": FieldId(-3),
    "created_at_versions": FieldId(-4),
    "last_updated_at_versions": FieldId(-5),
}
"""The field ids of lineage that was spilled into data files."""
TOMBSTONE = FieldId(-2)
"""The tombstone in a data file's list of fields for a column that a later file replaces."""


@dataclass(frozen=True, slots=True)
class ExternalRange:
    """A part of a file below the table's root."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of a fragment: which fields it holds, and in which physical columns."""

    message: table_pb2.DataFile

    @classmethod
    def make(
        cls,
        path: str,
        fields: Sequence[FieldId],
        column_indices: Sequence[int],
        version: tuple[int, int],
        size: int,
        base_id: BaseId | None = None,
    ) -> DataFile:
        """A data file from plain values."""
        message = table_pb2.DataFile(
            path=path,
            fields=fields,
            column_indices=column_indices,
            file_major_version=version[0],
            file_minor_version=version[1],
            file_size_bytes=size,
            base_id=base_id,
        )
        return cls(message)

    @property
    def path(self) -> str:
        return self.message.path

    @property
    def fields(self) -> tuple[FieldId, ...]:
        return tuple(FieldId(each) for each in self.message.fields)

    @property
    def column_indices(self) -> tuple[int, ...]:
        return tuple(self.message.column_indices)

    @property
    def version(self) -> tuple[int, int]:
        """(major, minor) as the manifest spells it; (0, 3) is returned as (2, 0)."""
        found = (self.message.file_major_version, self.message.file_minor_version)
        return (2, 0) if found == (0, 3) else found

    @property
    def size(self) -> int | None:
        """The file's size in bytes, None where the writer did not record it."""
        return self.message.file_size_bytes or None

    @property
    def base_id(self) -> BaseId | None:
        return BaseId(self.message.base_id) if self.message.HasField("base_id") else None

    @property
    def is_dead(self) -> bool:
        """Whether all its columns were replaced."""
        return all(each < 0 and each not in LINEAGE_FIELDS.values() for each in self.message.fields)

    def without(self, fields: frozenset[FieldId]) -> DataFile:
        """This file with tombstones in place of these columns."""
        if fields.isdisjoint(self.message.fields):
            return self
        copy = table_pb2.DataFile()
        copy.CopyFrom(self.message)
        copy.fields[:] = [TOMBSTONE if each in fields else each for each in copy.fields]
        return DataFile(copy)


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The file that lists the deleted offsets of a fragment."""

    message: table_pb2.DeletionFile

    @property
    def is_bitmap(self) -> bool:
        return self.message.file_type == table_pb2.DeletionFile.BITMAP

    @property
    def read_version(self) -> Version:
        return Version(self.message.read_version)

    @property
    def id(self) -> int:
        return self.message.id

    @property
    def num_deleted_rows(self) -> int:
        return self.message.num_deleted_rows

    @property
    def base_id(self) -> BaseId | None:
        return BaseId(self.message.base_id) if self.message.HasField("base_id") else None

    def under(self, base_id: BaseId | None) -> DeletionFile:
        """This file under another base path; None is the own root."""
        copy = table_pb2.DeletionFile()
        copy.CopyFrom(self.message)
        copy.ClearField("base_id")
        if base_id is not None:
            copy.base_id = base_id
        return DeletionFile(copy)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of the table: files that hold different columns of the same rows."""

    message: table_pb2.DataFragment

    @classmethod
    def make(cls, files: Sequence[DataFile], physical_rows: int) -> Fragment:
        """A new fragment without an id; the commit assigns ids."""
        message = table_pb2.DataFragment(physical_rows=physical_rows)
        message.files.extend(each.message for each in files)
        return cls(message)

    @property
    def id(self) -> FragmentId:
        return FragmentId(self.message.id)

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(DataFile(each) for each in self.message.files)

    @property
    def deletion_file(self) -> DeletionFile | None:
        if not self.message.HasField("deletion_file"):
            return None
        return DeletionFile(self.message.deletion_file)

    @property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included; 0 where the writer did not record it."""
        return self.message.physical_rows

    @property
    def num_deleted_rows(self) -> int:
        """Deleted rows, as far as the manifest records them."""
        return self.message.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int | None:
        """Live rows; None where a writer recorded neither the rows nor how many are deleted.

        Raises FormatError where more rows are deleted than there are.
        """
        if not self.physical_rows:
            return None
        if self.message.HasField("deletion_file") and not self.num_deleted_rows:
            return None
        if self.physical_rows < self.num_deleted_rows:
            raise FormatError(
                f"fragment {self.id}: {self.num_deleted_rows} of {self.physical_rows} rows are "
                "said to be deleted",
                fragment=self.id,
            )
        return self.physical_rows - self.num_deleted_rows

    def lineage(self, what: Lineage) -> bytes | ExternalRange | FieldId | None:
        """Where a sequence is: inline bytes, a part of another file, a column of the fragment's
        data files, or nowhere."""
        kind = self.message.WhichOneof(what)
        if kind is None:
            return None
        found = getattr(self.message, kind)
        if isinstance(found, bytes):
            return found
        if isinstance(found, table_pb2.ExternalFile):
            return ExternalRange(found.path, found.offset, found.size)
        return LINEAGE_FIELDS[what]

    @property
    def row_ids(self) -> RowIdSequence | None:
        """The stable row ids; None where there are none.

        Raises FormatError for a broken sequence, UnsupportedError for one outside the manifest,
        which the engine reads.
        """
        if not self._is_inline("row_ids"):
            return None
        return RowIdSequence.decode(self.message.inline_row_ids, self.check_length)

    @property
    def created_at(self) -> RowVersions | None:
        """The version that created each row; None means version 1 for all."""
        if not self._is_inline("created_at_versions"):
            return None
        return RowVersions.decode(self.message.inline_created_at_versions, self.check_length)

    @property
    def last_updated_at(self) -> RowVersions | None:
        """The version that last changed each row; None means version 1 for all."""
        if not self._is_inline("last_updated_at_versions"):
            return None
        return RowVersions.decode(self.message.inline_last_updated_at_versions, self.check_length)

    def with_deletion_file(self, deletion_file: DeletionFile | None) -> Fragment:
        copy = self._copy()
        copy.ClearField("deletion_file")
        if deletion_file is not None:
            copy.deletion_file.CopyFrom(deletion_file.message)
        return Fragment(copy)

    def with_files(self, files: Sequence[DataFile]) -> Fragment:
        copy = self._copy()
        del copy.files[:]
        copy.files.extend(each.message for each in files)
        return Fragment(copy)

    def with_columns(self, file: DataFile, parents: Iterable[FieldId] = ()) -> Fragment:
        """This fragment with columns in a new file: an older file that holds them gets tombstones,
        and is dropped if nothing else is in it.

        ``parents`` are structs and lists that are in the new file as a whole: a 2.0 file lists them
        beside their leaves, and would otherwise still decide which of them are null.
        """
        replaced = frozenset((*file.fields, *parents))
        older = [each.without(replaced) for each in self.files]
        return self.with_files([*(each for each in older if not each.is_dead), file])

    def without_dead_files(self, live: frozenset[FieldId]) -> Fragment:
        """This fragment without files that hold no live field; pylance treats such a file as
        damage."""
        if not any(live.isdisjoint(each.fields) for each in self.message.files):
            return self
        known = live | frozenset(LINEAGE_FIELDS.values())
        return self.with_files(
            [each for each in self.files if not known.isdisjoint(each.message.fields)]
        )

    def with_lineage(
        self,
        row_ids: RowIdSequence | None,
        created_at: RowVersions | None,
        last_updated_at: RowVersions | None,
    ) -> Fragment:
        """This fragment with these row ids and versions, inline; None leaves one out.

        Not checked against the number of rows: in an Update, new fragments list only the rows that
        moved, which come first, and the commit numbers the rest.
        """
        copy = self._copy()
        for each in _LINEAGE:
            kind = copy.WhichOneof(each)
            if kind is not None:
                copy.ClearField(kind)
        if row_ids is not None:
            copy.inline_row_ids = row_ids.encode()
        if created_at is not None:
            copy.inline_created_at_versions = created_at.encode()
        if last_updated_at is not None:
            copy.inline_last_updated_at_versions = last_updated_at.encode()
        return Fragment(copy)

    def stamped(self, last_updated_at: RowVersions) -> Fragment:
        """This fragment with these versions as the last to change its rows."""
        copy = self._copy()
        kind = copy.WhichOneof("last_updated_at_versions")
        if kind is not None:
            copy.ClearField(kind)
        copy.inline_last_updated_at_versions = last_updated_at.encode()
        return Fragment(copy)

    def born(
        self, fragment_id: FragmentId, row_ids: RowIdSequence | None, version: RowVersions | None
    ) -> Fragment:
        """A new fragment of these files, with this id, and the given row ids and versions or
        none."""
        return self.with_lineage(row_ids, version, version).numbered(fragment_id)

    def numbered(self, fragment_id: FragmentId) -> Fragment:
        copy = self._copy()
        copy.id = fragment_id
        return Fragment(copy)

    def _is_inline(self, what: Lineage) -> bool:
        kind = self.message.WhichOneof(what)
        if kind is None or kind.startswith("inline_"):
            return kind is not None
        raise UnsupportedError(
            f"fragment {self.id} keeps its {what.replace('_', ' ')} outside the manifest ({kind})",
            fragment=self.id,
        )

    def _copy(self) -> table_pb2.DataFragment:
        copy = table_pb2.DataFragment()
        copy.CopyFrom(self.message)
        return copy

    def check_counted(self) -> None:
        """Raise FormatError where the writer did not record how many rows there are."""
        if not self.physical_rows:
            raise FormatError(
                f"fragment {self.id} does not record how many rows it has; rewrite the table "
                "with pylance",
                fragment=self.id,
            )

    def check_length(self, what: str, length: int) -> None:
        """Raise FormatError for a sequence whose length is not the fragment's number of rows."""
        if self.physical_rows and length != self.physical_rows:
            raise FormatError(
                f"fragment {self.id}: {what} has {length} values for {self.physical_rows} rows",
                fragment=self.id,
            )


FileVersion: TypeAlias = tuple[int, int]
"""(major, minor), as a manifest spells it."""

DEFAULT_FILE_VERSION = "2.2"
WRITABLE_FILE_VERSIONS: dict[str, FileVersion] = {"2.0": (2, 0), "2.1": (2, 1), "2.2": (2, 2)}
READABLE_FILE_VERSIONS: dict[str, FileVersion] = {**WRITABLE_FILE_VERSIONS, "2.3": (2, 3)}


def version_name(version: FileVersion) -> str:
    """The name of a version, for example ``2.1``."""
    return "{}.{}".format(*version)
