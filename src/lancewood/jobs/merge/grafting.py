"""Fragments of ours that get columns of theirs beside their own ones, without reading a row.

Where both sides have the same rows of the base in one fragment, and wrote different columns of it
anew, the files of both go together. That is how two sides meet that each add a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lancewood.engine.comparing import ColumnPair, Places
from lancewood.engine.rows import Ints, distinct
from lancewood.jobs.merge.compared import changes_rows, is_new
from lancewood.jobs.merge.meeting import NOWHERE, Graft, Met, MetRows

_Column: TypeAlias = tuple[bool, int | str]


def with_grafts(met: Met, *, by_rows: bool) -> Met:
    """Move rows of ``both`` that need not be read into ``grafts``. If both sides may not change one
    row (``by_rows``), only those to which a side did no more than add columns."""
    theirs, ours = met.both_in
    chosen = np.flatnonzero((theirs != NOWHERE) & (ours != NOWHERE))
    if not len(chosen):
        return met
    both, count = met.both, len(met.sides[1].doubts)
    pairs = theirs[chosen] * count + ours[chosen]
    together = [
        pair
        for pair in distinct(pairs).tolist()
        if _go_together(met, *divmod(pair, count), by_rows=by_rows)
    ]
    chosen = chosen[np.isin(pairs, together)]
    is_aligned = both.theirs.offsets[chosen] == both.ours.offsets[chosen]
    grafts, rows = list[Graft](), list[Ints]()
    for graft, at in _grafts(met, chosen[is_aligned]):
        grafts.append(graft)
        rows.append(at)
    if not grafts:
        return met
    left = np.ones(len(both), np.bool_)
    left[np.concatenate(rows)] = False
    return replace(
        met,
        both=both.at(left),
        both_in=(theirs[left], ours[left]),
        grafts=tuple(grafts),
    )


def _go_together(met: Met, theirs: int, ours: int, *, by_rows: bool) -> bool:
    """Whether two doubts have no column in common."""
    there, here = met.sides[0].doubts[theirs].columns, met.sides[1].doubts[ours].columns
    if by_rows and not (all(map(is_new, there)) or all(map(is_new, here))):
        return False
    return {*map(_column, there)}.isdisjoint(map(_column, here))


def _column(pair: ColumnPair) -> _Column:
    return (True, pair.name) if is_new(pair) else (False, pair.before.id)


def _grafts(met: Met, chosen: Ints) -> Iterator[tuple[Graft, Ints]]:
    """The fragments of ours of which all rows that stay are among the chosen stretches."""
    rows, (there, here) = met.both.at(chosen), met.states[:2]
    touched = _rows_in(len(here.parts), (met.both, met.taken, met.gone))
    for number, at in Places(*rows.ours).by_part():
        sources = distinct(rows.theirs.parts[at])
        doubts = distinct(met.both_in[0][chosen[at]])
        ours, theirs = here.parts[number], there.parts[int(sources[0])]
        live = ours.fragment.physical_rows - len(ours.facts.deleted)
        is_whole = len(sources) == len(doubts) == 1 and touched[number] == live
        if is_whole and ours.facts.row_ids == theirs.facts.row_ids:
            columns = met.sides[0].doubts[int(doubts[0])].columns
            count, changes = int(rows.counts[at].sum()), changes_rows(columns, here.snapshot)
            yield Graft(ours.fragment.id, theirs.fragment.id, columns, count, changes), chosen[at]


def _rows_in(parts: int, groups: Iterable[MetRows]) -> Ints:
    """How many rows of each fragment of ours theirs touched: those that are not grafted leave."""
    found = np.zeros(parts, np.int64)
    for each in groups:
        there = each.ours.there
        np.add.at(found, each.ours.parts[there], each.counts[there])
    return found
