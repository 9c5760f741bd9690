"""Staged and landed states as pylance sees them: nothing before, an ordinary history afterwards."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.breadth import daily
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.staging.landing import find_landing, land
from lancewood.engine.staging.staging import Stage
from lancewood.engine.versions.finding import list_versions, load_manifest
from lancewood.engine.write import WriteRequest, claims
from lancewood.errors import NotFoundError
from lancewood.format.manifest import content_digest, manifest_digest
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import clean_up
from lancewood.jobs.upkeep.retention import Retention
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.store.disk import DiskStore

ROWS = pa.table({"k": [1, 2, 3, 4], "s": ["a", "b", "c", "d"]})
MORE = pa.table({"k": [5, 6], "s": ["e", "f"]})
NOW = timedelta(0)


def rows(dataset: Any) -> list[dict[str, Any]]:
    return dataset.to_table(with_row_id=True).to_pylist()  # type: ignore[no-any-return]


def ours(table: lw.Table) -> list[dict[str, Any]]:
    return table.scan(with_row_id=True).to_arrow().to_pylist()  # type: ignore[no-any-return]


def detached(uri: str, landing: Landing, branch: str | None = None) -> Any:
    dataset = lance.dataset(uri, version=landing.version if branch is None else None)
    return dataset if branch is None else dataset.checkout_version((branch, landing.version))


def new_stage(uri: str) -> Stage:
    request = WriteRequest(file_version="2.2", max_rows_per_file=2)
    return Stage.new(Location(DiskStore(uri)), ROWS, request)


def change(table: lw.Table) -> lw.Table:
    return table.append(MORE).delete("k = 2").update({"s": "'new'"}, where="k >= 4")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "photos.lance")


def test_pylance_opens_the_staged_state_by_number_and_nothing_else_moved(uri: str) -> None:
    lw.create(uri, ROWS)
    stage = Stage(lw.open(uri)._snapshot)
    staged = change(lw.Table(stage.snapshot))
    landing = stage.publish()
    dataset = detached(uri, landing)
    assert rows(dataset) == ours(staged)
    assert dataset.version == landing.version
    assert rows(lance.dataset(uri)) == ours(lw.open(uri, version=1))
    assert [each["version"] for each in lance.dataset(uri).versions()] == [1]
    for version, state in stage.known.items():
        found = lance.dataset(uri, version=version)
        assert found.count_rows() == state.row_count


def test_pylance_opens_the_staged_state_of_a_branch(uri: str) -> None:
    branch = lw.create(uri, ROWS).branches.create("exp").append(MORE)
    stage = Stage(branch._snapshot)
    staged = change(lw.Table(stage.snapshot))
    landing = stage.publish()
    assert rows(detached(uri, landing, "exp")) == ours(staged)
    assert land(stage.location, landing).is_exact
    dataset = judged(uri).checkout_version(("exp", None))
    assert rows(dataset) == ours(staged)
    assert dataset.version == staged.version


def test_pylance_opens_the_staged_state_of_a_table_that_is_not_made_yet(uri: str) -> None:
    stage = new_stage(uri)
    staged = change(lw.Table(stage.snapshot))
    landing = stage.publish()
    assert rows(detached(uri, landing)) == ours(staged)
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(uri)
    assert land(stage.location, landing).versions == (1, 2, 3, 4)
    dataset = judged(uri)
    assert rows(dataset) == ours(staged)


def test_a_landed_history_is_like_any_other(uri: str) -> None:
    lw.create(uri, ROWS)
    stage = Stage(lw.open(uri)._snapshot)
    staged = change(lw.Table(stage.snapshot))
    land(stage.location, stage.publish())
    dataset = judged(uri)
    assert [each["version"] for each in dataset.versions()] == [1, 2, 3, 4]
    assert [each["timestamp"] for each in dataset.versions()] == sorted(
        each["timestamp"] for each in dataset.versions()
    )
    assert rows(dataset) == ours(staged)
    assert dataset.checkout_version(2).count_rows() == 6
    names = [type(each.operation).__name__ for each in dataset.get_transactions(3)]
    assert names == ["Update", "Delete", "Append"]
    lance.write_dataset(MORE, uri, mode="append")
    after = lw.open(uri).append(MORE)
    assert (after.version, after.count_rows()) == (6, 9)
    lance.dataset(uri).validate()
    assert sorted(each["_rowid"] for each in ours(after)) == sorted(
        {each["_rowid"] for each in ours(after)}
    )


def test_indices_stay_with_staged_and_landed_states(uri: str) -> None:
    lw.create(uri, ROWS)
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    stage = Stage(lw.open(uri)._snapshot)
    lw.Table(stage.snapshot).append(MORE)
    landing = stage.publish()
    land(stage.location, landing)
    for dataset in (detached(uri, landing), lance.dataset(uri)):
        (index,) = dataset.describe_indices()
        assert index.field_names == ["k"]
        assert dataset.to_table(filter="k = 3")["s"].to_pylist() == ["c"]
        assert dataset.to_table(filter="k = 6")["s"].to_pylist() == ["f"]
        assert "ScalarIndexQuery" in dataset.scanner(filter="k = 3").explain_plan()


def test_pylance_as_the_writer_from_outside_costs_a_rebase_or_a_divergence(uri: str) -> None:
    lw.create(uri, ROWS)
    base = lw.open(uri)._snapshot
    fine, clash = Stage(base), Stage(base)
    lw.Table(fine.snapshot).append(MORE).set_config({"a": "1"})
    lw.Table(clash.snapshot).delete("k = 1")
    landings = fine.publish(), clash.publish()
    lance.dataset(uri).delete("k = 1")
    done = land(base.location, landings[0])
    assert (done.versions, done.is_exact) == ((3, 4), False)
    dataset = judged(uri)
    assert dataset.to_table()["k"].to_pylist() == [2, 3, 4, 5, 6]
    assert find_landing(base.location, landings[1]).is_diverged
    with pytest.raises(lw.RetryableConflictError):
        land(base.location, landings[1])
    assert lance.dataset(uri).version == 4
    assert detached(uri, landings[1]).to_table()["k"].to_pylist() == [2, 3, 4]


def test_pylance_overwriting_meanwhile_is_a_divergence_and_the_state_still_reads(uri: str) -> None:
    lw.create(uri, ROWS)
    stage = Stage(lw.open(uri)._snapshot)
    staged = lw.Table(stage.snapshot).append(MORE)
    landing = stage.publish()
    lance.write_dataset(MORE, uri, mode="overwrite")
    with pytest.raises(lw.IncompatibleConflictError, match="Overwrite in version 2"):
        land(stage.location, landing)
    assert rows(detached(uri, landing)) == ours(staged)


# Staged and landed is the same as committed

Verb = Callable[[lw.Table], lw.Table]
VERBS: dict[str, Verb] = {
    "append": lambda t: t.append(pa.table({"k": [10, 11]}), message="more"),
    "overwrite": lambda t: t.overwrite(ROWS),
    "delete": lambda t: t.delete("k % 3 = 1"),
    "update": lambda t: t.update({"k": "k + 1"}, where="k > 2"),
    "merge": lambda t: t.merge(pa.table({"k": [3, 12]}), on="k"),
    "add": lambda t: t.add_columns({f"c{t.version}": "k * 2"}),
    "nulls": lambda t: t.add_columns(pa.field(f"n{t.version}", pa.string())),
    "drop": lambda t: t.drop_columns([t.schema.names[-1]]) if len(t.schema.names) > 1 else t,
    "rename": lambda t: (
        t.rename_column(t.schema.names[-1], f"r{t.version}") if len(t.schema.names) > 1 else t
    ),
    "compact": lambda t: t.compact(),
    "restore": lambda t: t.restore(1),
    "config": lambda t: t.set_config({"v": str(t.version)}),
    "batch": lambda t: t.append(
        pa.table({"k": [20]}), commit=lw.CommitOptions(app="app", batch=t.version)
    ),
}


OWN = ("lancewood.applied", "lancewood.line")
"""Settings with moments and identities in them."""


def facts(uri: str) -> list[Any]:
    """Everything that two histories of the same verbs have in common."""
    told = []
    for version in reversed(list_versions(DiskStore(uri)).versions):
        table = lw.open(uri, version=version)
        manifest = table._snapshot.manifest
        told.append(
            (
                version,
                table.schema,
                ours(table),
                {k: v for k, v in table.config.items() if not k.startswith(OWN)},
                table.applied_batches,
                manifest.next_row_id,
                manifest.max_fragment_id,
                (manifest.reader_flags, manifest.writer_flags),
                [
                    (each.id, each.physical_rows, each.created_at, each.last_updated_at)
                    for each in table.fragments
                ],
            )
        )
    return told


@settings(
    max_examples=daily(12, of=30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(names=st.lists(st.sampled_from(sorted(VERBS)), min_size=1, max_size=6), on=st.booleans())
def test_verbs_staged_and_landed_equal_the_same_verbs_committed(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], on: bool
) -> None:
    root = tmp_path_factory.mktemp("pair")
    plain, staged = str(root / "plain.lance"), str(root / "staged.lance")
    for uri in (plain, staged):
        lw.create(uri, ROWS, layout=lw.Layout(max_rows_per_file=3))
        if on:
            with mock.patch.object(claims, "_RANDOM", random.Random(7)):
                lw.open(uri).branches.create("exp")
            lw.open(uri, branch="exp").append(MORE)
    branch = "exp" if on else None
    direct = lw.open(plain, branch=branch)
    stage = Stage(lw.open(staged, branch=branch)._snapshot)
    table = lw.Table(stage.snapshot)
    for name in names:
        if name == "restore" and on:
            continue
        direct, table = VERBS[name](direct), VERBS[name](table)
    assert ours(table) == ours(direct)
    if not stage.steps:
        return
    assert land(stage.location, stage.publish()).is_exact
    below = "/tree/exp" if on else ""
    assert facts(staged + below) == facts(plain + below)
    dataset = lance.dataset(staged)
    dataset = dataset.checkout_version((branch, None)) if branch else dataset
    dataset.validate()
    assert rows(dataset) == ours(direct)


# Digests


def test_digests_survive_a_copy_and_relocate(uri: str, tmp_path: Path) -> None:
    lw.create(uri, ROWS).branches.create("exp").append(MORE)
    stage = Stage(lw.open(uri, branch="exp")._snapshot)
    change(lw.Table(stage.snapshot))
    landing = stage.publish()
    land(stage.location, landing)

    def digests(uri: str) -> dict[tuple[str, int], tuple[str, str]]:
        found: dict[tuple[str, int], tuple[str, str]] = {}
        for root in ("", "/tree/exp"):
            store = DiskStore(uri + root)
            versions = [*list_versions(store).versions, *(landing.steps if root else ())]
            for version in versions:
                message = load_manifest(store, Version(version), stage.scheme).message
                found[root, version] = manifest_digest(message), content_digest(message)
        return found

    before = digests(uri)
    moved = str(tmp_path / "elsewhere.lance")
    shutil.copytree(uri, moved)
    shutil.rmtree(uri)
    assert digests(moved) == before
    report = lw.relocate(moved, in_flight=NOW)
    assert report.manifests >= 5 + len(landing.steps)
    assert digests(moved) == before
    assert rows(detached(moved, landing, "exp")) == ours(lw.open(moved, branch="exp"))
    exact = before["/tree/exp", landing.exact_version(2)]
    assert before["/tree/exp", landing.version][1] == exact[1]
    assert before["/tree/exp", landing.version][0] != exact[0]


def test_content_changes_with_rows_and_schema_only(uri: str) -> None:
    table = lw.create(uri, ROWS)

    def content(table: lw.Table) -> str:
        return content_digest(table._snapshot.manifest.message)

    same = table.set_config({"a": "1"}).set_metadata({"b": "2"})
    assert content(same) == content(table)
    seen = {content(table)}
    for name in ("append", "delete", "update", "add", "rename", "compact", "drop"):
        same = VERBS[name](same)
        assert content(same) not in seen, name
        seen.add(content(same))
    assert content(same.restore(1)) == content(table)


# Cleanup


def clean(snapshot: Snapshot) -> Any:
    keep = Retention(older_than=NOW, keep_versions=1, in_flight=NOW)
    return clean_up(snapshot, keep, LocalRunner())


def test_cleanup_keeps_what_is_staged_on_main_and_on_branches(uri: str) -> None:
    main = lw.create(uri, ROWS)
    main.branches.create("exp").append(MORE)
    stages = [Stage(lw.open(uri, branch=each)._snapshot) for each in (None, "exp")]
    expected = [ours(change(lw.Table(each.snapshot))) for each in stages]
    landings = [each.publish() for each in stages]
    for each in stages:
        for number in range(3):
            load_snapshot(each.location)
            lw.Table(load_snapshot(each.location)).append(MORE, message=str(number))
    for each in stages:
        report = clean(load_snapshot(each.location))
        assert report.detached == 3
        assert report.versions
    for stage, landing, branch, rows_then in zip(
        stages, landings, (None, "exp"), expected, strict=True
    ):
        assert rows(detached(uri, landing, branch)) == rows_then
        names = {each.rpartition("/")[2] for each in stage.location.store.names("_transactions")}
        assert {step.transaction_file for step in stage.known.values()} <= names


def test_cleanup_keeps_what_is_staged_of_a_table_that_is_not_made_yet(uri: str) -> None:
    stage = new_stage(uri)
    expected = ours(change(lw.Table(stage.snapshot)))
    landing = stage.publish()
    with pytest.raises(NotFoundError, match="nothing was removed"):
        clean(stage.published)
    assert rows(detached(uri, landing)) == expected
    lw.create(uri, MORE).append(MORE)
    report = clean(load_snapshot(stage.location))
    assert (report.detached, report.versions) == (4, (1,))
    assert rows(detached(uri, landing)) == expected
