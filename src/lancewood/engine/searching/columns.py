"""Which column is searched, and which index answers: from the schema and the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lancewood.data.codec import pylance_path
from lancewood.engine.schema import Path, chains, project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.schema import to_arrow_field
from lancewood.model.index import INVERTED, IVF_FLAT, METRICS, Index
from lancewood.model.schema import EXTENSION_NAME, Field

_VECTORS = "fixed-size lists of numbers (cast_column makes such a one of a list)"


@dataclass(frozen=True)
class SearchedColumn:
    """A column that can be searched."""

    path: Path
    type: pa.DataType
    index: Index | None
    """The index that answers, or one of its segments: the first one that the manifest has for the
    column and the search, as pylance takes that; None if there is none."""

    @property
    def name(self) -> str:
        """The column's path as people spell it."""
        return ".".join(self.path)

    @property
    def pylance_name(self) -> str:
        """The column's path as pylance spells it."""
        return pylance_path(self.path)

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.type.list_size)


def find_vector_column(snapshot: Snapshot, column: str | None = None) -> SearchedColumn:
    """The column of vectors that is meant: the named one, the only one, or the only one that has
    an index.

    Raises InvalidInputError that names the candidates.
    """
    found = [each for each in _columns(snapshot, IVF_FLAT.details) if is_vector(each.type)]
    return _chosen(snapshot, found, column, "vectors", _VECTORS)


def find_text_column(snapshot: Snapshot, column: str | None = None) -> SearchedColumn:
    """The column of texts that is meant: the named one, the only one, or the only one that has an
    index.

    Raises InvalidInputError that names the candidates.
    """
    found = [
        each
        for each in _columns(snapshot, INVERTED.details)
        if each.index is not None or is_text(each.type)
    ]
    return _chosen(snapshot, found, column, "texts", "strings")


def _columns(snapshot: Snapshot, details: str) -> Iterator[SearchedColumn]:
    """Every column, also inside of structs, with the index of that kind that it has."""
    indices = {
        each.fields[0]: each
        for each in reversed(snapshot.manifest.indices)
        if each.kind == details and each.fields
    }
    for chain in chains(snapshot.schema):
        if all(map(_is_struct, chain[:-1])):
            path, field = tuple(each.name for each in chain), chain[-1]
            yield SearchedColumn(path, to_arrow_field(field).type, indices.get(field.id))


def _is_struct(field: Field) -> bool:
    """Whether a field is a struct to pylance and to Arrow; a packed one is."""
    is_other = field.is_blob or EXTENSION_NAME in field.metadata
    return field.logical_type == "struct" and not is_other


def _chosen(
    snapshot: Snapshot,
    candidates: Sequence[SearchedColumn],
    column: str | None,
    what: str,
    are: str,
) -> SearchedColumn:
    names = ", ".join(each.name for each in candidates)
    if column is None:
        indexed = [each for each in candidates if each.index is not None]
        for few in (indexed, candidates):
            if len(few) == 1:
                return few[0]
        raise InvalidInputError(
            f"several columns hold {what}: {names}; column= says which one is searched"
            if candidates
            else f"no column of {snapshot.location.uri} holds {what}, which are {are}"
        )
    if not isinstance(column, str):
        raise InvalidInputError(f"column takes the name of a column, got {column!r}")
    for each in candidates:
        if each.name == column:
            return each
    project(snapshot.schema, [column])  # raises for an unknown one, and says which there are
    raise InvalidInputError(
        f"column {column!r} holds no {what}, which are {are}"
        + (f": {names} can be searched" if names else ""),
        column=column,
    )


def is_vector(kind: pa.DataType) -> bool:
    """Whether values are vectors that can be compared: of floats, or of bytes by their bits."""
    if not pa.types.is_fixed_size_list(kind):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_uint8(kind.value_type))


def checked_metric(kind: pa.DataType, asked: str | None) -> str:
    """How vectors of a type are compared: as asked for, in any case, or as they usually are.

    Raises InvalidInputError for a metric that is not known, or does not fit the type.
    """
    is_bytes = pa.types.is_uint8(kind.value_type)
    if asked is None:
        return "hamming" if is_bytes else "l2"
    found = asked.lower() if isinstance(asked, str) else ""
    if found not in METRICS:
        raise InvalidInputError(f"metric is one of {', '.join(METRICS)}, got {asked!r}")
    if is_bytes != (found == "hamming"):
        raise InvalidInputError(
            f"vectors of {kind.value_type} are compared by "
            f"{'hamming' if is_bytes else 'l2, cosine or dot'}, not by {found}"
        )
    return found


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, in which words can be found."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
