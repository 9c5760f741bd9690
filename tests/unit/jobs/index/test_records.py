"""What a segment may hold: written down, read back, and compared with the rows of fragments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancewood.errors import FormatError
from lancewood.jobs.index.records import Holdings, Record
from lancewood.model.rowids import IdRanges, RowIdSequence

_runs = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=6)


def _sequence(runs: list[tuple[int, int]]) -> RowIdSequence:
    parts = [RowIdSequence.from_range(first, count) for first, count in runs]
    return RowIdSequence.concat([RowIdSequence.from_range(0, 0), *parts])


@given(_runs, _runs)
def test_ranges_meet_exactly_where_ids_do(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    mine, theirs = _sequence(one), _sequence(other)
    ranges, others = (IdRanges.of(each)[0] for each in (mine, theirs))
    assert ranges.meet(others) == bool({*mine} & {*theirs})


@pytest.mark.parametrize("ids", [None, _sequence([(0, 3), (1 << 40, 5)]), _sequence([])])
def test_a_record_is_read_back_as_it_was_written(ids: RowIdSequence | None) -> None:
    record = Record(Holdings(BitMap([0, 7, 8, 1 << 31]), ids), {"stem": True, "rows_per_zone": 9})
    assert Record.decode(record.encode(), "r") == record


def test_what_several_hold_is_what_each_holds() -> None:
    one = Holdings(BitMap([1]), _sequence([(0, 3)]))
    other = Holdings(BitMap([4]), _sequence([(2, 5)]))
    both = one.united([other])
    assert both.fragments == BitMap([1, 4])
    assert both.row_ids is not None
    assert {*both.row_ids} == {*range(7)}
    assert one.united([Holdings(BitMap([4]))]).row_ids is None


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"fragments": "?", "options": {}},
        {"fragments": 3, "options": {}},
        {"fragments": "AAAA", "options": {}},
        {"fragments": "OjAAAAAAAAA=", "options": []},
        {"fragments": "OjAAAAAAAAA=", "options": {}, "row_ids": "////"},
        {"fragments": "é", "options": {}},
        {"fragments": "OjAAAAAAAAA=", "options": {}, "row_ids": "é"},
        {"fragments": "OjAAAAAAAAA=", "options": {}, "row_ids": 3},
    ],
)
def test_a_broken_record_is_an_error_that_names_the_file(document: object) -> None:
    with pytest.raises(FormatError, match="the file"):
        Record.decode(json.dumps(document).encode(), "the file")
