"""Rows that a run changed, and others on the branch it publishes into, while it was at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pytest
from tests.unit.pipeline.run_scene import SPOT, FakeWork, Points, Scene, _Spark

import lancewood as lw
from lancewood.pipeline.definition.model import Mode, OnConflict, Target, UniqueCheck
from lancewood.pipeline.report.facts import Ending, RunFacts, TargetFacts
from lancewood.pipeline.start import run_pipeline
from lancewood.repo.outcome import TableDone

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64(), "m": pa.int64()})
CHECK = UniqueCheck("ids", SPOT, True, "photos", ("id",))
ADDED = {"n": "ours.n + theirs.n - base.n"}


class Merging(FakeWork):
    """Loads rows by key: the first run three of them, others make ``n`` of the first two 10."""

    def load_target(  # type: ignore[override]
        self, spark: Any, context: Any, target: Target, frames: Any, listener: Any = None
    ) -> TargetFacts:
        if context.has_now(target.table):
            table = context.location(target.table).opened()
            table = table.merge(pa.table({"id": [1, 2], "n": [10, 10]}), on="id")
        else:
            data = pa.table({"id": [1, 2, 3], "n": [0] * 3, "m": [0] * 3}, schema=SCHEMA)
            table = context.create(target.table, SCHEMA).opened().append(data)
        return TargetFacts(target.table, target.mode.value, version=table.version)


@dataclass
class Conflicting(Scene):
    def run(self, run_id: str | None = "r1", **said: Any) -> RunFacts:
        work, spark = Merging(self), cast(Any, _Spark())
        return run_pipeline(self.pipeline, run_id=run_id, spark=spark, work=work, **said)

    def others(self, change: Callable[[lw.Table], object]) -> None:
        """Somebody commits to main before the next run publishes."""

        def act() -> None:
            with self.repo.transaction("main", "others") as changes:
                change(changes.table("photos"))

        self.before_publishing.append(act)

    def rows(self) -> dict[int, tuple[int, int]]:
        """What pylance and the repository see."""
        dataset = lance.dataset(self.uri("photos"))
        dataset.validate()
        found = [dataset.to_table(), self.repo.at("main").table("photos").to_arrow()]
        seen = [{row["id"]: (row["n"], row["m"]) for row in each.to_pylist()} for each in found]
        assert seen[0] == seen[1]
        assert len(seen[0]) == dataset.count_rows()
        return seen[0]


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


def loaded(path: Path, on_conflict: OnConflict, check: UniqueCheck = CHECK) -> Conflicting:
    """A table of three rows, which the next run changes."""
    target = Target("photos", SPOT, Mode.MERGE, source="a", on=("id",), on_conflict=on_conflict)
    scene = Conflicting.at(path, targets=(target,), checks=(check,))
    assert isinstance(scene, Conflicting)
    assert scene.run().ending is Ending.PUBLISHED
    return scene


@pytest.mark.parametrize(
    ("on_conflict", "second", "attempts"),
    [
        ("fail", (10, 5), 2),
        ("ours", (1, 5), 1),
        ("theirs", (10, 5), 1),
        (ADDED, (11, 5), 1),
        ({"m": "ours"}, (10, 5), 2),
    ],
)
def test_a_row_that_both_changed_is_decided_as_the_file_says(
    tmp_path: Path, on_conflict: OnConflict, second: tuple[int, int], attempts: int
) -> None:
    scene = loaded(tmp_path, on_conflict)
    scene.others(lambda table: table.update({"n": "n + 1", "m": "5"}, "id >= 2"))
    facts = scene.run("r2")
    assert (facts.ending, facts.attempts) == (Ending.PUBLISHED, attempts)
    assert scene.rows() == {1: (10, 0), 2: second, 3: (1, 5)}
    assert len(scene.repo.at("main").commit.parents) == 1
    scene.check_tidy()
    assert scene.run("r2").ending is Ending.ALREADY_PUBLISHED
    assert scene.run("r3").ending is Ending.PUBLISHED
    assert scene.rows() == {1: (10, 0), 2: (10, 5), 3: (1, 5)}


@pytest.mark.parametrize(
    ("on_conflict", "second", "attempts"),
    [("ours", None, 1), ("theirs", (10, 0), 1), (ADDED, (10, None), 2)],
)
def test_a_row_that_others_deleted_goes_by_sides_and_not_by_rules(
    tmp_path: Path, on_conflict: OnConflict, second: tuple[int, int] | None, attempts: int
) -> None:
    scene = loaded(tmp_path, on_conflict)
    scene.others(lambda table: table.delete("id = 2"))
    assert scene.run("r2").attempts == attempts
    assert scene.rows() == {1: (10, 0), 3: (0, 0)} | ({2: second} if second else {})


def test_a_check_that_has_not_seen_the_rows_of_others_looks_again(tmp_path: Path) -> None:
    scene = loaded(tmp_path, "ours", replace(CHECK, is_warning=False))
    scene.others(lambda table: table.update({"n": "7"}, "id = 2"))
    points = Points()
    facts = scene.run("r2", listener=points)
    assert facts.attempts == 2
    assert any("the checks have not seen that" in each for each in points.texts)
    assert scene.rows() == {1: (10, 0), 2: (10, 0), 3: (0, 0)}


def test_many_runs_leave_no_trace_of_their_branches_in_the_table(tmp_path: Path) -> None:
    scene = loaded(tmp_path, "theirs")
    config = None
    for number in range(4):
        if number % 2:
            scene.others(lambda table: table.update({"n": "n + 1"}, "id = 2"))
        assert scene.run(f"more{number}").attempts == 1
        found = dict(lw.open(scene.uri("photos")).config)
        assert config in (None, found)
        config = found
    report = lw.open(scene.uri("photos")).verify()
    assert not report.problems


def test_a_squashed_merge_is_by_rows_where_something_decides(tmp_path: Path) -> None:
    scene = loaded(tmp_path, "fail")
    repo = scene.repo
    repo.branches.create("exp")
    for branch, n in (("exp", "3"), ("main", "4")):
        with repo.transaction(branch, branch) as changes:
            changes.table("photos").update({"n": n}, "id = 1")
    for resolve in (None, {"others": lw.Resolve(rows="theirs")}):
        with pytest.raises(lw.ConflictError):
            repo.merge("exp", squash=True, resolve=resolve)
    done = repo.merge("exp", squash=True, resolve={"photos": lw.Resolve(rows="theirs")})
    assert done.done == (("photos", TableDone.MERGED),)
    assert scene.rows()[1] == (3, 0)
