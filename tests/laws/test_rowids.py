"""Laws of row id sequences and row versions: a plain list always gives the same answers."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lancewood.errors import FormatError
from lancewood.model.ids import MAX_U64
from lancewood.model.rowids import RowIdSequence, RowVersions

_LAW = settings(deadline=None, max_examples=200)
_NEAR = st.integers(0, 40)
_EDGES = st.sampled_from([0, 1, (1 << 16) - 1, 1 << 16, 1 << 32, 1 << 63, MAX_U64 - 1, MAX_U64])
_STRETCH = st.builds(
    lambda start, count, step: [start + step * each for each in range(count)],
    st.integers(0, 2000) | st.integers(0, MAX_U64 // 2),
    st.integers(0, 70),
    st.sampled_from([1, 1, 2, 3, 150]),
)
_IDS = st.lists(_STRETCH | st.lists(_NEAR | _EDGES, max_size=12), max_size=6).map(
    lambda parts: [each for part in parts for each in part]
)
_VERSIONS = st.lists(st.integers(1, 4) | _EDGES, max_size=60)


@_LAW
@given(_IDS)
def test_ids_come_back_from_their_bytes(values: list[int]) -> None:
    sequence = RowIdSequence.from_values(values)
    again = RowIdSequence.decode(sequence.encode())
    assert again == sequence
    assert list(again) == again.to_numpy().tolist() == values
    assert len(again) == len(values)


@_LAW
@given(_VERSIONS)
def test_versions_come_back_from_their_bytes(values: list[int]) -> None:
    versions = RowVersions.from_values(values)
    again = RowVersions.decode(versions.encode())
    assert again == versions
    assert list(again) == again.to_numpy().tolist() == values


@_LAW
@given(st.lists(_IDS, max_size=4), st.data())
def test_ids_are_selected_like_a_list(parts: list[list[int]], data: st.DataObject) -> None:
    values = [each for part in parts for each in part]
    sequence = RowIdSequence.concat([RowIdSequence.from_values(each) for each in parts])
    _check_selections(sequence, values, data)
    assert sequence == RowIdSequence.from_values(values)
    assert sequence.max_value() == max(values, default=None)
    rebuilt = [first + each for _, first, count in sequence.runs() for each in range(count)]
    assert rebuilt == values


@_LAW
@given(st.lists(_VERSIONS, max_size=4), st.data())
def test_versions_are_selected_like_a_list(parts: list[list[int]], data: st.DataObject) -> None:
    values = [each for part in parts for each in part]
    versions = RowVersions.concat([RowVersions.from_values(each) for each in parts])
    _check_selections(versions, values, data)
    assert [each for count, each in versions.runs() for _ in range(count)] == values
    above = data.draw(st.integers(0, 5))
    assert list(versions.restamp(above, 9)) == [9 if each > above else each for each in values]
    chosen = data.draw(st.sets(st.integers(0, max(len(values) - 1, 0)), max_size=len(values)))
    expected = [9 if at in chosen else each for at, each in enumerate(values)]
    assert list(versions.with_value_at(BitMap(chosen), 9)) == expected


def _check_selections(
    sequence: RowIdSequence | RowVersions, values: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    assert list(sequence.slice(start, stop)) == values[start:stop]
    if not values:
        return
    chosen = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=30))
    taken = sequence.take(np.array(chosen, dtype=np.int64))
    assert list(taken) == [values[each] for each in chosen]
    kept = [each for at, each in enumerate(values) if at not in set(chosen)]
    assert list(sequence.without(BitMap(chosen))) == kept
    assert sequence.value_at(len(values) - 1) == values[-1]


@_LAW
@given(_IDS, st.lists(_NEAR | _EDGES | st.integers(0, 2100), max_size=30))
def test_ids_are_found_at_their_last_offset(values: list[int], others: list[int]) -> None:
    last = {each: at for at, each in enumerate(values)}
    asked = values + others
    found = RowIdSequence.from_values(values).find(asked).tolist()
    assert found == [last.get(each, -1) for each in asked]


def test_overlapping_ranges_of_any_size_are_found_like_in_a_dict() -> None:
    seeded = random.Random(48)
    for _ in range(200):
        parts = [
            RowIdSequence.from_range(seeded.randrange(300), seeded.randrange(1, 120))
            for _ in range(seeded.randrange(1, 30))
        ]
        sequence = RowIdSequence.concat(parts)
        last = {each: at for at, each in enumerate(sequence)}
        found = sequence.find(np.arange(450)).tolist()
        assert found == [last.get(each, -1) for each in range(450)]


def test_mutated_bytes_are_read_or_refused_but_never_anything_else() -> None:
    seeded = random.Random(7)
    originals = [
        RowIdSequence.from_values(values).encode()
        for values in (
            range(100),
            range(0, 100, 2),
            [*range(50), *range(51, 90)],
            range(0, 9000, 100),
            [9, 1, 70_000],
            [1 << 40, 5],
        )
    ]
    versions = RowVersions.from_values([1] * 9 + [2] * 4 + [7]).encode()
    refused = 0
    for turn in range(6000):
        data = bytearray(seeded.choice([*originals, versions]))
        for _ in range(seeded.randrange(1, 4)):
            data[seeded.randrange(len(data))] = seeded.randrange(256)
        del data[seeded.choice([len(data), seeded.randrange(len(data))]) :]
        kind = (RowIdSequence, RowVersions)[turn % 2]
        try:
            sequence = kind.decode(bytes(data))
        except FormatError:
            refused += 1
            continue
        assert sequence.encode() == data
        assert len(sequence) <= 1 << 32
        sequence.max_value()
    assert 1000 < refused < 6000


@_LAW
@given(st.binary(max_size=60))
def test_bytes_that_are_read_are_written_back_unchanged(data: bytes) -> None:
    for kind in (RowIdSequence, RowVersions):
        with suppress(FormatError):
            assert kind.decode(data).encode() == data
