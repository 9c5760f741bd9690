"""Decisions as JSON, and back: values get the types of their columns, nonsense is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.jobs.merge.decisions import Decision, merged_rows, merged_rules
from lancewood.jobs.merge.resolve import Resolve

VALUES: dict[str, tuple[Any, pa.DataType]] = {
    "long": (2**63 - 1, pa.int64()),
    "small": (-1, pa.int8()),
    "share": (0.1, pa.float32()),
    "yes": (True, pa.bool_()),
    "name": ("ä\n", pa.string()),
    "large": ("x", pa.large_string()),
    "bytes": (b"\0\xff", pa.binary()),
    "price": (decimal.Decimal("1.50"), pa.decimal128(9, 2)),
    "day": (dt.date(2026, 11, 17), pa.date32()),
    "time": (dt.time(1, 2, 3), pa.time64("us")),
    "moment": (dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC), pa.timestamp("us", "UTC")),
    "naive": (dt.datetime(2026, 1, 2, 3), pa.timestamp("ms")),
    "span": (dt.timedelta(seconds=3), pa.duration("ms")),
    "kind": ("a", pa.dictionary(pa.int8(), pa.string())),
    "list": ([1, None], pa.list_(pa.int32())),
    "vector": ([0.5, 1.5], pa.list_(pa.float32(), 2)),
    "struct": (
        {"a": b"x", "b": [decimal.Decimal("0.1")]},
        pa.struct([("a", pa.binary()), ("b", pa.list_(pa.decimal128(3, 1)))]),
    ),
    "map": ([("k", 1)], pa.map_(pa.string(), pa.int32())),
}
SCHEMA = pa.schema([(name, kind) for name, (_, kind) in VALUES.items()])


def kept(decision: Decision) -> Decision:
    """As it comes back from a file."""
    return Decision.decode(json.loads(json.dumps(decision.encode())))


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_with_its_type(name: str) -> None:
    value, kind = VALUES[name]
    given = pa.table(
        {"_conflict": ["a", "b"], "take": [None, "ours"], name: pa.array([value, None], kind)}
    )
    found = merged_rows([kept(Decision.of(Resolve(decisions=given)))], SCHEMA)
    assert found is not None
    assert found.equals(given.cast(found.schema))
    assert found.column(name).type == kind


def test_rules_and_sides_come_back() -> None:
    rules = Resolve(columns={"a": "theirs"}, winner="theirs.n > ours.n", deletes="win")
    decision = Decision.of(rules)
    assert decision.encode() == {
        "rules": {"columns": {"a": "theirs"}, "winner": "theirs.n > ours.n", "deletes": "win"}
    }
    assert kept(decision) == decision
    taken = Decision.of(Resolve(decisions=[{"_conflict": "a", "take": "theirs"}]))
    assert taken.encode() == {"rows": [{"_conflict": "a", "take": "theirs"}]}
    assert str(taken) == "1 conflict decided"
    assert str(decision) == "columns={'a': 'theirs'}, deletes=win, winner=theirs.n > ours.n"


def test_of_two_decisions_on_the_same_the_later_counts() -> None:
    schema = pa.schema([("n", pa.int64())])
    decisions = [
        Decision({"rows": "ours", "columns": {"a": "ours", "b": "ours"}}),
        Decision.of(Resolve(decisions=[{"_conflict": "x", "take": "ours"}])),
        Decision({"rows": "theirs", "columns": {"b": "theirs"}}),
        Decision.of(Resolve(decisions=[{"_conflict": "x", "n": 7}])),
    ]
    rules = merged_rules(decisions)
    assert (rules.rows, rules.columns) == ("theirs", {"a": "ours", "b": "theirs"})
    found = merged_rows(decisions, schema)
    assert found is not None
    assert found.to_pylist() == [{"_conflict": "x", "take": None, "n": 7}]
    assert merged_rows(decisions[:1], schema) is None


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "either rules or decided rows"),
        ({"rules": {"rows": "ours"}, "rows": [{"_conflict": "a", "take": "ours"}]}, "either"),
        ({"rules": []}, "rules are an object"),
        ({"rules": {"rows": "mine"}}, "rows"),
        ({"rules": {"deletes": {}}}, "deletes"),
        ({"rules": {"columns": {"a": 1}}}, "columns takes"),
        ({"rules": {"schema": {"a": []}}}, "schema"),
        ({"rules": {"decisions": []}}, "cannot have 'decisions'"),
        ({"rules": {"rows": "ours"}, "more": 1}, "cannot have 'more'"),
        ({"rows": {}}, "rows are a list"),
        ({"rows": {"a": 1}}, "rows are a list"),
        ({"rows": ["a"]}, "is an object"),
        ({"rows": [{"take": "ours"}]}, "names no conflict"),
        ({"rows": [{"_conflict": 3, "take": "ours"}]}, "names no conflict"),
        ({"rows": [{"_conflict": "a"}]}, "neither side nor values"),
        ({"rows": [{"_conflict": "a", "take": "mine"}]}, "take is one of"),
        ({"rows": [{"_conflict": "a", "take": ["ours"]}]}, "take"),
        ({"rows": [{"_conflict": "a", "values": 3}]}, "values are an object"),
        ({"rows": [{"_conflict": "a", "take": "ours"}] * 2}, "decided 2 times"),
    ],
)
def test_what_is_no_decision_is_refused(document: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        Decision.decode(document)


@pytest.mark.parametrize("value", ["x", 1.5, True, [1], {"a": 1}, 2**70])
def test_a_value_that_does_not_fit_names_its_column(value: Any) -> None:
    decision = Decision.decode({"rows": [{"_conflict": "a", "values": {"n": value}}]})
    with pytest.raises(InvalidInputError, match="column 'n'"):
        merged_rows([decision], pa.schema([("n", pa.int64())]))
    with pytest.raises(InvalidInputError, match="'n', which is not there"):
        merged_rows([decision], pa.schema([("m", pa.int64())]))


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="nan cannot be kept"):
        Decision.of(Resolve(decisions=[{"_conflict": "a", "n": float("nan")}]))
    with pytest.raises(InvalidInputError, match="two decisions"):
        Decision.of(Resolve(decisions=[{"_conflict": "a", "n": 1}], rows="ours"))
