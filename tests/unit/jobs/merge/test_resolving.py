"""What decides conflicts: rules by column, a winner, sides, decisions, in their order."""

from __future__ import annotations

import pickle
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.jobs.merge.sides import Row, Three, results, sides_of

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.jobs.merge.resolve import Resolve, decided_names
from lancewood.jobs.merge.row_resolver import ResolvedRows, RowFate, RowResolver

BIRDS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        ("seen", pa.int32()),
        ("day", pa.date32()),
    ]
)


def bird(name: str = "owl", seen: int | None = 1, day: date | None = None) -> Row:
    return {"id": 7, "name": name, "seen": seen, "day": day}


B = bird()
BOTH: Three = (B, bird("auk", 3), bird("hen", 5, date(2026, 1, 1)))
"""In conflict in name and seen; theirs alone gave it a day."""
DELETED_THERE: Three = (B, bird("auk"), None)
DELETED_HERE: Three = (B, None, bird("hen"))
INSERTED: Three = (None, bird("auk", None), bird("hen", 5))
EACH = (BOTH, DELETED_THERE, DELETED_HERE, INSERTED)
THEIR_DAY = date(2026, 1, 1)


def deciding(given: Any) -> RowResolver:
    return RowResolver(BIRDS, Resolve.of(given), (("id",),), "birds")


def decide(given: Any, *rows: Three) -> ResolvedRows:
    return deciding(given).decide(sides_of(rows, BIRDS))


def become(given: Any, *rows: Three) -> list[Any]:
    return results(decide(given, *rows), rows)


def names_of(*rows: Three) -> list[str]:
    found: list[str] = decide(None, *rows).conflicts.column("_conflict").to_pylist()
    return found


def test_without_any_rule_all_conflicts_stay() -> None:
    assert become(None, *EACH) == [
        ("update/update", ["name", "seen"]),
        ("update/delete", []),
        ("delete/update", []),
        ("insert/insert", ["name", "seen"]),
    ]
    assert decide(None, *EACH).resolved == 0


def test_a_side_decides_cells_in_conflict_and_whole_rows_where_one_deleted() -> None:
    assert become("ours", *EACH) == [
        bird("auk", 3, THEIR_DAY),
        bird("auk"),
        None,
        bird("auk", None),
    ]
    assert become("theirs", *EACH) == [BOTH[2], None, bird("hen"), bird("hen", 5)]
    assert become("base", *EACH) == [bird(day=THEIR_DAY), B, B, None]
    assert decide("base", *EACH).fates.tolist() == [
        *(RowFate.WRITTEN, RowFate.WRITTEN, RowFate.WRITTEN, RowFate.GONE)
    ]
    assert decide("ours", *EACH).resolved == 4


def test_whole_rows_take_the_cells_that_are_not_in_conflict_along() -> None:
    whole = Resolve(rows="ours", whole_rows=True)
    assert become(whole, BOTH) == [BOTH[1]]
    assert decide(whole, BOTH).fates.tolist() == [RowFate.OURS]


def test_rules_for_columns_compute_cells_of_the_rows_in_conflict() -> None:
    rules = {
        "seen": "ours.seen + theirs.seen - coalesce(base.seen, 0)",
        "name": "concat(ours.name, '/', theirs.name)",
    }
    assert become(rules, BOTH) == [bird("auk/hen", 7, THEIR_DAY)]
    assert become(rules, DELETED_HERE) == [("delete/update", [])]


def test_a_row_is_decided_when_all_of_its_cells_are() -> None:
    found = decide({"name": "theirs"}, BOTH)
    assert found.fates.tolist() == [RowFate.CONFLICT]
    assert found.conflicts.column("_columns").to_pylist() == [["seen"]]
    assert found.conflicts.column("_conflict").to_pylist() == names_of(BOTH)
    assert found.resolved == 0


def test_the_rule_for_each_cell_speaks_of_the_cell() -> None:
    assert become({"*": "coalesce(theirs, ours)"}, BOTH, INSERTED) == [BOTH[2], INSERTED[2]]
    assert become({"*": "coalesce(ours, theirs)"}, INSERTED) == [bird("auk", 5)]
    assert become({"*": "theirs", "name": "ours"}, BOTH) == [bird("auk", 5, THEIR_DAY)]


def test_computed_rows_that_a_side_has_already_are_not_written() -> None:
    assert decide({"*": "coalesce(theirs, ours)"}, BOTH).fates.tolist() == [RowFate.THEIRS]
    same = (B, bird("auk"), bird("hen"))
    assert decide({"name": "least(ours.name, theirs.name)"}, same).fates.tolist() == [RowFate.OURS]


def test_constants_are_values_of_the_column() -> None:
    days: Three = (bird(), bird(day=date(2026, 1, 2)), bird(day=date(2026, 1, 3)))
    assert become({"day": "'2026-05-01'"}, days) == [bird(day=date(2026, 5, 1))]
    assert become({"day": "NULL"}, days) == [B]
    assert become({"name": "'?'", "seen": "0"}, BOTH) == [bird("?", 0, THEIR_DAY)]


def test_the_winner_gives_its_cells_and_a_null_condition_means_ours() -> None:
    seen = Resolve(winner="theirs.seen > ours.seen")
    assert become(seen, BOTH) == [BOTH[2]]
    assert become(seen, (B, BOTH[2], BOTH[1])) == [BOTH[2]]
    assert become(seen, INSERTED, DELETED_THERE) == [INSERTED[1], ("update/delete", [])]
    row = bird("auk", 9)
    assert become(Resolve(winner=seen.winner, whole_rows=True), (B, row, BOTH[2])) == [row]


def test_deletes_win_or_lose() -> None:
    rows = (DELETED_THERE, DELETED_HERE)
    assert become(Resolve(deletes="win"), *rows) == [None, None]
    assert become(Resolve(deletes="lose"), *rows) == [bird("auk"), bird("hen")]
    assert become(Resolve(deletes="win", rows="base"), BOTH)[0] == bird(day=THEIR_DAY)
    assert become(Resolve(deletes="lose"), BOTH) == [("update/update", ["name", "seen"])]


def test_the_first_that_decides_counts() -> None:
    (name,) = names_of(BOTH)
    rules: dict[str, Any] = {
        "decisions": [{"_conflict": name, "seen": 40}],
        "columns": {"seen": "0", "name": "'rule'"},
        "winner": "true",
        "rows": "base",
    }
    assert become(Resolve(**rules), BOTH) == [bird("rule", 40, THEIR_DAY)]
    del rules["decisions"]
    assert become(Resolve(**rules), BOTH) == [bird("rule", 0, THEIR_DAY)]
    rules["columns"] = {"seen": "0"}
    assert become(Resolve(**rules), BOTH) == [bird("hen", 0, THEIR_DAY)]
    del rules["winner"]
    assert become(Resolve(**rules), BOTH) == [bird("owl", 0, THEIR_DAY)]
    rules["whole_rows"] = True
    assert become(Resolve(**rules), BOTH) == [bird("owl", 0)]


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        ("ours", [bird("auk", 3, THEIR_DAY), bird("auk"), None, bird("auk", None)]),
        ("theirs", [BOTH[2], None, bird("hen"), bird("hen", 5)]),
        ("base", [bird(day=THEIR_DAY), B, B, None]),
        ("delete", [None, None, None, None]),
    ],
)
def test_a_decision_takes_a_side_or_deletes(take: str, expected: list[Any]) -> None:
    decisions = [{"_conflict": each, "take": take} for each in names_of(*EACH)]
    assert become(decisions, *EACH) == expected


def test_decisions_give_values_and_others_decide_the_rest() -> None:
    both, there, _, _ = names = names_of(*EACH)
    decisions = [
        {"_conflict": both, "take": "theirs", "name": "tit"},
        {"_conflict": there, "take": "ours", "seen": 8},
        {"_conflict": "0" * 16, "take": "ours"},
    ]
    found = decide(decisions, *EACH)
    assert results(found, EACH)[:3] == [
        *(bird("tit", 5, THEIR_DAY), bird("auk", 8), ("delete/update", []))
    ]
    assert found.resolved == 2
    alone = [{"_conflict": both, "name": "tit"}, {"_conflict": there, "seen": 8}]
    assert become(alone, *EACH)[:2] == [("update/update", ["seen"]), ("update/delete", [])]
    more = Resolve(decisions=alone, columns={"seen": "theirs"}, deletes="lose")
    assert become(more, *EACH)[:2] == [bird("tit", 5, THEIR_DAY), bird("auk", 8)]
    gone = Resolve(decisions=alone, rows="theirs")
    assert become(gone, *EACH)[1] is None
    assert len(set(names)) == 4


def test_rows_of_one_column_are_decided_by_values_and_by_rules() -> None:
    rows = [BOTH, INSERTED, (B, bird("ant", 6), bird("bee", 7))]
    _, second, third = names_of(*rows)
    decisions = [{"_conflict": third, "name": "wasp"}, {"_conflict": second, "name": "bat"}]
    rules = Resolve(decisions=decisions, columns={"*": "greatest(ours, theirs)"})
    assert [each["name"] for each in become(rules, *rows)] == ["hen", "bat", "wasp"]


def test_a_stale_decision_decides_nothing() -> None:
    decisions = [{"_conflict": names_of(BOTH)[0], "take": "theirs"}]
    found = decide(decisions, (B, bird("auk", 4), BOTH[2]))
    assert found.fates.tolist() == [RowFate.CONFLICT]


def test_conflicts_that_were_shown_come_back_as_decisions() -> None:
    shown = decide(None, *EACH).conflicts
    takes = pa.array(["theirs", None, "theirs", "ours"])
    table = pa.Table.from_batches([shown]).append_column("take", takes)
    expected: list[Any] = [BOTH[2], ("update/delete", []), bird("hen"), bird("auk", None)]
    assert become(table, *EACH) == expected
    assert become(table.to_batches()[0], *EACH) == expected
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 3)])
    assert become(chunked, *EACH) == expected
    pandas = table.select(["_conflict", "take"]).to_pandas()
    assert become(pandas, *EACH) == expected
    by_name = {"_conflict": shown.column("_conflict").to_pylist(), "take": takes.to_pylist()}
    assert become(by_name, *EACH) == expected


def test_values_of_decisions_are_read_as_the_column_has_them() -> None:
    (name,) = names_of(BOTH)
    decisions = [{"_conflict": name, "take": "ours", "seen": 4.0, "day": "2026-02-03"}]
    assert become(decisions, BOTH) == [bird("auk", 4, date(2026, 2, 3))]
    assert become([], BOTH) == become(None, BOTH)


@pytest.mark.parametrize("number", [2**64, -(2**70)])
def test_an_integer_of_more_than_64_bits_is_an_error_that_names_it_and_the_column(
    number: int,
) -> None:
    given = [{"_conflict": "c", "seen": 4}, {"_conflict": "d", "seen": number}]
    with pytest.raises(InvalidInputError, match=f"'seen': {number} has more than 64 bits"):
        Resolve.of(given)
    with pytest.raises(InvalidInputError, match="'seen': an integer has more than 64 bits"):
        Resolve.of([{"_conflict": "c", "seen": [number]}])


def test_a_large_number_of_an_unsigned_column_is_decided() -> None:
    found = Resolve.of([{"_conflict": "c", "seen": 2**64 - 1}, {"_conflict": "d", "take": "ours"}])
    assert found.decisions.column("seen").to_pylist() == [2**64 - 1, None]


AMBIGUOUS = ["_kind", "_columns", "key", "base", "ours", "theirs"]
"""Names of columns that conflicts are shown with, and that a table may have, too."""
_REFUSED = "may be what conflicts are shown with, or values .* write values as 'merged"


class Named:
    """A row in conflict of a table with a column of any name and type."""

    def __init__(self, name: str, kind: Any, values: list[Any]) -> None:
        self.schema = pa.schema([("id", pa.int64()), (name, kind)])
        base, ours, theirs = ({"id": 7, name: each} for each in values)
        self.rows: Three = (base, ours, theirs)
        self.name = name
        (self.conflict,) = self._deciding(None).conflicts.to_pylist()

    def _deciding(self, given: Any) -> ResolvedRows:
        found = RowResolver(self.schema, Resolve.of(given), (("id",),), "birds")
        return found.decide(sides_of([self.rows], self.schema))

    def become(self, **decision: Any) -> Any:
        """What the column of the row becomes."""
        given = [{"_conflict": self.conflict["_conflict"], **decision}]
        (found,) = results(self._deciding(given), [self.rows])
        return found[self.name]


@pytest.mark.parametrize("name", AMBIGUOUS)
@pytest.mark.parametrize(
    ("kind", "values", "value"),
    [
        (pa.int64(), [0, 1, 2], 7),
        (pa.string(), ["owl", "auk", "hen"], "emu"),
        (pa.string(), ["{a}", "{b}", "{c}"], "{x}"),
        (pa.struct([("x", pa.int64())]), [{"x": 0}, {"x": 1}, {"x": 2}], {"x": 7}),
        (pa.list_(pa.string()), [["a"], ["b"], ["c"]], ["x"]),
    ],
)
def test_a_column_that_is_called_as_a_part_of_conflicts_is_decided_by_a_value(
    name: str, kind: Any, values: list[Any], value: Any
) -> None:
    row = Named(name, kind, values)
    given = {name: value}
    assert row.become(**given) == value
    assert row.become(take="ours", **given) == value
    assert row.become(**{f"merged.{name}": value}) == value
    assert row.become(**row.conflict | {"take": "theirs"}) == values[2]
    assert row.become(**row.conflict | given) == value
    assert row.become(**row.conflict, **{f"merged.{name}": value}) == value


@pytest.mark.parametrize(
    ("name", "kind", "values", "value"),
    [
        ("_kind", pa.string(), ["a", "b", "c"], "update/update"),
        ("_columns", pa.string(), ["a", "b", "c"], "id, _columns"),
        ("_columns", pa.list_(pa.string()), [["a"], ["b"], ["c"]], ["id"]),
        ("base", pa.string(), ["a", "b", "c"], '{"id": 7, "base": "x"}'),
        ("key", pa.struct([("id", pa.int64())]), [{"id": 0}, {"id": 1}, {"id": 2}], {"id": 7}),
    ],
)
def test_a_column_that_may_show_conflicts_as_well_as_give_values_is_refused(
    name: str, kind: Any, values: list[Any], value: Any
) -> None:
    row = Named(name, kind, values)
    with pytest.raises(InvalidInputError, match=_REFUSED):
        row.become(take="ours", **{name: value})
    assert row.become(take="ours", **{f"merged.{name}": value}) == value


def test_a_kind_of_conflicts_is_no_value_for_a_column_that_cannot_hold_it() -> None:
    row = Named("_kind", pa.int64(), [0, 1, 2])
    assert row.become(take="theirs", _kind="update/update") == 2


@pytest.mark.parametrize("name", ["take", "_conflict"])
def test_columns_called_as_those_of_decisions_are_decided_as_columns_of_the_merged_row(
    name: str,
) -> None:
    row = Named(name, pa.int64(), [0, 1, 2])
    assert row.become(**{f"merged.{name}": 7}) == 7


def test_rows_that_only_show_a_conflict_decide_nothing() -> None:
    shown = {"_conflict": "gone", "_kind": "update/update", "key": {"id": 7}}
    for others in ({}, {"_columns": ["name"], "base": None, "ours": B, "theirs": B}):
        given = Resolve.of([shown | others, {"_conflict": "b", "take": "ours"}])
        assert decided_names(given) == {"b"}
    assert decided_names(Resolve.of([{"_conflict": "gone", "base": "emu"}])) == {"gone"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("our", "resolve is 'ours', 'theirs' or 'base'"),
        (7, "data must speak Arrow"),
        ({"name": 7}, "columns takes names of columns with 'ours'"),
        ([{"take": "ours"}], "a decision has no _conflict"),
        (pa.table({"take": ["ours"]}), "in the column _conflict, found take"),
        ([{"_conflict": "a", "take": "mine"}], "got 'mine' for conflict 'a'"),
        ([{"_conflict": "a"}, {"_conflict": "a"}], "conflict 'a' is decided 2 times"),
        ([{"_conflict": "a", "take": "delete", "name": "x"}], "a value for 'name'; one of them"),
        ([{"_conflict": "a", "name": 1}, {"_conflict": "b", "name": "x"}], "cannot become Arrow"),
        (pa.table({"_conflict": ["a"], "take": [[1]]}), "take of the decisions is list"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(given: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Resolve.of(given)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rows": "both"}, "rows is one of 'ours', 'theirs', 'base'"),
        ({"deletes": "keep"}, "deletes is one of 'win', 'lose'"),
        ({"columns": "theirs"}, "columns takes rules by column"),
        ({"winner": True}, "winner takes SQL text"),
        ({"whole_rows": 1}, "whole_rows is True or False"),
        ({"schema": "base"}, "schema is one of 'ours', 'theirs'"),
        ({"schema": {"a": "base"}}, r"schema\['a'\] is one of 'ours', 'theirs', 'drop', 'keep'"),
        ({"schema": {1: "drop"}}, "schema takes names of columns, got 1"),
    ],
)
def test_words_that_are_not_known_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Resolve(**fields)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nam": "theirs"}, "names 'nam', which is no column of the merged table: they are id,"),
        ({"name": "theirs.nam"}, "the rule for 'name': .*nam"),
        ({"name": "upper(name)"}, "write ours.name, theirs.name or base.name, not name"),
        ({"name": "coalesce(theirs, ours)"}, "speaks of a whole row; name its cells, as ours.name"),
        ({"name": "theirs.seen"}, "'?theirs.seen'? is int.*, the column is string; cast it"),
        ({"name": "NULL"}, "the rule for 'name': it may not be null"),
        ({"seen": "'x'"}, "the rule for 'seen': 'x' is string, the column is int32; cast it"),
        ({"seen": "99999999999"}, "the rule for 'seen'"),
        ({"name": "upper("}, "the rule for 'name'"),
        ({"*": "ours + theirs"}, r"the rule '\*' for column 'name': .*a rule of its own"),
        (Resolve(winner="theirs.seen"), "winner: .* is not a condition"),
        (Resolve(winner="seen > 1"), "winner: write ours.seen, theirs.seen or base.seen, not seen"),
        (Resolve(winner="theirs IS NULL"), "winner: .* speaks of a whole row"),
        ([{"_conflict": "a", "nam": "x"}], "decisions of resolve names 'nam'"),
        ([{"_conflict": "a", "merged.nam": "x"}], "decisions of resolve names 'nam'"),
        ([{"_conflict": "a", "name": "x", "merged.name": "y"}], "values for 'name' twice"),
        ([{"_conflict": "a", "name": 1}], "decisions: column 'name': int64 is no string"),
        ([{"_conflict": "a", "seen": 1.5}], "decisions: column 'seen'"),
        ([{"_conflict": "a", "day": "soon"}], "decisions: column 'day'"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_before_any_row(given: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        deciding(given)


def test_a_value_that_does_not_fit_is_an_error_that_names_the_column() -> None:
    with pytest.raises(InvalidInputError, match=r"the rule for 'seen'.* does not fit int32") as bad:
        become({"seen": "ours.seen * 9000000000", "name": "ours"}, BOTH)
    assert bad.value.facts["column"] == "seen"


def test_a_null_that_may_not_be_is_an_error_that_names_the_row() -> None:
    with pytest.raises(InvalidInputError, match=r"column 'name' may not be null.*id=7"):
        become({"name": "nullif(theirs.name, 'hen')", "seen": "ours"}, BOTH)
    with pytest.raises(InvalidInputError, match=r"column 'name' may not be null.*id=7"):
        become({"name": "base", "seen": "ours"}, INSERTED)
    keyless = RowResolver(BIRDS, Resolve.of({"name": "base", "seen": "ours"}))
    with pytest.raises(InvalidInputError, match="the row with _rowid=3"):
        keyless.decide(sides_of([INSERTED], BIRDS, first=3))


def test_expressions_see_rows_in_conflict_only() -> None:
    fine: Three = (B, bird(seen=5), bird(day=THEIR_DAY))
    failing = {"seen": "CAST(theirs.name AS INT)", "name": "ours"}
    numbered: Three = (B, bird("1", 2), bird("12", 3))
    assert become(failing, fine, numbered)[1] == bird("1", 12)


def test_a_blob_is_decided_by_sides_only() -> None:
    photos = pa.schema([*BIRDS, ("photo", pa.large_binary())])
    opaque = frozenset({"photo"})
    rules: list[Any] = [{"photo": "upper(theirs.photo)"}, [{"_conflict": "a", "photo": b""}]]
    for given in rules:
        with pytest.raises(InvalidInputError, match=r"'photo', which holds|'photo' holds blobs"):
            RowResolver(photos, Resolve.of(given), opaque=opaque)
    with pytest.raises(InvalidInputError, match=r"'name'.*photo"):
        RowResolver(photos, Resolve.of({"name": "theirs.photo"}), opaque=opaque)
    RowResolver(
        photos, Resolve.of({"photo": "theirs", "*": "coalesce(theirs, ours)"}), opaque=opaque
    )


def test_the_front_door_has_it_and_it_travels() -> None:
    given = lw.Resolve(decisions=[{"_conflict": "a", "take": "ours"}], schema={"note": "drop"})
    there = pickle.loads(pickle.dumps(given))
    assert there.decisions.to_pylist() == [{"_conflict": "a", "take": "ours"}]
    assert there.schema == {"note": "drop"}
    assert Resolve.of(given) is given
