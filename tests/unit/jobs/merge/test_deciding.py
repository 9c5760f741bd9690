"""What becomes of rows that both sides may have changed."""

from __future__ import annotations

import pickle
import random
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.jobs.merge.sides import Row, Three, merged, results, same_results, sides_of

from lancewood.engine.rows import Ids
from lancewood.jobs.merge.conflicts import CellChanges, SideRows, Sides
from lancewood.jobs.merge.resolve import Resolve
from lancewood.jobs.merge.row_resolver import ResolvedRows, RowFate, RowResolver

BIRDS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("seen", pa.int64())])
NAN = float("nan")


def bird(name: str | None = "owl", seen: int | None = 1) -> Row:
    return {"id": 7, "name": name, "seen": seen}


def decide(*rows: Three, resolve: Any = None, by_rows: bool = False) -> ResolvedRows:
    deciding = RowResolver(BIRDS, Resolve.of(resolve), (("id",),), "birds", by_rows)
    return deciding.decide(sides_of(rows, BIRDS))


B = bird()
LINES: dict[str, tuple[Three, Any]] = {
    "nowhere": ((None, None, None), RowFate.OURS),
    "inserted by theirs": ((None, None, B), RowFate.THEIRS),
    "inserted by ours": ((None, B, None), RowFate.OURS),
    "inserted by both, equal": ((None, B, B), RowFate.OURS),
    "inserted by both, other cells": (
        (None, B, bird(name="auk")),
        ("insert/insert", ["name"]),
    ),
    "inserted by both, a cell null in one": (
        (None, bird(seen=None), B),
        ("insert/insert", ["seen"]),
    ),
    "same in both": ((B, B, B), RowFate.OURS),
    "updated by theirs": ((B, B, bird(name="auk")), RowFate.THEIRS),
    "nulled by theirs": ((B, B, bird(name=None)), RowFate.THEIRS),
    "deleted by theirs": ((B, B, None), RowFate.GONE),
    "updated by ours": ((B, bird(name="auk"), B), RowFate.OURS),
    "updated by both, different cells": (
        (B, bird(name="auk"), bird(seen=2)),
        bird(name="auk", seen=2),
    ),
    "updated by both, the same change": (
        (B, bird(name="auk"), bird(name="auk")),
        RowFate.OURS,
    ),
    "nulled by both": ((B, bird(name=None), bird(name=None)), RowFate.OURS),
    "updated by both, theirs did more": (
        (B, bird(name="auk"), bird(name="auk", seen=2)),
        RowFate.THEIRS,
    ),
    "updated by both, ours did more": (
        (B, bird(name="auk", seen=2), bird(name="auk")),
        RowFate.OURS,
    ),
    "updated by both, other cells": (
        (B, bird(name="auk"), bird(name="hen", seen=2)),
        ("update/update", ["name"]),
    ),
    "nulled by one, updated by the other": (
        (B, bird(name=None), bird(name="hen")),
        ("update/update", ["name"]),
    ),
    "filled by both": (
        (bird(name=None), bird(name="auk"), bird(name="hen")),
        ("update/update", ["name"]),
    ),
    "updated by ours, deleted by theirs": ((B, bird(seen=2), None), ("update/delete", [])),
    "deleted by ours, updated by theirs": ((B, None, bird(seen=2)), ("delete/update", [])),
    "deleted by ours, only rewritten by theirs": ((B, None, B), RowFate.OURS),
    "deleted by both": ((B, None, None), RowFate.OURS),
}


@pytest.mark.parametrize("line", LINES)
def test_each_line_of_the_table_of_row_states(line: str) -> None:
    three, expected = LINES[line]
    decided = decide(three)
    (fate,) = decided.fates.tolist()
    if isinstance(expected, RowFate):
        assert fate == expected
        assert (decided.written.num_rows, decided.conflicts.num_rows) == (0, 0)
    elif isinstance(expected, tuple):
        assert fate == RowFate.CONFLICT
        assert results(decided, [three]) == [expected]
    else:
        assert fate == RowFate.WRITTEN
        assert decided.written.to_pylist() == [expected]
        assert decided.joined == 1


def test_a_conflict_is_shown_with_all_three_sides_and_the_key() -> None:
    three = (B, None, bird(name="auk"))
    conflicts = decide(three, (B, bird(seen=2), bird(name="hen", seen=3))).conflicts
    assert conflicts.schema.names == [
        *("_conflict", "_kind", "_rowid", "_columns", "key", "base", "ours", "theirs")
    ]
    first, second = conflicts.to_pylist()
    assert len(first.pop("_conflict")) == 16
    assert first == {
        "_kind": "delete/update",
        "_rowid": 0,
        "_columns": [],
        "key": {"id": 7},
        "base": B,
        "ours": None,
        "theirs": bird(name="auk"),
    }
    assert (second["_rowid"], second["_columns"]) == (1, ["seen"])
    alone = RowResolver(BIRDS).decide(sides_of([three], BIRDS))
    assert "key" not in alone.conflicts.schema.names


def test_a_key_inside_a_struct_is_shown_by_its_path() -> None:
    schema = pa.schema([("of", pa.struct([("id", pa.int64())])), ("n", pa.int64())])
    rows: list[Three] = [({"of": {"id": 1}, "n": 0}, None, {"of": {"id": 1}, "n": 1})]
    found = RowResolver(schema, key=(("of", "id"),)).decide(sides_of(rows, schema))
    assert found.conflicts.column("key").to_pylist() == [{"of.id": 1}]


def test_by_rows_every_row_that_both_changed_is_a_conflict_in_all_cells_that_differ() -> None:
    different = (B, bird(name="auk"), bird(seen=2))
    equal = (B, bird(name="auk"), bird(name="auk"))
    only_one = (B, B, bird(seen=2))
    found = decide(different, equal, only_one, by_rows=True)
    assert found.fates.tolist() == [RowFate.CONFLICT, RowFate.OURS, RowFate.THEIRS]
    assert found.conflicts.column("_columns").to_pylist() == [["name", "seen"]]
    taken = decide(different, by_rows=True, resolve="theirs")
    assert taken.fates.tolist() == [RowFate.THEIRS]


def test_rows_without_any_are_decided_too() -> None:
    found = decide()
    assert len(found.fates) == 0
    assert found.written.schema.equals(BIRDS)
    assert found.written.num_rows == found.conflicts.num_rows == 0


VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, None],
    pa.int8(): [0, 1, -1, None],
    pa.uint64(): [0, 2**64 - 1, None],
    pa.float16(): [0.0, 1.5, NAN, None],
    pa.float32(): [0.0, 1.5, NAN, None],
    pa.float64(): [0.0, -0.0, 1e300, NAN, None],
    pa.string(): ["", "a", "b", None],
    pa.large_string(): ["", "a", None],
    pa.binary(): [b"", b"\x00", None],
    pa.binary(2): [b"ab", b"ac", None],
    pa.decimal128(10, 2): [Decimal("1.10"), Decimal("1.20"), None],
    pa.decimal256(50, 1): [Decimal("1.1"), Decimal("-1.1"), None],
    pa.time64("us"): [time(0), time(0, 0, 0, 1), None],
    pa.duration("us"): [timedelta(0), timedelta(days=-1), None],
    pa.uuid(): [UUID(int=1), UUID(int=2), None],
    pa.date32(): [date(2026, 1, 1), date(1969, 12, 31), None],
    pa.timestamp("us"): [datetime(2026, 1, 1), datetime(1969, 12, 31, 23), None],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", None],
    pa.list_(pa.int32()): [[], [1], [1, None], None],
    pa.list_(pa.dictionary(pa.int8(), pa.string())): [[], ["a"], ["b", None], None],
    pa.large_list(pa.string()): [[], ["a"], [None], None],
    pa.list_(pa.float32(), 2): [[0.0, 1.0], [0.0, None], None],
    pa.struct([("x", pa.int32()), ("y", pa.string())]): [
        *({"x": 1, "y": "a"}, {"x": None, "y": "a"}, {"x": None, "y": None}, None)
    ],
    pa.map_(pa.string(), pa.int32()): [[], [("a", 1)], [("a", None)], None],
    pa.null(): [None],
    pa.json_(): ['{"a": 1}', "[]", None],
}
STRATEGIES = [
    *(None, "ours", "theirs", "base", {"*": "theirs"}, {"*": "coalesce(theirs, ours)"}),
    Resolve(columns={"*": "base"}, deletes="win"),
    Resolve(columns={"c0": "theirs"}, deletes="lose", rows="ours"),
    Resolve(columns={"c0": "ours"}, whole_rows=True, rows="theirs"),
    Resolve(columns={"c0": "coalesce(theirs.c0, ours.c0)", "*": "ours"}, rows="base"),
]


def random_rows(chance: random.Random, schema: pa.Schema, count: int) -> list[Three]:
    def row() -> dict[str, Any]:
        return {each.name: chance.choice(VALUES[each.type]) for each in schema}

    def of(base: Row) -> Row:
        if chance.random() < 0.2:
            return None
        if base is None:
            return row()
        return {n: v if chance.random() < 0.5 else row()[n] for n, v in base.items()}

    found: list[Three] = []
    for _ in range(count):
        base = None if chance.random() < 0.2 else row()
        like = row() if base is None and chance.random() < 0.5 else base
        found.append((base, of(like), of(like)))
    return found


@pytest.mark.parametrize("strategy", STRATEGIES, ids=range(len(STRATEGIES)))
@pytest.mark.parametrize("by_rows", [False, True])
def test_random_rows_of_all_types_become_what_a_plain_rule_says(
    strategy: Any, by_rows: bool
) -> None:
    # DuckDB has no decimals of 50 digits.
    kinds = [each for each in VALUES if "coalesce" not in str(strategy) or "256" not in str(each)]
    for seed in range(25):
        chance = random.Random(seed)
        schema = pa.schema(
            [(f"c{at}", chance.choice(kinds)) for at in range(chance.randrange(1, 4))]
        )
        rows = random_rows(chance, schema, chance.randrange(40))
        resolve = Resolve.of(strategy)
        decided = RowResolver(schema, resolve, by_rows=by_rows).decide(sides_of(rows, schema))
        found = results(decided, shown_again(rows, schema))
        for three, result in zip(shown_again(rows, schema), found, strict=True):
            expected = merged(three, resolve, by_rows=by_rows)
            assert same_results(result, expected), (seed, three, result, expected)


def shown_again(rows: list[Three], schema: pa.Schema) -> list[Three]:
    """The rows as Arrow gives them back."""
    base, ours, theirs = (
        [
            row if there else None
            for row, there in zip(each.values.to_pylist(), each.there, strict=True)
        ]
        for each in sides_of(rows, schema).each
    )
    return list(zip(base, ours, theirs, strict=True))


def test_rows_may_be_slices_of_others_and_dictionaries_in_any_order() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("k", kind), ("l", pa.list_(pa.string()))])
    rows: list[Three] = [
        ({"k": "a", "l": ["x"]}, {"k": "b", "l": ["x"]}, {"k": "c", "l": ["y"]}),
        ({"k": "a", "l": ["x"]}, {"k": "b", "l": None}, {"k": "a", "l": ["y", None]}),
        ({"k": "a", "l": ["x"]}, {"k": "b", "l": ["x"]}, {"k": "a", "l": ["y"]}),
    ]
    plain = sides_of(rows, schema, first=1)
    padded = sides_of([rows[2], *rows, rows[0]], schema)
    sliced = of_sides(
        padded.ids[1:4],
        [SideRows(each.values.slice(1, 3), each.there[1:4]) for each in padded.each],
    )
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0], pa.int8()), ["b", "a", "z"])
    ours = SideRows(plain.ours.values.set_column(0, schema.field(0), words), plain.ours.there)
    other = Sides(plain.ids, plain.base, ours, plain.theirs)
    deciding = RowResolver(schema, table="t")
    expected = deciding.decide(plain)
    assert expected.fates.tolist() == [RowFate.CONFLICT, RowFate.CONFLICT, RowFate.WRITTEN]
    for each in (sliced, other):
        found = deciding.decide(each)
        assert found.fates.tolist() == expected.fates.tolist()
        assert found.conflicts.to_pylist() == expected.conflicts.to_pylist()
        assert found.written.to_pylist() == expected.written.to_pylist()


def of_sides(ids: Ids, sides: list[SideRows]) -> Sides:
    base, ours, theirs = sides
    return Sides(ids, base, ours, theirs)


def names_in(decided: ResolvedRows) -> list[str]:
    found: list[str] = decided.conflicts.column("_conflict").to_pylist()
    return found


def test_a_conflict_keeps_its_name_wherever_its_row_and_its_columns_stand() -> None:
    chance = random.Random(3)
    schema = pa.schema([(f"c{at}", each) for at, each in enumerate(VALUES)])
    rows = [each for each in random_rows(chance, schema, 60) if all(each)]
    sides = sides_of(rows, schema)
    names = names_in(RowResolver(schema, table="t").decide(sides))
    assert len(set(names)) == len(names) > 10
    turned = sides.take(np.arange(len(rows))[::-1].copy())
    assert names_in(RowResolver(schema, table="t").decide(turned)) == names[::-1]
    sliced = of_sides(
        sides.ids[9:], [SideRows(each.values.slice(9), each.there[9:]) for each in sides.each]
    )
    left = names_in(RowResolver(schema, table="t").decide(sliced))
    assert left
    assert names[-len(left) :] == left
    order = schema.names[::-1]
    other = of_sides(
        sides.ids, [SideRows(each.values.select(order), each.there) for each in sides.each]
    )
    mixed = pa.schema([schema.field(each) for each in order])
    assert names_in(RowResolver(mixed, table="t").decide(other)) == names
    by_rows = names_in(RowResolver(schema, table="t", by_rows=True).decide(sides))
    assert [each for each in by_rows if each in names] == names


def test_the_name_of_a_conflict_is_the_same_for_ever() -> None:
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("l", pa.list_(pa.struct([("x", pa.int32())]))),
        ]
    )
    row = {"n": 1, "f": NAN, "s": "é", "l": [{"x": 1}, None, {"x": None}]}
    long = {**row, "s": "e" * 1000}
    rows: list[Three] = [(row, {**row, "n": 2}, {**row, "n": 3}), (row, None, long)]
    found = RowResolver(schema, table="birds").decide(sides_of(rows, schema))
    assert names_in(found) == ["1c7641f262440791", "85fd064cf21d4bcf"]


def test_the_name_of_a_conflict_tells_no_values_apart_that_are_equal() -> None:
    schema = pa.schema([("x", pa.float64()), ("n", pa.int64())])
    others = np.array([0x7FF8000000000001, 0x8000000000000000], np.uint64).view(np.float64)
    names = []
    for values in (pa.array([NAN, 0.0]), pa.array(others)):
        sides = [
            SideRows(
                pa.RecordBatch.from_arrays([values, pa.array([n, n])], schema=schema),
                np.ones(2, np.bool_),
            )
            for n in range(3)
        ]
        names.append(names_in(RowResolver(schema).decide(of_sides(np.zeros(2, np.uint64), sides))))
    assert names[0] == names[1]
    assert len(set(names[0])) == 2


def test_the_name_of_a_conflict_changes_with_all_that_it_is_about() -> None:
    three = (B, bird(name="auk"), bird(name="hen"))
    names = {
        "as it is": names_in(decide(three))[0],
        "another base": names_in(decide((bird(seen=5), three[1], three[2])))[0],
        "another ours": names_in(decide((B, bird(name="tit"), three[2])))[0],
        "another theirs": names_in(decide((B, three[1], bird(name="tit"))))[0],
        "deleted": names_in(decide((B, None, three[2])))[0],
        "deleted there": names_in(decide((B, three[1], None)))[0],
        "inserted": names_in(decide((None, *three[1:])))[0],
        "swapped": names_in(decide((B, three[2], three[1])))[0],
        "another row": names_in(decide((B, B, B), three))[0],
        "another table": names_in(RowResolver(BIRDS).decide(sides_of([three], BIRDS)))[0],
    }
    assert len(set(names.values())) == len(names)


def test_a_column_without_values_makes_no_other_name() -> None:
    wide = pa.schema([*BIRDS, ("note", pa.string())])
    rows = [(B, bird(name="auk"), bird(name="hen"))]
    both = (RowResolver(each, table="t").decide(sides_of(rows, each)) for each in (BIRDS, wide))
    one, other = map(names_in, both)
    assert one == other


def opaque_sides(rows: list[Three], cells: CellChanges) -> Sides:
    known = sides_of(rows, BIRDS)
    return Sides(known.ids, known.base, known.ours, known.theirs, {"photo": cells})


def masks(*of: list[bool]) -> CellChanges:
    return CellChanges(*(np.array(each, np.bool_) for each in of))


PHOTOS = pa.schema([*BIRDS, ("photo", pa.large_binary())])


def test_opaque_cells_are_chosen_and_not_read() -> None:
    rows: list[Three] = [(B, bird(name="auk"), B), (B, B, bird(seen=2)), (B, B, B), (B, B, B)]
    cells = masks([False, True, True, True], [True, False, True, False], [True, True, True, True])
    sides = opaque_sides(rows, cells)
    deciding = RowResolver(PHOTOS, opaque=frozenset({"photo"}))
    found = deciding.decide(sides)
    assert found.fates.tolist() == [
        *(RowFate.WRITTEN, RowFate.WRITTEN, RowFate.CONFLICT, RowFate.OURS)
    ]
    assert found.opaque["photo"].tolist() == [2, 1]
    assert found.written.schema.names == found.conflicts.schema.field("ours").type.names
    assert found.conflicts.column("_columns").to_pylist() == [["photo"]]
    taken = RowResolver(PHOTOS, Resolve.of({"photo": "base"}), opaque=frozenset({"photo"}))
    decided = taken.decide(sides)
    assert decided.fates[2] == RowFate.WRITTEN
    assert decided.opaque["photo"].tolist() == [2, 1, 0]


def test_rows_that_are_opaque_as_a_whole_are_decided() -> None:
    none = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    side = SideRows(none, np.ones(2, np.bool_))
    cells = {"photo": masks([True, False], [True, True], [True, True])}
    sides = Sides(np.arange(2, dtype=np.uint64), side, side, side, cells)
    schema = pa.schema([("photo", pa.large_binary())])
    found = RowResolver(schema, opaque=frozenset({"photo"})).decide(sides)
    assert found.fates.tolist() == [RowFate.CONFLICT, RowFate.THEIRS]
    taken = RowResolver(schema, Resolve.of("base"), opaque=frozenset({"photo"})).decide(sides)
    assert taken.fates.tolist() == [RowFate.WRITTEN, RowFate.THEIRS]
    assert (taken.written.num_rows, taken.opaque["photo"].tolist()) == (1, [0])


def test_it_decides_the_same_after_it_travelled() -> None:
    resolve = Resolve(columns={"name": "upper(theirs.name)"}, winner="theirs.seen > ours.seen")
    deciding = RowResolver(BIRDS, resolve, (("id",),), "birds")
    rows: list[Three] = [(B, bird(name="auk", seen=3), bird(name="hen", seen=4))]
    sides = sides_of(rows, BIRDS)
    there = pickle.loads(pickle.dumps(deciding)).decide(sides)
    assert there.written.to_pylist() == [bird(name="HEN", seen=4)]
    assert there.fates.tolist() == deciding.decide(sides).fates.tolist()
