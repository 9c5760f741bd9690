"""Tables that a repository keeps for itself: others read and tag them, and write nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.repo.faults import MOST_STEPS, at_store_call, outcome
from tests.repo.locations import Where
from tests.repo.scene import FIRST, ONE, TWO, Scene, rows

import lancewood as lw
from lancewood.errors import (
    FormatError,
    IncompatibleConflictError,
    InvalidInputError,
    UnsupportedError,
)
from lancewood.model.manifest import FLAG_EXCLUSIVE
from lancewood.model.table_config import EXCLUSIVE_KEY
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.repository import Repository
from lancewood.repo.writable import set_exclusive

REFUSED = "cannot be written by this version of Lance"


@pytest.fixture
def scene(path: Path) -> Scene:
    """Two tables of an exclusive repository."""
    scene = Scene(Repository.init(path, exclusive=True), Where(path))
    scene.begin()
    return scene


def flags(uri: str, **at: Any) -> int:
    return lw.open(uri, **at)._snapshot.manifest.writer_flags & FLAG_EXCLUSIVE


BY_PYLANCE: dict[str, Callable[[str], object]] = {
    "append": lambda uri: lance.write_dataset(rows(9), uri, mode="append"),
    "overwrite": lambda uri: lance.write_dataset(rows(9), uri, mode="overwrite"),
    "delete": lambda uri: lance.dataset(uri).delete("id = 1"),
    "update": lambda uri: lance.dataset(uri).update({"id": "9"}),
    "add columns": lambda uri: lance.dataset(uri).add_columns({"b": "id + 1"}),
    "restore": lambda uri: lance.dataset(uri, version=1).restore(),
    "branch": lambda uri: lance.dataset(uri).create_branch("theirs"),
    "cleanup": lambda uri: lance.dataset(uri).cleanup_old_versions(),
    "unset the key": lambda uri: lance.dataset(uri).delete_config_keys([EXCLUSIVE_KEY]),
}


@pytest.mark.parametrize("verb", BY_PYLANCE)
def test_pylance_may_not_write(scene: Scene, verb: str) -> None:
    with pytest.raises(OSError, match=REFUSED):
        BY_PYLANCE[verb](scene.uri())
    assert scene.values() == [1, 2, 3]


def test_pylance_reads_and_tags(scene: Scene) -> None:
    scene.both(4)
    assert scene.values() == [1, 2, 3, 4]
    scene.pylance().tags.create("theirs", 2)
    assert lance.dataset(scene.uri(), version="theirs").count_rows() == 3


BY_TABLE: dict[str, Callable[[lw.Table], object]] = {
    "append": lambda t: t.append(rows(9)),
    "overwrite": lambda t: t.overwrite(rows(9)),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"id": "9"}, where="id = 1"),
    "merge": lambda t: t.merge(rows(1), on="id"),
    "add columns": lambda t: t.add_columns({"b": "id + 1"}),
    "rename": lambda t: t.rename_column("id", "other"),
    "restore": lambda t: t.restore(1),
    "settings": lambda t: t.set_config({"mine": "1"}),
    "settings with the key": lambda t: t.set_config({"mine": "1", EXCLUSIVE_KEY: None}),
    "compact": lambda t: t.compact(),
    "branch": lambda t: t.branches.create("mine"),
}


@pytest.mark.parametrize("verb", BY_TABLE)
def test_verbs_of_a_table_are_refused_with_the_way_out(scene: Scene, verb: str) -> None:
    scene.both(4)
    for table in (scene.table(), scene.repo.at().table(ONE)):
        before = scene.table().version
        with pytest.raises((UnsupportedError, InvalidInputError)) as refused:
            BY_TABLE[verb](table)
        if table.version < 1 << 63:
            assert "repo.transaction" in str(refused.value)
            assert "repo.exclusive(False)" in str(refused.value)
        assert scene.table().version == before
    assert scene.values() == [1, 2, 3, 4]


def test_every_verb_in_a_transaction_goes_on(scene: Scene) -> None:
    with scene.repo.transaction("main", message="all") as changes:
        table = changes.table(ONE).append(rows(4, 5)).delete("id = 5").update({"id": "id + 0"})
        table = table.merge(rows(6), on="id").add_columns({"b": "id + 1"})
        table = table.set_config({"mine": "1"}, replace=True).compact()
    assert scene.values() == [1, 2, 3, 4, 6]
    assert flags(scene.uri())
    assert scene.table().config["mine"] == "1"
    with scene.repo.transaction("main", message="again") as changes:
        changes.table(ONE).overwrite(rows(7))
        changes.table(TWO).restore(1)
    assert scene.values() == [7]
    assert scene.values(TWO) == [1, 2, 3]
    assert flags(scene.uri())
    assert flags(scene.uri(TWO)), "who may write is no thing of the past"


def test_branches_and_merges_are_fenced_too(scene: Scene) -> None:
    scene.repo.branches.create("exp")
    scene.both(4, branch="exp")
    assert flags(scene.uri(), branch="exp")
    with pytest.raises(OSError, match=REFUSED):
        lance.write_dataset(rows(9), scene.pylance().checkout_version(("exp", None)), mode="append")
    scene.repo.merge("exp")
    assert scene.counts() == (4, 4)
    assert scene.values() == [1, 2, 3, 4]
    assert flags(scene.uri())


def test_it_is_never_the_default(tmp_path: Path) -> None:
    scene = Scene(Repository.init(tmp_path / "plain"), Where(tmp_path / "plain"))
    scene.begin()
    assert not scene.repo.is_exclusive
    assert not flags(scene.uri())
    scene.outside(4)
    assert scene.repo.exclusive(False) == ()
    assert scene.repo.commit("theirs").is_new


def test_turning_it_off_is_a_commit_and_lets_everybody_in(scene: Scene) -> None:
    scene.repo.branches.create("exp")
    with scene.repo.transaction("exp", message="one") as changes:
        changes.table(ONE).append(rows(4))
    done = scene.repo.exclusive(False)
    assert {each.branch: each.tables for each in done} == {"exp": (ONE,), "main": (TWO, ONE)}
    assert not scene.repo.is_exclusive
    for each in (flags(scene.uri()), flags(scene.uri(TWO)), flags(scene.uri(), branch="exp")):
        assert not each
    assert scene.repo.status().is_clean
    scene.outside(5)
    scene.table(TWO).append(rows(5))
    assert scene.repo.commit("theirs").tables == (TWO, ONE)
    assert scene.repo.exclusive(False) == ()


def test_turning_it_on_again_fences_what_is_there(scene: Scene) -> None:
    scene.repo.exclusive(False)
    scene.outside(4)
    scene.repo.commit("theirs")
    (done,) = scene.repo.exclusive(True)
    assert done.tables == (TWO, ONE)
    assert scene.repo.diff()[0].kind == "moved", "not one row is another"
    with pytest.raises(OSError, match=REFUSED):
        scene.outside(5)
    assert scene.repo.exclusive(True) == ()


def test_who_was_cut_off_after_the_setting_is_made_good_by_the_next_writer(scene: Scene) -> None:
    set_exclusive(scene.repo._context, False)
    assert flags(scene.uri())
    scene.both(4)
    assert not flags(scene.uri())
    set_exclusive(scene.repo._context, True)
    with scene.repo.transaction("main", message="one") as changes:
        changes.table(ONE).append(rows(5))
    assert flags(scene.uri())
    assert not flags(scene.uri(TWO))


def test_a_death_while_it_is_turned_off_leaves_tables_that_the_repository_writes(
    scene: Scene,
) -> None:
    for at in range(1, MOST_STEPS, 5):
        scene.repo.exclusive(True)
        with warnings.catch_warnings(), at_store_call(at, "kill") as steps:
            warnings.simplefilter("ignore", NotLandedWarning)
            outcome(lambda: scene.again().exclusive(False))
        assert scene.counts() == (3, 3)
        scene.again().exclusive(False)
        assert not flags(scene.uri())
        assert not flags(scene.uri(TWO))
        if steps.is_over:
            return
    pytest.fail("the work never came to its end")


def test_a_table_that_diverged_is_named_and_the_others_are_told(scene: Scene) -> None:
    scene.repo.exclusive(False)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", NotLandedWarning)
        patch.setattr("lancewood.repo.commit.transaction.land", _fail)
        with scene.repo.transaction("main", message="delete") as changes:
            changes.table(ONE).delete("id = 1")
    lance.write_dataset(rows(8), scene.uri(), mode="overwrite")
    with pytest.raises(IncompatibleConflictError, match=f"{ONE} on main"):
        scene.repo.exclusive(True)
    assert flags(scene.uri(TWO))
    scene.repo.commit("as it stands")
    (done,) = scene.repo.exclusive(True)
    assert done.tables == (ONE,)


def _fail(*_: Any, **__: Any) -> None:
    raise OSError("no answer")


def test_another_repository_reads_and_may_not_write(scene: Scene, tmp_path: Path) -> None:
    other = Repository.init(tmp_path / "other")
    other.add("theirs", scene.uri())
    assert other.at().table("theirs").count_rows() == 3
    changes = other.transaction("main", message="x")
    with pytest.raises(UnsupportedError, match="nobody else"):
        changes.table("theirs")
    other.branches.create("exp")
    with pytest.raises(UnsupportedError, match="nobody else"):
        other.transaction("exp", message="x").table("theirs")


def test_a_table_whose_repository_is_gone_can_be_freed(scene: Scene) -> None:
    freed = scene.table().set_config({EXCLUSIVE_KEY: None})
    assert freed.append(rows(4)).count_rows() == 4
    scene.outside(5)
    with pytest.raises(InvalidInputError, match=r"repo\.exclusive"):
        freed.set_config({EXCLUSIVE_KEY: "me"})
    scene.repo.commit("freed")
    scene.both(6)
    assert flags(scene.uri()), "as long as the repository is there, and wants it"


def test_a_clone_elsewhere_is_nobodys(scene: Scene, tmp_path: Path) -> None:
    for deep in (False, True):
        clone = scene.table().clone(tmp_path / f"clone-{deep}", deep=deep)
        assert EXCLUSIVE_KEY not in clone.config
        lance.write_dataset(rows(9), str(tmp_path / f"clone-{deep}"), mode="append")
        assert lw.open(tmp_path / f"clone-{deep}").count_rows() == 4


def test_no_table_is_prepared_for_other_writers(scene: Scene) -> None:
    with pytest.raises(InvalidInputError, match=r"repo\.transaction"):
        scene.repo.prepare(ONE)
    scene.repo.exclusive(False)
    scene.repo.prepare(ONE).append(rows(4))
    scene.repo.commit("theirs")


def test_reset_keeps_the_fence(path: Path) -> None:
    scene = Scene(Repository.init(path), Where(path))
    scene.begin()
    scene.both(4)
    scene.repo.exclusive(True)
    scene.repo.reset("HEAD~2")
    assert scene.values() == [1, 2, 3]
    assert flags(scene.uri())


def test_cleanup_and_gc_go_on(scene: Scene) -> None:
    scene.both(4)
    scene.table().cleanup(keep_versions=1)
    scene.repo.gc(tables=True)
    assert scene.counts() == (4, 4)
    assert scene.repo.fsck(deep=True).is_ok


def test_a_new_table_of_an_exclusive_repository_is_fenced_from_the_start(scene: Scene) -> None:
    with scene.repo.transaction("main", message="new") as changes:
        changes.create_table("new", FIRST)
        changes.create_table("empty", pa.schema([("a", pa.int32())]))
    assert flags(scene.uri("new"))
    assert flags(scene.uri("empty"))
    scene.repo.branches.create("exp")
    with scene.repo.transaction("exp", message="new") as changes:
        changes.create_table("newer", FIRST)
    assert flags(scene.uri("newer"), branch="exp")


def test_a_setting_that_is_none_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidInputError, match="True or False"):
        scene.repo.exclusive("yes")  # type: ignore[arg-type]
    scene.repo._context.git.set("lancewood", "exclusive", "perhaps")
    with pytest.raises(FormatError, match="perhaps"):
        _ = scene.repo.is_exclusive
    scene.repo._context.git.set("lancewood", "exclusive", "on")
    assert scene.repo.is_exclusive


def test_an_unknown_flag_without_the_key_is_still_unknown(scene: Scene) -> None:
    table = scene.table()
    message = table._snapshot.manifest.message
    del message.config[EXCLUSIVE_KEY]
    with pytest.raises(UnsupportedError, match=str(FLAG_EXCLUSIVE)):
        table.append(rows(4))


def test_branches_whose_work_was_merged_are_reserved_as_well(path: Path) -> None:
    scene = Scene(Repository.init(path), Where(path))
    scene.begin()
    scene.repo.branches.create("exp")
    scene.both(4, branch="exp")
    scene.repo.merge("exp")
    made = scene.repo.exclusive(True)
    assert [each.branch for each in made] == ["exp", "main"]
    assert flags(scene.uri())
    assert flags(scene.uri(), branch="exp")
    scene.repo.merge("main", branch="exp")
    scene.both(5, branch="exp")
    assert flags(scene.uri(), branch="exp")
    scene.repo.merge("exp")
    assert scene.counts() == (5, 5)


def test_a_table_that_another_repository_keeps_is_named_and_the_others_are_told(
    scene: Scene, tmp_path: Path
) -> None:
    other = Repository.init(tmp_path / "other")
    with other.transaction("main", message="begin") as changes:
        changes.create_table("mine", FIRST)
    other.add("theirs", scene.uri())
    with pytest.raises(IncompatibleConflictError, match=r"but for theirs on main: .* belongs to"):
        other.exclusive(True)
    assert other.is_exclusive
    assert flags(str(tmp_path / "other/tables/mine.lance"))
    scene.both(4)
