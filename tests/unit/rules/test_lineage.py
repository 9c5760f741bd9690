"""Which fields of two schemas are the same: by ids, by names, and by what happened in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lancewood.errors import UnsupportedError
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.rules.lineage import (
    COLUMNS_PROPERTY,
    MERGED_COLUMNS_PROPERTY,
    Evidence,
    Lineage,
    Related,
    as_in,
    by_names,
    composed,
    is_held,
    merged_in,
    one_step,
    paired,
    recorded,
    recorded_merge,
    related,
    reversed_,
    rewritten_in,
    shared,
    unchanged,
)


def leaf(number: int, name: str, kind: str = "int64") -> Field:
    return Field(FieldId(number), name, kind)


def struct(number: int, name: str, *children: Field) -> Field:
    return Field(FieldId(number), name, "struct", children=children)


def listed(number: int, name: str, *children: Field) -> Field:
    return Field(
        FieldId(number), name, "list.struct", children=(struct(number + 1, "item", *children),)
    )


def schema(*fields: Field) -> Schema:
    return Schema(fields)


def ids(**pairs: int) -> Lineage:
    return {FieldId(int(new[1:])): FieldId(old) for new, old in pairs.items()}


BASE = schema(
    leaf(0, "a"), struct(1, "s", leaf(2, "x"), leaf(3, "y")), listed(4, "l", leaf(6, "p"))
)


def step(later: Schema, rewritten: Lineage | None = None) -> Lineage:
    found = one_step(BASE, later, rewritten)
    assert found is not None
    return found


def test_fields_keep_their_ids_under_other_names_at_every_depth() -> None:
    later = schema(
        leaf(0, "b"), struct(1, "t", leaf(3, "x"), leaf(2, "y")), listed(4, "l", leaf(6, "q"))
    )
    assert step(later) == unchanged(BASE)


def test_a_cast_field_is_the_one_of_its_name_below_the_same_parent() -> None:
    later = schema(
        leaf(7, "a", "int32"),
        struct(1, "s", leaf(8, "x", "int32"), leaf(3, "y")),
        listed(4, "l", leaf(9, "p", "int32")),
    )
    assert step(later) == ids(_7=0, _1=1, _8=2, _3=3, _4=4, _5=5, _9=6)


def test_a_name_below_another_parent_is_another_field() -> None:
    one = schema(struct(0, "s", leaf(1, "x")), struct(2, "t", leaf(3, "y")))
    other = schema(struct(0, "s", leaf(4, "y")), struct(2, "t", leaf(5, "x")))
    assert by_names(one, other) == ids(_0=0, _2=2)


def test_an_id_that_was_given_to_another_column_is_not_the_column() -> None:
    later = schema(leaf(0, "c"), *BASE.fields[1:])
    reused = Evidence(is_renamed=lambda older: False, walked=dict)
    assert FieldId(0) not in related(BASE, later, reused).ids


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_new_id_under_an_old_name_is_a_cast_unless_the_name_was_given_up(
    is_replaced: bool,
) -> None:
    later = schema(leaf(7, "a"), *BASE.fields[1:])
    known = Evidence(lambda older: True, dict, lambda older: is_replaced)
    assert (FieldId(7) in related(BASE, later, known).ids) is not is_replaced


def test_one_version_that_drops_and_adds_is_known_only_by_its_record() -> None:
    later = schema(leaf(7, "b", "int32"), *BASE.fields[1:])
    assert one_step(BASE, later) is None
    assert FieldId(7) not in step(later, {})
    assert step(later, ids(_7=0))[FieldId(7)] == 0


def test_what_nobody_knows_is_refused_by_name() -> None:
    later = schema(leaf(0, "a"), struct(1, "s", leaf(3, "y"), leaf(7, "z")), BASE.fields[2])
    found = related(BASE, later, Evidence(is_renamed=lambda older: True, walked=lambda: None))
    assert found.unknown == ("s.x",)
    with pytest.raises(
        UnsupportedError, match=r"^t\.lance is lost: 's\.x' may have been dropped.*; ask again$"
    ):
        found.check("t.lance is lost", "ask again")
    found.only(["a"]).check("t.lance is lost", "ask again")


def test_the_record_of_rewritten_fields_comes_back_as_it_was() -> None:
    assert rewritten_in(recorded({**unchanged(BASE), **ids(_7=0, _9=6)})) == ids(_7=0, _9=6)
    assert rewritten_in(recorded(unchanged(BASE))) == {}


@pytest.mark.parametrize("text", ["7", "7=", "a=1", "7=0,9=6", "-1=2", f"{10**10}=1"])
def test_a_record_that_cannot_be_read_says_nothing(text: str) -> None:
    assert rewritten_in({COLUMNS_PROPERTY: text}) is None
    assert rewritten_in({}) is None


def test_new_fields_of_two_sides_are_the_same_by_their_names_alone() -> None:
    one = schema(*BASE.fields, leaf(7, "n"), leaf(8, "m"))
    other = schema(replace(BASE.fields[0], name="m"), *BASE.fields[1:], leaf(7, "k"), leaf(8, "n"))
    known = unchanged(BASE)
    assert paired(one, other, known) == {**known, **ids(_8=7)}


def test_what_a_merge_brought_is_the_same_under_other_ids_and_names() -> None:
    one = schema(*BASE.fields, leaf(7, "n"))
    other = schema(*BASE.fields, leaf(9, "renamed"), leaf(10, "n"))
    known = unchanged(BASE)
    both = shared(Related(known), Related(known), ids(_9=7))
    assert paired(one, other, both) == {**known, **ids(_9=7)}


def test_the_record_of_merged_fields_comes_back_as_it_was() -> None:
    merged = Schema((leaf(0, "k"), leaf(3, "c"), leaf(4, "same")))
    after = Schema((leaf(0, "k"), leaf(3, "e"), leaf(7, "d"), leaf(4, "same")))
    lineage = {FieldId(0): FieldId(0), FieldId(7): FieldId(3), FieldId(4): FieldId(4)}
    record = recorded_merge(lineage, merged, after)
    assert record == {MERGED_COLUMNS_PROPERTY: "3= 7=3"}
    assert merged_in(record, merged, after) == lineage


def test_no_merged_fields_are_recorded_where_names_tell() -> None:
    merged = Schema((leaf(0, "k"), leaf(3, "c")))
    after = Schema((leaf(0, "k"), leaf(7, "c")))
    lineage = by_names(merged, after)
    assert recorded_merge(lineage, merged, after) == {}
    assert merged_in({}, merged, after) == lineage


@pytest.mark.parametrize("text", ["x", "1=2=3", "-1=2", "1=2,3=4", "1"])
def test_a_record_of_merged_fields_that_cannot_be_read_leaves_it_to_names(text: str) -> None:
    merged, after = Schema((leaf(1, "a"),)), Schema((leaf(5, "a"),))
    found = merged_in({MERGED_COLUMNS_PROPERTY: text}, merged, after)
    assert found == by_names(merged, after)


def test_lineages_are_followed_over_several_stretches_and_back() -> None:
    assert composed(ids(_9=7, _8=3), ids(_7=0)) == ids(_9=0)
    assert reversed_(ids(_9=0)) == {0: 9}


def test_a_field_is_read_as_it_was_under_the_names_that_it_has_now() -> None:
    wanted = struct(1, "t", leaf(8, "new"), leaf(9, "x2", "int32"))
    found = as_in(wanted, ids(_1=1, _9=2), BASE.by_id)
    assert found is not None
    assert (found.name, found.id, [each.name for each in found.children]) == ("t", 1, ["new", "x2"])
    new, cast = found.children
    assert not is_held(new.id)
    assert new.nullable
    assert (cast.id, cast.logical_type) == (2, "int64")
    assert as_in(leaf(20, "later"), {}, BASE.by_id) is None
