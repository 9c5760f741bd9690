"""The context of a run over a plain repository, and frames that are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import lance
import pyarrow as pa

import lancewood as lw
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Mode, Pipeline, Quarantine, Spot, Target
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.report.facts import SourceFacts

PHOTOS = pa.table({"id": [1, 2, 3, 4], "title": ["one", "two", "three", "four"]})


def target(table: str, mode: str, source: str | None = None, **said: Any) -> Target:
    return Target(table, Spot("p.toml", "targets[0]", 7), Mode(mode), source, **said)


@dataclass
class LoadingContext(RunContext):
    """A run's context, which also begins and publishes runs."""

    def begin(self, run: str) -> None:
        """A fresh run, from main as it is now."""
        self.run, self.base = run, self.repository.at("main").hash
        self._targets.clear()
        self.create_branch()

    def publish(self) -> None:
        self.repository.commit("loaded", branch=self.branch)
        self.repository.merge(self.branch, branch="main")

    def on_branch(self, table: str) -> lance.LanceDataset:
        """What the run's branch holds, as pylance sees it."""
        return lance.dataset(self.root(table)).checkout_version((self.branch, None))

    def on_main(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = lance.dataset(self.root(table)).to_table().to_pylist()
        return sorted(rows, key=repr)

    def root(self, table: str) -> str:
        return str(self.repository.path / "tables" / f"{table}.lance")

    def with_targets(self, *targets: Target) -> Self:
        return replace(self, pipeline=replace(self.pipeline, targets=targets))


class FakeFrames(Frames):
    """Frames that are at hand."""

    def __init__(self, frames: Mapping[str, Any] | None = None, bad: Any = None) -> None:
        self.frames, self.bad = frames or {}, bad

    def frame(self, name: str) -> Any:
        return self.frames[name]

    def schema(self, name: str) -> Any:
        return self.frames[name].schema

    def bad_rows(self) -> Any:
        return self.bad

    def counted(self) -> list[SourceFacts]:
        return []


def new_context(tmp_path: Path, **quarantine: Any) -> LoadingContext:
    """A repository with the table ``photos`` on main, and a run that began there."""
    repository = lw.Repository.init(tmp_path / "repo", fsync=False)
    with repository.transaction("main", message="day 1") as changes:
        changes.create_table("photos", PHOTOS)
    spot = Spot("p.toml", "pipeline")
    pipeline = Pipeline(
        "photos",
        tmp_path / "p.toml",
        str(repository.path),
        "digest",
        spot,
        quarantine=Quarantine(**quarantine),
    )
    context = LoadingContext(repository, pipeline, "r1", None)
    context.begin("r1")
    return context


def rows_of(dataset: lance.LanceDataset) -> list[dict[str, Any]]:
    dataset.validate()
    rows: list[dict[str, Any]] = dataset.to_table().to_pylist()
    return sorted(rows, key=repr)
