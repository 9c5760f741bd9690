"""Who makes a table, a branch or a clone, and is held up before one of its store calls.

When it goes on it makes it whole, or is told otherwise and leaves what others made as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from tests.races.held_scene import (
    ANEW,
    MINE,
    MOST_CALLS,
    Scene,
    drop,
    drop_and_create_as_many,
    go_on_and_clean,
    is_commit,
    make_and_drop,
    make_go_on_and_clean,
    texts,
)

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.write import create_table
from lancewood.format.refs import branch_key
from lancewood.jobs.clone import clone_deep, clone_shallow
from lancewood.jobs.runner import LocalRunner
from lancewood.model.refs import BranchName
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore


def test_a_creator_makes_the_table_or_is_told(disk: Scene) -> None:
    """While another makes it, and goes on; or makes it, and drops it."""

    for others in (make_go_on_and_clean, make_and_drop):
        for at in range(1, MOST_CALLS):
            each = replace(disk, uri=f"{disk.uri}-{next(disk.names)}.lance")
            store = HeldStore(open_store(each.uri), at, partial(others, each))
            told: Exception | None = None
            try:
                create_table(Location(store), MINE)
            except lw.LancewoodError as error:
                told = error
            if any(is_commit(*call) for call in store.calls[: at - 1]):
                break
            case = others.__name__, at, store.calls[at - 1 :], told
            assert lw.exists(each.uri) or told is not None, case
            if lw.exists(each.uri):
                each.rows()
                assert (texts(each.open()) == {"mine"}) == (told is None), case


def branch_and_delete(scene: Scene) -> None:
    scene.main().branches.create("exp").append(ANEW)
    scene.main().branches.delete("exp")


def branch_go_on_and_clean(scene: Scene) -> None:
    scene.main().branches.create("exp")
    go_on_and_clean(replace(scene, branch="exp"))


def delete_by_force(scene: Scene) -> None:
    with suppress(lw.NotFoundError):
        scene.main().branches.delete("exp", force=True)


@pytest.mark.parametrize(
    "meanwhile",
    [
        branch_and_delete,
        branch_go_on_and_clean,
        delete_by_force,
        go_on_and_clean,
        drop,
        drop_and_create_as_many,
    ],
)
def test_a_branch_is_made_or_its_maker_is_told(
    disk: Scene, meanwhile: Callable[[Scene], None]
) -> None:
    for at in range(1, MOST_CALLS):
        scene = disk.fresh()
        left: list[tuple[int, ...]] = []

        def others(scene: Scene = scene, left: list[tuple[int, ...]] = left) -> None:
            with suppress(lw.LancewoodError):  # of two who make a branch one may be refused
                meanwhile(scene)
            left.append(replace(scene, branch="exp").versions())

        table, store = scene.held(at, others)
        told: Exception | None = None
        try:
            table.branches.create("exp")
        except lw.LancewoodError as error:
            told = error
        if len(store.calls) < at:
            return
        case = at, store.calls[at - 1 :], told
        branches = scene.main().branches.list() if lw.exists(scene.uri) else {}
        found = replace(scene, branch="exp").versions()
        assert ("exp" in branches) == bool(found), case
        was_made = ("put_new", branch_key(BranchName("exp"))) in store.calls[: at - 1]
        assert told is not None or was_made or "exp" in branches, case
        assert told is None or {*found} <= {*left[0]}, case
        if found:
            replace(scene, branch="exp").rows()
    raise AssertionError("making a branch takes more store calls than are tried")


@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_is_made_or_its_maker_is_told(disk: Scene, shallow: bool) -> None:
    def at_source(others: Callable[[Scene], None]) -> Callable[[Scene, Scene], None]:
        return lambda source, target: others(source)

    def at_target(others: Callable[[Scene], None]) -> Callable[[Scene, Scene], None]:
        return lambda source, target: others(target)

    cases = [at_source(drop_and_create_as_many), at_source(go_on_and_clean)]
    cases += [at_target(make_and_drop), at_target(make_go_on_and_clean)]
    for meanwhile in cases:
        for at in range(1, MOST_CALLS):
            source = disk.fresh()
            target = replace(disk, uri=f"{source.uri}-clone.lance")
            store = HeldStore(open_store(target.uri), at, partial(meanwhile, source, target))
            told: Exception | None = None
            try:
                if shallow:
                    clone_shallow(source.open()._snapshot, Location(store))
                else:
                    clone_deep(source.open()._snapshot, Location(store), LocalRunner(1))
            except lw.LancewoodError as error:
                told = error
            if any(is_commit(*call) for call in store.calls[: at - 1]):
                break
            case = at, store.calls[at - 1 :], told
            if isinstance(told, lw.CommitUnknownError):
                continue
            assert lw.exists(target.uri) or told is not None, case
            if lw.exists(target.uri):
                assert len(target.versions()) == 1, case
                assert (len(target.rows()) == 12) == (told is None), case
