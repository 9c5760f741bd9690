"""What a fragment knows of each of its rows, wherever it is kept.

In the manifest mostly; in a part of another file below the table's root, as the specification
allows; or spilled into columns of the fragment's own data files, as pylance does when it is asked
to. Sequences are only read here, and what a manifest says about other files is checked first.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lancewood.engine.fragments import open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, found_in
from lancewood.model.fragment import ExternalRange, Fragment, Lineage
from lancewood.model.ids import FieldId
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ID, Field, Schema
from lancewood.store.base import check_key

_NAMES: dict[Lineage, str] = {
    "row_ids": ROW_ID,
    "created_at_versions": CREATED_AT,
    "last_updated_at_versions": LAST_UPDATED_AT,
}

_FEW_BYTES = 64
_decode_versions = lru_cache(maxsize=1024)(RowVersions.decode)
"""Fragments of one write have versions in the same few bytes."""


def load_row_ids(snapshot: Snapshot, fragment: Fragment) -> RowIdSequence | None:
    """The stable row ids of a fragment; None where it has none."""
    with found_in(snapshot.manifest.name):
        found = _load(snapshot, fragment, "row_ids")
        if isinstance(found, bytes):
            return RowIdSequence.decode(found, fragment.check_length)
        return None if found is None else RowIdSequence.from_values(found)


def load_row_versions(snapshot: Snapshot, fragment: Fragment, what: Lineage) -> RowVersions | None:
    """The version of each row; None means the first for all."""
    with found_in(snapshot.manifest.name):
        found = _load(snapshot, fragment, what)
        if isinstance(found, bytes):
            if len(found) > _FEW_BYTES:
                return RowVersions.decode(found, fragment.check_length)
            versions = _decode_versions(found)
            fragment.check_length("row version sequence", len(versions))
            return versions
        return None if found is None else RowVersions.from_values(found)


def _load(
    snapshot: Snapshot, fragment: Fragment, what: Lineage
) -> bytes | npt.NDArray[np.uint64] | None:
    place = fragment.lineage(what)
    if isinstance(place, ExternalRange):
        return _external(snapshot, fragment, what, place)
    if isinstance(place, bytes | None):
        return place
    return _spilled(snapshot, fragment, what, place)


def _external(snapshot: Snapshot, fragment: Fragment, what: Lineage, place: ExternalRange) -> bytes:
    which = f"the {what.replace('_', ' ')} of fragment {fragment.id}"
    try:
        check_key(place.path)
    except InvalidInputError as cause:
        raise FormatError(
            f"{which} are said to be at {place.path!r}, which is not below the table: {cause}",
            fragment=fragment.id,
        ) from cause
    store = snapshot.place.store
    try:
        size = store.head(place.path).size
    except NotFoundError as cause:
        path = f"{store.uri}/{place.path}"
        raise NotFoundError(f"{path}, with {which}, is missing", file=path) from cause
    if place.offset + place.size > size:
        raise FormatError(
            f"{place.path} has {size} bytes, {which} would take {place.size} from {place.offset}",
            fragment=fragment.id,
        )
    return store.get_range(place.path, place.offset, place.size)


def _spilled(
    snapshot: Snapshot, fragment: Fragment, what: Lineage, field: FieldId
) -> npt.NDArray[np.uint64]:
    if not any(field in each.fields for each in fragment.files):
        raise FormatError(
            f"fragment {fragment.id} keeps its {what.replace('_', ' ')} in a column that none of "
            "its data files has",
            fragment=fragment.id,
        )
    column = Field(field, _NAMES[what], "uint64", nullable=False)
    batches = open_fragment(snapshot, fragment, Schema((column,))).batches()
    parts = [each.column(0).to_numpy(zero_copy_only=False) for each in batches]
    return np.concatenate([np.empty(0, np.uint64), *parts])
