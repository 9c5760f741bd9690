"""Names made and removed by two at once, stepped at every store call.

Whatever the order, one of them wins, what is recorded opens and is what its record says, and
nothing rests on a branch that is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.breadth import daily
from tests.metadata import FIELDS, begin, commit_to, put_fragment

from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.descent import manifest_names
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.upkeep.pins import CLEANUPS_DIR
from lancewood.engine.versions.finding import list_versions
from lancewood.engine.versions.refs import load_refs
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import VERSIONS_DIR
from lancewood.format.manifest import decode_manifest_file
from lancewood.jobs.refs.creation import create_branch
from lancewood.jobs.refs.deletion import delete_branch
from lancewood.jobs.refs.records import INTENT_KEY
from lancewood.jobs.refs.renaming import rename_branch
from lancewood.jobs.refs.tags import create_tag, update_tag
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import clean_up, names_in
from lancewood.jobs.upkeep.retention import Retention
from lancewood.model.ids import Version
from lancewood.model.transaction import Append, Overwrite
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.schedule import ScheduleOutcome, explore

pytestmark = pytest.mark.sliced(3)

ORDERS = daily(60, of=150)
"""How many orders of each case are tried."""

Writer = Callable[[Store], object]


def fresh() -> Store:
    """Three versions that share nothing, and branch ``p`` from the second, with a commit."""
    store = MemoryStore()
    images = [put_fragment(store, each) for each in ("one", "two", "three")]
    begin(store, *(Overwrite((each,), FIELDS) for each in images))
    create_branch(load_snapshot(Location(store)), "p", 2)
    append_to(store, "p")
    return store


def append_to(store: Store, branch: str) -> Version:
    root = store.at(f"tree/{branch}")
    return commit_to(root, Append((put_fragment(root, f"of-{branch}"),)))


def handle(store: Store, version: int = 3) -> Snapshot:
    return load_snapshot(Location(store), version=version)


def create(name: str, at: int | str) -> Writer:
    def act(store: Store) -> object:
        made = create_branch(handle(store), name, at)
        return made.manifest.branch, made.manifest.version

    return act


def delete(name: str, *, force: bool = False) -> Writer:
    def act(store: Store) -> object:
        delete_branch(handle(store), name, force=force)
        return "deleted"

    return act


def tag(name: str, at: str) -> Writer:
    return lambda store: create_tag(handle(store), name, at).version


def move_tag(at: int) -> Writer:
    return lambda store: update_tag(handle(store), "t", at).version


def rename(old: str, new: str) -> Writer:
    def act(store: Store) -> object:
        renamed = rename_branch(handle(store), old, new, runner=LocalRunner(1))
        return renamed.manifest.branch

    return act


def append(branch: str) -> Writer:
    return lambda store: append_to(store, branch)


def clean(store: Store) -> object:
    retention = Retention.checked(None, 1, (), timedelta(days=7))
    return clean_up(handle(store), retention, LocalRunner(workers=1)).versions


def check(store: Store) -> dict[str, tuple[int, ...]]:
    """The versions of every branch: each opens, is what its record says, and has its files."""
    refs = load_refs(store)
    names = {each.name for each in refs.branches}
    there = {each.key for each in store.list("")}
    versions: dict[str, tuple[int, ...]] = {}
    for branch in refs.branches:
        root = store.at(f"tree/{branch.name}")
        found = list_versions(root).versions
        assert found, branch.name
        assert found[-1] == branch.parent_version, (branch.name, found)
        assert load_snapshot(Location(root)).manifest.branch == branch.name
        assert branch.parent_branch is None or branch.parent_branch in names, branch
        versions[str(branch.name)] = tuple(reversed(found))
    for each in refs.tags:
        root = store if each.branch is None else store.at(f"tree/{each.branch}")
        assert each.branch is None or each.branch in names, each
        assert each.version in list_versions(root).versions, each
    for prefix in ("", *(f"tree/{name}/" for name in versions)):
        root = store.at(prefix.rstrip("/")) if prefix else store
        for name in manifest_names(root):
            key = f"{prefix}{VERSIONS_DIR}/{name}"
            for file in names_in(decode_manifest_file(store.get(key), name=key)):
                inside = {f"{file}.lance", f"tree/p/{file}.lance", f"{prefix}{file}.lance"}
                assert not file.startswith("data/") or inside & there, (key, file)
    return versions


def run(*writers: Writer) -> list[ScheduleOutcome]:
    outcomes = [*explore(fresh, writers, limit=ORDERS)]
    for outcome in outcomes:
        for each in outcome.results:
            if isinstance(each, BaseException) and not isinstance(each, LancewoodError):
                raise each
    return outcomes


def won(outcome: ScheduleOutcome) -> list[object]:
    return [each for each in outcome.results if not isinstance(each, LancewoodError)]


@pytest.mark.parametrize("other", [3, 1])
def test_of_two_who_make_the_same_branch_one_wins(other: int) -> None:
    for outcome in run(create("new", 3), create("new", other)):
        versions = check(outcome.store)
        assert len(won(outcome)) == 1, outcome
        (lost,) = (each for each in outcome.results if isinstance(each, LancewoodError))
        assert isinstance(lost, AlreadyExistsError | RetryableConflictError)
        assert won(outcome) == [("new", versions["new"][0])]
        assert len(versions["new"]) == 1


def test_of_three_who_make_the_same_branch_one_wins() -> None:
    for outcome in run(create("new", 3), create("new", 1), create("new", 3)):
        versions = check(outcome.store)
        assert [("new", versions["new"][0])] == won(outcome), outcome


def test_branches_that_nest_are_made_and_deleted_beside_each_other() -> None:
    for outcome in run(create("p/q", 1), delete("p"), create("p/q/r", 3)):
        assert won(outcome) == [("p/q", 1), "deleted", ("p/q/r", 3)], outcome
        assert check(outcome.store) == {"p/q": (1,), "p/q/r": (3,)}


def test_a_branch_is_not_made_from_one_that_goes() -> None:
    seen = set()
    for outcome in run(create("child", "p:"), delete("p")):
        versions = check(outcome.store)
        seen.add(frozenset(versions))
        made, gone = outcome.results
        assert isinstance(made, tuple) == ("child" in versions), outcome
        assert (gone == "deleted") == ("p" not in versions), outcome
        assert isinstance(made, tuple | NotFoundError), outcome
        assert gone == "deleted" or isinstance(gone, InvalidInputError), outcome
    assert {frozenset({"p", "child"}), frozenset()} <= seen


def test_a_tag_is_not_put_on_a_branch_that_goes() -> None:
    for outcome in run(tag("t", "p:3"), delete("p")):
        versions = check(outcome.store)
        made, gone = outcome.results
        names = {str(each.name) for each in load_refs(outcome.store).tags}
        assert (made == 3) == ("t" in names), outcome
        assert (gone == "deleted") == ("p" not in versions), outcome


def test_a_branch_that_is_deleted_and_made_again_is_one_of_the_two() -> None:
    for outcome in run(delete("p"), create("p", 3)):
        versions = check(outcome.store)
        assert versions.get("p") in (None, (2, 3), (3,)), outcome
        gone, made = outcome.results
        assert gone == "deleted" or versions["p"] == (2, 3), outcome
        assert isinstance(made, LancewoodError) or versions["p"] == (3,), outcome


def test_of_two_who_delete_a_branch_nobody_harms_the_other() -> None:
    for outcome in run(delete("p"), delete("p", force=True), create("q", 3)):
        assert check(outcome.store) == {"q": (3,)}, outcome
        assert "deleted" in outcome.results


def test_a_branch_goes_to_one_of_two_names() -> None:
    for outcome in run(rename("p", "x"), rename("p", "y")):
        versions = check(outcome.store)
        assert len(won(outcome)) == 1, outcome
        assert versions == {str(won(outcome)[0]): (2, 3)}, outcome


def test_two_who_rename_a_branch_alike_rename_it() -> None:
    for outcome in run(rename("p", "x"), rename("p", "x")):
        assert check(outcome.store) == {"x": (2, 3)}, outcome
        assert "x" in outcome.results, outcome


@pytest.mark.parametrize("other", [create("child", "p:"), tag("t", "p:3"), create("x", 3)])
def test_nothing_is_put_on_a_branch_that_is_renamed(other: Writer) -> None:
    for outcome in run(rename("p", "x"), other):
        versions = check(outcome.store)
        renamed = outcome.results[0]
        assert (renamed == "x") == ("p" not in versions), outcome
        assert renamed == "x" or isinstance(renamed, LancewoodError), outcome


def test_a_commit_beside_a_rename_comes_along_or_fails_or_is_in_doubt() -> None:
    """In doubt is one that finds the branch gone when it has landed: it may have come along."""
    ways = set()
    for outcome in run(rename("p", "x"), append("p")):
        versions = check(outcome.store)
        renamed, landed = outcome.results
        assert renamed == "x", outcome
        if isinstance(landed, CommitUnknownError):
            ways.add("in doubt")
            came_along = versions["x"] == (2, 3, 4)
            left = list_versions(outcome.store.at("tree/p")).versions
            assert left == (() if came_along else (4,)), outcome
        elif isinstance(landed, LancewoodError):
            ways.add("failed")
        else:
            ways.add("came along")
            assert versions["x"] == (2, 3, 4), outcome
    assert ways >= {"failed", "came along"}


def tagged() -> Store:
    store = fresh()
    create_tag(handle(store), "t", 3)
    return store


@pytest.mark.usefixtures("no_commit_under_way")
@pytest.mark.parametrize(
    "other", [create("new", 1), create("new", "p:2"), tag("new", ":1"), move_tag(1)]
)
def test_a_version_that_is_cleaned_up_is_named_by_nobody(other: Writer) -> None:
    seen = set()
    for outcome in explore(tagged, [clean, other], limit=2 * ORDERS, seed=6):
        check(outcome.store)
        cleaned, made = outcome.results
        assert isinstance(cleaned, tuple), outcome
        seen.add(type(made))
        if isinstance(made, BaseException):
            assert isinstance(made, NotFoundError | RetryableConflictError), outcome
        main = list_versions(outcome.store).versions
        for each in load_refs(outcome.store).branches:
            assert each.parent_branch or each.parent_version in main, outcome
        assert [*outcome.store.names(CLEANUPS_DIR)] == []
    assert seen - {NotFoundError, RetryableConflictError}


def test_of_two_who_move_a_tag_both_did() -> None:
    for outcome in explore(tagged, [move_tag(1), move_tag(2)], limit=ORDERS):
        assert outcome.results == [1, 2], outcome
        (found,) = load_refs(outcome.store).tags
        assert found.version in (1, 2)


def test_nobody_who_is_done_leaves_an_intent() -> None:
    for outcome in run(create("new", 3), rename("p", "x")):
        assert won(outcome) == [("new", 3), "x"]
        left = [each.key for each in outcome.store.list("") if each.key.endswith(INTENT_KEY)]
        assert left == [], outcome
