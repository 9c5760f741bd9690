"""The indices of a version as its manifest tells them: no file of an index is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from pyroaring import BitMap

from lancewood.engine.schema import find_field, path_of
from lancewood.engine.snapshot import Snapshot
from lancewood.model.bitmap import numbers_in
from lancewood.model.index import SYSTEM_INDICES, Index, kind_name, kind_of, metric_of
from lancewood.model.manifest import Manifest, peek_fragment_id
from lancewood.rules.indices import is_remapping_deferred


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One index of a version. Figures are None where a writer did not record them."""

    name: str
    column: str | None
    """The dotted path of its column; None where it is on several, or on one that is gone."""
    kind: str
    """The kind, such as BTREE; the manifest's own name for one that is not built here."""
    metric: str | None
    """How vectors are compared."""
    segments: int
    bytes: int | None
    rows_covered: int | None
    """Rows that it may answer for; a scan reads the others."""
    rows_uncovered: int | None
    fragments_covered: int | None
    fragments_uncovered: int | None
    version: int
    """The version that its newest segment was built at."""
    created: datetime | None
    """The time at which the newest segment was built."""


def list_indices(snapshot: Snapshot) -> list[IndexInfo]:
    """All indices, in the order of the manifest."""
    manifest = snapshot.manifest
    names = dict.fromkeys(each.name for each in manifest.indices)
    coverage = _Coverage(manifest)
    found = []
    for name in names:
        if name not in SYSTEM_INDICES:
            segments = [each for each in manifest.indices if each.name == name]
            found.append(_info(snapshot, segments, coverage))
    return found


def _info(snapshot: Snapshot, segments: Sequence[Index], coverage: _Coverage) -> IndexInfo:
    first, last = segments[0], max(segments, key=lambda each: each.dataset_version)
    kind = kind_of(first)
    metric = metric_of(first) if kind is not None and kind.is_vector else None
    sizes = [sum(file.size for file in each.files) if each.files else None for each in segments]
    fragments, rows = coverage.of(segments)
    created = last.message.created_at
    return IndexInfo(
        name=first.name,
        column=_column(snapshot, first),
        kind=kind_name(first),
        metric=metric,
        segments=len(segments),
        bytes=None if None in sizes else sum(each or 0 for each in sizes),
        rows_covered=rows,
        rows_uncovered=_less(coverage.rows, rows),
        fragments_covered=fragments,
        fragments_uncovered=_less(snapshot.manifest.fragment_count, fragments),
        version=last.dataset_version,
        created=datetime.fromtimestamp(created / 1000, UTC) if created else None,
    )


def _less(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


def _column(snapshot: Snapshot, index: Index) -> str | None:
    chain = find_field(snapshot.schema, index.fields[0]) if len(index.fields) == 1 else None
    return None if chain is None else path_of(chain)


class _Coverage:
    """The fragments of a version and their rows."""

    def __init__(self, manifest: Manifest) -> None:
        raw = manifest.message.fragments
        self._ids = np.array([peek_fragment_id(each, manifest.name) for each in raw], np.int64)
        known = manifest.rows_by_fragment
        self._rows = None if known is None else np.array(known, np.int64)
        self._is_told = not is_remapping_deferred(manifest.indices)

    @property
    def rows(self) -> int | None:
        return None if self._rows is None else int(self._rows.sum())

    def of(self, segments: Sequence[Index]) -> tuple[int | None, int | None]:
        """How many fragments and rows some segments cover."""
        if not self._is_told:
            return None, None
        covered = BitMap.union(BitMap(), *(each.fragments for each in segments))
        is_in = np.isin(self._ids, numbers_in(covered))
        rows = None if self._rows is None else int(self._rows[is_in].sum())
        return int(is_in.sum()), rows
