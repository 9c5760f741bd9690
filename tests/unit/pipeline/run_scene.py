"""A pipeline without Spark: the parts are small ones over plain tables, the run is the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancewood as lw
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import (
    Check,
    Mode,
    Pipeline,
    Quarantine,
    Source,
    Spot,
    Target,
)
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.report.facts import (
    CheckFacts,
    Listener,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    TargetFacts,
)
from lancewood.pipeline.running.run import SparkWork
from lancewood.pipeline.start import run_pipeline

SPOT = Spot("zoo.toml", "pipeline")
SCHEMA = pa.schema({"id": pa.int64()})
BAD = pa.schema({"run": pa.string(), "record": pa.string()})


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())}, schema=SCHEMA)


class Died(BaseException):
    """The process is gone: nothing catches it."""


@dataclass
class Incoming:
    """What sources give: numbers, of which negative ones are bad."""

    values: dict[str, list[int]] = field(default_factory=dict)


class FakeFrames(Frames):
    """Rows by source. An incremental source gives what came after its state."""

    def __init__(self, incoming: Incoming, pipeline: Pipeline, states: Mapping[str, Any]) -> None:
        self._given, self._pipeline, self._states = incoming, pipeline, dict(states)
        self.is_closed = False

    def check(self) -> None:
        for each in self._pipeline.sources:
            if each.name not in self._given.values:
                raise lw.errors.InvalidInputError(f"{each.spot}: cannot be read")

    def all(self, name: str) -> list[int]:
        source = next(each for each in self._pipeline.sources if each.name == name)
        since = self._states.get(name, 0) if source.incremental else 0
        return self._given.values[name][since:]

    def good(self, name: str) -> list[int]:
        return [each for each in self.all(name) if each >= 0]

    def bad(self) -> list[str]:
        names = [each.name for each in self._pipeline.sources]
        return [f"{name} {each}" for name in names for each in self.all(name) if each < 0]

    def is_empty(self) -> bool | None:
        said = [not self.all(each.name) for each in self._pipeline.sources if each.incremental]
        return all(said) if said else None

    def news(self) -> str:
        return repr([self.all(each.name) for each in self._pipeline.sources if each.incremental])

    def counted(self) -> list[SourceFacts]:
        return [
            SourceFacts(each.name, "fake", "here", rows=len(self.good(each.name)))
            for each in self._pipeline.sources
        ]

    def states(self) -> dict[str, Any]:
        return {
            each.name: len(self._given.values[each.name])
            for each in self._pipeline.sources
            if each.incremental
        }

    def file_tables(self) -> list[tuple[str, Any]]:
        return [
            (f"{self._pipeline.name}_{each.name}_files", rows(*self.all(each.name)))
            for each in self._pipeline.sources
            if each.incremental
        ]

    def close(self) -> None:
        self.is_closed = True


def written(context: RunContext, table: str, schema: pa.Schema) -> lw.Table:
    """A table on the run's branch, to be written."""
    is_there = context.has(table, revision=context.branch)
    found = context.location(table) if is_there else context.create(table, schema)
    return found.opened()


class Points(Listener):
    """Listens, and dies at the n-th event; counts them all."""

    def __init__(self, die_at: int | None = None) -> None:
        self.die_at = die_at
        self.events: list[str] = []
        self.texts: list[str] = []

    def _event(self, name: str) -> None:
        self.events.append(name)
        if len(self.events) == self.die_at:
            raise Died(name)

    def begun(self, stage: str) -> None:
        self._event(f"begun {stage}")

    def moved(self, stage: str, done: int, total: int) -> None:
        self._event(f"moved {stage}")

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self._event(f"ended {stage}")

    def noted(self, text: str) -> None:
        self.texts.append(text)

    def over(self, facts: RunFacts) -> None:
        self._event("over")


@dataclass
class Scene:
    """A repository at a path, and the pipeline that loads it."""

    path: Path
    pipeline: Pipeline
    incoming: Incoming
    checks: Callable[[RunContext], list[CheckFacts]] = field(default=lambda context: [])
    before_publishing: list[Callable[[], None]] = field(default_factory=list)
    """What others do after the loads, once each."""
    is_known_before_spark: bool = True
    """Whether somebody can tell that nothing is new."""
    check_file: Callable[[RunContext], None] = field(default=lambda _: None)

    @classmethod
    def at(cls, path: Path, **said: Any) -> Scene:
        """Two tables from two sources, into a repository that is not there yet."""
        sources = (Source("a", SPOT.at("a"), format="x"), Source("b", SPOT.at("b"), format="x"))
        targets = (
            Target("photos", SPOT.at("photos"), Mode.APPEND, source="a"),
            Target("labels", SPOT.at("labels"), Mode.APPEND, source="b"),
        )
        given = {
            "name": "zoo",
            "file": path / "zoo.toml",
            "repository": str(path / "repo"),
            "digest": "d1",
            "spot": SPOT,
            "sources": sources,
            "targets": targets,
            "quarantine": Quarantine(most_rows=None),
        }
        return cls(path, Pipeline(**{**given, **said}), Incoming({"a": [1, 2], "b": [3]}))

    def changed(self, **said: Any) -> Scene:
        return replace(self, pipeline=replace(self.pipeline, **said))

    def incremental(self) -> Scene:
        sources = (replace(self.pipeline.sources[0], incremental=True), self.pipeline.sources[1])
        return self.changed(sources=sources)

    def run(self, run_id: str | None = "r1", **said: Any) -> RunFacts:
        spark = said.pop("spark", _Spark())
        return run_pipeline(self.pipeline, run_id=run_id, spark=spark, work=FakeWork(self), **said)

    @property
    def repo(self) -> lw.Repository:
        return lw.Repository.open(self.pipeline.repository)

    def uri(self, table: str) -> str:
        return str(self.repo.path / "tables" / f"{table}.lance")

    def seen(self, table: str, revision: str = "main") -> list[int]:
        """What the repository holds, sorted."""
        found = self.repo.at(revision)
        if table not in found.tables:
            return []
        return sorted(found.table(table).to_arrow()["id"].to_pylist())

    def landed(self, table: str) -> list[int]:
        """What pylance sees on main, sorted."""
        return sorted(lance.dataset(self.uri(table)).to_table()["id"].to_pylist())

    def all_seen(self, revision: str = "main") -> dict[str, list[int]]:
        """Every table that has ids."""
        view = self.repo.at(revision)
        return {
            each: self.seen(each, revision)
            for each in view.tables
            if "id" in view.table(each).schema.names
        }

    def check_tidy(self) -> None:
        """No branch of a run is left, in git or in a table, and no claim."""
        repo = self.repo
        assert [each for each in repo.branches if each.startswith("run")] == []
        assert repo.branches.leaving() == ()
        for each in (repo.path / "tables").iterdir():
            names = lance.dataset(str(each)).branches.list()
            assert [name for name in names if name.startswith("run")] == []
            assert not [*(each / "tree").glob("run/*")]
        claims = repo.path / "lancewood" / "runs" / ".claims"
        assert not claims.exists() or not [*claims.iterdir()]


class FakeWork(SparkWork):
    """What a run has Spark do, with plain tables."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def has_no_news(
        self, pipeline: Pipeline, context: RunContext, states: Mapping[str, Any]
    ) -> bool:
        frames = FakeFrames(self.scene.incoming, pipeline, states)
        return self.scene.is_known_before_spark and bool(frames.is_empty())

    def check_file(self, context: RunContext) -> None:
        self.scene.check_file(context)

    def frames(
        self, spark: Any, context: RunContext, states: Mapping[str, Any], overrides: Any
    ) -> FakeFrames:
        return FakeFrames(self.scene.incoming, context.pipeline, states)

    @staticmethod
    def plan_targets(spark: Any, context: RunContext, frames: Frames) -> dict[str, pa.Schema]:
        return {}

    @staticmethod
    def plan_checks(*_: object) -> None: ...

    @staticmethod
    def load_target(
        spark: Any,
        context: RunContext,
        target: Target,
        frames: Any,
        listener: Listener | None = None,
    ) -> TargetFacts:
        assert listener is not None
        table = written(context, target.table, SCHEMA)
        before = table.count_rows()
        assert target.source is not None
        data = rows(*frames.good(target.source))
        listener.moved(f"load {target.table}", 1, 2)
        match target.mode:
            case Mode.APPEND:
                done = table.append(data) if data.num_rows else table
            case Mode.OVERWRITE:
                done = table.overwrite(data)
            case _:
                done = table.merge(data, on=["id"])
        return TargetFacts(
            target.table,
            target.mode.value,
            rows_before=before,
            rows_after=done.count_rows(),
            inserted=data.num_rows,
            version=done.version,
            columns_added=("id",),
        )

    @staticmethod
    def load_quarantine(
        spark: Any, context: RunContext, pipeline: Pipeline, frames: Any
    ) -> QuarantineFacts:
        found, limit = frames.bad(), pipeline.quarantine
        facts = QuarantineFacts(limit.table, rows=len(found))
        if found:
            data = pa.table({"run": [context.run] * len(found), "record": found}, schema=BAD)
            written(context, limit.table, BAD).append(data)
            facts.by_reason = (("source", "negative", len(found)),)
            facts.is_beyond = limit.most_rows is not None and len(found) > limit.most_rows
        return facts

    @staticmethod
    def load_files(spark: Any, context: RunContext, table: str, files: Any) -> None:
        written(context, table, SCHEMA).append(files)

    def run_checks(  # type: ignore[override]
        self,
        spark: Any,
        pipeline: Pipeline,
        context: RunContext,
        folder: Path,
        *,
        around: Callable[[Check], AbstractContextManager[object]],
    ) -> list[CheckFacts]:
        with around(pipeline.checks[0]):
            found = self.scene.checks(context)
        if self.scene.before_publishing:
            self.scene.before_publishing.pop(0)()
        return found

    @staticmethod
    @contextmanager
    def following(spark: Any, listener: Listener, stage: str) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class _Spark:
    """A session that nobody asks for anything but its version."""

    version: str = "none"
