"""The story of a run: from a file to a published commit, or to nothing at all.

    claim      nobody else runs this id in this repository
    look back  was it published before? then what a crash left undone is done, and no more
    analyse    everything that can be wrong is found before anything is written
    load       each target onto the run's own branch, and a commit there; bad rows to quarantine
    check      the tables as the run leaves them
    publish    one commit on the target branch; if that moved, and the two do not go together, all
               of it once more from there
    finish     tag, ref, and the run's branch goes

Cut off anywhere, the target is before or after, and the same id goes on or begins anew. Knows the
order, and leaves each step to the part that does it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.names import TAGS
from lancewood.pipeline.checks.running import has_failed
from lancewood.pipeline.definition.head import filled_tag
from lancewood.pipeline.definition.hiding import hide
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.definition.model import Check, Pipeline
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.report.events import Listener, Silence
from lancewood.pipeline.report.facts import Ending, RunFacts, TargetFacts
from lancewood.pipeline.running.claim import claimed
from lancewood.pipeline.running.errors import failure, shown
from lancewood.pipeline.running.finishing import Finishing
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.ground import RunGround, storage_texts
from lancewood.pipeline.running.ledger import Entry, Ledger, Published, entry_at
from lancewood.pipeline.running.leftovers import clean
from lancewood.pipeline.running.loads import Loads
from lancewood.pipeline.running.own_session import start_session
from lancewood.pipeline.running.parts import Parts, RunFrames, Session
from lancewood.pipeline.running.publishing import commit_message, publish
from lancewood.pipeline.running.real_parts import PARTS
from lancewood.pipeline.running.resume import find_left, go_on, is_of_a_run
from lancewood.pipeline.running.run_ids import checked_run_id, new_run_id, run_branch
from lancewood.pipeline.running.stages import Stages
from lancewood.pipeline.running.telling import tell
from lancewood.pipeline.streaming.stream import run_stream
from lancewood.repo.repository import Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(
    path: str | os.PathLike[str],
    *,
    parameters: Mapping[str, str] | None = None,
    run_id: str | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    listener: Listener | None = None,
    environment: Mapping[str, str] | None = None,
    master: str | None = None,
) -> RunFacts:
    """Run the pipeline that a file describes; what it did.

    The same ``run_id`` twice publishes once; without one it gets an id of its own. ``dry_run``
    finds all that can be known without loading, and writes nothing. ``spark`` is the session to
    use, else there is one with the settings of the file, on ``master`` if that is given.
    ``environment`` is where secrets come from, by default that of the process.

    How it ended is in the facts: checks that fail, and too many bad rows, raise nothing. Raises
    InvalidInputError for what is wrong with the file, RetryableConflictError if somebody else runs
    this id now, and whatever kept it from working, with the facts as ``error.facts["run_facts"]``.

    A file with ``[stream]`` runs until its stream ends, every micro-batch as a run of its own, and
    the facts are those of all batches together; Ctrl-C lets the one under way come to its end.
    """
    pipeline = load(Path(path), parameters, environment)
    if master is not None:
        pipeline = replace(pipeline, spark={**pipeline.spark, "master": master})
    if pipeline.stream is not None:
        return run_stream(
            pipeline,
            run_pipeline,
            lambda: start_session(pipeline) if spark is None else spark,
            run_id=run_id,
            dry_run=dry_run,
            listener=listener,
        )
    return run_pipeline(pipeline, run_id=run_id, dry_run=dry_run, spark=spark, listener=listener)


def run_pipeline(
    pipeline: Pipeline,
    *,
    run_id: str | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    listener: Listener | None = None,
    overrides: Mapping[str, DataFrame] | None = None,
    parts: Parts = PARTS,
) -> RunFacts:
    """The same for a pipeline that was loaded. ``overrides`` are read in place of sources."""
    started = datetime.now(UTC)
    name = new_run_id(started) if run_id is None else checked_run_id(run_id)
    facts = RunFacts(
        pipeline=pipeline.name,
        run=name,
        repository=pipeline.repository,
        branch=pipeline.branch,
        run_branch=run_branch(name),
        started=started.isoformat(timespec="seconds"),
        file=str(pipeline.file),
        parameters=dict(pipeline.parameters),
    )
    stages = Stages(listener or Silence(), facts)
    with _opened(pipeline, dry_run=dry_run) as repository:
        this = _Run(pipeline, repository, stages, parts, spark, dict(overrides or {}))
        if dry_run:
            return this.told(this.rehearse)
        with claimed(repository.path, name):
            facts.folder = str(this.folder.path)
            return this.told(this.perform)


@dataclass
class _Run:
    pipeline: Pipeline
    repository: Repository
    stages: Stages
    parts: Parts
    given: Session | None
    overrides: Mapping[str, Any]

    def perform(self) -> None:
        """The run, as often as the target makes it necessary."""
        with self.stages("look back"):
            published = self.ledger.find(self.facts.run)
            if published is None:
                self._check_target()
                older_than, name = self.pipeline.keep_failed, self.pipeline.name
                clean(self.repository, older_than=older_than, pipeline=name)
        if published is not None:
            self._finish(self._ground(), published, Ending.ALREADY_PUBLISHED)
            return
        for attempt in range(1, self.pipeline.attempts + 1):
            self.facts.attempts = attempt
            ground = self._ground()
            try:
                self._attempt(ground, is_first=attempt == 1)
                return
            except (ConflictError, AlreadyExistsError) as conflict:
                # Of two runs that make one table, the second finds it there.
                if attempt == self.pipeline.attempts or not self._has_moved(ground, conflict):
                    raise
                self.stages.listener.told(f"begins anew: {shown(self.pipeline, conflict)}")

    def _attempt(self, ground: RunGround, *, is_first: bool) -> None:
        facts = self.facts
        facts.base_commit = ground.base
        facts.sources, facts.targets, facts.checks, facts.quarantine = [], [], [], None
        left = find_left(ground, self.folder) if is_first else None
        if left is not None and left.entry is not None:
            with self.stages("go on"):
                go_on(ground)
            entry: Entry | None = left.entry
            facts.sources, facts.targets = left.progress.sources, left.progress.targets
            facts.quarantine = left.progress.quarantine
        else:
            with closing(self._frames(ground)) as frames:
                loads = self._loads(ground, frames)
                if left is None and not loads.is_any():
                    return
                self._analyse(ground, frames)
                entry = loads.run(left)
        if entry is None or not self._passes(ground):
            return
        with self.stages("publish"):
            done = publish(ground, self.ledger, entry, commit_message(self.pipeline, facts))
        published = None if done.is_new else self.ledger.find(facts.run)
        if published is None:
            assert done.hash is not None
            published = Published(entry, done.hash)
        self._finish(ground, published, Ending.PUBLISHED)

    def _analyse(self, ground: RunGround, frames: RunFrames) -> None:
        with self.stages("analyse"):
            frames.check()
            planned = self.parts.plan_targets(self.spark, ground, frames)
            self.parts.plan_checks(self.spark, self.pipeline, ground, planned)

    def _passes(self, ground: RunGround) -> bool:
        """Whether the tables are as they must be, as the run leaves them."""
        if not self.pipeline.checks:
            return True
        found = self.parts.run_checks(
            self.spark, self.pipeline, ground, self.folder.path, around=self._one_check
        )
        self.facts.checks = [*found]
        if has_failed(found):
            self.facts.ending = Ending.CHECKS_FAILED
        return not has_failed(found)

    @contextmanager
    def _one_check(self, check: Check) -> Iterator[None]:
        name = f"check {check.name}"
        with self.stages(name), self.parts.following(self.spark, self.stages.listener, name):
            yield

    def _finish(self, ground: RunGround, published: Published, ending: Ending) -> None:
        Finishing(ground, self.ledger, self.stages).run(published)
        self.facts.ending = ending

    def rehearse(self) -> None:
        """Everything that comes before the first write."""
        if self.ledger.find(self.facts.run) is not None:
            self.facts.ending = Ending.ALREADY_PUBLISHED
            return
        self._check_target()
        ground = self._ground()
        with closing(self._frames(ground)) as frames:
            self._analyse(ground, frames)
            self.facts.sources = [*frames.counted()]
        for each in self.pipeline.targets:
            known = ground.open(each.table).count_rows() if ground.has(each.table) else None
            self.facts.targets.append(TargetFacts(each.table, each.mode.value, rows_before=known))
        self.facts.ending = Ending.DRY_RUN

    def told(self, story: Callable[[], None]) -> RunFacts:
        """The story to its end, and how that was to everybody who wants to know."""
        facts, begun = self.facts, time.monotonic()
        failed: Exception | None = None
        try:
            story()
        except Exception as error:
            failed, facts.ending = error, Ending.FAILED
            facts.error = shown(self.pipeline, error)
        facts.seconds = time.monotonic() - begun
        try:
            self._report()
        except Exception as error:  # what the run did is done, and its own error is the one to tell
            if failed is None:
                text = hide(self.pipeline, str(error))
                self.stages.listener.told(f"there is no report: {text}")
        self.stages.listener.over(facts)
        if failed is not None:
            raise failure(self.pipeline, failed, facts)
        return facts

    def _report(self) -> None:
        facts = self.facts
        spark = self.__dict__.get("spark", self.given)
        tell(facts, self.pipeline, self.repository, spark)
        if facts.ending is Ending.NOTHING_NEW and not self.folder.is_there:
            facts.folder = ""  # it has come to nothing, and is started again and again
        is_kept = facts.ending is Ending.ALREADY_PUBLISHED and self.folder.is_over
        if facts.folder and not is_kept:
            self.folder.write(facts, self.parts.page(facts))

    # What the parts stand on

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
        if self.given is not None:
            return self.given
        with self.stages("start Spark"):
            return start_session(self.pipeline)

    def _ground(self) -> RunGround:
        tip = self.ledger.tip()
        base = None if tip is None else tip.hash
        return RunGround(self.repository, self.pipeline, self.facts.run, base)

    def _frames(self, ground: RunGround) -> RunFrames:
        base = None if ground.base is None else self.repository.at(ground.base)
        before = entry_at(base, self.pipeline.name)
        states = {} if before is None else before.states
        return self.parts.frames(self.spark, self.pipeline, ground, states, self.overrides)

    def _loads(self, ground: RunGround, frames: RunFrames) -> Loads:
        parts = self.parts
        return Loads(ground, self.folder, self.stages, parts, self.spark, frames, self._tag())

    def _tag(self) -> str | None:
        template, facts = self.pipeline.tag, self.facts
        if template is None:
            return None
        date = facts.started[:10]
        return filled_tag(template, run=facts.run, pipeline=facts.pipeline, date=date)

    def _has_moved(self, ground: RunGround, conflict: LancewoodError) -> bool:
        """Whether it could end in another way from the beginning."""
        tip = self.ledger.tip()
        is_elsewhere = tip is not None and tip.hash != ground.base
        return is_elsewhere or isinstance(conflict, RetryableConflictError)

    def _check_target(self) -> None:
        """Refuse a branch that is not there, a run's branch that is somebody's, a tag that is."""
        spot, branch = self.pipeline.spot, self.pipeline.branch
        if self.ledger.tip() is None and self.repository.head.branch != branch:
            raise wrong(
                spot.at("branch"),
                f"{self.repository.path} has no branch {branch!r}; lw branch makes one",
            )
        if not is_of_a_run(self.repository, self.facts.run):
            raise AlreadyExistsError(
                f"{self.repository.path} has a branch {self.facts.run_branch!r} that no run has "
                "made: rename or delete it, or choose another run id",
                branch=self.facts.run_branch,
            )
        tag = self._tag()
        if tag is None:
            return
        with suppress(NotFoundError):
            at = self.repository.at(TAGS + tag).hash
            raise wrong(
                spot.at("tag"),
                f"there is a tag {tag!r} already, at {at[:12]}, and a tag stays where it is; "
                "have it say {run} or {date}",
            )


@contextmanager
def _opened(pipeline: Pipeline, *, dry_run: bool) -> Iterator[Repository]:
    """The repository, which is made if it is not there; for a dry run an empty one elsewhere."""
    path, options = Path(pipeline.repository), storage_texts(pipeline)
    if dry_run and not os.path.lexists(path / "HEAD"):
        with tempfile.TemporaryDirectory(prefix="lancewood-") as folder:
            yield Repository.init(Path(folder) / "repository", storage_options=options)
        return
    yield Repository.open_or_init(path, storage_options=options)
