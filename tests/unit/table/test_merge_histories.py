"""Merges after merges: again and again, in every direction, after restores, resets and renames."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.merging import (
    FIRST,
    PRIMARY,
    Scene,
    Step,
    append,
    both,
    compact,
    delete,
    nothing,
    rows_of,
    update,
)
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.snapshot import merge_bases
from lancewood.jobs.counts import Merged
from lancewood.jobs.merge import merge_bases as bases_module
from lancewood.jobs.merge import merge_branch as unite

KEY: dict[str, Any] = {"key": True, "nullable": False}
NEW = (4, 40, "n")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, max_rows_per_file=2)


@pytest.fixture
def keyed(tmp_path: Path) -> Scene:
    return Scene(tmp_path, rows_of(FIRST, **KEY))


def test_only_what_is_new_comes_a_second_time(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.merge()
    scene.on().update({"a": "12"}, "k = 1")
    scene.on("exp").update({"a": "21"}, "k = 2")
    after = scene.merge()
    assert counts_of(after, Merged).bases == ("exp:2",)
    assert scene.rows("main", "a") == [(12,), (21,), (30,)]


def test_to_and_fro(scene: Scene) -> None:
    for number in range(1, 5):
        scene.on("exp").update({"a": "a + 1"}, "k = 1")
        scene.merge()
        scene.on().update({"a": "a + 1"}, "k = 2")
        scene.merge("main", into="exp")
        assert scene.rows() == scene.rows("exp")
        assert scene.rows("main", "a") == [(10 + number,), (20 + number,), (30,)]


def test_a_row_that_a_merge_deleted_stays_away_omnigraph_681(scene: Scene) -> None:
    scene.on("exp").delete("k = 1")
    scene.merge()
    scene.on("exp").update({"a": "21"}, "k = 2")
    scene.merge()
    scene.merge("main", into="exp")
    assert scene.rows("main", "k", "a") == scene.rows("exp", "k", "a") == [(2, 21), (3, 30)]


def test_a_row_deleted_here_and_inserted_again_there_omnigraph_681(keyed: Scene) -> None:
    keyed.on().delete("k = 1")
    keyed.on("exp").delete("k = 1").append(rows_of([(1, 10, "x")], **KEY))
    keyed.merge()
    assert keyed.rows("main", "k") == [(2,), (3,)]


def test_what_was_deleted_and_merged_can_be_inserted_again(keyed: Scene) -> None:
    keyed.on("exp").delete("k = 1")
    keyed.merge()
    keyed.on("exp").append(rows_of([(1, 11, "again")], **KEY))
    keyed.merge()
    assert keyed.rows()[0] == (1, 11, "again")


def test_both_merged_a_third_branch_omnigraph_639(scene: Scene) -> None:
    scene.branch("third")
    scene.on("third").update({"a": "11"}, "k = 1").append(rows_of([NEW]))
    scene.merge("third")
    scene.merge("third", into="exp")
    scene.on().update({"b": "'m'"}, "k = 1")
    scene.on("exp").update({"a": "41"}, "k = 4")
    assert scene.conflicts() == []
    scene.merge()
    assert scene.rows() == [(1, 11, "m"), *FIRST[1:], (4, 41, "n")]


def test_a_child_lives_on_when_its_parent_is_moved_under_it_omnigraph_683(scene: Scene) -> None:
    child = scene.branch("child", of="exp")
    child.update({"b": "'c'"}, "k = 3")
    scene.on().update({"a": "11"}, "k = 1")
    scene.merge("main", into="exp")
    assert scene.rows("child", "a", "b") == [(10, "x"), (20, "y"), (30, "c")]
    scene.merge("exp", into="child")
    scene.merge("child")
    assert scene.rows() == scene.rows("child") == [(1, 11, "x"), (2, 20, "y"), (3, 30, "c")]


@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_a_change_that_was_taken_back_stays_so_after_a_criss_cross(
    scene: Scene, rewrite: Literal["rows", "columns"]
) -> None:
    scene.on().update({"a": "1"}, "k = 1", rewrite=rewrite)
    scene.on("exp").update({"b": "'e'"}, "k = 1", rewrite=rewrite)
    scene.branch("main-then")
    scene.branch("exp-then", of="exp")
    scene.merge("exp-then")
    scene.merge("main-then", into="exp")
    scene.on().update({"a": "10"}, "k = 1", rewrite=rewrite)
    scene.on("exp").update({"b": "'x'"}, "k = 1", rewrite=rewrite)
    after = scene.merge()
    assert len(counts_of(after, Merged).bases) == 2
    assert scene.rows() == [*FIRST]


def test_what_is_below_two_bases_may_be_two_again(scene: Scene) -> None:
    def cross(before: str) -> None:
        scene.branch(before)
        scene.merge()
        scene.merge(before, into="exp")

    scene.on().update({"b": "'1'"}, "k = 2")
    scene.on("exp").update({"a": "50"}, "k = 1")
    cross("once")
    scene.on().update({"a": "70"}, "k = 1")
    scene.on("exp").update({"b": "'2'"}, "k = 2")
    cross("twice")
    scene.on().update({"a": "10"}, "k = 1")
    scene.on("exp").update({"b": "'9'"}, "k = 1")
    scene.merge()
    assert scene.rows()[:2] == [(1, 10, "9"), (2, 20, "2")], "main took back the 70"


@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_bases_that_do_not_go_together_leave_conflicts(
    scene: Scene, rewrite: Literal["rows", "columns"]
) -> None:
    scene.on().update({"b": "'m'"}, rewrite=rewrite)
    scene.on("exp").update({"b": "'e'"}, rewrite=rewrite)
    scene.branch("main-then")
    scene.branch("exp-then", of="exp")
    scene.merge("exp-then", resolve="ours")
    scene.merge("main-then", into="exp", resolve="ours")
    scene.on().update({"a": "0"}, rewrite=rewrite)
    scene.on("exp").update({"k": "k + 10"}, rewrite=rewrite)
    assert scene.conflicts() == [("update/update", "b")] * 3
    assert scene.conflicts("main", into="exp") == [("update/update", "b")] * 3


def test_what_a_restore_took_back_can_be_merged_again(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1").append(rows_of([NEW]))
    before = scene.on().version
    scene.merge()
    scene.on().restore(before)
    assert scene.rows() == [*FIRST]
    scene.merge()
    assert scene.rows() == [(1, 11, "x"), *FIRST[1:], NEW]


def test_a_restore_of_the_branch_is_a_change_of_it(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1").delete("k = 2")
    scene.merge()
    scene.on("exp").restore(1)
    scene.merge()
    assert scene.rows() == [*FIRST]


def test_after_a_reset(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.merge()
    scene.on().update({"b": "'m'"}, "k = 1")
    scene.on().branches.reset("exp")
    assert scene.rows("exp") == scene.rows()
    scene.on("exp").update({"a": "12"}, "k = 1").append(rows_of([NEW]))
    scene.merge()
    assert scene.rows() == [(1, 12, "m"), *FIRST[1:], NEW]


def test_a_reset_keeps_work_that_was_not_merged(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.merge()
    scene.on("exp").update({"a": "12"}, "k = 1")
    with pytest.raises(lw.IncompatibleConflictError, match="publish or merge it first"):
        scene.on().branches.reset("exp")
    scene.merge()
    with pytest.raises(lw.IncompatibleConflictError, match="publish or merge it first"):
        scene.on().branches.reset("exp", at=1)
    scene.on().branches.reset("exp")


def test_work_that_a_reset_discarded_does_not_come(scene: Scene) -> None:
    scene.on("exp").append(rows_of([NEW])).update({"a": "11"}, "k = 1")
    scene.on().branches.reset("exp", force=True)
    scene.on("exp").append(rows_of([(5, 50, "f")]))
    scene.merge()
    assert scene.rows() == [*FIRST, (5, 50, "f")]


def test_after_a_rename(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.merge()
    scene.on().branches.rename("exp", "trial")
    assert not counts_of(scene.merge("trial"), Merged).is_new
    scene.on("trial").update({"a": "12"}, "k = 1")
    after = scene.merge("trial")
    assert counts_of(after, Merged).updated == 1
    assert scene.rows("main", "a") == [(12,), (20,), (30,)]


def test_a_name_that_was_used_before_is_another_branch(scene: Scene) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1").update({"a": "21"}, "k = 2")
    scene.merge()
    main = scene.on()
    main.branches.delete("exp")
    main.branches.create("exp", 1)
    scene.on("exp").update({"b": "'w'"}, "k = 1")
    scene.merge()
    assert scene.rows()[0] == (1, 11, "w")


def test_a_branch_that_was_deleted_is_needed_no_more(scene: Scene) -> None:
    scene.on("exp").append(rows_of([NEW])).update({"a": "11"}, "k = 1")
    scene.merge()
    scene.on().branches.delete("exp")
    assert scene.rows() == [(1, 11, "x"), *FIRST[1:], NEW]


BROUGHT: dict[str, tuple[Step, Step]] = {
    "nothing more": (nothing, nothing),
    "other rows": (update("k = 3", a="31"), append((9, 90, "m"))),
    "other cells of the rows it changed": (update("k IN (1, 4)", b="'m'"), update("k = 4", a="41")),
    "a change that is taken back": (update("k = 1", a="10"), update("k = 3", a="31")),
    "a row that is deleted again": (delete("k = 4"), update("k = 2", a="21")),
    "a row that is deleted again there": (update("k = 1", b="'m'"), delete("k = 4")),
    "everything moved": (compact, both(update("k = 1", a="10"), compact)),
}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("later", BROUGHT)
@pytest.mark.parametrize("again", [False, True])
def test_two_that_merged_a_branch_go_together_after_it_was_deleted(
    tmp_path: Path, later: str, again: bool
) -> None:
    seen = []
    for name in ("kept", "gone"):
        scene = Scene(tmp_path / name)
        update("k = 2", b="'here'")(scene.on())
        update("k = 2", a="22")(scene.on("exp"))
        third = scene.branch("third", of="main")
        scene.merge("third", into="exp")
        third = third.update({"a": "11"}, "k = 1")
        if again:
            for into in ("main", "exp"):
                scene.merge("third", into)
        third.append(rows_of([NEW])).delete("k = 3").append(rows_of([(3, 33, "again")]))
        for into, step in zip(("main", "exp"), BROUGHT[later], strict=True):
            scene.merge("third", into)
            step(scene.on(into))
        if name == "gone":
            scene.on().branches.delete("third")
        assert scene.conflicts() == []
        merged = scene.merge()
        assert counts_of(merged, Merged).is_new
        assert scene.merge().version == merged.version
        scene.merge("main", into="exp")
        seen.append(scene.rows())
        assert scene.rows("exp") == seen[-1]
    assert seen[0] == seen[1]


def test_a_conflict_that_was_decided_against_a_branch_that_is_gone_stays_decided(
    scene: Scene,
) -> None:
    scene.branch("third").update({"a": "11"}, "k = 1")
    scene.on().update({"a": "12"}, "k = 1")
    scene.merge("third", resolve="ours")
    scene.merge("third", into="exp")
    scene.on().branches.delete("third")
    scene.on().update({"a": "10"}, "k = 1")
    scene.on("exp").update({"a": "21"}, "k = 2")
    scene.merge()
    assert scene.rows() == [*FIRST[:1], (2, 21, "y"), *FIRST[2:]]


def test_what_both_decided_against_a_branch_that_is_gone_is_a_conflict_where_it_cannot_be_told(
    scene: Scene,
) -> None:
    third = scene.branch("third").update({"a": "0"}, "k = 1")
    for into in ("main", "exp"):
        scene.merge("third", into)
    scene.on().update({"a": "1"}, "k = 1").delete("k = 3")
    scene.on("exp").update({"a": "10"}, "k = 1").delete("k = 3")
    third.update({"a": "2"}, "k = 1").update({"a": "31"}, "k = 3")
    scene.merge("third", resolve=lw.Resolve(columns={"a": "theirs"}, deletes="win"))
    scene.merge("third", "exp", resolve=lw.Resolve(columns={"a": "ours"}, deletes="lose"))
    scene.on().branches.delete("third")
    assert sorted(scene.conflicts()) == [("delete/update",), ("update/update", "a")]
    scene.merge(resolve="theirs")
    assert scene.rows() == [(1, 10, "x"), FIRST[1], (3, 31, "z")]


def test_what_a_branch_brought_that_is_gone_must_be_told_by_the_merges_of_both(
    scene: Scene,
) -> None:
    third = scene.branch("third").update({"a": "11"}, "k = 1")
    scene.merge("third")
    third.update({"a": "12"}, "k = 1")
    scene.merge("third", into="exp")
    scene.on().branches.delete("third")
    scene.on().update({"a": "21"}, "k = 2")
    with pytest.raises(
        lw.NotFoundError, match=r"branch 'third' .*, which both sides hold, is gone"
    ):
        scene.merge()


def test_siblings(scene: Scene) -> None:
    scene.branch("other")
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.on("other").update({"b": "'w'"}, "k = 1")
    scene.merge("exp", into="other")
    assert scene.rows("other")[0] == (1, 11, "w")
    assert scene.rows() == [*FIRST]


def test_a_key_of_two_columns(tmp_path: Path) -> None:
    plain = rows_of(FIRST)
    marked = plain.schema.set(0, _key("k", pa.int64(), 1)).set(2, _key("b", pa.string(), 2))
    data = plain.cast(marked)
    scene = Scene(tmp_path, data)
    for branch, value in (("main", 1), ("exp", 2)):
        rows = [(7, value, branch), (8, value, "both")]
        scene.on(branch).append(rows_of(rows).cast(data.schema))
    assert scene.conflicts() == [("insert/insert", "a")]
    scene.merge(resolve="theirs")
    assert scene.rows()[3:] == [(7, 1, "main"), (7, 2, "exp"), (8, 2, "both")]


def _key(name: str, kind: pa.DataType, position: int) -> pa.Field:
    said = {**PRIMARY, "lance-schema:unenforced-primary-key:position": str(position)}
    return pa.field(name, kind, False, said)


def test_a_branch_of_pylance_is_refused_with_the_way_out(scene: Scene) -> None:
    dataset = lance.dataset(scene.uri).create_branch("other", 1)
    dataset.insert(rows_of([NEW]))
    with pytest.raises(
        lw.UnsupportedError, match=r"made by another program.*publish it, then reset"
    ):
        scene.merge("other")
    with pytest.raises(lw.UnsupportedError, match="made by another program"):
        scene.merge("main", into="other")
    scene.on().branches.publish("other")
    scene.on().branches.reset("other")
    scene.on("other").update({"a": "11"}, "k = 1")
    scene.merge("other")
    assert scene.rows() == [(1, 11, "x"), *FIRST[1:], NEW]


def crossed(scene: Scene, here: Step, there: Step) -> None:
    """Main and exp, each merged into the other as it was before."""
    here(scene.on())
    there(scene.on("exp"))
    scene.branch("before")
    scene.merge("exp")
    scene.merge("before", into="exp")


@pytest.mark.parametrize(
    ("here", "back", "columns"),
    [
        (lambda it: it.add_columns({"c": "a"}), lambda it: it.drop_columns(["c"]), ["k", "a", "b"]),
        (
            lambda it: it.rename_column("a", "c"),
            lambda it: it.rename_column("c", "a"),
            ["k", "a", "b"],
        ),
        (
            lambda it: it.drop_columns(["a"]),
            lambda it: it.add_columns({"a": "k * 100"}),
            ["k", "b", "a"],
        ),
    ],
    ids=["added", "renamed", "dropped"],
)
def test_a_column_that_was_taken_back_after_crosswise_merges_stays_taken_back(
    tmp_path: Path, here: Step, back: Step, columns: list[str]
) -> None:
    scene = Scene(tmp_path)
    crossed(scene, here, update("k = 2", b="'w'"))
    back(scene.on())
    scene.merge()
    assert scene.judged().schema.names == columns
    assert [each[0] for each in scene.rows()] == [1, 2, 3]


def test_settings_that_were_taken_back_after_crosswise_merges_stay_taken_back(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    crossed(
        scene,
        lambda it: it.set_config({"mine": "1"}).set_metadata({"mine": "1"}),
        update("k = 2", b="'w'"),
    )
    scene.on().set_config({"mine": None}).set_metadata({"mine": None})
    scene.on("exp").update({"b": "'v'"}, "k = 3")
    merged = scene.merge()
    assert "mine" not in {**merged.config, **merged.metadata}
    assert scene.rows() == [(1, 10, "x"), (2, 20, "w"), (3, 30, "v")]


def test_columns_that_both_added_and_dropped_around_crosswise_merges_are_refused(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    crossed(scene, lambda it: it.add_columns({"c": "a"}), lambda it: it.add_columns({"d": "a"}))
    scene.on().drop_columns(["c"])
    scene.on("exp").drop_columns(["d"])
    with pytest.raises(lw.UnsupportedError, match="differ again: c, d"):
        scene.merge()
    scene.on("exp").drop_columns(["c"])
    scene.merge()
    assert scene.judged().schema.names == ["k", "a", "b"]


@pytest.mark.parametrize("name", ["c", "d"])
def test_a_column_of_one_base_that_was_dropped_here_and_renamed_there_is_a_conflict(
    tmp_path: Path, name: str
) -> None:
    scene = Scene(tmp_path)
    crossed(scene, lambda it: it.add_columns({"c": "a"}), lambda it: it.add_columns({"d": "a"}))
    scene.on().drop_columns([name])
    scene.on("exp").rename_column(name, "e").update({"e": "7"}, "k = 2")
    for branch, into in (("exp", "main"), ("main", "exp")):
        with pytest.raises(lw.MergeConflictError, match=f"column '{name}': .*dropped"):
            scene.merge(branch, into=into)


def test_a_branch_that_was_never_written_to_is_fast_forwarded(scene: Scene) -> None:
    scene.on().update({"a": "11"}, "k = 1")
    merged = scene.merge("main", into="exp", detect="tables")
    assert counts_of(merged, Merged).is_fast_forward
    assert scene.rows("exp") == scene.rows()
    scene.on().update({"a": "12"}, "k = 1")
    scene.on("exp").update({"a": "21"}, "k = 2")
    with pytest.raises(lw.MergeConflictError, match="detect='tables'"):
        scene.merge("main", into="exp", detect="tables")
    assert not counts_of(scene.merge("main", into="exp"), Merged).is_fast_forward


def merged_in_rounds(root: Path, branches: int, rounds: int, value: str = "{}") -> Scene:
    """A table in whose every round each branch changes a row of its own, then merges the others as
    they were before the round's merges. All have the same rows after each round. ``value`` is SQL
    for the number of a round."""
    names = [f"b{at}" for at in range(branches)]
    scene = Scene(root, rows_of([(at, 0, "") for at in range(branches)]))
    for name in names:
        scene.branch(name)
    for number in range(1, rounds + 1):
        for at, name in enumerate(names):
            scene.on(name).update({"a": value.format(number)}, f"k = {at}")
            scene.branch(f"was-{name}-{number}", of=name)
        for name in names:
            for other in names:
                if other != name:
                    scene.merge(f"was-{other}-{number}", into=name)
    return scene


@pytest.mark.parametrize(("branches", "rounds"), [(2, 11), (4, 4)])
def test_branches_that_merged_each_other_in_many_rounds_merge_without_conflict(
    tmp_path: Path, branches: int, rounds: int
) -> None:
    scene = merged_in_rounds(tmp_path, branches, rounds)
    for at in range(branches):
        assert scene.rows(f"b{at}") == [(k, rounds, "") for k in range(branches)]


def test_states_below_crosswise_merges_are_opened_once_however_many_ways_lead_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, asked = merged_in_rounds(tmp_path, 3, 4), list[Any]()
    scene.on("b2").update({"b": "'new'"}, "k = 2")

    def counted(one: Any, other: Any) -> Any:
        asked.append((one, other))
        return merge_bases(one, other)

    monkeypatch.setattr(unite, "merge_bases", counted)
    scene.merge("b2", into="b0")
    assert len(asked) == 2 * 4


def test_where_too_many_states_are_below_crosswise_merges_a_row_that_differs_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a base that is only assumed, one of these changes would be lost without a word."""
    scene = merged_in_rounds(tmp_path, 2, 4, "{} % 2")
    monkeypatch.setattr(bases_module, "_MOST_STATES", 4)
    scene.on("b0").update({"a": "1"})
    assert scene.conflicts("b0", "b1") == [("update/update", "a")] * 2
    scene.merge("b0", into="b1", resolve="theirs")
    assert scene.rows("b1") == [(0, 1, ""), (1, 1, "")]


@pytest.mark.parametrize("rows_in_a_file", [1, 100])
def test_a_dropped_column_that_theirs_restored_has_its_values_again(
    tmp_path: Path, rows_in_a_file: int
) -> None:
    scene = Scene(tmp_path, max_rows_per_file=rows_in_a_file)
    scene.on("exp").drop_columns(["b"])
    scene.merge()
    scene.on().update({"a": "11"}, "k = 1")
    scene.on("exp").restore(1)
    scene.merge()
    assert scene.rows() == [(1, 11, "x"), *FIRST[1:]]
