"""Two sides that change the columns of a table: a test for each pair of changes.

Each test changes a table on main (ours) and on a branch (theirs), by Lancewood or by pylance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.format.schema import decode_schema
from lancewood.jobs.merge.merged_columns import MergedColumns, merge_columns
from lancewood.rules.lineage import is_held
from lancewood.rules.merged_schema import SchemaConflict, SchemaDecisions

KEY = {"lance-schema:unenforced-primary-key": "true"}
POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "label": pa.array(["a", "b", "c"], pa.string()),
        "count": pa.array([1, 2, 3], pa.int32()),
        "point": pa.array([{"x": 1, "y": 2}] * 3, POINT),
    },
    schema=pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("label", pa.string()),
            ("count", pa.int32()),
            ("point", POINT),
        ]
    ),
)
FLOAT = pa.schema([("score", pa.float32())])
Change = Callable[[lw.Table], lw.Table]


@dataclass
class Sides:
    """A table, and what was done to it on main and on its branch."""

    base: lw.Table
    ours: lw.Table
    theirs: lw.Table

    def unite(self, schema: SchemaDecisions = None) -> MergedColumns:
        """The schemas united, and seen to be one that a manifest may have."""
        base, ours, theirs = (each._snapshot for each in (self.base, self.ours, self.theirs))
        united = merge_columns(base, ours, theirs, schema)
        assert decode_schema(united.fields, united.metadata) == united.schema
        given = {each.id for each in ours.schema.walk()}
        for old, new in united.theirs_ids.items():
            one, other = theirs.schema.by_id[old], united.schema.by_id[new]
            assert one.logical_type == other.logical_type
            assert new not in given or ours.schema.by_id[new].logical_type == one.logical_type
        for each in united.columns:
            sides = ((each.base, base), (each.ours, ours), (each.theirs, theirs))
            for side, state in sides:
                known = {node.id for node in state.schema.by_id.values()}
                assert side is None or known.issuperset(
                    node.id for node in side.walk() if is_held(node.id)
                )
                assert side is None or side.name == each.field.name
        return united


def same(table: lw.Table) -> lw.Table:
    return table


def added(name: str = "score", kind: pa.DataType | None = None) -> Change:
    return lambda table: table.add_columns(pa.schema([(name, kind or pa.float32())]))


def dropped(name: str = "label") -> Change:
    return lambda table: table.drop_columns([name])


def renamed(new: str, old: str = "label") -> Change:
    return lambda table: table.rename_column(old, new)


def cast(kind: pa.DataType, name: str = "count") -> Change:
    return lambda table: table.cast_column(name, kind)


def marked(value: str, name: str = "label", key: str = "unit") -> Change:
    return lambda table: table.set_field_metadata({name: {key: value}})


def together(*changes: Change) -> Change:
    def change(table: lw.Table) -> lw.Table:
        for each in changes:
            table = each(table)
        return table

    return change


def by_pylance(change: Callable[[Any], None]) -> Change:
    """A change that pylance makes, on whatever branch the handle is of."""

    def made(table: lw.Table) -> lw.Table:
        branch = table._snapshot.manifest.branch
        uri = table.uri.partition("/tree/")[0]
        dataset = lance.dataset(uri)
        change(dataset if branch is None else dataset.checkout_version((branch, None)))
        return lw.open(uri, branch=branch)

    return made


def altered(**what: Any) -> Change:
    return by_pylance(lambda dataset: dataset.alter_columns({"path": "label", **what}))


@pytest.fixture
def sides(tmp_path: Path) -> Callable[..., Sides]:
    def make(ours: Change, theirs: Change, rows: pa.Table = ROWS) -> Sides:
        base = lw.create(str(tmp_path / "t"), rows, access=lw.Access(fsync=False))
        branch = base.branches.create("trial")
        return Sides(base, ours(base), theirs(branch))

    return make


Make = Callable[..., Sides]


def names(united: MergedColumns) -> list[str]:
    return [each.field.name for each in united.columns]


def types(united: MergedColumns) -> dict[str, str]:
    return {each.field.name: each.field.logical_type for each in united.columns}


def column(united: MergedColumns, name: str) -> Any:
    return next(each for each in united.columns if each.field.name == name)


# ours: same


def test_same_and_same_is_same(sides: Make) -> None:
    united = sides(same, same).unite()
    assert (united.is_changed, united.conflicts, united.lost) == (False, (), ())
    assert united.theirs_ids == {each: each for each in united.theirs_ids}
    assert len(united.theirs_ids) == 6


def test_same_and_added_is_added_at_the_end(sides: Make) -> None:
    united = sides(same, added()).unite()
    assert names(united) == [*ROWS.schema.names, "score"]
    assert united.is_changed
    score = column(united, "score")
    assert (score.base, score.ours, score.field.nullable) == (None, None, True)
    assert united.theirs_ids[score.theirs.id] == score.field.id


def test_same_and_added_non_null_says_so(sides: Make) -> None:
    new = pa.table({"rank": [1, 2, 3]}, schema=pa.schema([pa.field("rank", pa.int64(), False)]))
    rank = column(sides(same, lambda each: each.add_columns(new)).unite(), "rank")
    assert not rank.field.nullable
    assert rank.ours is None


@pytest.mark.parametrize(
    "drop", [dropped(), by_pylance(lambda dataset: dataset.drop_columns(["label"]))]
)
def test_same_and_dropped_is_dropped_and_to_be_looked_at(sides: Make, drop: Change) -> None:
    united = sides(same, drop).unite()
    assert names(united) == ["id", "count", "point"]
    (lost,) = united.lost
    assert (lost.name, lost.dropped_by, lost.kept.name) == ("label", "theirs", "label")
    assert united.conflicts == ()


@pytest.mark.parametrize("rename", [renamed("title"), altered(name="title")])
def test_same_and_renamed_is_renamed(sides: Make, rename: Change) -> None:
    united = sides(same, rename).unite()
    assert names(united) == ["id", "title", "count", "point"]
    title = column(united, "title")
    assert [each.name for each in (title.base, title.ours, title.theirs)] == ["title"] * 3
    assert title.field.id == title.ours.id


@pytest.mark.parametrize(
    "change",
    [
        cast(pa.int64()),
        by_pylance(lambda each: each.alter_columns({"path": "count", "data_type": pa.int64()})),
    ],
)
def test_same_and_replaced_is_taken_under_an_id_that_ours_never_gave(
    sides: Make, change: Change
) -> None:
    both = sides(same, change)
    united = both.unite()
    assert types(united)["count"] == "int64"
    count = column(united, "count")
    assert count.field.id not in both.ours._snapshot.schema.by_id
    assert united.theirs_ids[count.theirs.id] == count.field.id
    assert names(united) == ROWS.schema.names


def test_same_and_tightened_is_taken_and_said(sides: Make) -> None:
    united = sides(same, altered(nullable=False)).unite()
    label = column(united, "label")
    assert (label.field.nullable, label.unchecked) == (False, ("ours",))


def test_same_and_loosened_is_taken(sides: Make) -> None:
    loosen = by_pylance(lambda each: each.alter_columns({"path": "id", "nullable": True}))
    united = sides(same, loosen).unite()
    assert (column(united, "id").field.nullable, column(united, "id").unchecked) == (True, ())


def test_same_and_metadata_is_taken(sides: Make) -> None:
    united = sides(same, marked("cm")).unite()
    assert column(united, "label").field.metadata == {"unit": b"cm"}
    assert united.is_changed


# ours: added


def test_added_and_same_is_added(sides: Make) -> None:
    united = sides(added(), same).unite()
    assert (names(united)[-1], united.is_changed) == ("score", False)


def test_added_and_added_of_the_same_type_is_one_column(sides: Make) -> None:
    united = sides(together(added("other"), added()), added()).unite()
    score = column(united, "score")
    assert (score.base, score.field.id) == (None, score.ours.id)
    assert score.theirs.id != score.ours.id
    assert united.theirs_ids[score.theirs.id] == score.ours.id
    assert not united.is_changed


def test_added_and_added_under_the_same_id_are_two_columns(sides: Make) -> None:
    both = sides(added("mine"), added("other"))
    united = both.unite()
    mine, other = column(united, "mine"), column(united, "other")
    assert mine.ours.id == other.theirs.id == mine.field.id
    assert other.field.id == mine.field.id + 1
    assert united.theirs_ids[other.theirs.id] == other.field.id
    assert (mine.theirs, other.ours) == (None, None)


def test_added_and_added_of_another_type_is_a_conflict(sides: Make) -> None:
    both = sides(added(), added("score", pa.string()))
    united = both.unite()
    assert united.conflicts == (
        SchemaConflict("score", "column", "added as float", "added as string"),
    )
    decisions: list[tuple[SchemaDecisions, str]] = [
        ("ours", "float"),
        ("theirs", "string"),
        ({"score": "theirs"}, "string"),
    ]
    for schema, kind in decisions:
        decided = both.unite(schema)
        assert (decided.conflicts, types(decided)["score"]) == ((), kind)
        score = column(decided, "score")
        assert (score.field.id == score.ours.id) is (kind == "float")
        assert (score.theirs.id in decided.theirs_ids) is (kind == "string")


def test_added_and_renamed_to_its_name_is_a_conflict(sides: Make) -> None:
    both = sides(added("title"), renamed("title"))
    (conflict,) = both.unite().conflicts
    assert conflict == SchemaConflict("title", "column", "added as float", "label renamed to title")
    assert names(both.unite("ours")) == [*ROWS.schema.names, "title"]
    assert types(both.unite("theirs")) == {
        "id": "int64",
        "title": "string",
        "count": "int32",
        "point": "struct",
    }


def test_added_and_metadata_of_the_same_new_column_is_merged(sides: Make) -> None:
    united = sides(
        together(added(), marked("m", "score")), together(added(), marked("x", "score", "of"))
    ).unite()
    assert column(united, "score").field.metadata == {"unit": b"m", "of": b"x"}


# ours: dropped


def test_dropped_and_same_is_dropped_and_to_be_looked_at(sides: Make) -> None:
    united = sides(dropped(), same).unite()
    assert names(united) == ["id", "count", "point"]
    assert [(each.name, each.dropped_by) for each in united.lost] == [("label", "ours")]
    assert not united.is_changed
    assert 1 not in united.theirs_ids


def test_dropped_and_dropped_is_dropped(sides: Make) -> None:
    united = sides(dropped(), dropped()).unite()
    assert (names(united), united.lost) == (["id", "count", "point"], ())


def test_dropped_and_renamed_is_a_conflict(sides: Make) -> None:
    both = sides(dropped(), renamed("title"))
    assert both.unite().conflicts == (
        SchemaConflict("label", "column", "dropped", "renamed to title"),
    )
    assert names(both.unite("ours")) == ["id", "count", "point"]
    assert names(both.unite("theirs")) == ["id", "count", "point", "title"]
    assert names(both.unite({"label": "drop"})) == ["id", "count", "point"]
    assert names(both.unite({"label": "keep"})) == ["id", "count", "point", "title"]


def test_dropped_and_replaced_is_a_conflict(sides: Make) -> None:
    both = sides(dropped("count"), cast(pa.int64()))
    assert both.unite().conflicts == (SchemaConflict("count", "column", "dropped", "int64"),)
    kept = both.unite({"count": "theirs"})
    assert (kept.conflicts, types(kept)["count"]) == ((), "int64")


@pytest.mark.parametrize("change", [altered(nullable=False), marked("cm")])
def test_dropped_and_nullability_or_metadata_is_dropped(sides: Make, change: Change) -> None:
    united = sides(dropped(), change).unite()
    assert names(united) == ["id", "count", "point"]
    assert united.conflicts == ()


def test_a_kept_column_that_ours_dropped_comes_back_under_a_new_id(sides: Make) -> None:
    both = sides(dropped(), same)
    united = both.unite({"label": "keep"})
    label = column(united, "label")
    assert (united.lost, united.conflicts) == ((), ())
    assert label.field.id != label.theirs.id
    assert united.theirs_ids[label.theirs.id] == label.field.id
    assert label.base is None
    assert label.theirs.id in united.kept
    assert both.unite({"label": "drop"}).lost == ()


def test_a_decision_for_the_other_side_keeps_a_lost_column_only_if_cells_were_changed(
    sides: Make,
) -> None:
    both = sides(same, dropped())
    assert both.unite("theirs").lost == ()
    united = both.unite("ours")
    assert ["label" in names(united), *(each.is_kept for each in united.lost)] == [False, True]
    assert names(both.unite({"label": "keep"})) == ROWS.schema.names


def test_a_column_is_decided_by_itself_and_all_others_by_a_side(sides: Make) -> None:
    both = sides(together(renamed("title"), cast(pa.int64())), dropped("count"))
    both.theirs = both.theirs.rename_column("label", "name")
    assert len(both.unite().conflicts) == 2
    united = both.unite({"*": "theirs", "count": "keep"})
    assert united.conflicts == ()
    assert types(united) == {"id": "int64", "name": "string", "count": "int64", "point": "struct"}


# ours: renamed


def test_renamed_and_same_is_renamed(sides: Make) -> None:
    united = sides(renamed("title"), same).unite()
    assert (names(united), united.is_changed) == (["id", "title", "count", "point"], False)
    assert united.theirs_ids[column(united, "title").theirs.id] == column(united, "title").ours.id


def test_renamed_and_added_of_that_name_is_a_conflict(sides: Make) -> None:
    both = sides(renamed("title"), added("title"))
    assert both.unite().conflicts == (
        SchemaConflict("title", "column", "label renamed to title", "added as float"),
    )
    assert types(both.unite("ours"))["title"] == "string"
    decided = types(both.unite("theirs"))
    assert (decided["label"], decided["title"]) == ("string", "float")


def test_renamed_and_dropped_is_a_conflict(sides: Make) -> None:
    both = sides(renamed("title"), dropped())
    assert both.unite().conflicts == (
        SchemaConflict("label", "column", "renamed to title", "dropped"),
    )
    assert "title" not in names(both.unite("theirs"))
    assert "title" in names(both.unite({"label": "keep"}))


def test_renamed_and_renamed_alike_is_renamed(sides: Make) -> None:
    united = sides(renamed("title"), altered(name="title")).unite()
    assert (names(united)[1], united.conflicts) == ("title", ())


def test_renamed_and_renamed_otherwise_is_a_conflict(sides: Make) -> None:
    both = sides(renamed("title"), renamed("name"))
    assert both.unite().conflicts == (
        SchemaConflict("label", "column", "renamed to title", "renamed to name"),
    )
    assert names(both.unite("ours"))[1] == "title"
    assert names(both.unite("theirs"))[1] == "name"


def test_two_columns_renamed_to_one_name_are_a_conflict(sides: Make) -> None:
    both = sides(renamed("x"), renamed("x", "count"))
    assert both.unite().conflicts == (
        SchemaConflict("x", "column", "label renamed to x", "count renamed to x"),
    )
    assert names(both.unite("theirs")) == ["id", "label", "x", "point"]


def test_renamed_and_replaced_both_hold(sides: Make) -> None:
    united = sides(renamed("total", "count"), cast(pa.int64())).unite()
    assert types(united)["total"] == "int64"
    assert united.conflicts == ()


def test_renamed_and_nullability_both_hold(sides: Make) -> None:
    title = column(sides(renamed("title"), altered(nullable=False)).unite(), "title")
    assert (title.field.nullable, title.unchecked) == (False, ("ours",))


def test_renamed_and_metadata_both_hold(sides: Make) -> None:
    united = sides(renamed("title"), marked("cm")).unite()
    assert column(united, "title").field.metadata == {"unit": b"cm"}


# ours: replaced


def test_replaced_and_same_is_ours_and_files_of_theirs_do_not_hold_it(sides: Make) -> None:
    united = sides(cast(pa.int64()), same).unite()
    count = column(united, "count")
    assert (count.field.logical_type, united.is_changed) == ("int64", False)
    assert count.theirs.id not in united.theirs_ids


def test_replaced_and_dropped_is_a_conflict(sides: Make) -> None:
    both = sides(cast(pa.int64()), dropped("count"))
    assert both.unite().conflicts == (SchemaConflict("count", "column", "int64", "dropped"),)
    assert "count" not in names(both.unite("theirs"))


def test_replaced_and_renamed_both_hold(sides: Make) -> None:
    united = sides(cast(pa.int64()), renamed("total", "count")).unite()
    assert types(united)["total"] == "int64"


def test_replaced_and_replaced_alike_is_one_column(sides: Make) -> None:
    united = sides(together(added(), cast(pa.int64())), cast(pa.int64())).unite()
    count = column(united, "count")
    assert (count.field.id, united.theirs_ids[count.theirs.id]) == (count.ours.id, count.ours.id)
    assert united.conflicts == ()


def test_replaced_and_replaced_otherwise_is_a_conflict(sides: Make) -> None:
    both = sides(cast(pa.int64()), cast(pa.float64()))
    assert both.unite().conflicts == (SchemaConflict("count", "column", "int64", "double"),)
    assert types(both.unite({"count": "theirs"}))["count"] == "double"


def test_replaced_and_metadata_both_hold(sides: Make) -> None:
    united = sides(cast(pa.int64()), marked("m", "count")).unite()
    count = column(united, "count").field
    assert (count.logical_type, count.metadata) == ("int64", {"unit": b"m"})


# the schema as a whole


def test_metadata_of_a_column_that_both_set_differently_is_a_conflict(sides: Make) -> None:
    both = sides(marked("cm"), marked("m"))
    assert both.unite().conflicts == (SchemaConflict("label", "metadata", "unit=cm", "unit=m"),)
    assert column(both.unite("theirs"), "label").field.metadata == {"unit": b"m"}


def test_metadata_of_the_schema_is_merged_key_by_key(sides: Make) -> None:
    def set_to(**values: str) -> Change:
        return by_pylance(lambda each: each.update_schema_metadata(values))

    united = sides(set_to(a="1"), set_to(b="2")).unite()
    assert (united.metadata, united.is_changed) == ({"a": b"1", "b": b"2"}, True)


def test_metadata_of_the_schema_that_both_set_differently_is_a_conflict(sides: Make) -> None:
    both = sides(
        by_pylance(lambda each: each.update_schema_metadata({"a": "1"})),
        by_pylance(lambda each: each.update_schema_metadata({"a": "2"})),
    )
    assert both.unite().conflicts == (SchemaConflict("", "metadata", "a=1", "a=2"),)
    assert both.unite("theirs").metadata == {"a": b"2"}


def test_a_primary_key_that_one_side_declares_is_taken(sides: Make) -> None:
    united = sides(same, lambda each: each.set_field_metadata({"id": KEY})).unite()
    assert united.fields[0].unenforced_primary_key


def test_primary_keys_that_are_declared_differently_are_a_conflict(sides: Make) -> None:
    fields = [pa.field("a", pa.int64(), False), pa.field("b", pa.int64(), False)]
    rows = pa.table({"a": [1], "b": [2]}, schema=pa.schema(fields))
    both = sides(
        lambda each: each.set_field_metadata({"a": KEY}),
        lambda each: each.set_field_metadata({"b": KEY}),
        rows,
    )
    assert both.unite().conflicts == (
        SchemaConflict("a", "key", "primary key: a", "primary key: b"),
    )
    assert [each.unenforced_primary_key for each in both.unite("ours").fields] == [True, False]
    assert [each.unenforced_primary_key for each in both.unite("theirs").fields] == [False, True]


def test_a_field_that_one_side_adds_inside_a_struct_is_in_it(sides: Make) -> None:
    united = sides(same, added("point.z")).unite()
    point = column(united, "point")
    assert [each.name for each in point.field.children] == ["x", "y", "z"]
    assert point.field.id == point.ours.id
    assert [each.id for each in point.field.children[:2]] == [
        each.id for each in point.ours.children if is_held(each.id)
    ]


def test_a_field_that_both_add_inside_a_struct_is_one(sides: Make) -> None:
    united = sides(together(added("more"), added("point.z")), added("point.z")).unite()
    point = column(united, "point")
    assert point.field == point.ours
    assert united.theirs_ids[point.theirs.children[2].id] == point.ours.children[2].id


def test_different_fields_that_both_add_inside_a_struct_are_a_conflict(sides: Make) -> None:
    both = sides(added("point.z"), added("point.w"))
    (conflict,) = both.unite().conflicts
    assert conflict == SchemaConflict(
        "point",
        "column",
        "struct<x: int64, y: int64, z: float>",
        "struct<x: int64, y: int64, w: float>",
    )
    for decided, last in ((both.unite("ours"), "z"), (both.unite("theirs"), "w")):
        inner = [each.name for each in column(decided, "point").field.children]
        assert (inner, decided.lost) == (["x", "y", last], ())


def test_a_field_that_one_side_drops_inside_a_struct_is_to_be_looked_at(sides: Make) -> None:
    both = sides(same, dropped("point.y"))
    united = both.unite()
    assert [each.name for each in column(united, "point").field.children] == ["x"]
    (lost,) = united.lost
    assert (lost.name, lost.kept.name) == ("point.y", "y")
    assert len(column(both.unite({"point.y": "keep"}), "point").field.children) == 2


def test_a_field_that_one_side_casts_inside_a_struct_has_a_new_id(sides: Make) -> None:
    united = sides(same, cast(pa.float64(), "point.x")).unite()
    point = column(united, "point")
    assert [each.logical_type for each in point.field.children] == ["double", "int64"]
    assert point.field.children[0].id not in {each.id for each in point.ours.walk()}
    assert point.field.children[1].id == point.ours.children[1].id


def test_without_a_base_columns_are_the_same_by_their_names(sides: Make) -> None:
    both = sides(added("mine"), added("other"))
    united = merge_columns(None, both.ours._snapshot, both.theirs._snapshot)
    assert names(united) == [*ROWS.schema.names, "mine", "other"]
    assert all(each.base is None for each in united.columns)
    assert united.conflicts == ()


def test_ids_that_the_files_of_ours_still_hold_are_not_given_again(sides: Make) -> None:
    write = {"old": "cast(count as bigint)"}
    both = sides(together(lambda each: each.add_columns(write), dropped("old")), added("other"))
    other = column(both.unite(), "other")
    held = {
        number
        for fragment in both.ours._snapshot.manifest.fragments
        for file in fragment.message.files
        for number in file.fields
    }
    assert other.field.id not in held


def test_a_decision_about_a_column_that_nobody_has_is_refused(sides: Make) -> None:
    both = sides(same, dropped())
    with pytest.raises(InvalidInputError, match="'lable', which neither side nor their base has"):
        both.unite({"lable": "keep"})


def test_columns_of_a_base_on_the_other_branch_are_known_by_name(tmp_path: Path) -> None:
    """Ours took theirs before: the base is a version of theirs, whose new ids mean others here."""
    start = lw.create(str(tmp_path / "t"), ROWS, access=lw.Access(fsync=False))
    theirs = start.branches.create("trial").add_columns(FLOAT)
    ours = start.add_columns(pa.schema([("mine", pa.float32())])).add_columns(FLOAT)
    later = theirs.rename_column("score", "points")
    united = merge_columns(theirs._snapshot, ours._snapshot, later._snapshot)
    assert names(united) == [*ROWS.schema.names, "mine", "points"]
    assert united.conflicts == ()
    assert united.lost == ()
