"""What a segment of an index was made of, and so which rows it may hold.

The files of a segment never change, and pylance answers with what any segment of an exact kind
says: a row must not be added to an index while an old segment may hold it. The task that builds a
segment therefore leaves a record beside its files. Of a segment without one, such as pylance's, the
version that it was built at tells; where even that cannot be trusted, it counts as holding
everything.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import FormatError, LancewoodError, NotFoundError
from lancewood.format.json_object import decode_object
from lancewood.model.bitmap import decode_bitmap, numbers_in
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.index import Index, IndexFile
from lancewood.model.rowids import IdRanges, RowIdSequence, bounds_of
from lancewood.model.transaction import CreateIndex

_Numbers = npt.NDArray[np.uint64]
RECORD = "lancewood.json"
_MOST_BYTES = 1 << 30
_NEAR = 16
"""Number of versions after its own in which a segment is looked for in the history."""


@dataclass(frozen=True)
class Holdings:
    """The rows that a segment may hold: those of fragments, or some by their stable ids."""

    fragments: BitMap
    row_ids: RowIdSequence | None = None
    """Ids of the rows; None: the segment's content names addresses, and fragments tell."""

    def united(self, others: Iterable[Holdings]) -> Holdings:
        """What this one and others hold together."""
        every = (self, *others)
        ids = [each.row_ids for each in every if each.row_ids is not None]
        return Holdings(
            BitMap.union(*(each.fragments for each in every)),
            RowIdSequence.concat(ids) if len(ids) == len(every) else None,
        )


@dataclass(frozen=True)
class FragmentRows:
    """The rows of fragments of a version, which segments may hold: ids are read once for all."""

    snapshot: Snapshot
    fragments: Sequence[Fragment]

    def are_held(self, holdings: Holdings, but: BitMap) -> bool:
        """Whether a row may be held that is in none of the fragments ``but``."""
        if holdings.row_ids is None:
            held = holdings.fragments - but
            return any(each.id in held for each in self.fragments)
        owners, firsts, lasts = self._ids
        left = ~np.isin(owners, numbers_in(but))
        held_ids, _ = IdRanges.of(holdings.row_ids)
        return held_ids.meet(IdRanges.between(firsts[left], lasts[left]))

    @cached_property
    def _ids(self) -> tuple[_Numbers, _Numbers, _Numbers]:
        """The fragment, the first and the last id of every run."""
        runs = [bounds_of(_ids_of(self.snapshot, each)) for each in self.fragments]
        owners = [each.id for each in self.fragments]
        none = np.empty(0, np.uint64)
        return (
            np.repeat(np.array(owners, np.uint64), [len(firsts) for firsts, _ in runs]),
            np.concatenate([none, *(firsts for firsts, _ in runs)]),
            np.concatenate([none, *(lasts for _, lasts in runs)]),
        )


@dataclass(frozen=True)
class Record:
    """What a segment was made of, and with which options."""

    holdings: Holdings
    options: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        held = self.holdings
        document: dict[str, Any] = {"fragments": _text(held.fragments.serialize())}
        if held.row_ids is not None:
            document["row_ids"] = _text(held.row_ids.encode())
        return json.dumps({**document, "options": dict(self.options)}).encode()

    @classmethod
    def decode(cls, data: bytes, name: str) -> Record:
        """Raises FormatError, which names the file."""
        document = decode_object(data, name=name, most=_MOST_BYTES)
        try:
            raw = base64.b64decode(document["fragments"], validate=True)
            ids = document.get("row_ids")
            options = document["options"]
            found = None if ids is None else base64.b64decode(ids, validate=True)
            sequence = None if found is None else RowIdSequence.decode(found)
        except (KeyError, TypeError, ValueError, FormatError) as cause:
            raise FormatError(
                f"{name}: does not say what a segment was made of ({cause!r})", file=name
            ) from cause
        if not isinstance(options, dict):
            raise FormatError(f"{name}: has options that are none", file=name)
        return cls(Holdings(decode_bitmap(raw, name), sequence), options)


def holdings_of(snapshot: Snapshot, segment: Index, fragments: Sequence[Fragment]) -> Holdings:
    """What a segment holds that is built from fragments of a version."""
    ids = None
    if snapshot.manifest.has_stable_row_ids and segment.holds_row_ids:
        ids = RowIdSequence.concat([RowFacts(snapshot, each).live_ids for each in fragments])
    return Holdings(BitMap(each.id for each in fragments), ids)


def leave_record(snapshot: Snapshot, segment: Index, record: Record) -> Index:
    """Write the record of a new segment, and name it among its files."""
    store, directory = snapshot.location.index_directory(snapshot.manifest, segment)
    data = record.encode()
    store.put(f"{directory}/{RECORD}", data)
    return segment.with_file(IndexFile(RECORD, len(data)))


def load_record(snapshot: Snapshot, segment: Index) -> Record | None:
    """The record of a segment; None where there is none."""
    store, directory = snapshot.location.index_directory(snapshot.manifest, segment)
    if all(each.path != RECORD for each in segment.files):
        return None
    key = f"{directory}/{RECORD}"
    try:
        return Record.decode(store.get(key), f"{store.uri}/{key}")
    except NotFoundError:
        return None


def load_holdings(snapshot: Snapshot, segment: Index) -> Holdings | None:
    """What a segment of a version may hold; None for anything at all."""
    record = load_record(snapshot, segment)
    if record is not None:
        return record.holdings
    if not _is_understood(snapshot, segment) or segment.base_id is not None:
        return None
    then = _built_at(snapshot, segment)
    if then is None:
        return None
    fragments = then.manifest.fragments
    ids = None
    if then.manifest.has_stable_row_ids and segment.holds_row_ids:
        ids = RowIdSequence.concat([_ids_of(then, each) for each in fragments])
    return Holdings(BitMap(each.id for each in fragments), ids)


def _is_understood(snapshot: Snapshot, segment: Index) -> bool:
    """Whether it is known how the segment names rows: by address or by id."""
    return not snapshot.manifest.has_stable_row_ids or segment.row_names is not None


def _built_at(snapshot: Snapshot, segment: Index) -> Snapshot | None:
    """The version that a segment was built at, if it was committed to this branch from there.

    The number alone does not tell: a segment that came from another branch has one of that.
    """
    version = segment.dataset_version
    newest = snapshot.landed_version or 0
    try:
        for number in islice(range(version + 1, newest + 1), _NEAR):
            transaction = snapshot.transaction_of(Version(number))
            for each in transaction.operations:
                if isinstance(each, CreateIndex) and _adds(each, segment):
                    is_whole = transaction.read_version == version
                    return load_snapshot(snapshot.location, version=version) if is_whole else None
    except LancewoodError:  # cleaned up, or not readable any more
        return None
    return None


def _adds(operation: CreateIndex, segment: Index) -> bool:
    return any(
        each.message.uuid.uuid == segment.message.uuid.uuid for each in operation.new_indices
    )


def _ids_of(snapshot: Snapshot, fragment: Fragment) -> RowIdSequence:
    ids = RowFacts(snapshot, fragment).row_ids
    assert ids is not None, "asked of a table without stable row ids"
    return ids


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
