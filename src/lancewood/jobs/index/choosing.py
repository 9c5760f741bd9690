"""Which index a caller means: its column, kind, name and settings, checked before anything is read.

Knows types and names, and the index that a table has already; reads no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lancewood.data.codec import pylance_path
from lancewood.data.index_engine import NUM_BITS, PQ_BITS, IndexSpec, VectorSpec
from lancewood.engine.base import check_number
from lancewood.engine.schema import Chain, find_column, find_field, is_in_structs, path_of
from lancewood.engine.searching import checked_metric, is_text, is_vector
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import AlreadyExistsError, InvalidInputError
from lancewood.format.schema import to_arrow_field
from lancewood.jobs.index.options import checked_options
from lancewood.model.ids import FieldId
from lancewood.model.index import (
    BITMAP,
    BLOOMFILTER,
    BTREE,
    INVERTED,
    IVF_FLAT,
    IVF_PQ,
    KINDS,
    LABEL_LIST,
    NGRAM,
    ZONEMAP,
    Index,
    IndexKind,
)
from lancewood.model.schema import Schema

LOOKUP, SEARCH = "lookup", "search"
FEW_VECTORS = 65_536
"""Number of vectors up to which they are kept as they are: an exact answer costs little."""
_MOST_PARTITIONS = 4096
_ROWS_PER_PARTITION, _ROWS_CODED_PER_PARTITION = 4096, 8192
_ROWS_PER_GRAPH = 1 << 20
_LEAST_CODES = 8
"""Bytes of a product code, at least; one byte stands for up to eight dimensions."""


@dataclass(frozen=True)
class IndexRequest:
    """What a caller asks for."""

    column: str
    kind: str | None = None
    name: str | None = None
    replace: bool = False
    metric: str | None = None
    partitions: int | None = None
    sub_vectors: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def spec(self, snapshot: Snapshot, rows: int) -> tuple[IndexSpec, FieldId]:
        """The index to build over ``rows`` rows of a version, and the field that it is on.

        Raises InvalidInputError for what does not fit the column, AlreadyExistsError for a name or
        a column that is taken.
        """
        chain = find_column(snapshot.schema, self.column)
        kind, vectors = self._fitting(chain, rows)
        name = self._checked_name(snapshot, kind, chain[-1].id)
        path = pylance_path(each.name for each in chain)
        options = checked_options(kind, self.options)
        return IndexSpec(name, path, kind, options, vectors), chain[-1].id

    def like(self, known: IndexSpec) -> IndexRequest:
        """This request, in which what it does not say is as the index was built before."""
        same = replace(self, kind=known.kind.name, options={**known.options, **self.options})
        vectors = known.vectors
        if vectors is None:
            return same
        return replace(
            same,
            metric=vectors.metric if self.metric is None else self.metric,
            sub_vectors=vectors.sub_vectors if self.sub_vectors is None else self.sub_vectors,
        )

    def replaced(self, snapshot: Snapshot) -> list[Index]:
        """The segments that the index takes the place of, if it is built anew."""
        number = find_column(snapshot.schema, self.column)[-1].id
        taken = [each for each in snapshot.manifest.indices if each.name == self._own_name()]
        return taken if self.replace and all(each.fields == (number,) for each in taken) else []

    def check(self, schema: Schema) -> IndexKind:
        """The kind of the index on a table with these columns, as long as that has few rows.

        Raises InvalidInputError for what does not fit the column, however many rows come.
        """
        self._own_name()
        return self._fitting(find_column(schema, self.column), None)[0]

    def _fitting(self, chain: Chain, rows: int | None) -> tuple[IndexKind, VectorSpec | None]:
        """The kind and what is said about vectors; without a number of rows, as if they were
        enough."""
        arrow = to_arrow_field(chain[-1]).type
        kind = self._kind(chain, arrow, rows or 0)
        self._check_settings(kind)
        _check_spelling(kind, chain)
        return kind, self._vectors(kind, arrow, rows) if kind.is_vector else None

    def _kind(self, chain: Chain, arrow: pa.DataType, rows: int) -> IndexKind:
        column = path_of(chain)
        if chain[-1].is_blob or not is_in_structs(chain):
            what = "a blob" if chain[-1].is_blob else "inside of a list or map"
            raise InvalidInputError(
                f"column {column!r} is {what}, and no index is built on such a one: index a column "
                "of its own, which add_columns makes",
                column=column,
            )
        fitting = [each.name for each in KINDS.values() if _FITS[each.name](arrow)]
        asked = self.kind
        if asked is not None and not isinstance(asked, str):
            raise InvalidInputError(f"kind is the name of a kind of index, got {asked!r}")
        found = None if asked is None else named_kind(asked)
        if found is None:
            found = _usual_kind(asked and asked.lower(), arrow, rows)
        if found is None or found.name not in fitting:
            which = f"index for {asked}" if asked else "index of a usual kind"
            way = f"those that are built are {', '.join(fitting)}" if fitting else "none is"
            if _is_floats(arrow):
                way += ". Vectors all have one length: cast_column to a fixed-size list makes such"
            raise InvalidInputError(
                f"column {column!r} is {arrow}, on which no "
                f"{which if found is None else f'{found} index'} is built: {way}",
                column=column,
            )
        return found

    def _check_settings(self, kind: IndexKind) -> None:
        checked_options(kind, self.options)
        for each, value in (("metric", self.metric), ("partitions", self.partitions)):
            if value is not None and not kind.is_vector:
                raise InvalidInputError(f"{each} is for vectors, and a {kind} index is not on them")
        if self.sub_vectors is not None and kind.codes != "PQ":
            raise InvalidInputError(
                f"sub_vectors is for product codes (IVF_PQ, IVF_HNSW_PQ), and {kind} has none"
            )

    def _vectors(self, kind: IndexKind, arrow: pa.DataType, rows: int | None) -> VectorSpec:
        metric = checked_metric(arrow, self.metric)
        partitions = self.partitions
        if partitions is None:
            partitions = usual_partitions(kind, rows or 0)
        check_number("partitions", partitions, least=1)
        if rows is not None and partitions > max(1, rows // 2):
            raise InvalidInputError(
                f"{partitions} partitions of {rows} rows: give each two rows or more",
                rows_needed=2 * partitions,
            )
        dimension = arrow.list_size
        if kind.codes != "PQ":
            return VectorSpec(dimension, metric, partitions)
        parts = self.sub_vectors
        if parts is None:
            parts = _usual_sub_vectors(dimension)
        check_number("sub_vectors", parts, least=1)
        if dimension % parts:
            raise InvalidInputError(
                f"vectors of {dimension} cannot be cut into {parts} sub_vectors of one length: "
                f"take a number that divides {dimension}"
            )
        bits = self.options.get(NUM_BITS, PQ_BITS)
        if bits == 4 and parts % 2:
            raise InvalidInputError(
                f"codes of 4 bits are kept in pairs, and {parts} sub_vectors are not even: take "
                "another number of them, or num_bits 8"
            )
        least = 2**bits
        if rows is not None and rows < least:
            raise InvalidInputError(
                f"product codes are learned from {least} rows or more, and the table has {rows}: "
                "an IVF_FLAT index needs none",
                rows_needed=least,
            )
        return VectorSpec(dimension, metric, partitions, parts)

    def _checked_name(self, snapshot: Snapshot, kind: IndexKind, number: FieldId) -> str:
        name = self._own_name()
        taken = [each for each in snapshot.manifest.indices if each.name == name]
        if taken and not self.replace:
            raise AlreadyExistsError(
                f"{snapshot.location.uri} has an index {name!r} already: replace=True builds it "
                "anew, extend brings it up to date, and name= gives the new one another name",
                index=name,
            )
        numbers = {field for each in taken for field in each.fields} - {number}
        for chain in (find_field(snapshot.schema, each) for each in sorted(numbers)):
            if chain is not None:
                raise AlreadyExistsError(
                    f"index {name!r} is on column {path_of(chain)!r}, not {self.column!r}, and "
                    "replace=True is for the same column: drop it first, or name= gives the new "
                    "one another name",
                    index=name,
                )
        other = _vector_index_on(snapshot, number, name) if kind.is_vector else None
        if other is not None:
            raise AlreadyExistsError(
                f"column {self.column!r} has the vector index {other!r} already, and a search "
                f"would only use one of two: drop it, or build {other!r} anew with replace=True",
                index=other,
            )
        return name

    def _own_name(self) -> str:
        name = f"{self.column}_idx" if self.name is None else self.name
        if not isinstance(name, str) or name.startswith("__lance"):
            raise InvalidInputError(f"an index cannot be called {name!r}")
        if not name.strip() or not name.isprintable():
            raise InvalidInputError(
                f"an index cannot be called {name!r}: give it a name= of characters that can be "
                "printed"
            )
        return name


def _check_spelling(kind: IndexKind, chain: Chain) -> None:
    """Raise InvalidInputError for a field of a struct that pylance takes for another one.

    It spells paths anew on its way, and what begins with a digit is no name there: from
    ``s.1at`` it made an index on ``s``, with pylance 14, of any kind but those of vectors.
    """
    names = [each.name for each in chain]
    if kind.is_vector or len(names) == 1:
        return
    for each in names:
        if each[:1].isdigit() and each.replace("_", "").isalnum():
            path = path_of(chain)
            raise InvalidInputError(
                f"no {kind} index can be built on column {path!r}: inside of structs pylance does "
                f"not understand the name {each!r}, which begins with a digit; rename it with "
                "rename_column",
                column=path,
            )


def named_kind(asked: str) -> IndexKind | None:
    """The kind that a word names; None for those that choose it by the type of the column.

    Raises InvalidInputError for other words.
    """
    if asked.lower() in (LOOKUP, SEARCH):
        return None
    found = KINDS.get(INVERTED.name if asked.upper() == "FTS" else asked.upper())
    if found is None:
        raise InvalidInputError(
            f"there is no index of kind {asked!r}: choose {LOOKUP} or {SEARCH}, which go by the "
            f"type of the column, or one of {', '.join(KINDS)}"
        )
    return found


def _vector_index_on(snapshot: Snapshot, number: FieldId, but: str) -> str | None:
    """The name of a vector index on a field, other than one."""
    for each in snapshot.manifest.indices:
        if number in each.fields and each.name != but and _is_on_vectors(each):
            return each.name
    return None


def _is_on_vectors(index: Index) -> bool:
    return index.kind == IVF_FLAT.details


def _usual_kind(asked: str | None, arrow: pa.DataType, rows: int) -> IndexKind | None:
    """The kind that a type usually has: for looking values up, for searching, or either."""
    if asked != SEARCH and _is_plain(arrow):
        return BITMAP if pa.types.is_boolean(arrow) else BTREE
    if asked == LOOKUP:
        return LABEL_LIST if _is_labels(arrow) else None
    if is_text(arrow):
        return INVERTED
    if _is_labels(arrow) and not _is_floats(arrow):
        return LABEL_LIST
    if is_vector(arrow):
        is_coded = rows > FEW_VECTORS and not pa.types.is_uint8(arrow.value_type)
        return IVF_PQ if is_coded else IVF_FLAT
    return None


def usual_partitions(kind: IndexKind, rows: int) -> int:
    """Number of groups into which this many vectors are put."""
    size = _ROWS_PER_PARTITION if kind.codes is None else _ROWS_CODED_PER_PARTITION
    if kind.has_graph:
        size = _ROWS_PER_GRAPH
    return max(1, min(_MOST_PARTITIONS, rows // size))


def _usual_sub_vectors(dimension: int) -> int:
    """Up to eight dimensions in a byte, and at least eight bytes where there are as many."""
    found = (dimension // each for each in (8, 4, 2) if dimension % each == 0)
    return next((each for each in found if each >= _LEAST_CODES), dimension)


def _is_plain(arrow: pa.DataType) -> bool:
    kinds = (
        *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_temporal),
        *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
        *(pa.types.is_decimal128, pa.types.is_decimal256, is_text),
    )
    return any(each(arrow) for each in kinds)


def _is_summed_up(arrow: pa.DataType) -> bool:
    """Whether a Bloom filter takes the values."""
    refused = (
        *(pa.types.is_boolean, pa.types.is_float16, pa.types.is_duration, pa.types.is_interval),
        *(pa.types.is_decimal128, pa.types.is_decimal256, pa.types.is_fixed_size_binary),
    )
    return _is_plain(arrow) and not any(each(arrow) for each in refused)


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _is_labels(arrow: pa.DataType) -> bool:
    return _is_list(arrow) and _is_plain(arrow.value_type)


def _is_floats(arrow: pa.DataType) -> bool:
    """Whether a type may be meant as vectors, of which everyone has a length of its own."""
    return _is_list(arrow) and bool(pa.types.is_floating(arrow.value_type))


def _is_words(arrow: pa.DataType) -> bool:
    return is_text(arrow.value_type if _is_list(arrow) else arrow)


def _is_numbers(arrow: pa.DataType) -> bool:
    return is_vector(arrow) and not pa.types.is_uint8(arrow.value_type)


_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    **{each.name: _is_numbers for each in KINDS.values() if each.is_vector},
    IVF_FLAT.name: is_vector,
    **dict.fromkeys((BTREE.name, BITMAP.name, ZONEMAP.name), _is_plain),
    BLOOMFILTER.name: _is_summed_up,
    LABEL_LIST.name: _is_labels,
    INVERTED.name: _is_words,
    NGRAM.name: is_text,
}
