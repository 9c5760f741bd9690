"""A run's ground and frames, as little of them as loading asks for, over a plain repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancewood as lw
from lancewood.pipeline.definition.model import Mode, Pipeline, Quarantine, Spot, Target
from lancewood.pipeline.report.facts import SourceFacts
from lancewood.repo.repository import Repository
from lancewood.table.table import Table

PHOTOS = pa.table({"id": [1, 2, 3, 4], "title": ["one", "two", "three", "four"]})


def target(table: str, mode: str, source: str | None = None, **said: Any) -> Target:
    return Target(table, Spot("p.toml", "targets[0]", 7), Mode(mode), source, **said)


@dataclass
class FakeContext:
    repository: Repository
    pipeline: Pipeline
    run: str = "r1"

    @property
    def branch(self) -> str:
        return f"run/{self.run}"

    @property
    def storage_options(self) -> dict[str, str] | None:
        return None

    def has_now(self, table: str) -> bool:
        return self.has(table, revision=self.branch)

    def has(self, table: str, *, revision: str | None = None) -> bool:
        return table in self.repository.at(revision or "main").tables

    def open(self, table: str, *, revision: str | None = None) -> Table:
        return self.repository.at(revision or "main").table(table)

    def location(self, table: str) -> tuple[str, str | None]:
        found = self.repository.prepare(table, branch=self.branch)
        return found.uri, found.branch

    def create(
        self, table: str, schema: pa.Schema, uri: str | None = None
    ) -> tuple[str, str | None]:
        with self.repository.transaction(self.branch, f"make {table}") as changes:
            changes.create_table(table, schema)
        return self.location(table)

    def begin(self, run: str) -> None:
        """A fresh run, from main as it is now."""
        self.run = run
        self.repository.branches.create(self.branch, at="main")

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

    def with_targets(self, *targets: Target) -> FakeContext:
        return replace(self, pipeline=replace(self.pipeline, targets=targets))


@dataclass
class FakeFrames:
    frames: Mapping[str, Any] = field(default_factory=dict)
    bad: Any = None

    def frame(self, name: str) -> Any:
        return self.frames[name]

    def schema(self, name: str) -> Any:
        return self.frames[name].schema

    def bad_rows(self) -> Any:
        return self.bad

    def counted(self) -> list[SourceFacts]:
        return []


def new_context(tmp_path: Path, **quarantine: Any) -> FakeContext:
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
    context = FakeContext(repository, pipeline)
    context.begin("r1")
    return context


def rows_of(dataset: lance.LanceDataset) -> list[dict[str, Any]]:
    dataset.validate()
    rows: list[dict[str, Any]] = dataset.to_table().to_pylist()
    return sorted(rows, key=repr)
