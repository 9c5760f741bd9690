"""Offsets and options of a stream: what is written down comes back, what is odd is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import InvalidInputError
from lancewood.model.ids import Version
from lancewood.spark.streaming.history import Offset, Origin, beginning, decode_offset
from lancewood.spark.streaming.options import OnChange, StreamOptions

GOOD = {"version": 12, "index": 3, "after": "ab-c", "origin": 7, "whole": True}
NUMBERS = st.integers(1, (1 << 63) - 1)


@given(NUMBERS, st.integers(0, (1 << 63) - 1), NUMBERS, st.booleans(), st.text(max_size=36))
def test_an_offset_comes_back_from_json(
    version: int, index: int, origin: int, whole: bool, after: str
) -> None:
    low, high = sorted((version, origin))
    offset = Offset(Version(high), index, Origin(Version(low), whole), after)
    assert decode_offset(json.loads(json.dumps(offset.encode()))) == offset


def test_the_beginning_names_no_version() -> None:
    assert decode_offset(json.loads(json.dumps(beginning()))) is None


@pytest.mark.parametrize(
    "found",
    [
        None,
        7,
        "text",
        [],
        {},
        {"begin": False},
        {**GOOD, "more": 1},
        {key: value for key, value in GOOD.items() if key != "after"},
        {**GOOD, "version": 0},
        {**GOOD, "version": -3},
        {**GOOD, "version": 6},
        {**GOOD, "version": True},
        {**GOOD, "version": "12"},
        {**GOOD, "version": 1 << 63},
        {**GOOD, "index": -1},
        {**GOOD, "index": 1.0},
        {**GOOD, "origin": None},
        {**GOOD, "whole": 1},
        {**GOOD, "after": 5},
        {**GOOD, "after": "x" * 101},
    ],
)
def test_what_is_no_offset_is_refused(found: Any) -> None:
    with pytest.raises(InvalidInputError, match="no offset of a Lance table"):
        decode_offset(found)


def test_the_good_example_is_an_offset() -> None:
    assert decode_offset(GOOD) == Offset(Version(12), 3, Origin(Version(7), True), "ab-c")


def test_offsets_follow_each_other_by_version_then_row() -> None:
    origin = Origin(Version(1), False)
    first = Offset.start(origin)
    assert first.is_before(first.within(1, "id"))
    assert first.within(9, "id").is_before(first.past("id"))
    assert not first.past("id").is_before(first.within(9, "id"))
    assert not first.is_before(first)


def test_options_that_say_nothing_mean_the_defaults() -> None:
    assert StreamOptions.parsed({}) == StreamOptions()
    assert StreamOptions.parsed({"path": "t"}).on_change is OnChange.FAIL


def test_options_are_read_as_people_write_them() -> None:
    found = StreamOptions.parsed(
        {"onChange": "Ignore", "startingVersion": " 12 ", "maxRowsPerTrigger": "1000"}
    )
    assert found.on_change is OnChange.IGNORE
    assert (found.starting_version, found.max_rows) == (12, 1_000)
    assert StreamOptions.parsed({"startingVersion": "LATEST"}).is_from_latest
    assert StreamOptions.parsed({"startingVersion": "earliest"}).is_from_earliest


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-05-01", datetime(2026, 5, 1, tzinfo=UTC)),
        ("2026-05-01T12:00:00", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        ("2026-05-01T12:00:00Z", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        (
            "2026-05-01T12:00:00+02:00",
            datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_moment_without_a_zone_is_utc(text: str, moment: datetime) -> None:
    assert StreamOptions.parsed({"startingTimestamp": text}).starting_timestamp == moment


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"onChange": "skip"}, "'fail', 'ignore', 'changes'"),
        ({"startingVersion": "0"}, "startingVersion"),
        ({"startingVersion": "-1"}, "startingVersion"),
        ({"startingVersion": "newest"}, "'latest' or 'earliest'"),
        ({"startingVersion": ""}, "startingVersion"),
        ({"startingVersion": "9" * 40}, "startingVersion"),
        ({"startingVersion": "²"}, "startingVersion"),
        ({"startingTimestamp": "yesterday"}, "2026-05-01"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger"),
        ({"maxVersionsPerTrigger": "many"}, "maxVersionsPerTrigger"),
        ({"startingVersion": "1", "startingTag": "v1"}, "startingVersion and startingTag"),
    ],
)
def test_an_option_that_cannot_be_right_is_named(options: dict[str, str], word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        StreamOptions.parsed(options)
