"""A repository with tables, a run that has changed some on its branch, and checks of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lancewood.pipeline.checks.running import plan_checks, run_checks
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.facts import CheckFacts
from lancewood.repo.repository import Repository

HEAD = """
[pipeline]
name = "zoo"
kept_rows = 5
[sources.new]
sql = "SELECT 1 AS id"
[[targets]]
table = "animals"
from = "new"
mode = "merge"
on = ["id"]
"""


@dataclass
class Scene:
    """Tables as they were published, and as a run leaves them."""

    spark: Any
    folder: Path
    before: Mapping[str, pa.Table]
    now: Mapping[str, pa.Table]
    head: str = HEAD
    repository: Repository = field(init=False)

    def __post_init__(self) -> None:
        self.repository = Repository.init(self.folder / ".lancewood" / "zoo", fsync=False)
        with self.repository.transaction("main", "day 1") as changes:
            for name, rows in self.before.items():
                changes.create_table(name, rows)
        context = self.context(self.pipeline(""))
        self.repository.branches.create(context.branch, at=context.base)
        for name, rows in self.now.items():
            # In several files, so that there are several tasks.
            made = context.create(name, rows.schema).opened()
            table = made.overwrite(rows.slice(0, 2), schema=rows.schema)
            if rows.num_rows > 2:
                table.append(rows.slice(2))
        self.repository.commit("loaded", branch=context.branch)

    def pipeline(self, checks: str) -> Pipeline:
        file = self.folder / "zoo.toml"
        file.write_text(self.head + checks, encoding="utf-8")
        return load(file, {}, {})

    def context(self, pipeline: Pipeline) -> RunContext:
        base = self.repository.branches.list().get("main")
        return RunContext(self.repository, pipeline, "r1", base)

    def plan(self, checks: str, planned: Mapping[str, pa.Schema] | None = None) -> None:
        pipeline = self.pipeline(checks)
        context = self.context(pipeline)
        future = {name: each.schema for name, each in self.now.items()}
        plan_checks(self.spark, pipeline, context, future if planned is None else planned)

    def run(self, checks: str, **said: Any) -> list[CheckFacts]:
        """Plan and run, as a run does."""
        self.plan(checks)
        pipeline = self.pipeline(checks)
        return run_checks(self.spark, pipeline, self.context(pipeline), self.results, **said)

    @property
    def results(self) -> Path:
        return self.folder / "results"
