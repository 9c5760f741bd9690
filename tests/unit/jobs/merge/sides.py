"""Rows of three sides, written down as plain mappings, and what they become by a plain rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.jobs.merge.conflicts import SideRows, Sides
from lancewood.jobs.merge.resolve import Resolve
from lancewood.jobs.merge.row_resolver import ResolvedRows, RowFate

Row: TypeAlias = Mapping[str, Any] | None
Three: TypeAlias = tuple[Row, Row, Row]
"""Base, ours, theirs; None where the row is not there."""


def side_of(rows: Sequence[Row], schema: pa.Schema) -> SideRows:
    columns = [
        pa.array([None if row is None else row.get(each.name) for row in rows], each.type)
        for each in schema
    ]
    there = np.array([row is not None for row in rows], np.bool_)
    return SideRows(pa.RecordBatch.from_arrays(columns, schema=schema), there)


def sides_of(rows: Sequence[Three], schema: pa.Schema, first: int = 0) -> Sides:
    base, ours, theirs = (side_of([each[at] for each in rows], schema) for at in range(3))
    return Sides(np.arange(first, first + len(rows), dtype=np.uint64), base, ours, theirs)


def results(decided: ResolvedRows, rows: Sequence[Three]) -> list[Any]:
    """What became of each row: the row, None if it is not there, or the cells in conflict."""
    written = iter(decided.written.to_pylist())
    conflicts = iter(decided.conflicts.to_pylist())
    found: list[Any] = []
    for fate, (_, ours, theirs) in zip(decided.fates.tolist(), rows, strict=True):
        if fate == RowFate.OURS:
            found.append(ours)
        elif fate == RowFate.THEIRS:
            assert theirs is not None
            found.append(theirs)
        elif fate == RowFate.WRITTEN:
            found.append(next(written))
            assert not same_rows(found[-1], ours)
            assert not same_rows(found[-1], theirs)
        elif fate == RowFate.GONE:
            assert ours is not None
            found.append(None)
        else:
            shown = next(conflicts)
            found.append((shown["_kind"], shown["_columns"]))
    assert not [*written, *conflicts]
    return found


def same(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)


def same_rows(one: Row, other: Row) -> bool:
    if one is None or other is None:
        return one is other
    return all(same(one[name], other[name]) for name in one)


def same_results(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) or isinstance(other, tuple):
        return bool(one == other)
    return same_rows(one, other)


def merged(three: Three, resolve: Resolve, *, by_rows: bool = False) -> Any:
    """What a row becomes, by the words of the documentation: the row, None, or its conflict."""
    base, ours, theirs = three
    if base is None and (ours is None or theirs is None):
        return theirs if ours is None else ours
    if same_rows(ours, theirs) or same_rows(base, theirs):
        return ours
    if same_rows(base, ours):
        return theirs
    if ours is None or theirs is None:
        return _deleted(three, resolve)
    met = [
        name
        for name in ours
        if not same(ours[name], theirs[name])
        and (
            by_rows
            or base is None
            or not (same(base[name], ours[name]) or same(base[name], theirs[name]))
        )
    ]
    if not met and base is not None:
        return {n: theirs[n] if same(base[n], ours[n]) else ours[n] for n in ours}
    return _together(three, met, resolve)


def _deleted(three: Three, resolve: Resolve) -> Any:
    base, ours, theirs = three
    kind = "delete/update" if ours is None else "update/delete"
    if resolve.deletes is not None:
        return None if resolve.deletes == "win" else ours or theirs
    if resolve.rows is not None:
        return {"base": base, "ours": ours, "theirs": theirs}[resolve.rows]
    return kind, []


def _together(three: Three, met: list[str], resolve: Resolve) -> Any:
    base, ours, theirs = three
    assert ours is not None
    assert theirs is not None
    is_new = base is None
    known = {"base": dict.fromkeys(ours) if base is None else base, "ours": ours, "theirs": theirs}
    found = dict(ours)
    for name in () if is_new else ours:
        if name not in met and same(known["base"][name], ours[name]):
            found[name] = theirs[name]
    left, ruled = [], []
    for name in met:
        rule = resolve.columns.get(name, resolve.columns.get("*"))
        if rule is None:
            left.append(name)
            continue
        ruled.append(name)
        if rule in known:
            found[name] = known[rule][name]
        else:
            assert rule.startswith("coalesce(theirs")
            found[name] = ours[name] if theirs[name] is None else theirs[name]
    if left and resolve.rows is not None:
        if resolve.rows == "base" and is_new:
            return None
        for name in ours if resolve.whole_rows else left:
            if name not in ruled:
                found[name] = known[resolve.rows][name]
        left = []
    return ("insert/insert" if is_new else "update/update", left) if left else found
