"""A writer that is held up before one of its store calls, while others clean up, drop or rename.

When it goes on it lands, and the newest version has what it did; or it is told otherwise, and
nothing of it is left in the table. Either way both implementations read what is there. Every day
the step that creates the manifest and two more of each case; all with LANCEWOOD_EVERY_STEP=1.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine import aftermath
from lancewood.engine.commit import commit
from lancewood.engine.create import NewTable, create_table
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import list_versions
from lancewood.external.store import ExternalStore
from lancewood.format.layout import VERSIONS_DIR
from lancewood.format.refs import branch_key
from lancewood.jobs.cloning.deep import clone_deep
from lancewood.jobs.cloning.shallow import clone_shallow
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import clean_up
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.model.operations import MapUpdate, UpdateConfig
from lancewood.model.refs import BranchName
from lancewood.model.transaction import Transaction
from lancewood.repo.gc.collecting import collect_garbage
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore
from lancewood.testing.manifest_watch import WatchedManifests

EVERY_STEP = os.environ.get("LANCEWOOD_EVERY_STEP") == "1"
MOST_CALLS = 120
ROWS = pa.table({"a": range(6), "s": ["x"] * 6})
MINE = pa.table({"a": [100, 101], "s": ["mine"] * 2})
THEIRS = pa.table({"a": [50], "s": ["theirs"]})
ANEW = pa.table({"a": [1], "s": ["anew"]})


@dataclass
class Scene:
    """A table of two versions, and how to reach it."""

    uri: str
    options: dict[str, str] | None = None
    branch: str | None = None
    manifests: str | None = None
    """A manifest store."""
    names: Iterator[int] = field(default_factory=lambda: iter(range(MOST_CALLS)))

    def fresh(self) -> Scene:
        """The same anew, at another place."""
        made = replace(self, uri=f"{self.uri}-{next(self.names)}.lance")
        made.create(ROWS, max_rows_per_file=3).append(ROWS)
        if made.branch is not None:
            made.main().branches.create(made.branch).append(ROWS)
        return made

    @property
    def reached(self) -> dict[str, Any]:
        return {"storage_options": self.options, "manifest_store": self.manifests}

    def create(self, rows: pa.Table, **how: Any) -> lw.Table:
        return lw.create(self.uri, rows, fsync=False, **self.reached, **how)

    def main(self) -> lw.Table:
        return lw.open(self.uri, **self.reached)

    def open(self) -> lw.Table:
        table = self.main()
        return table if self.branch is None else table.checkout(branch=self.branch)

    def held(self, at: int, meanwhile: Callable[[], object]) -> tuple[lw.Table, HeldStore]:
        """A handle of a writer that is held up."""
        store = HeldStore(open_store(self.uri, storage_options=self.options), at, meanwhile)
        known, main = self.open()._snapshot, self.main()._snapshot.place.store
        root: Store = store
        if isinstance(main, ExternalStore):
            root = ExternalStore(store, WatchedManifests(main.manifests, store), main.base)
        place = Place(root, self.options)
        if self.branch is not None:
            place = place.at(root.at(f"tree/{self.branch}"))
        return lw.Table(Snapshot(place, known.manifest, known.scheme)), store

    def root(self) -> Store:
        found = open_store(self.uri, storage_options=self.options)
        return found if self.branch is None else found.at(f"tree/{self.branch}")

    def versions(self) -> tuple[int, ...]:
        return list_versions(self.root()).versions

    def rows(self) -> list[dict[str, Any]]:
        """The newest version, as both read it."""
        table = self.open()
        dataset = lance.dataset(self.uri, storage_options=self.options)
        if self.branch is not None:
            dataset = dataset.checkout_version((self.branch, None))
        dataset.validate()
        rows: list[dict[str, Any]] = table.to_arrow().to_pylist()
        assert dataset.to_table().to_pylist() == rows
        assert table.verify().ok, table.verify().problems
        return rows


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


def texts(table: lw.Table) -> set[str]:
    return set(table.to_arrow()["s"].to_pylist())


def numbers(table: lw.Table) -> set[int]:
    return set(table.to_arrow()["a"].to_pylist())


def go_on(scene: Scene) -> None:
    for _ in range(3):
        scene.open().append(THEIRS)


def clean(scene: Scene) -> None:
    """An hour later."""
    retention = Retention.checked(None, 1, (), IN_FLIGHT)
    now = datetime.now(UTC) + timedelta(hours=1)
    clean_up(scene.open()._snapshot, retention, LocalRunner(1), now=now)


def go_on_and_clean(scene: Scene) -> None:
    go_on(scene)
    clean(scene)


def tag_go_on_and_clean(scene: Scene) -> None:
    """The version that the writer builds on stays, and those after it go."""
    scene.main().tags.create("kept", scene.open().version)
    go_on_and_clean(scene)


def clean_a_month_later(scene: Scene) -> None:
    """What was written for a commit that is under way counts as left behind."""
    retention = Retention.checked(None, None, (), IN_FLIGHT)
    now = datetime.now(UTC) + timedelta(days=30)
    clean_up(scene.open()._snapshot, retention, LocalRunner(1), now=now)


def drop(scene: Scene) -> None:
    lw.drop(scene.uri, **scene.reached)


def drop_and_create(scene: Scene) -> None:
    drop(scene)
    scene.create(ANEW)


def drop_and_create_as_many(scene: Scene) -> None:
    drop_and_create(scene)
    scene.main().append(ANEW)


def drop_create_go_on_and_clean(scene: Scene) -> None:
    drop_and_create(scene)
    go_on_and_clean(scene)


def delete_branch(scene: Scene) -> None:
    assert scene.branch is not None
    scene.main().branches.delete(scene.branch)


def delete_and_branch_again(scene: Scene) -> None:
    assert scene.branch is not None
    delete_branch(scene)
    scene.main().branches.create(scene.branch).append(ANEW)


def delete_and_branch_again_from_before(scene: Scene) -> None:
    assert scene.branch is not None
    delete_branch(scene)
    scene.main().branches.create(scene.branch, at=1)


def rename_branch(scene: Scene) -> None:
    assert scene.branch is not None
    scene.main().branches.rename(scene.branch, "elsewhere")


def make_and_drop(scene: Scene) -> None:
    scene.create(ANEW)
    drop(scene)


def make_go_on_and_clean(scene: Scene) -> None:
    scene.create(ANEW)
    go_on_and_clean(scene)


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


def is_commit(verb: str, key: str) -> bool:
    return verb == "put_if_not_exists" or (verb == "put_new" and f"{VERSIONS_DIR}/" in key)


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


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Scene]:
    yield Scene(str(tmp_path / "t"))
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("meanwhile", ON_MAIN)
def test_on_a_disk_it_lands_or_is_told(
    disk: Scene, monkeypatch: pytest.MonkeyPatch, name: str, meanwhile: str
) -> None:
    if meanwhile == clean_a_month_later.__name__:
        monkeypatch.setattr(aftermath, "HELD_NS", 0)
    check_held(disk, name, ON_MAIN[meanwhile])


@pytest.mark.sliced(3)
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


@pytest.mark.sliced(6)
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


def test_a_creator_makes_the_table_or_is_told(disk: Scene) -> None:
    """While another makes it, and goes on; or makes it, and drops it."""

    for others in (make_go_on_and_clean, make_and_drop):
        for at in range(1, MOST_CALLS):
            each = replace(disk, uri=f"{disk.uri}-{next(disk.names)}.lance")
            store = HeldStore(open_store(each.uri, fsync=False), at, partial(others, each))
            told: Exception | None = None
            try:
                create_table(Place(store), MINE, NewTable())
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
                    clone_shallow(source.open()._snapshot, Place(store))
                else:
                    clone_deep(source.open()._snapshot, Place(store), LocalRunner(1))
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


def test_a_list_of_changes_does_not_go_on_in_another_table(disk: Scene) -> None:
    """Which was made at the same path, and has as many versions, when it had made the first."""

    def others(scene: Scene) -> None:
        drop_and_create_as_many(scene)
        scene.main().append(ANEW)

    def change(table: lw.Table) -> None:
        known = table._snapshot
        steps = [UpdateConfig(config=MapUpdate({each: "1"})) for each in ("mine", "mine, too")]
        transaction = Transaction.new(known.manifest.version, *steps)
        commit(known.place, known.manifest, known.scheme, transaction)

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
            home = f"{disk.uri}-{next(disk.names)}"
            repo = lw.Repository.init(home)
            with repo.transaction("main", message="day 1") as changes:
                changes.create_table("t", ROWS)
            scene = Scene(f"{home}/tables/t.lance")
            scene.open().append(ROWS).append(ROWS)

            def collect(repo: lw.Repository = repo, later: timedelta = later) -> None:
                retention = Retention.checked(None, None, (), IN_FLIGHT)
                now = datetime.now(UTC) + later
                collect_garbage(
                    repo._grounds, retention, LocalRunner(1), dry_run=False, tables=True, now=now
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
    table = lw.Table(Snapshot(Place(store, None), known.manifest, known.scheme))
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
