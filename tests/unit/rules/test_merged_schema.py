"""Laws of united schemas, for random changes of columns and of fields inside structs."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

import pytest

from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.rules.columns_side_by_side import Lineages
from lancewood.rules.lineage import Evidence, Lineage, related
from lancewood.rules.merged_schema import MergedSchema, Side, merge_schemas

TYPES = ("int64", "string", "double")
NAMES = "abcdefgh"
KEY = "lance-schema:unenforced-primary-key"


def leaf(number: int, name: str, kind: str = "int64", **metadata: bytes) -> Field:
    return Field(FieldId(number), name, kind, metadata=metadata)


BASE = Schema(
    (
        leaf(0, "a"),
        leaf(1, "b", "string", unit=b"m"),
        Field(FieldId(2), "c", "struct", children=(leaf(3, "x"), leaf(4, "y", "string"))),
        Field(FieldId(5), "d", "list", children=(leaf(6, "item"),)),
    ),
    {"made": b"by hand"},
)


def changed(chance: random.Random, fields: tuple[Field, ...], ids: count[int]) -> tuple[Field, ...]:
    """The fields after one random change of one of them."""
    at = chance.randrange(len(fields))
    old = fields[at]
    free = [each for each in NAMES if each not in {field.name for field in fields}]
    rest = fields[:at], fields[at + 1 :]
    if old.logical_type == "struct" and chance.random() < 0.5:
        return (*rest[0], replace(old, children=changed(chance, old.children, ids)), *rest[1])
    match chance.choice(("add", "drop", "rename", "cast", "nullable", "metadata")):
        case "add" if free:
            return (*fields, leaf(next(ids), chance.choice(free), chance.choice(TYPES)))
        case "drop" if len(fields) > 1:
            return (*rest[0], *rest[1])
        case "rename" if free:
            new = replace(old, name=chance.choice(free))
        case "cast" if not old.children:
            kind = chance.choice([each for each in TYPES if each != old.logical_type])
            new = replace(old, id=FieldId(next(ids)), logical_type=kind)
        case "nullable":
            new = replace(old, nullable=not old.nullable)
        case _:
            new = replace(old, metadata={**old.metadata, chance.choice("uv"): b"%d" % at})
    return (*rest[0], new, *rest[1])


def after(chance: random.Random) -> Schema:
    """The base after a few changes; new ids begin where both sides begin."""
    fields, ids = BASE.fields, count(7)
    for _ in range(chance.randrange(1, 5)):
        fields = changed(chance, fields, ids)
    return Schema(fields, {**BASE.metadata, chance.choice("pq"): b"%d" % chance.randrange(2)})


def of_base(side: Schema) -> Lineage:
    return related(BASE, side, Evidence(is_renamed=lambda older: True, walked=dict)).ids


def unite(ours: Schema, theirs: Schema, decisions: Side | None = None) -> MergedSchema:
    ids = Lineages(of_base(ours), of_base(theirs))
    first = first_free(ours)
    return merge_schemas(BASE, ours, theirs, ids, first_id=first, decisions=decisions)


def first_free(ours: Schema) -> int:
    return max(each.id for each in (*BASE.walk(), *ours.walk())) + 1


def bare(each: Field) -> object:
    """A field without ids, and its children by their names."""
    below = {child.name: bare(child) for child in each.children}
    return each.logical_type, each.nullable, dict(each.metadata), below


def content(fields: tuple[Field, ...]) -> dict[str, object]:
    return {each.name: bare(each) for each in fields}


def fields_of(united: MergedSchema) -> tuple[Field, ...]:
    return tuple(each.field for each in united.columns)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("seed", range(100))
def test_what_one_side_did_alone_is_done(seed: int) -> None:
    side = after(random.Random(seed))
    ours, theirs = unite(side, BASE), unite(BASE, side)
    assert ours.conflicts == theirs.conflicts == ()
    assert fields_of(ours) == side.fields
    assert content(fields_of(theirs)) == content(side.fields)
    assert ours.metadata == theirs.metadata == side.metadata


@pytest.mark.sliced(2)
@pytest.mark.parametrize("seed", range(200))
def test_two_sides_give_the_same_columns_in_either_direction(seed: int) -> None:
    chance = random.Random(1000 + seed)
    one, other = after(chance), after(chance)
    there, back = unite(one, other), unite(other, one)
    assert bool(there.conflicts) == bool(back.conflicts)
    if not there.conflicts:
        assert content(fields_of(there)) == content(fields_of(back))
        assert {each.name for each in there.lost} == {each.name for each in back.lost}
        assert there.metadata == back.metadata


@pytest.mark.sliced(2)
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("decision", ["ours", "theirs"])
def test_ids_are_unique_and_mean_one_type_on_each_side(seed: int, decision: Side) -> None:
    chance = random.Random(5000 + seed)
    ours, theirs = after(chance), after(chance)
    united = unite(ours, theirs, decision)
    assert united.conflicts == ()
    names = [each.name for each in fields_of(united)]
    assert len(set(names)) == len(names)
    nodes = list(Schema(fields_of(united)).walk())
    assert len({each.id for each in nodes}) == len(nodes)
    from_theirs = {new: theirs.by_id[old] for old, new in united.theirs_ids.items()}
    assert len(from_theirs) == len(united.theirs_ids)
    for each in nodes:
        mine = ours.by_id.get(each.id)
        assert mine is None or mine.logical_type == each.logical_type
        assert mine is not None or each.id >= first_free(ours)
        other = from_theirs.get(each.id)
        assert other is None or other.logical_type == each.logical_type
        assert mine is not None or other is not None


def test_the_ids_of_theirs_that_ours_never_gave_are_kept() -> None:
    theirs = Schema((*BASE.fields, leaf(9, "e"), leaf(7, "f")))
    assert unite(BASE, theirs).theirs_ids == {
        **{each.id: each.id for each in BASE.walk()},
        FieldId(9): 9,
        FieldId(7): 7,
    }
    ours = Schema((*BASE.fields, leaf(7, "mine")))
    assert unite(ours, theirs).theirs_ids[FieldId(7)] == 10


def test_both_sides_that_forbid_nulls_inside_one_struct_are_both_named() -> None:
    def strict(at: int) -> Schema:
        children = tuple(
            replace(each, nullable=index != at)
            for index, each in enumerate(BASE.by_name["c"].children)
        )
        struct = replace(BASE.by_name["c"], children=children)
        return Schema(tuple(struct if each.name == "c" else each for each in BASE.fields))

    united = {each.field.name: each for each in unite(strict(0), strict(1)).columns}
    assert united["c"].unchecked == ("ours", "theirs")
    assert [each.nullable for each in united["c"].field.children] == [False, False]
    same = {each.field.name: each for each in unite(strict(0), strict(0)).columns}
    assert same["c"].unchecked == ()


def test_the_key_of_the_side_that_was_chosen_is_on_no_column_of_the_other() -> None:
    ours = Schema((replace(BASE.fields[0], metadata={KEY: b"true"}), *BASE.fields[1:]))
    theirs = Schema((*BASE.fields, replace(leaf(7, "k"), metadata={KEY: b"true"})))
    wanted: dict[Side, str] = {"ours": "a", "theirs": "k"}
    for decision, column in wanted.items():
        united = unite(ours, theirs, decision)
        assert [each.name for each in fields_of(united) if KEY in each.metadata] == [column]
