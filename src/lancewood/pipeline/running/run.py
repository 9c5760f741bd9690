"""The course of a run: from a pipeline to a published commit, or to nothing at all.

    look back  already published? then only what a crash left undone is done
    look       for news since the last published run, if possible without Spark; none: it ends
    analyse    find everything that can be wrong before anything is written
    load       each target onto the run's own branch, with a commit; bad rows to quarantine
    check      the tables as the run leaves them
    publish    one commit on the target branch; if that moved and conflicts, all again from there
    finish     set tag and ref, remove the run's branch

If the run is cut off anywhere, the target branch is as before or as after, and the same id
continues or starts again. The caller makes sure that an id does not run twice at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.pipeline.checks.running import check_tables, has_failed, plan_checks, run_checks
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.load import filled_tag
from lancewood.pipeline.definition.model import Check, Pipeline, Target
from lancewood.pipeline.definition.names import wrong
from lancewood.pipeline.definition.toml_file import hide
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.functions import check_python
from lancewood.pipeline.frames.refusals import blamed, spark_may_be_gone
from lancewood.pipeline.frames.unread import has_no_news
from lancewood.pipeline.loading.load import load_files, load_target, plan_targets, stage_of
from lancewood.pipeline.loading.quarantine import load_quarantine
from lancewood.pipeline.report.facts import (
    Ending,
    RunFacts,
    SourceFacts,
    Stages,
    TargetFacts,
    following,
)
from lancewood.pipeline.report.markup import total
from lancewood.pipeline.report.page import page
from lancewood.pipeline.running.ledger import (
    Ledger,
    LedgerEntry,
    Progress,
    PublishedRun,
    encode_entry,
    encode_message,
    entry_at,
    entry_file,
    find_progress,
)
from lancewood.pipeline.running.publishing import (
    Finishing,
    check_beside,
    commit_message,
    complete,
    failure,
    has_work,
    publish,
    say_left_out,
    shown,
)
from lancewood.pipeline.running.runs import RunFolder, clean, is_of_a_run
from lancewood.repo import HEADS, TAGS, Repository
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


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a run that was cut off and can continue."""

    progress: Progress
    entry: LedgerEntry | None
    """The entry to publish, if everything was loaded."""


def find_left(context: RunContext, folder: RunFolder) -> Left | None:
    """What a run can continue from; None if it starts anew. The caller, who has the frames, checks
    that incremental sources still offer the same (``Progress.news``)."""
    repository, pipeline = context.repository, context.pipeline
    try:
        view = repository.at(HEADS + context.branch)
    except NotFoundError:
        return None
    if folder.is_over or not folder.is_there:
        return None
    progress = find_progress(
        repository.log(HEADS + context.branch, first_parent=True), context.base
    )
    if progress is None:
        return None
    then = progress.pipeline, progress.run, progress.digest, progress.code, progress.base
    if then != (pipeline.name, context.run, pipeline.digest, context.code, context.base):
        return None
    entry = entry_at(view, pipeline.name)
    is_loaded = entry is not None and entry.run == context.run
    return Left(progress, entry if is_loaded else None)


@dataclass
class PipelineRun:
    pipeline: Pipeline
    repository: Repository
    stages: Stages
    work: SparkWork
    given: Session | None
    overrides: Mapping[str, Any]
    verbose: bool = False
    _ending: ExitStack = field(default_factory=ExitStack)

    def execute(self) -> RunFacts:
        """The whole run; returns what it did. Raises what ``run`` does."""
        return self._reported(self._execute)

    def plan(self) -> RunFacts:
        """Everything before the first write; returns what a run would do."""
        return self._reported(self._plan)

    def _execute(self) -> None:
        """Run as many attempts as the target branch makes necessary."""
        with self.stages("look back"):
            published = self.ledger.find(self.facts.run)
            self.facts.folder = str(self.folder.path)
            if published is None:
                self._report_a_reset()
                check_target(self.ledger, self.pipeline, self.facts)
                older_than, name = self.pipeline.keep_failed, self.pipeline.name
                clean(self.repository, older_than=older_than, pipeline=name)
        if published is not None:
            if not self._is_reverted(published):
                self._finish(self._context(), published, Ending.ALREADY_PUBLISHED)
            return
        for attempt in range(1, self.pipeline.attempts + 1):
            self.facts.attempts = attempt
            context = self._context()
            try:
                self._attempt(context, is_first=attempt == 1)
                return
            except (ConflictError, AlreadyExistsError) as conflict:
                # Of two runs that create the same table, the second finds it there.
                if attempt == self.pipeline.attempts or not self._has_moved(context, conflict):
                    raise
                self.stages.listener.noted(f"begins anew: {shown(self.pipeline, conflict)}")

    def _attempt(self, context: RunContext, *, is_first: bool) -> None:
        facts = self.facts
        facts.base_commit = context.base
        facts.sources, facts.targets, facts.checks, facts.quarantine = [], [], [], None
        left = find_left(context, self.folder) if is_first else None
        if left is not None and left.entry is not None:
            with self.stages("go on"):
                context.reset_tables()
            entry: LedgerEntry | None = left.entry
            facts.sources, facts.targets = left.progress.sources, left.progress.targets
            facts.quarantine = left.progress.quarantine
        else:
            is_incremental = any(each.incremental for each in self.pipeline.sources)
            is_fresh = left is None and is_incremental and not self.pipeline.full_refresh
            states = self._states(context)
            self.work.check_file(context)
            if is_fresh and not self.overrides:
                with self.stages("look for what is new"):
                    if self.work.has_no_news(self.pipeline, context, states):
                        self._end_without_news(context)
                        return
            with closing(self._frames(context, states)) as frames:
                if left is not None and left.progress.news != frames.news():
                    left, is_fresh = None, not self.pipeline.full_refresh
                if is_fresh:
                    with self.stages("list what is new"):
                        if frames.is_empty():
                            self._end_without_news(context)
                            return
                self._analyse(context, frames)
                entry = self._loads(context, frames).run(left)
        if entry is None or not self._passes(context):
            return
        with self.stages("publish"):
            done = publish(context, self.ledger, entry, commit_message(self.pipeline, facts))
        say_left_out(facts, done)
        published = None if done.is_new else self.ledger.find(facts.run)
        if published is None:
            assert done.hash is not None
            published = PublishedRun(entry, done.hash)
        self._finish(context, published, Ending.PUBLISHED)

    def _end_without_news(self, context: RunContext) -> None:
        """End a run without news; sources are not analysed: files that are all gone have no
        columns."""
        context.remove_branch()
        self.facts.ending = Ending.NOTHING_NEW

    def _analyse(self, context: RunContext, frames: Frames) -> None:
        with self.stages("analyse"):
            frames.check()
            planned = self.work.plan_targets(self.spark, context, frames)
            self.work.plan_checks(self.spark, self.pipeline, context, planned)

    def _passes(self, context: RunContext) -> bool:
        """Whether the tables are as they must be, as the run leaves them."""
        if not self.pipeline.checks:
            return True
        found = self.work.run_checks(
            self.spark, self.pipeline, context, self.folder.path, around=self._one_check
        )
        self.facts.checks = [*found]
        if has_failed(found):
            self.facts.ending = Ending.CHECKS_FAILED
        return not has_failed(found)

    @contextmanager
    def _one_check(self, check: Check) -> Iterator[None]:
        name = f"check {check.name}"
        with self.stages(name), self.work.following(self.spark, self.stages.listener, name):
            yield

    def _finish(self, context: RunContext, published: PublishedRun, ending: Ending) -> None:
        Finishing(context, self.ledger, self.stages).run(published)
        self.facts.ending = ending

    def _is_reverted(self, published: PublishedRun) -> bool:
        """Whether what the run published was reverted; then the facts say so."""
        if published.reverted_by is None:
            return False
        facts = self.facts
        facts.ending, facts.commit = Ending.REVERTED, published.commit
        facts.error = (
            f"run {facts.run!r} was published by {published.commit[:12]}, and "
            f"{published.reverted_by[:12]} reverted that: nothing is loaded under this id. Another "
            "run id loads it again, and so does lw revert of the revert"
        )
        return True

    def _report_a_reset(self) -> None:
        before = self.ledger.noted(self.facts.run)
        if before is not None:
            self.stages.listener.noted(
                f"run {self.facts.run} was published by {before[:12]}, which branch "
                f"{self.pipeline.branch} does not hold since a reset: it runs again"
            )

    def _plan(self) -> None:
        published = self.ledger.find(self.facts.run)
        if published is not None:
            if not self._is_reverted(published):
                self.facts.ending = Ending.ALREADY_PUBLISHED
            return
        check_target(self.ledger, self.pipeline, self.facts)
        context = self._context()
        self.work.check_file(context)
        with closing(self._frames(context, self._states(context))) as frames:
            self._analyse(context, frames)
            self.facts.sources = [*frames.counted()]
        for each in self.pipeline.targets:
            known = context.open(each.table).count_rows() if context.has(each.table) else None
            self.facts.targets.append(TargetFacts(each.table, each.mode.value, rows_before=known))
        self.facts.ending = Ending.DRY_RUN

    def _reported(self, work: Callable[[], None]) -> RunFacts:
        """Run to the end, report the outcome, and raise what failed."""
        facts, begun = self.facts, time.monotonic()
        failed: Exception | None = None
        try:
            with self._ending:
                work()
        except Exception as error:
            failed, facts.ending = error, Ending.FAILED
            facts.error = shown(self.pipeline, error)
        facts.seconds = time.monotonic() - begun
        try:
            self._report()
        except Exception as error:  # the error of the run itself matters more
            if failed is None:
                text = hide(self.pipeline, str(error))
                self.stages.listener.noted(f"there is no report: {text}")
        self.stages.listener.over(facts)
        if failed is not None:
            raise failure(self.pipeline, failed, facts)
        return facts

    def _report(self) -> None:
        facts = self.facts
        spark = self.__dict__.get("spark", self.given)
        complete(facts, self.pipeline, self.repository, spark)
        if facts.ending is Ending.NOTHING_NEW and not self.folder.is_there:
            facts.folder = ""  # no folder for each of many runs without news
        is_old = facts.ending in (Ending.ALREADY_PUBLISHED, Ending.REVERTED)
        is_kept = is_old and self.folder.is_over
        if facts.folder and not is_kept:
            self.folder.write(facts, page(facts))

    @property
    def facts(self) -> RunFacts:
        return self.stages.facts

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.repository, self.pipeline.name, self.pipeline.branch)

    @cached_property
    def folder(self) -> RunFolder:
        return RunFolder.of(self.repository.path, self.pipeline.name, self.facts.run)

    @cached_property
    def spark(self) -> Session:
        found = self.given
        if found is None:
            with self.stages("start Spark"):
                found = start_session(self.pipeline)
        if not self.verbose:
            self._ending.enter_context(quiet(found))
        return found

    def _context(self) -> RunContext:
        tip = self.ledger.tip()
        base = None if tip is None else tip.hash
        return RunContext(self.repository, self.pipeline, self.facts.run, base)

    def _states(self, context: RunContext) -> Mapping[str, Any]:
        """How far the last published run has read incremental sources."""
        base = None if context.base is None else self.repository.at(context.base)
        before = entry_at(base, self.pipeline.name)
        return {} if before is None else before.states

    def _frames(self, context: RunContext, states: Mapping[str, Any]) -> Frames:
        return self.work.frames(self.spark, context, states, self.overrides)

    def _loads(self, context: RunContext, frames: Frames) -> Loads:
        tag = tag_of(self.pipeline, self.facts)
        return Loads(context, self.folder, self.stages, self.work, self.spark, frames, tag)

    def _has_moved(self, context: RunContext, conflict: LancewoodError) -> bool:
        """Whether another attempt could end differently."""
        tip = self.ledger.tip()
        is_elsewhere = tip is not None and tip.hash != context.base
        return is_elsewhere or isinstance(conflict, RetryableConflictError)


def check_target(ledger: Ledger, pipeline: Pipeline, facts: RunFacts) -> None:
    """Refuse a missing branch to publish into, a run branch that no run has made, and a tag that is
    taken.

    Raises InvalidInputError with the spot, and AlreadyExistsError for the run's branch.
    """
    repository, spot = ledger.repository, pipeline.spot
    if ledger.tip() is None and repository.head.branch != pipeline.branch:
        raise wrong(
            spot.at("branch"),
            f"{pipeline.repository} has no branch {pipeline.branch!r}; lw branch makes one",
        )
    if not is_of_a_run(repository, facts.run):
        raise AlreadyExistsError(
            f"{pipeline.repository} has a branch {facts.run_branch!r} that no run has "
            "made: rename or delete it, or choose another run id",
            branch=facts.run_branch,
        )
    tag = tag_of(pipeline, facts)
    if tag is None:
        return
    with suppress(NotFoundError):
        at = repository.at(TAGS + tag).hash
        if ledger.is_lost(at, facts.run):
            return  # of this run, from before a reset: it moves
        raise wrong(
            spot.at("tag"),
            f"there is a tag {tag!r} already, at {at[:12]}, and a tag stays where it is; "
            "put {run} or {date} into its name",
        )


def tag_of(pipeline: Pipeline, facts: RunFacts) -> str | None:
    """The tag that a run sets once it is published; None if the file asks for none."""
    if pipeline.tag is None:
        return None
    date = facts.started[:10]
    return filled_tag(pipeline.tag, run=facts.run, pipeline=facts.pipeline, date=date)
