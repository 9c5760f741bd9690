"""What becomes of a transaction in every race and after every crash: one test for each outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.repo.locations import Where, every_day, everywhere
from tests.repo.scene import ONE, TWO, Scene, rows

from lancewood.engine.staging import landing
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    NotFoundError,
    StorageError,
)
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.ref_store import RefStore
from lancewood.git.refs import Refs
from lancewood.model.ids import is_detached
from lancewood.repo.inspect.status import State
from lancewood.repo.outcome import NotLandedWarning
from lancewood.store.base import ObjectInfo
from lancewood.store.locate import open_store
from lancewood.testing.faults import Killed

pytestmark = [pytest.mark.usefixtures("no_commit_under_way"), everywhere]
Patch = pytest.MonkeyPatch


def at_the_swap(
    patch: Patch,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> None:
    """Have something happen right before, or right after, the next branch moves."""
    is_used = False

    def at_one(real: Callable[..., bool]) -> Callable[..., bool]:
        def move(self: RefStore, name: str, *moved: Any, **told: Any) -> bool:
            nonlocal is_used
            if is_used or not name.startswith("refs/heads/"):
                return real(self, name, *moved, **told)
            is_used = True
            if before is not None:
                before()
            done = real(self, name, *moved, **told)
            if after is not None:
                after()
            return done

        return move

    for kind in (Refs, BucketRefs):
        patch.setattr(kind, "move", at_one(kind.move))


def fail(kind: type[BaseException] = StorageError) -> None:
    raise kind("no answer")


def without_landing(scene: Scene, patch: Patch, *names: str, act: Callable[[], object]) -> None:
    """Run it with a store that lets nothing land on some tables."""
    real = landing.land

    def land(location: Any, *what: Any, **known: Any) -> Any:
        if any(location.uri == scene.uri(name) for name in names):
            fail()
        return real(location, *what, **known)

    with patch.context() as inner:
        inner.setattr("lancewood.repo.commit.transaction.land", land)
        with pytest.warns(NotLandedWarning, match="the next writer does it"):
            act()


def states(scene: Scene) -> dict[str, State]:
    return {each.name: each.state for each in scene.again().status().tables}


def detached(scene: Scene, name: str) -> list[str]:
    found = open_store(scene.uri(name), storage_options=scene.where.options).names("_versions")
    return sorted(each for each in found if each.startswith("d"))


def everything(where: Where) -> dict[str, ObjectInfo]:
    """Every file or object, with its time, size and etag."""
    store = open_store(where.root, storage_options=where.options)
    return {each.key: each for each in store.list()}


# Before the swap


@every_day
def test_what_dies_before_the_swap_leaves_only_states_that_nobody_names(
    scene: Scene, monkeypatch: Patch
) -> None:
    before = {name: detached(scene, name) for name in (ONE, TWO)}
    at_the_swap(monkeypatch, before=lambda: fail(Killed))
    with pytest.raises(Killed):
        scene.both(4)
    assert scene.counts() == scene.landed() == (3, 3)
    for name in (ONE, TWO):
        assert len(detached(scene, name)) == len(before[name]) + 1
        scene.table(name).cleanup(older_than=timedelta(0), keep_versions=1)
    assert scene.counts() == (3, 3)
    scene.both(5)
    assert scene.again().gc().states == 0, "somebody may still be at work"
    assert scene.again().gc(in_flight=timedelta(0)).states == 2
    for name in (ONE, TWO):
        assert set(before[name]) < set(detached(scene, name))
        assert len(detached(scene, name)) == len(before[name]) + 1
    assert scene.counts() == scene.landed() == (4, 4)
    assert scene.counts("main~1") == (3, 3)


# The answer is lost


def test_a_lost_answer_is_no_failure(scene: Scene, monkeypatch: Patch) -> None:
    at_the_swap(monkeypatch, after=fail)
    done = scene.both(4)
    assert done.hash == scene.again().at("main").hash
    assert scene.counts() == scene.landed() == (4, 4)


@every_day
def test_a_lost_answer_is_found_below_what_others_committed_since(
    scene: Scene, monkeypatch: Patch
) -> None:
    def others() -> None:
        scene.both(6, repo=scene.again())
        fail()

    at_the_swap(monkeypatch, after=others)
    done = scene.both(4)
    messages = [each.message for each in scene.again().log()]
    assert messages == ["both get (6,)", "both get (4,)", "begin"]
    assert done.hash == scene.again().at("main~1").hash
    assert scene.counts() == scene.landed() == (5, 5)


def test_a_failure_before_the_move_is_told_as_one(scene: Scene, monkeypatch: Patch) -> None:
    at_the_swap(monkeypatch, before=fail)
    with pytest.raises(StorageError, match="no answer"):
        scene.both(4)
    assert scene.counts() == scene.landed() == (3, 3)


def test_what_cannot_be_looked_up_is_unknown(scene: Scene, monkeypatch: Patch) -> None:
    kind = type(scene.repo._context.git.refs)
    real = kind.read

    def deaf(self: RefStore, name: str) -> Any:
        return fail()

    def lose() -> None:
        monkeypatch.setattr(kind, "read", deaf)
        fail()

    at_the_swap(monkeypatch, after=lose)
    with pytest.raises(CommitUnknownError, match="nobody can tell yet"):
        scene.both(4)
    monkeypatch.setattr(kind, "read", real)
    assert scene.counts() == (4, 4)
    assert scene.landed() == (3, 3)
    scene.both(5)
    assert scene.landed() == (5, 5)


# Partly landed


@every_day
def test_readers_are_right_before_all_has_landed_and_write_nothing(
    scene: Scene, monkeypatch: Patch
) -> None:
    without_landing(scene, monkeypatch, TWO, act=lambda: scene.both(4))
    before = everything(scene.where)
    repo = scene.again()
    assert scene.counts() == (4, 4)
    assert scene.seen(name=TWO) == [1, 2, 3, 4]
    assert states(scene) == {ONE: State.CLEAN, TWO: State.UNLANDED}
    assert [each.name for each in repo.diff()] == [TWO, ONE]
    assert len(repo.show().changes) == 2
    assert everything(scene.where) == before
    assert scene.landed() == (4, 3), "who opens tables directly sees them move one after another"


@pytest.mark.parametrize("next_writer", ["transaction", "commit", "tag", "branch", "cleanup"])
def test_any_later_writer_lands_the_rest(
    scene: Scene, monkeypatch: Patch, next_writer: str
) -> None:
    without_landing(scene, monkeypatch, ONE, TWO, act=lambda: scene.both(4))
    assert scene.landed() == (3, 3)
    repo = scene.again()
    if next_writer == "transaction":
        scene.both(5, repo=repo)
    elif next_writer == "commit":
        scene.table().append(rows(9))
        assert states(scene) == {ONE: State.UNLANDED, TWO: State.UNLANDED}
        assert repo.commit("as it stands").tables == (ONE,)
        assert scene.values() == [1, 2, 3, 4, 9]
        return
    elif next_writer == "tag":
        repo.tags.create("v1")
        assert scene.pylance(TWO).tags.list().values()
    elif next_writer == "branch":
        repo.branches.create("exp")
        scene.both(5, branch="exp", repo=repo)
        assert scene.counts("exp") == (5, 5)
    else:
        for name in (ONE, TWO):
            scene.table(name).cleanup(older_than=timedelta(0), keep_versions=1)
    expected = 5 if next_writer == "transaction" else 4
    assert scene.landed() == (expected, expected)
    assert scene.counts("main") == (expected, expected)


def test_a_transaction_on_another_table_need_not_land_the_rest(
    scene: Scene, monkeypatch: Patch
) -> None:
    without_landing(scene, monkeypatch, TWO, act=lambda: scene.both(4))
    with scene.again().transaction("main", message="one only") as changes:
        changes.table(ONE).append(rows(5))
    assert scene.counts() == (5, 4)
    scene.both(6, repo=scene.again())
    assert scene.counts() == scene.landed() == (6, 5)


def test_a_new_table_that_has_not_landed_reads_and_is_landed_by_the_next_writer(
    scene: Scene, monkeypatch: Patch
) -> None:
    def create() -> None:
        with scene.repo.transaction("main", message="new") as changes:
            changes.create_table("new", rows(7))

    without_landing(scene, monkeypatch, "new", act=create)
    assert scene.seen(name="new") == [7]
    assert states(scene)["new"] is State.UNLANDED
    with pytest.raises(ValueError, match="not found"):
        scene.dataset("new")
    with scene.again().transaction("main", message="more") as changes:
        changes.table("new").append(rows(8))
    assert scene.values("new") == [7, 8]


# Two landers


def test_many_landers_land_it_once(scene: Scene, monkeypatch: Patch) -> None:
    def several() -> None:
        with scene.repo.transaction("main", message="steps") as changes:
            changes.table(ONE).append(rows(4)).append(rows(5)).append(rows(6))

    without_landing(scene, monkeypatch, ONE, act=several)
    failures: list[BaseException] = []
    ready = threading.Barrier(6)

    def land() -> None:
        try:
            repo = scene.again()
            ready.wait(30)
            assert not repo.commit("nothing new").is_new
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=land) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not failures
    assert scene.values() == [1, 2, 3, 4, 5, 6]
    assert scene.pylance().version == 4


# A writer from outside


def test_a_compatible_write_from_outside_before_the_swap_is_built_on(
    scene: Scene, monkeypatch: Patch
) -> None:
    with scene.repo.transaction("main", message="ours") as changes:
        changes.table(ONE).append(rows(4))
        scene.outside(50)
        changes.table(TWO).append(rows(4))
    assert scene.seen() == scene.values() == [1, 2, 3, 4, 50]
    assert scene.again().status().is_clean


def test_an_incompatible_write_from_outside_before_the_swap_leaves_nothing_visible(
    scene: Scene,
) -> None:
    changes = scene.repo.transaction("main", message="ours")
    changes.table(ONE).append(rows(4))
    changes.table(TWO).append(rows(4))
    scene.outside(50, mode="overwrite")
    with pytest.raises(ConflictError, match=f"table '{ONE}'"):
        changes.commit()
    assert scene.counts() == (3, 3)
    assert scene.values(TWO) == [1, 2, 3]
    assert len([*scene.again().log()]) == 1


def test_a_write_from_outside_that_took_the_number_is_rebased_on(
    scene: Scene, monkeypatch: Patch
) -> None:
    at_the_swap(monkeypatch, after=lambda: scene.outside(50))
    done = scene.both(4)
    assert done.diverged == ()
    assert scene.values() == [1, 2, 3, 4, 50]
    assert scene.seen() == [1, 2, 3, 4], "the pin is what was committed"
    assert states(scene) == {ONE: State.MODIFIED, TWO: State.CLEAN}
    scene.both(5, repo=scene.again())
    assert scene.seen() == scene.values() == [1, 2, 3, 4, 5, 50]


def test_a_write_from_outside_that_does_not_go_together_is_told_as_diverged(
    scene: Scene, monkeypatch: Patch
) -> None:
    at_the_swap(monkeypatch, after=lambda: scene.outside(50, mode="overwrite"))
    with pytest.warns(NotLandedWarning, match="diverged"):
        done = scene.both(4)
    assert [each.table for each in done.diverged] == [ONE]
    assert scene.counts() == (4, 4), "the commit still reads"
    assert scene.values(ONE) == [50]
    assert scene.values(TWO) == [1, 2, 3, 4]
    assert states(scene) == {ONE: State.DIVERGED, TWO: State.CLEAN}
    with pytest.raises(IncompatibleConflictError, match="has diverged"):
        scene.both(5, repo=scene.again())
    assert scene.again().commit("as it stands").tables == (ONE,)
    assert states(scene) == {ONE: State.CLEAN, TWO: State.CLEAN}
    assert scene.seen("main~1") == [1, 2, 3, 4]
    scene.both(5, repo=scene.again())
    assert scene.values() == [5, 50]


def test_cleanup_keeps_what_a_diverged_commit_was_built_on(
    scene: Scene, monkeypatch: Patch
) -> None:
    at_the_swap(monkeypatch, after=lambda: scene.outside(50, mode="overwrite"))
    with pytest.warns(NotLandedWarning, match="diverged"):
        scene.both(4)
    for number in range(3):
        scene.outside(60 + number)
    scene.table().cleanup(older_than=timedelta(0), keep_versions=1)
    assert {1, 2} <= {each.version for each in scene.table().versions()}
    assert scene.seen() == [1, 2, 3, 4]
    assert scene.seen("main~1") == [1, 2, 3]


# Two transactions


def test_two_transactions_on_different_tables_both_land_and_the_loser_writes_nothing_again(
    scene: Scene, monkeypatch: Patch
) -> None:
    before = len(detached(scene, TWO))

    def winner() -> None:
        with scene.again().transaction("main", message="winner") as changes:
            changes.table(ONE).append(rows(4))

    at_the_swap(monkeypatch, before=winner)
    with scene.repo.transaction("main", message="loser") as changes:
        changes.table(TWO).append(rows(5))
    assert [each.message for each in scene.again().log()] == ["loser", "winner", "begin"]
    assert len(detached(scene, TWO)) == before + 1
    assert scene.values(ONE) == scene.seen(name=ONE) == [1, 2, 3, 4]
    assert scene.values(TWO) == scene.seen(name=TWO) == [1, 2, 3, 5]


@every_day
def test_two_transactions_on_one_table_both_land_where_they_go_together(
    scene: Scene, monkeypatch: Patch
) -> None:
    at_the_swap(monkeypatch, before=lambda: scene.both(4, repo=scene.again()))
    scene.both(5)
    assert scene.counts("main~1") == (4, 4)
    assert scene.seen() == scene.values(ONE) == scene.values(TWO) == [1, 2, 3, 4, 5]
    assert scene.pylance().version == 3, "each landed once"


def test_two_transactions_that_do_not_go_together_leave_one_and_nothing_of_the_other(
    scene: Scene, monkeypatch: Patch
) -> None:
    def winner() -> None:
        with scene.again().transaction("main", message="winner") as changes:
            changes.table(ONE).overwrite(rows(70))

    at_the_swap(monkeypatch, before=winner)
    loser = scene.repo.transaction("main", message="loser")
    loser.table(TWO).append(rows(5))
    loser.table(ONE).delete("id = 1")
    with pytest.raises(ConflictError, match=f"table '{ONE}'"):
        loser.commit()
    assert [each.message for each in scene.again().log()] == ["winner", "begin"]
    assert scene.seen() == scene.values() == [70]
    assert scene.seen(name=TWO) == scene.values(TWO) == [1, 2, 3]


def test_two_transactions_cannot_both_create_or_remove_a_table(
    scene: Scene, monkeypatch: Patch
) -> None:
    def winner() -> None:
        with scene.again().transaction("main", message="winner") as changes:
            changes.create_table("new", rows(1))
        scene.again().remove(TWO)

    at_the_swap(monkeypatch, before=winner)
    loser = scene.repo.transaction("main", message="loser")
    loser.create_table("new", rows(2))
    with pytest.raises(IncompatibleConflictError, match="created by another commit"):
        loser.commit()
    assert scene.seen(name="new") == scene.values("new") == [1]
    late = scene.repo.transaction("main", message="late")
    with pytest.raises(NotFoundError, match=TWO):
        late.table(TWO)
    with pytest.raises(AlreadyExistsError):
        late.create_table("new", rows(3))


# Several operations


def test_several_operations_on_one_table_land_as_consecutive_versions_and_the_last_is_pinned(
    scene: Scene,
) -> None:
    with scene.repo.transaction("main", message="several") as changes:
        table = changes.table(ONE)
        table = table.append(rows(4, 5)).delete("id = 4").update({"id": "id + 100"}, "id = 5")
        assert sorted(changes.table(ONE).to_arrow()["id"].to_pylist()) == [1, 2, 3, 105]
        assert scene.values() == [1, 2, 3], "nobody else sees it"
    assert scene.seen() == scene.values() == [1, 2, 3, 105]
    assert scene.pylance().version == 4
    pin = scene.again().at().pin(ONE)
    assert is_detached(pin.version)
    assert pin.landing is not None
    assert len(pin.landing.steps) == 3
    assert scene.again().status().is_clean


def test_several_operations_are_all_judged_before_the_first_is_put(
    scene: Scene, monkeypatch: Patch
) -> None:
    changes = scene.repo.transaction("main", message="ours")
    changes.table(ONE).append(rows(4)).delete("id = 1")
    with scene.again().transaction("main", message="theirs") as others:
        others.table(ONE).delete("id = 1")
    before = detached(scene, ONE)
    with pytest.raises(ConflictError):
        changes.commit()
    assert detached(scene, ONE) == before
    assert scene.seen() == scene.values() == [2, 3]


# Cleanup


def test_cleanup_lands_first_and_keeps_every_commit_readable(
    scene: Scene, monkeypatch: Patch
) -> None:
    for number in range(4):
        scene.both(10 + number)
    scene.table().compact()
    scene.repo.commit("compacted")
    without_landing(scene, monkeypatch, ONE, act=lambda: scene.both(4))
    scene.table().cleanup(older_than=timedelta(0), keep_versions=1)
    assert len(scene.values()) == 8
    shown = [scene.seen(each.hash) for each in scene.again().log()]
    assert [len(each) for each in shown] == [8, 7, 7, 6, 5, 4, 3]
