"""A writer that is held up before one of its store calls, while others clean up, drop or rename.

When it goes on it lands, and the newest version has what it did; or it is told otherwise, and
nothing of it is left in the table. Either way both implementations read what is there. Every day
the step that creates the manifest and two more of each case; all with LANCEWOOD_EVERY_STEP=1.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.races.held_scene import (
    ANEW,
    MINE,
    ROWS,
    THEIRS,
    Scene,
    clean_a_month_later,
    delete_and_branch_again,
    delete_and_branch_again_from_before,
    delete_branch,
    drop,
    drop_and_create,
    drop_and_create_as_many,
    drop_create_go_on_and_clean,
    go_on_and_clean,
    is_commit,
    numbers,
    rename_branch,
    tag_go_on_and_clean,
    texts,
)

import lancewood as lw
from lancewood.engine.commit import aftermath
from lancewood.engine.commit.commit import commit
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.format.layout import TRANSACTIONS_DIR, VERSIONS_DIR
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.model.transaction import MapUpdate, Transaction, UpdateConfig
from lancewood.repo.gc.collecting import collect_garbage
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore

pytestmark = pytest.mark.sliced(7)
EVERY_STEP = os.environ.get("LANCEWOOD_EVERY_STEP") == "1"

Verb = Callable[[lw.Table], object]
VERBS: dict[str, tuple[Verb, Callable[[lw.Table], bool]]] = {
    "append": (lambda table: table.append(MINE), lambda table: "mine" in texts(table)),
    "delete": (lambda table: table.delete("a = 1"), lambda table: 1 not in numbers(table)),
    "overwrite": (
        lambda table: table.overwrite(MINE),
        lambda table: "mine" in texts(table) and "x" not in texts(table),
    ),
    "update": (
        lambda table: table.update({"s": "'mine'"}, where="a = 2"),
        lambda table: "mine" in texts(table),
    ),
    "merge": (lambda table: table.merge(MINE, on="a"), lambda table: "mine" in texts(table)),
    "set_config": (
        lambda table: table.set_config({"mine": "1"}),
        lambda table: "mine" in table.config,
    ),
    "add_columns": (
        lambda table: table.add_columns({"b": "a + 1"}),
        lambda table: "b" in table.schema.names,
    ),
    "compact": (
        lambda table: table.compact(),
        lambda table: min(each.id for each in table.fragments) >= 3,
    ),
}
"""What is done, and how it shows."""


ON_MAIN = {
    each.__name__: each
    for each in (
        go_on_and_clean,
        tag_go_on_and_clean,
        clean_a_month_later,
        drop,
        drop_and_create,
        drop_and_create_as_many,
        drop_create_go_on_and_clean,
    )
}
CLEANUPS = go_on_and_clean, tag_go_on_and_clean, clean_a_month_later
ON_A_BRANCH = {
    each.__name__: each
    for each in (
        go_on_and_clean,
        delete_branch,
        delete_and_branch_again,
        delete_and_branch_again_from_before,
        rename_branch,
    )
}


def steps(scene: Scene, verb: Verb, name: str) -> list[int]:
    """The calls before which a writer is held."""
    counted = scene.fresh()
    table, store = counted.held(0, lambda: None)
    verb(table)
    calls = [*store.calls]
    every = range(1, len(calls) + 1)
    if EVERY_STEP:
        return [*every]
    puts = [at for at, (called, key) in enumerate(calls, 1) if is_commit(called, key)]
    assert puts, calls
    return sorted({*puts, *random.Random(name).sample(every, 2)})


def check_held(scene: Scene, name: str, meanwhile: Callable[[Scene], None]) -> None:
    verb, shows = VERBS[name]
    for at in steps(scene, verb, f"{name} {meanwhile.__name__}"):
        each = scene.fresh()
        left: list[tuple[int, ...]] = []

        def others(each: Scene = each, left: list[tuple[int, ...]] = left) -> None:
            meanwhile(each)
            left.append(each.versions())

        table, store = each.held(at, others)
        told: Exception | None = None
        try:
            verb(table)
        except lw.LancewoodError as error:
            told = error
        before, after = store.calls[: at - 1], store.calls[at - 1 :]
        case = name, meanwhile.__name__, at, after, told
        had_landed = any(is_commit(*each) for each in before)
        had_landed = had_landed and not any(is_commit(*each) for each in after)
        is_undone = had_landed and meanwhile not in CLEANUPS
        """The table went when it had landed, and before its writer knew."""
        assert is_undone or not isinstance(told, lw.CommitUnknownError), case
        if told is not None:
            assert each.versions() == left[0], case
        if each.versions():
            each.rows()
            assert is_undone or shows(each.open()) == (told is None), case
            each.open().append(each.open().head(1))
            each.rows()
        else:
            assert is_undone or told is not None, case
            assert each.branch or not lw.exists(each.uri, **each.reached), case


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("meanwhile", ON_MAIN)
def test_on_a_disk_it_lands_or_is_told(
    disk: Scene, monkeypatch: pytest.MonkeyPatch, name: str, meanwhile: str
) -> None:
    if meanwhile == clean_a_month_later.__name__:
        monkeypatch.setattr(aftermath, "HELD_NS", 0)
    check_held(disk, name, ON_MAIN[meanwhile])


@pytest.mark.sliced(8)
@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("meanwhile", ["go_on_and_clean", "drop", "drop_and_create"])
def test_through_a_manifest_store_it_lands_or_is_told(
    disk: Scene, name: str, meanwhile: str
) -> None:
    disk.manifests = f"sqlite://{disk.uri}.db"
    check_held(disk, name, ON_MAIN[meanwhile])


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("meanwhile", ON_A_BRANCH)
def test_on_a_branch_it_lands_there_or_is_told(disk: Scene, name: str, meanwhile: str) -> None:
    disk.branch = "exp"
    check_held(disk, name, ON_A_BRANCH[meanwhile])


@pytest.mark.sliced(14)
@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("meanwhile", ON_MAIN)
def test_in_a_bucket_it_lands_or_is_told(
    s3_root: str,
    s3_options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    meanwhile: str,
) -> None:
    """By the clock of the server, which has whole seconds, all happens at once."""
    monkeypatch.setattr(aftermath, "HELD_NS", 0)
    check_held(Scene(f"{s3_root}/t", s3_options), name, ON_MAIN[meanwhile])


def test_a_list_of_changes_does_not_go_on_in_another_table(disk: Scene) -> None:
    """Which was made at the same path, and has as many versions, when it had made the first."""

    def others(scene: Scene) -> None:
        drop_and_create_as_many(scene)
        scene.main().append(ANEW)

    def change(table: lw.Table) -> None:
        known = table._snapshot
        steps = [UpdateConfig(config=MapUpdate({each: "1"})) for each in ("mine", "mine, too")]
        transaction = Transaction.new(known.manifest.version, *steps)
        commit(known.location, known.manifest, known.scheme, transaction)

    table, store = disk.fresh().held(0, lambda: None)
    change(table)
    first = next(at for at, each in enumerate(store.calls, 1) if is_commit(*each))
    for at in range(first + 1, len(store.calls) + 1):
        scene = disk.fresh()
        table, held = scene.held(at, partial(others, scene))
        with suppress(lw.LancewoodError):
            change(table)
        assert scene.versions() == (3, 2, 1), (at, held.calls[at - 1 :])
        assert "mine, too" not in scene.open().config


@pytest.mark.parametrize("name", VERBS)
def test_gc_of_its_repository_takes_nothing_of_a_writer(
    disk: Scene, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An hour later it lands, a month later it may be told that its files are gone."""
    monkeypatch.setattr(aftermath, "HELD_NS", 0)
    verb, shows = VERBS[name]
    for later in (timedelta(hours=1), timedelta(days=30)):
        for at in steps(disk, verb, name):
            file_root = f"{disk.uri}-{next(disk.names)}"
            repo = lw.Repository.init(file_root)
            with repo.transaction("main", message="day 1") as changes:
                changes.create_table("t", ROWS)
            scene = Scene(f"{file_root}/tables/t.lance")
            scene.open().append(ROWS).append(ROWS)

            def collect(repo: lw.Repository = repo, later: timedelta = later) -> None:
                retention = Retention.checked(None, None, (), IN_FLIGHT)
                now = datetime.now(UTC) + later
                collect_garbage(
                    repo._context, retention, LocalRunner(1), dry_run=False, tables=True, now=now
                )

            told: Exception | None = None
            try:
                verb(scene.held(at, collect)[0])
            except (lw.RetryableConflictError, lw.StorageError) as error:
                told = error
            assert told is None or later.days, (name, at, told)
            scene.rows()
            assert shows(scene.open()) == (told is None), (name, at, told)


class _OneSecond(HeldStore):
    """A store where everything happens in one second, as may be on S3, which tells no less; others
    go on right after its writer has put a manifest."""

    def _call(self, verb: str, key: str, action: Callable[[], Any]) -> Any:
        done = super()._call(verb, key, action)
        if verb == "put_new" and key.startswith(f"{VERSIONS_DIR}/"):
            others, self._meanwhile = self._meanwhile, lambda: None
            others()
        return (
            replace(done, modified=datetime(2026, 11, 16, tzinfo=UTC)) if verb == "head" else done
        )


class _Crossed(HeldStore):
    """A far store where, of the two questions after a put, the versions are listed first, and the
    transaction is looked for when others went on and cleaned up."""

    is_far = True

    def __init__(self, inner: Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner, 0, meanwhile)
        self.is_listed = threading.Event()

    def _call(self, verb: str, key: str, action: Callable[[], Any]) -> Any:
        if verb == "head" and key.startswith(f"{TRANSACTIONS_DIR}/"):
            assert self.is_listed.wait(60)
        done = super()._call(verb, key, action)
        has_put = any(is_commit(*each) for each in self.calls)
        if verb == "names" and has_put and not self.is_listed.is_set():
            self._meanwhile()
            self.is_listed.set()
        return done


def test_a_version_that_was_cleaned_up_right_after_its_put_has_landed(disk: Scene) -> None:
    scene = disk.fresh()
    known = scene.open()._snapshot
    store = _Crossed(open_store(scene.uri), partial(go_on_and_clean, scene))
    done = lw.Table(Snapshot(Location(store, None), known.manifest, known.scheme)).append(MINE)
    assert done.version == 3
    assert [each["s"] for each in scene.rows()].count("mine") == 2


@pytest.mark.parametrize(
    "theirs",
    [
        lambda table: table.compact(),
        lambda table: table.update({"a": "a + 1"}, "s = 'mine'"),
        lambda table: table.overwrite(THEIRS),
    ],
    ids=["compact", "update", "overwrite"],
)
def test_a_version_that_others_built_on_is_never_withdrawn(disk: Scene, theirs: Verb) -> None:
    scene = disk.fresh()
    known = scene.open()._snapshot
    store = _OneSecond(open_store(scene.uri), 0, lambda: theirs(scene.open()))
    table = lw.Table(Snapshot(Location(store, None), known.manifest, known.scheme))
    with suppress(lw.CommitUnknownError):
        table.append(MINE)
    assert {1, 2, 3, 4} <= {*scene.versions()}
    assert scene.rows()


def test_a_clock_that_stood_still_with_its_writer_hides_no_lost_commit(
    disk: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = disk.fresh()
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3_600_000_000_000)

    def others() -> None:
        with monkeypatch.context() as later:
            later.setattr(time, "time_ns", now)
            go_on_and_clean(scene)

    table, store = scene.held(0, lambda: None)
    table.append(MINE)
    put = next(at for at, each in enumerate(store.calls, 1) if each[0] == "put_new")
    table, _ = scene.held(put, others)
    with pytest.raises(lw.LancewoodError):
        table.append(MINE)
