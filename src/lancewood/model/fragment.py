"""Fragments and the files they are made of: thin, read-only views over messages.

A view never changes its message; ``with_…`` methods return a new fragment, and what they do not
touch, unknown fields included, is carried over unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from lancewood.errors import FormatError, UnsupportedError
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto import table_pb2

_Lineage: TypeAlias = Literal["row_ids", "created_at_versions", "last_updated_at_versions"]
_LINEAGE: tuple[_Lineage, ...] = get_args(_Lineage)


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


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Where the deleted offsets of a fragment are written down."""

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


@dataclass(frozen=True, slots=True)
class Fragment:
    """A horizontal slice of the table: files that hold different columns of the same rows."""

    message: table_pb2.DataFragment

    @classmethod
    def make(cls, files: Sequence[DataFile], physical_rows: int) -> Fragment:
        """A new fragment without an id; the commit hands ids out."""
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
        """Deleted rows, as far as the manifest knows."""
        return self.message.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int | None:
        """Live rows; None where a writer recorded neither the rows nor how many are deleted."""
        if not self.physical_rows:
            return None
        if self.message.HasField("deletion_file") and not self.num_deleted_rows:
            return None
        return self.physical_rows - self.num_deleted_rows

    @property
    def row_ids(self) -> RowIdSequence | None:
        """The stable row ids; None where there are none.

        Raises FormatError for a broken sequence, UnsupportedError for one in another file.
        """
        if not self._is_inline("row_ids"):
            return None
        return RowIdSequence.decode(self.message.inline_row_ids, self._check_length)

    @property
    def created_at(self) -> RowVersions | None:
        """The version that created each row; None means version 1 for all."""
        if not self._is_inline("created_at_versions"):
            return None
        return RowVersions.decode(self.message.inline_created_at_versions, self._check_length)

    @property
    def last_updated_at(self) -> RowVersions | None:
        """The version that last changed each row; None means version 1 for all."""
        if not self._is_inline("last_updated_at_versions"):
            return None
        return RowVersions.decode(self.message.inline_last_updated_at_versions, self._check_length)

    def with_deletion_file(self, deletion_file: DeletionFile | None) -> Fragment:
        """The same fragment with another deletion file, or none."""
        copy = self._copy()
        copy.ClearField("deletion_file")
        if deletion_file is not None:
            copy.deletion_file.CopyFrom(deletion_file.message)
        return Fragment(copy)

    def with_files(self, files: Sequence[DataFile]) -> Fragment:
        """The same fragment with another list of data files."""
        copy = self._copy()
        del copy.files[:]
        copy.files.extend(each.message for each in files)
        return Fragment(copy)

    def born(
        self, fragment_id: FragmentId, row_ids: RowIdSequence | None, version: RowVersions | None
    ) -> Fragment:
        """The same files as a new fragment: its id, and the row ids and versions given or none."""
        copy = self._copy()
        copy.id = fragment_id
        for each in _LINEAGE:
            kind = copy.WhichOneof(each)
            if kind is not None:
                copy.ClearField(kind)
        if row_ids is not None and version is not None:
            copy.inline_row_ids = row_ids.encode()
            copy.inline_created_at_versions = version.encode()
            copy.inline_last_updated_at_versions = version.encode()
        return Fragment(copy)

    def _is_inline(self, what: _Lineage) -> bool:
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

    def _check_length(self, what: str, length: int) -> None:
        if self.physical_rows and length != self.physical_rows:
            raise FormatError(
                f"fragment {self.id}: {what} has {length} values for {self.physical_rows} rows",
                fragment=self.id,
            )
