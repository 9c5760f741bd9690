"""Every line of the table of row states, with a table, its branch, and pylance as the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.merging import (
    FIRST,
    Scene,
    Step,
    again,
    append,
    both,
    compact,
    delete,
    in_place,
    nothing,
    rows_of,
    update,
)

import lancewood as lw
from lancewood.jobs.counts import Merged
from lancewood.jobs.merge import merge_branch as unite

NEW, OTHER = (4, 40, "n"), (4, 41, "n")
KEY: dict[str, Any] = {"key": True, "nullable": False}
REST = FIRST[1:]

MERGED: dict[str, tuple[Step, Step, tuple[Any, ...]]] = {
    "inserted there": (nothing, append(NEW), (*FIRST, NEW)),
    "inserted here": (append(NEW), nothing, (*FIRST, NEW)),
    "inserted on both, without a key": (append(NEW), append(OTHER), (*FIRST, NEW, OTHER)),
    "same, only moved there": (nothing, compact, FIRST),
    "same, rewritten with the same values there": (nothing, update("k = 1", a="10"), FIRST),
    "updated there": (nothing, update("k = 1", a="11"), ((1, 11, "x"), *REST)),
    "updated there, in place": (nothing, in_place("k = 1", a="11"), ((1, 11, "x"), *REST)),
    "deleted there": (nothing, delete("k = 1"), REST),
    "updated here": (update("k = 1", a="11"), nothing, ((1, 11, "x"), *REST)),
    "updated in different cells": (
        update("k = 1", a="11"),
        update("k = 1", b="'w'"),
        ((1, 11, "w"), *REST),
    ),
    "updated in different cells, in place": (
        in_place("k = 1", a="11"),
        in_place("k = 1", b="'w'"),
        ((1, 11, "w"), *REST),
    ),
    "updated in different cells, in place here": (
        in_place("k = 1", a="11"),
        update("k = 1", b="'w'"),
        ((1, 11, "w"), *REST),
    ),
    "updated in different cells, in place there": (
        update("k = 1", a="11"),
        in_place("k = 1", b="'w'"),
        ((1, 11, "w"), *REST),
    ),
    "updated equally in cells that both changed": (
        update("k = 1", a="11", b="'w'"),
        update("k = 1", a="11"),
        ((1, 11, "w"), *REST),
    ),
    "updated to the same": (
        update("k = 1", a="11"),
        update("k = 1", a="11"),
        ((1, 11, "x"), *REST),
    ),
    "nulled by both": (
        update("k = 1", a="NULL"),
        update("k = 1", a="NULL"),
        ((1, None, "x"), *REST),
    ),
    "the key changed there, a cell here": (
        update("k = 1", a="11"),
        update("k = 1", k="9"),
        (*REST, (9, 11, "x")),
    ),
    "deleted here": (delete("k = 1"), nothing, REST),
    "deleted here, rewritten with the same values there": (
        delete("k = 1"),
        update("k = 1", a="10"),
        REST,
    ),
    "deleted here, moved there": (delete("k = 1"), compact, REST),
    "deleted by both": (delete("k = 1"), delete("k = 1"), REST),
    "deleted by both, others by one": (delete("k IN (1, 2)"), delete("k IN (1, 3)"), ()),
    "compacted here, updated there": (compact, update("k = 1", a="11"), ((1, 11, "x"), *REST)),
    "updated here, compacted there": (update("k = 1", a="11"), compact, ((1, 11, "x"), *REST)),
    "compacted by both, each with changes": (
        both(update("k = 1", a="11"), compact),
        both(update("k = 1", b="'w'"), delete("k = 2"), compact),
        ((1, 11, "w"), FIRST[2]),
    ),
}

CONFLICTS: dict[str, tuple[Step, Step, list[tuple[str, ...]]]] = {
    "updated differently": (
        update("k = 1", a="11", b="'w'"),
        update("k = 1", a="12", b="'w'"),
        [("update/update", "a")],
    ),
    "updated differently, in place": (
        in_place("k = 1", a="11"),
        in_place("k = 1", a="12"),
        [("update/update", "a")],
    ),
    "nulled here, updated there": (
        update("k = 1", a="NULL"),
        update("k = 1", a="12"),
        [("update/update", "a")],
    ),
    "updated here, deleted there": (update("k = 1", a="11"), delete("k = 1"), [("update/delete",)]),
    "deleted here, updated there": (delete("k = 1"), update("k = 1", a="11"), [("delete/update",)]),
}

KEYED: dict[str, tuple[Step, Step, Any]] = {
    "both inserted the same": (append(NEW, **KEY), append(NEW, **KEY), (*FIRST, NEW)),
    "both inserted other cells": (
        append(NEW, **KEY),
        append(OTHER, **KEY),
        [("insert/insert", "a")],
    ),
    "replaced here, updated there in another cell": (
        again((1, 11, "x"), **KEY),
        update("k = 1", b="'w'"),
        ((1, 11, "w"), *REST),
    ),
    "updated here, replaced there in another cell": (
        update("k = 1", b="'w'"),
        again((1, 11, "x"), **KEY),
        ((1, 11, "w"), *REST),
    ),
    "replaced by both, equally": (
        again((1, 11, "x"), **KEY),
        again((1, 11, "x"), **KEY),
        ((1, 11, "x"), *REST),
    ),
    "replaced by both, in different cells": (
        again((1, 11, "x"), **KEY),
        again((1, 10, "w"), **KEY),
        ((1, 11, "w"), *REST),
    ),
    "replaced by both, differently": (
        again((1, 11, "x"), **KEY),
        again((1, 12, "x"), **KEY),
        [("update/update", "a")],
    ),
    "replaced with the same values, updated there": (
        again(FIRST[0], **KEY),
        update("k = 1", a="11"),
        ((1, 11, "x"), *REST),
    ),
    "replaced with the same values, deleted there": (
        again(FIRST[0], **KEY),
        delete("k = 1"),
        REST,
    ),
    "replaced here, deleted there": (
        again((1, 11, "x"), **KEY),
        delete("k = 1"),
        [("update/delete",)],
    ),
    "deleted here, replaced there": (
        delete("k = 1"),
        again((1, 11, "x"), **KEY),
        [("delete/update",)],
    ),
    "replaced there only": (nothing, again((1, 11, "x"), **KEY), ((1, 11, "x"), *REST)),
}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("line", MERGED)
@pytest.mark.parametrize("per_file", [2, 100])
def test_rows_are_put_together(line: str, per_file: int, tmp_path: Path) -> None:
    here, there, expected = MERGED[line]
    scene = Scene(tmp_path, max_rows_per_file=per_file)
    before = scene.ids()
    here(scene.on())
    there(scene.on("exp"))
    assert scene.conflicts() == []
    scene.merge()
    assert scene.rows() == [*expected]
    kept = scene.ids()
    assert {key: kept[key] for key in before if key in kept}.items() <= before.items()


@pytest.mark.parametrize("line", CONFLICTS)
def test_rows_that_do_not_go_together_are_conflicts(line: str, tmp_path: Path) -> None:
    here, there, expected = CONFLICTS[line]
    scene = Scene(tmp_path)
    here(scene.on())
    there(scene.on("exp"))
    before = scene.rows()
    assert scene.conflicts() == expected
    assert scene.refused()["kinds"] == {expected[0][0]: 1}
    assert scene.rows() == before
    for side, branch in (("ours", "main"), ("theirs", "exp")):
        expected_rows = scene.rows(branch)
        scene.on().branches.create(side)
        scene.merge("exp", into=side, resolve=side)
        assert scene.rows(side) == expected_rows
    scene.merge(resolve="base")
    assert scene.rows("main", "k", "a") == [each[:2] for each in FIRST]


@pytest.mark.parametrize("line", KEYED)
def test_rows_are_one_by_their_key(line: str, tmp_path: Path) -> None:
    here, there, expected = KEYED[line]
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    here(scene.on())
    there(scene.on("exp"))
    before = scene.ids()
    if isinstance(expected, list):
        assert scene.conflicts() == expected
        assert scene.refused()["conflicts"] == 1
        return
    scene.merge()
    assert scene.rows() == [*expected]
    if here is not nothing:
        assert {key: before[key] for key in scene.ids()} == scene.ids()


def test_a_key_that_another_row_got_is_a_conflict(tmp_path: Path) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.on().append(rows_of([NEW], **KEY))
    scene.on("exp").update({"k": "4"}, "k = 1")
    facts = scene.refused(resolve={"k": "ours"})
    assert (facts["kinds"], facts["keys"]) == ({"key": 1}, [{"k": 4}])


def test_two_rows_that_got_one_key_are_a_conflict(tmp_path: Path) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.on().update({"k": "4"}, "k = 2").update({"a": "31"}, "k = 3")
    scene.on("exp").update({"k": "4"}, "k = 1").update({"a": "32"}, "k = 3")
    facts = scene.refused()
    assert (facts["kinds"], facts["conflicts"]) == ({"key": 1, "update/update": 1}, 2)
    shown = scene.on().branches.conflicts("exp").to_arrow().to_pylist()
    (rival,) = (each for each in shown if each["_kind"] == "key")
    assert (rival["base"], rival["_columns"], rival["key"]) == (None, [], {"k": 4})
    assert rival["ours"] == {"k": 4, "a": 20, "b": "y"}
    assert rival["theirs"] == {"k": 4, "a": 10, "b": "x"}
    assert rival["_rowid"] == scene.ids()[4]
    assert scene.refused(resolve={"a": "theirs"})["kinds"] == {"key": 1}
    scene.on("exp").update({"k": "5"}, "k = 4")
    scene.merge(resolve="theirs")
    assert scene.rows() == [(3, 32, "z"), (4, 20, "y"), (5, 10, "x")]


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_row_that_loses_its_key_does_not_take_back_one_that_was_inserted_again(
    tmp_path: Path, side: Literal["ours", "theirs"]
) -> None:
    """Both sides give key 9 to a row, the one that loses had key 3, and the other side deleted that
    row and inserted it again."""
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    loser, winner = ("main", "exp") if side == "theirs" else ("exp", "main")
    scene.on(loser).update({"k": "9"}, "k = 3", rewrite="rows")
    scene.on(winner).delete("k = 3").append(rows_of([(3, 33, "again")], **KEY)).update(
        {"k": "9"}, "k = 2", rewrite="rows"
    )
    refused = scene.refused(resolve=lw.Resolve(deletes="lose", rows=side))
    assert refused["keys"] == [{"k": 9}]


@pytest.mark.parametrize("brought", [lw.Resolve(deletes="lose"), "side"])
@pytest.mark.parametrize(("deleting", "changing"), [("main", "exp"), ("exp", "main")])
def test_a_deleted_row_does_not_come_back_beside_another_one_that_got_its_key(
    tmp_path: Path, deleting: str, changing: str, brought: Any
) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.on(deleting).delete("k IN (2, 3)").update({"k": "2"}, "k = 1")
    scene.on(changing).update({"a": "7"}, "k IN (2, 3)")
    keeps = "theirs" if changing == "exp" else "ours"
    resolve = keeps if brought == "side" else brought
    assert scene.refused(resolve=resolve)["keys"] == [{"k": 2}]
    shown = scene.on().branches.conflicts("exp", resolve=resolve).to_arrow().to_pylist()
    assert [(each["_kind"], each[keeps]["a"]) for each in shown] == [("key", 7)]
    decisions = [
        {"_conflict": each["_conflict"], "take": "delete" if each["key"]["k"] == 2 else keeps}
        for each in scene.on().branches.conflicts("exp").to_arrow().to_pylist()
    ]
    assert len(decisions) == 2
    scene.merge(resolve=decisions)
    assert scene.rows() == [(2, 10, "x"), (3, 7, "z")]


def test_nor_does_one_that_the_other_side_inserted_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.on("main").delete("k = 2").update({"k": "2"}, "k = 1", rewrite="rows")
    scene.on("exp").delete("k IN (1, 2)").append(rows_of([(2, 7, "y")], **KEY))
    assert scene.refused(resolve=lw.Resolve(deletes="lose"))["keys"] == [{"k": 2}]
    decisions = [
        {"_conflict": each["_conflict"], "take": "ours"}
        for each in scene.on().branches.conflicts("exp").to_arrow().to_pylist()
    ]
    assert len(decisions) == 2
    scene.merge(resolve=decisions)
    assert scene.rows() == [(2, 10, "x"), (3, 30, "z")]


ONE_KEY: dict[str, tuple[Step, Step, list[Any], list[Any]]] = {
    "changed here, inserted there": (
        update("k = 1", k="4", a="11"),
        append(NEW, **KEY),
        [(2, 20, "y"), (3, 30, "z"), (4, 11, "x")],
        [(1, 11, "x"), (2, 20, "y"), (3, 30, "z"), NEW],
    ),
    "inserted here, changed there": (
        append(NEW, **KEY),
        in_place("k = 1", k="4"),
        [(1, 10, "x"), (2, 20, "y"), (3, 30, "z"), NEW],
        [(2, 20, "y"), (3, 30, "z"), (4, 10, "x")],
    ),
    "changed on both sides": (
        both(update("k = 1", k="4"), compact),
        both(update("k = 2", k="4"), update("k = 1", b="'w'")),
        [(2, 20, "y"), (3, 30, "z"), (4, 10, "w")],
        [(1, 10, "w"), (3, 30, "z"), (4, 20, "y")],
    ),
    "both changed the same row, to keys of others": (
        both(update("k = 1", k="4"), append((5, 50, "m"), **KEY)),
        both(update("k = 1", k="5"), update("k = 2", k="4")),
        [(2, 20, "y"), (3, 30, "z"), (4, 10, "x"), (5, 50, "m")],
        [(3, 30, "z"), (4, 20, "y"), (5, 10, "x")],
    ),
    "changed here, where the row was deleted there": (
        update("k = 1", k="4"),
        both(delete("k = 1"), update("k = 2", k="4")),
        [(2, 20, "y"), (3, 30, "z"), (4, 10, "x")],
        [(3, 30, "z"), (4, 20, "y")],
    ),
}


@pytest.mark.parametrize("line", ONE_KEY)
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_side_that_is_taken_keeps_a_key_that_both_gave_to_different_rows(
    line: str, side: str, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    here, there, *expected = ONE_KEY[line]
    here(scene.on())
    there(scene.on("exp"))
    rivals = [each for each in scene.conflicts() if each[0] == "key"]
    assert rivals
    assert scene.conflicts(resolve=side) == []
    before = scene.ids()
    planned, counts = (
        counts_of(scene.merge(resolve=side, dry_run=is_dry), lw.Merged) for is_dry in (True, False)
    )
    assert planned.resolved == counts.resolved >= len(rivals)
    assert scene.rows() == expected[side == "theirs"]
    if side == "ours":
        assert {key: before[key] for key in scene.ids() if key in before} == {
            key: number for key, number in scene.ids().items() if key in before
        }


def test_a_key_is_not_given_back_if_another_row_got_it_since(tmp_path: Path) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.on().update({"k": "4"}, "k = 1").append(rows_of([(1, 0, "new")], **KEY))
    scene.on("exp").append(rows_of([NEW], **KEY))
    assert scene.refused(resolve="theirs")["kinds"] == {"key": 1}
    scene.merge(resolve="ours")
    assert scene.rows() == [(1, 0, "new"), (2, 20, "y"), (3, 30, "z"), (4, 10, "x")]


def test_decisions_on_conflicts_that_are_not_there_are_counted(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    update("k < 3", a="1")(scene.on())
    update("k < 3", a="2")(scene.on("exp"))
    found = scene.on().branches.conflicts("exp")
    one, other = found.names()
    given = [
        {"_conflict": one, "take": "theirs"},
        {"_conflict": "0" * 16, "take": "ours"},
        {"_conflict": "1" * 16, "take": None},
    ]
    assert scene.on().branches.conflicts("exp", resolve=given).decided() == {one}
    facts = scene.refused(resolve=given)
    assert (facts["conflicts"], facts["stale"]) == (1, 1)
    given[2] = {"_conflict": other, "take": "ours"}
    for is_dry in (True, False):
        counts = scene.merge(resolve=given, dry_run=is_dry).counts
        assert isinstance(counts, lw.Merged)
        assert (counts.resolved, counts.stale) == (2, 1)


@pytest.mark.parametrize("kind", ["rows", "tables"])
def test_whoever_asks_gets_conflicts_by_rows_or_by_tables(kind: Any, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.on().update({"a": "11"}, "k = 1")
    scene.on("exp").update({"b": "'w'"}, "k = 1")
    assert scene.refused(detect=kind)["conflicts"] == 1
    scene.merge()
    assert scene.rows()[0] == (1, 11, "w")


def test_nothing_is_rewritten_that_one_side_wrote(tmp_path: Path) -> None:
    scene = Scene(tmp_path, max_rows_per_file=2)
    scene.on().update({"a": "11"}, "k = 1")
    scene.on("exp").append(rows_of([NEW])).update({"b": "'w'"}, "k IN (1, 3)")
    counts = counts_of(scene.merge(), Merged)
    assert (counts.inserted, counts.updated, counts.joined, counts.written_rows) == (1, 2, 1, 1)


def test_a_branch_is_not_merged_into_itself(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with pytest.raises(lw.InvalidInputError, match="into itself"):
        scene.merge("main")
    with pytest.raises(lw.NotFoundError):
        scene.merge("gone")


def test_a_table_without_stable_ids_is_refused_with_a_way_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path, stable_row_ids=False)
    scene.on("exp").append(rows_of([NEW]))
    with pytest.raises(lw.UnsupportedError, match=r"no stable row ids.*publish.*by a key"):
        scene.merge()


def test_a_key_that_theirs_renamed_is_compared_with_ours(tmp_path: Path) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.on("exp").rename_column("k", "key").update({"key": "4"}, "key = 1")
    scene.on().append(rows_of([NEW], **KEY))
    assert scene.refused()["kinds"] == {"key": 1}
    scene.on().update({"k": "5"}, "k = 4")
    scene.merge()
    assert scene.rows() == [(2, 20, "y"), (3, 30, "z"), (4, 10, "x"), (5, 40, "n")]


def test_settings_that_another_writer_changes_meanwhile_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path)
    scene.on("exp").update({"a": "11"}, "k = 1").set_metadata({"theirs": "1"})
    commit: Any = vars(unite)["commit"]

    def beside(*args: Any) -> Any:
        monkeypatch.setattr(unite, "commit", commit)
        scene.on().set_config({"mine": "1"}).set_metadata({"ours": "1"})
        return commit(*args)

    monkeypatch.setattr(unite, "commit", beside)
    merged = scene.merge()
    assert merged.config["mine"] == "1"
    assert merged.metadata == {"theirs": "1", "ours": "1"}
    assert scene.rows() == [(1, 11, "x"), *REST]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_dictionaries_with_nulls_are_merged(tmp_path: Path, version: Any) -> None:
    def texts(*values: str | None) -> pa.Table:
        coded = pa.array(values).dictionary_encode()
        return pa.table({"k": range(len(values)), "a": [0] * len(values), "b": coded})

    scene = Scene(tmp_path, texts("x", None, "y", "z"), max_rows_per_file=2, file_version=version)
    scene.on("exp").update({"a": "1"}, "true", rewrite="rows")
    scene.on().merge(texts("z", "y", None, "x"), on="k")
    scene.merge()
    assert scene.rows() == [(0, 1, "z"), (1, 1, "y"), (2, 1, None), (3, 1, "x")]


def test_conflicts_are_counted_while_columns_are_in_conflict(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"id": [1, 2], "size": [10, 20]}))
    table = table.branches.create("exp")
    table.cast_column("size", pa.string())
    main = lw.open(tmp_path / "t.lance").cast_column("size", pa.float64())
    main.update({"size": "11.0"}, where="id = 1")
    found = lw.open(tmp_path / "t.lance").branches.conflicts("exp")
    assert [each[0] for each in found.columns] == ["size"]
    assert found.count() == 1
    ours = lw.open(tmp_path / "t.lance").branches.conflicts(
        "exp", resolve=lw.Resolve(schema="ours")
    )
    assert (ours.columns, ours.count()) == ((), 0)
