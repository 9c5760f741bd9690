"""Loading all of a run onto its branch: targets, bad rows, files that were read; then its entry.
What Spark does for it, and the session that does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lancewood.pipeline.checks.running import check_tables, plan_checks, run_checks
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Pipeline, Target
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.refusals import blamed, spark_may_be_gone
from lancewood.pipeline.frames.without_spark import check_python, has_no_news
from lancewood.pipeline.loading.load import load_files, load_target, stage_of
from lancewood.pipeline.loading.planning import plan_targets
from lancewood.pipeline.loading.quarantine import load_quarantine
from lancewood.pipeline.report.facts import Ending, RunFacts, SourceFacts, Stages, following
from lancewood.pipeline.report.markup import total
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.ledger import (
    LedgerEntry,
    Left,
    Progress,
    encode_entry,
    encode_message,
    entry_at,
    entry_file,
)
from lancewood.pipeline.running.publishing import check_beside, has_work
from lancewood.spark.abilities import PIPELINES, release_here, require
from lancewood.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Session: TypeAlias = Any
"""A Spark session; a run passes it on, and only asks for its version."""
_TALKATIVE = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)


class SparkWork:
    """The functions that do the work of a run."""

    has_no_news = staticmethod(has_no_news)
    plan_targets = staticmethod(plan_targets)
    plan_checks = staticmethod(plan_checks)
    load_target = staticmethod(load_target)
    load_quarantine = staticmethod(load_quarantine)
    load_files = staticmethod(load_files)
    run_checks = staticmethod(run_checks)
    following = staticmethod(following)

    def check_file(self, context: RunContext) -> None:
        """Check the file as far as possible without Spark, and that this Spark can do it."""
        require("a pipeline", PIPELINES, release_here())
        check_python(context.pipeline)
        check_tables(context.pipeline, context)

    def frames(
        self,
        spark: Session,
        context: RunContext,
        states: Mapping[str, Any],
        overrides: Mapping[str, Any],
    ) -> Frames:
        """The frames, from the states of incremental sources and frames that replace sources."""
        return Frames(spark, context.pipeline, context, states, overrides)


def start_session(pipeline: Pipeline) -> Session:
    """A session as the file asks for, or the one that already runs on that master; any running one
    if the file names no master."""
    said = dict(pipeline.spark)
    master = said.pop("master", None)
    return session(master, app_name=f"lancewood {pipeline.name}", conf=said)


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """Keep Spark from logging failing tasks and queries inside the block; a Spark Connect server
    has its own log."""
    java: Any = getattr(spark, "_jvm", None)
    if java is None:
        yield
        return
    logging = java.org.apache.logging.log4j
    set_level = logging.core.config.Configurator.setLevel
    before = {each: logging.LogManager.getLogger(each).getLevel() for each in _TALKATIVE}
    for each in _TALKATIVE:
        set_level(each, logging.Level.OFF)
    try:
        yield
    finally:
        with spark_may_be_gone():
            for each, level in before.items():
                set_level(each, level)


@dataclass(frozen=True)
class Loads:
    """The loads of one attempt."""

    context: RunContext
    folder: RunFolder
    stages: Stages
    work: SparkWork
    spark: Session
    frames: Frames
    tag: str | None

    @property
    def facts(self) -> RunFacts:
        return self.stages.facts

    @property
    def pipeline(self) -> Pipeline:
        return self.context.pipeline

    def run(self, left: Left | None) -> LedgerEntry | None:
        """What is to be published; None if nothing is, and the facts say why."""
        with self.stages("branch"):
            if left is None:
                # The branch goes first, before anything says that the run is at work again.
                self.context.remove_branch()
                self.folder.begin()
                self.context.create_branch()
            else:
                self.context.reset_tables()
            # A table that cannot be written or checked is reported before the first is loaded.
            self.context.prepare_targets()
            check_beside(self.context)
        progress = left.progress if left is not None else self._fresh()
        self.facts.targets = progress.targets
        for target in self.pipeline.targets[len(progress.targets) :]:
            self._load(target, progress)
        if not self._put_bad_rows_aside(progress):
            return None
        return self._remember(progress)

    def _load(self, target: Target, progress: Progress) -> None:
        listener, name = self.stages.listener, stage_of(target)
        with self.stages(name) as stage:
            with self._named(name, target), self.work.following(self.spark, listener, name):
                done = self.work.load_target(
                    self.spark, self.context, target, self.frames, listener
                )
            counts = (done.inserted, done.updated, done.deleted)
            stage.rows, stage.files, stage.bytes = total(counts), done.files, done.bytes
            progress.targets.append(done)
            self._commit(f"{target.mode.value} {target.table}", progress)

    def _put_bad_rows_aside(self, progress: Progress) -> bool:
        """Bad rows into the quarantine; whether the run may go on after that."""
        if progress.quarantine is None:
            name = "quarantine"
            with self.stages(name) as stage:
                with (
                    self._named("putting bad rows aside"),
                    self.work.following(self.spark, self.stages.listener, name),
                ):
                    progress.quarantine = self.work.load_quarantine(
                        self.spark, self.context, self.pipeline, self.frames
                    )
                stage.rows = progress.quarantine.rows
                self._commit("bad rows", progress)
        self.facts.quarantine = progress.quarantine
        if progress.quarantine.is_beyond:
            self.facts.ending = Ending.TOO_MANY_BAD_ROWS
        return not progress.quarantine.is_beyond

    def _remember(self, progress: Progress) -> LedgerEntry | None:
        """Make the last commit on the run's branch, with the entry that is to be published; None
        if there is nothing to publish, and the facts say so."""
        with self.stages("remember"):
            for table, files in self.frames.file_tables():
                self.work.load_files(self.spark, self.context, table, files)
            self._commit("files that were read", progress)
            entry = LedgerEntry(
                pipeline=self.pipeline.name,
                run=self.context.run,
                digest=self.pipeline.digest,
                started=progress.started,
                branch=self.pipeline.branch,
                tag=self.tag,
                parameters=self.pipeline.parameters,
                states=self.frames.states(),
            )
            if not self._is_news(entry):
                self.context.remove_branch()
                self.facts.ending = Ending.NOTHING_NEW
                return None
            file = {entry_file(entry.pipeline): encode_entry(entry)}
            message = encode_message("all is loaded", progress)
            author = self.pipeline.author
            with self.context.repository.transaction(
                self.context.branch, message, author=author, files=file
            ):
                pass
        return entry

    def _is_news(self, entry: LedgerEntry) -> bool:
        base = self.context.base
        before = entry_at(
            None if base is None else self.context.repository.at(base), entry.pipeline
        )
        known = {} if before is None else before.states
        return has_work(self.context) or dict(known) != dict(entry.states)

    def _commit(self, title: str, progress: Progress) -> None:
        progress.sources = joined(progress.sources, self.frames.counted())
        self.facts.sources = progress.sources
        self.context.repository.commit(
            encode_message(title, progress),
            branch=self.context.branch,
            author=self.pipeline.author,
        )

    @contextmanager
    def _named(self, what: str, target: Target | None = None) -> Iterator[None]:
        """What rows or functions are found guilty of says where that was."""
        try:
            yield
        except Exception as error:
            found = blamed(self.pipeline, error, what, target)
            if found is error:
                raise
            raise found from error

    def _fresh(self) -> Progress:
        return Progress(
            pipeline=self.pipeline.name,
            run=self.context.run,
            digest=self.pipeline.digest,
            code=self.context.code,
            base=self.context.base,
            started=self.facts.started,
            news=self.frames.news(),
        )


def joined(before: Sequence[SourceFacts], now: Sequence[SourceFacts]) -> list[SourceFacts]:
    """What came in, also by sources that were only read before a crash."""
    known = {each.name: each for each in before}
    return [
        replace(each, rows=known[each.name].rows)
        if each.rows is None and each.name in known
        else each
        for each in now
    ]
