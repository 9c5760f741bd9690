"""One version of a table, with its fragments undecoded until they are needed.

A manifest of 100,000 fragments is opened, appended to and written back without decoding one of
them. ``ManifestHead`` is everything but the fragments: the part that rules may look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice, pairwise
from operator import eq, lt
from typing import overload

import numpy as np
from google.protobuf.message import DecodeError, Message

from lancewood.errors import FormatError, NotFoundError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.segments import MAX_ROWS
from lancewood.proto import schema_pb2, table_pb2

FLAG_DELETION_FILES = 1
FLAG_STABLE_ROW_IDS = 2
FLAG_V2_FILES = 4
FLAG_CONFIG = 8
FLAG_BASE_PATHS = 16
FLAG_NO_TRANSACTION_FILE = 32
FLAG_COVERING_INDEX = 128
FLAG_MIXED_FILE_VERSIONS = 256
FLAG_TAGGED_FRAGMENT_REUSE = 1024
FLAG_SPILLED_LINEAGE = 2048
FLAG_MANAGED_BLOBS = 16384
FLAG_FIELD_IDS_NOT_REUSED = 32768
FLAG_EXCLUSIVE = 1 << 40
"""Not a flag of the format: other programs may read the table, and refuse to write to it."""

_DECODED = frozenset(
    {"indices", "fragments", "fragment_ids", "rows_by_fragment", "sighting"}
    | {"_positions", "_is_sorted"}
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID = 0x08
"""The tag of the id, the first field of a fragment."""
_HEAD = 6
"""The bytes of a fragment that hold an id below 2^35, with its tag."""
_LOOKUPS_WORTH_DECODING = 16
"""How many times dearer a binary search is than decoding one fragment with all the others."""


class ManifestHead:
    """Everything a manifest says except its fragments."""

    def __init__(
        self,
        message: table_pb2.Manifest,
        *,
        index_section: bytes | None = None,
        transaction_section: bytes | None = None,
        name: str = "",
        size: int = 0,
    ) -> None:
        self.message = message
        self.index_section = index_section
        self.transaction_section = transaction_section
        self.name = name
        """The file that the manifest was read from, for messages."""
        self.size = size
        """The size of that file in bytes."""
        self.sighting: object | None = None
        """What the engine knows of when this was the newest version."""

    @property
    def version(self) -> Version:
        return Version(self.message.version)

    @property
    def timestamp(self) -> datetime:
        """The commit time, to the microsecond; 1970 where the writer did not record it."""
        stamp = self.message.timestamp
        try:
            return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
        except OverflowError as cause:
            raise FormatError(f"{self.name}: timestamp {stamp.seconds} is out of range") from cause

    @property
    def timestamp_ns(self) -> int:
        """The commit time as nanoseconds since 1970."""
        return self.message.timestamp.seconds * 1_000_000_000 + self.message.timestamp.nanos

    @property
    def branch(self) -> str | None:
        """The branch of the version; None on main."""
        return self.message.branch if self.message.HasField("branch") else None

    @property
    def fields(self) -> tuple[schema_pb2.Field, ...]:
        return tuple(self.message.fields)

    @property
    def schema_metadata(self) -> Mapping[str, bytes]:
        return dict(self.message.schema_metadata)

    @property
    def config(self) -> Mapping[str, str]:
        return dict(self.message.config)

    @property
    def table_metadata(self) -> Mapping[str, str]:
        return dict(self.message.table_metadata)

    @property
    def base_paths(self) -> tuple[table_pb2.BasePath, ...]:
        return tuple(self.message.base_paths)

    @property
    def reader_flags(self) -> int:
        return self.message.reader_feature_flags

    @property
    def writer_flags(self) -> int:
        return self.message.writer_feature_flags

    @property
    def has_stable_row_ids(self) -> bool:
        return bool(self.reader_flags & FLAG_STABLE_ROW_IDS)

    @property
    def next_row_id(self) -> int:
        return self.message.next_row_id

    @property
    def max_fragment_id(self) -> FragmentId | None:
        """The highest fragment id ever assigned; None where there was none.

        ``format.manifest`` fills it in where a writer left it out.
        """
        if not self.message.HasField("max_fragment_id"):
            return None
        return FragmentId(self.message.max_fragment_id)

    @property
    def file_version(self) -> str:
        """The data file version that every file has, unless versions are mixed."""
        return self.message.data_format.version

    @property
    def transaction_file(self) -> str | None:
        return self.message.transaction_file or None

    @cached_property
    def indices(self) -> tuple[Index, ...]:
        """The table's indices, in the order of the manifest."""
        if self.index_section is None:
            return ()
        try:
            section = table_pb2.IndexSection.FromString(self.index_section)
        except DecodeError as cause:
            raise FormatError(f"{self.name}: the index section cannot be decoded") from cause
        return tuple(Index(each) for each in section.indices)


class Manifest(ManifestHead):
    """One version of a table."""

    def __getstate__(self) -> dict[str, object]:
        """The state without cached views, which cannot be pickled and are made again."""
        state = {key: value for key, value in self.__dict__.items() if key not in _DECODED}
        return {**state, "sighting": None}

    def bare(self) -> Manifest:
        """This version without its fragments, and without the sections of its file."""
        message = table_pb2.Manifest()
        for field, value in self.message.ListFields():
            if field.name == "fragments":
                continue
            if field.is_repeated:
                getattr(message, field.name).MergeFrom(value)
            elif field.message_type is not None:
                getattr(message, field.name).CopyFrom(value)
            else:
                setattr(message, field.name, value)
        return Manifest(message, name=self.name)

    def of_fragments(self, raw: Iterable[bytes], index_section: bytes) -> Manifest:
        """A bare version with some of its fragments, undecoded, and indices."""
        message = table_pb2.Manifest()
        message.CopyFrom(self.message)
        message.fragments.extend(raw)
        return Manifest(message, index_section=index_section, name=self.name)

    @property
    def fragment_count(self) -> int:
        return len(self.message.fragments)

    @cached_property
    def fragments(self) -> Sequence[Fragment]:
        """All fragments, decoded together, once."""
        decoded = table_pb2.FragmentList()
        self._decode_fragments(decoded)
        return _Fragments(decoded)

    @property
    def last_fragment(self) -> Fragment:
        """The last fragment, without decoding the others; there must be one."""
        return Fragment(decode_fragment(self.message.fragments[-1], self.name))

    @cached_property
    def rows_by_fragment(self) -> Sequence[int] | None:
        """The live rows of each fragment; None where a writer did not record one of them.

        Raises FormatError for numbers that no fragment can have.
        """
        counts = table_pb2.FragmentCounts()
        self._decode_fragments(counts)
        rows = [each.physical_rows for each in counts.fragments]
        unknown = 0 in rows
        if max(rows, default=0) > MAX_ROWS:
            raise FormatError(
                f"{self.name}: a fragment has {max(rows)} rows; the limit is {MAX_ROWS}"
            )
        for position, each in enumerate(counts.fragments):
            if each.HasField("deletion_file"):
                deleted = each.deletion_file.num_deleted_rows
                unknown = unknown or not deleted
                rows[position] -= deleted
                if each.physical_rows < deleted and each.physical_rows:
                    raise FormatError(
                        f"{self.name}: {deleted} of a fragment's {each.physical_rows} rows are "
                        "said to be deleted"
                    )
        return None if unknown else rows

    @property
    def row_count(self) -> int | None:
        """The live rows of the table; None where a writer did not record those of a fragment."""
        return None if self.rows_by_fragment is None else sum(self.rows_by_fragment)

    def fragment(self, fragment_id: FragmentId) -> Fragment:
        """One fragment, without decoding the others; raises NotFoundError."""
        position = self.position_of(fragment_id)
        if position is None:
            raise NotFoundError(
                f"fragment {fragment_id} not found in version {self.version}", fragment=fragment_id
            )
        if "fragments" in self.__dict__:
            return self.fragments[position]
        return Fragment(decode_fragment(self.message.fragments[position], self.name))

    def check_unique_fragments(self) -> None:
        """Raise FormatError if a fragment is listed twice: its rows would be written twice.

        Goes through all ids, once; for changes to fragments, not for operations that only add some.
        """
        if self._twice is not None:
            raise FormatError(
                f"{self.name}: fragment {self._twice} is there twice, and a change would double "
                "its rows; restore a version that verifies: repair() looks for one",
                file=self.name,
                fragment=self._twice,
            )

    @cached_property
    def fragment_ids(self) -> Sequence[int]:
        """The ids of all fragments in their order, without decoding one of them."""
        return peek_fragment_ids(self.message.fragments, self.name)

    @cached_property
    def _twice(self) -> int | None:
        ids = self.fragment_ids
        if all(map(lt, ids, islice(ids, 1, None))):
            return None
        return next((a for a, b in pairwise(sorted(ids)) if a == b), None)

    def expect_lookups(self, count: int) -> None:
        """Decode all fragments now if this many will be looked up one by one."""
        if count * _LOOKUPS_WORTH_DECODING > self.fragment_count:
            _ = self._positions

    def position_of(self, fragment_id: FragmentId) -> int | None:
        """The position of a fragment in the list, by binary search, since writers keep it
        sorted."""
        if "_positions" in self.__dict__:
            return self._positions.get(fragment_id)
        raw = self.message.fragments
        low, high = 0, len(raw)
        while low < high:
            middle = (low + high) // 2
            if peek_fragment_id(raw[middle], self.name) < fragment_id:
                low = middle + 1
            else:
                high = middle
        if low < len(raw) and decode_fragment(raw[low], self.name).id == fragment_id:
            return low
        return self._positions.get(fragment_id) if not self._is_sorted else None

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {each.id: position for position, each in enumerate(self.fragments)}

    @cached_property
    def _is_sorted(self) -> bool:
        """Whether binary search finds every fragment: ids ascend, and are where a peek expects
        them."""
        ids = [each.id for each in self.fragments]
        seen = (peek_fragment_id(each, self.name) for each in self.message.fragments)
        return all(a < b for a, b in pairwise(ids)) and all(map(eq, ids, seen))

    def _decode_fragments(self, into: Message) -> None:
        """Decode the same wire bytes as another message, at once."""
        try:
            into.ParseFromString(self.message.SerializeToString())
        except DecodeError as cause:
            raise FormatError(f"{self.name}: the list of fragments cannot be decoded") from cause

    def map_fragments(self, change: Callable[[Fragment], Fragment]) -> Iterator[bytes]:
        """The bytes of every fragment after ``change``; unchanged ones keep theirs."""
        for raw, fragment in zip(self.message.fragments, self.fragments, strict=True):
            changed = change(fragment)
            yield raw if changed is fragment else changed.message.SerializeToString()


class _Fragments(Sequence[Fragment]):
    """Decoded fragments, each wrapped in a view on access."""

    def __init__(self, decoded: table_pb2.FragmentList) -> None:
        self._messages = decoded.fragments

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Fragment]:
        return map(Fragment, self._messages)

    @overload
    def __getitem__(self, at: int) -> Fragment: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Fragment]: ...
    def __getitem__(self, at: int | slice) -> Fragment | Sequence[Fragment]:
        if isinstance(at, slice):
            return tuple(map(Fragment, self._messages[at]))
        return Fragment(self._messages[at])


def decode_fragment(raw: bytes, name: str) -> table_pb2.DataFragment:
    """One fragment from its bytes; raises FormatError naming the file."""
    try:
        return table_pb2.DataFragment.FromString(raw)
    except DecodeError as cause:
        raise FormatError(f"{name}: a fragment cannot be decoded") from cause


def peek_fragment_id(raw: bytes, name: str) -> int:
    """The id of an undecoded fragment; field 1 comes first and is absent when it is 0."""
    if not raw or raw[0] != _ID:
        return decode_fragment(raw, name).id
    value = shift = 0
    for byte in raw[1:11]:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise FormatError(f"{name}: a fragment id has more than 64 bits")


def peek_fragment_ids(raw: Sequence[bytes], name: str) -> list[int]:
    """The ids of undecoded fragments, all at once."""
    heads = [each[:_HEAD] for each in raw]
    joined = b"".join(heads)
    if len(joined) != _HEAD * len(heads):  # one is shorter than a fragment can be
        return [peek_fragment_id(each, name) for each in raw]
    parts = np.frombuffer(joined, np.uint8).reshape(-1, _HEAD)
    ids = np.zeros(len(heads), np.int64)
    goes_on = np.ones(len(heads), np.bool_)
    for at in range(1, _HEAD):
        ids += np.where(goes_on, parts[:, at] & 0x7F, 0).astype(np.int64) << (7 * (at - 1))
        goes_on &= parts[:, at] >= 0x80
    found: list[int] = ids.tolist()
    for at in np.flatnonzero(goes_on | (parts[:, 0] != _ID)).tolist():
        found[at] = peek_fragment_id(raw[at], name)
    return found
