"""The doors to a run: from a file, or from a pipeline that was loaded, to the facts of what it did.

Makes what a run stands on, the repository and its claim, and leaves what happens to ``story``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lancewood.pipeline.definition.load import load
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.events import Listener, Silence
from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.running.claim import claimed
from lancewood.pipeline.running.full_refresh import refreshed
from lancewood.pipeline.running.ground import storage_texts
from lancewood.pipeline.running.own_session import start_session
from lancewood.pipeline.running.parts import Parts
from lancewood.pipeline.running.real_parts import PARTS
from lancewood.pipeline.running.run_ids import checked_run_id, new_run_id, run_branch
from lancewood.pipeline.running.stages import Stages
from lancewood.pipeline.running.story import Story
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
    full_refresh: bool | Collection[str] = False,
    spark: SparkSession | None = None,
    listener: Listener | None = None,
    environment: Mapping[str, str] | None = None,
    master: str | None = None,
    verbose: bool = False,
) -> RunFacts:
    """Run the pipeline that a file describes; what it did.

    The same ``run_id`` twice publishes once; without one it gets an id of its own. ``dry_run``
    finds all that can be known without loading, and writes nothing. ``full_refresh`` makes tables
    anew, those that it names or all: incremental sources are read from the start. ``spark`` is the
    session to use, else there is one with the settings of the file, on ``master`` if that is given.
    ``environment`` is where secrets come from, by default that of the process. ``verbose`` lets
    Spark log tasks that fail, with Java's stacks.

    How it ended is in the facts: checks that fail, and too many bad rows, raise nothing. Raises
    InvalidInputError for what is wrong with the file, RetryableConflictError if somebody else runs
    this id now, and whatever kept it from working, with the facts as ``error.facts["run_facts"]``.

    A file with ``[stream]`` runs until its stream ends, every micro-batch as a run of its own, and
    the facts are those of all batches together; Ctrl-C lets the one under way come to its end.
    """
    pipeline = refreshed(load(Path(path), parameters, environment), full_refresh)
    if master is not None:
        pipeline = replace(pipeline, spark={**pipeline.spark, "master": master})
    if pipeline.stream is not None:
        return run_stream(
            pipeline,
            partial(run_pipeline, verbose=verbose),
            lambda: start_session(pipeline) if spark is None else spark,
            run_id=run_id,
            dry_run=dry_run,
            listener=listener,
            verbose=verbose,
        )
    return run_pipeline(
        pipeline, run_id=run_id, dry_run=dry_run, spark=spark, listener=listener, verbose=verbose
    )


def run_pipeline(
    pipeline: Pipeline,
    *,
    run_id: str | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    listener: Listener | None = None,
    overrides: Mapping[str, DataFrame] | None = None,
    verbose: bool = False,
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
        full_refresh=[*pipeline.full_refresh],
    )
    stages = Stages(listener or Silence(), facts)
    with _opened(pipeline, dry_run=dry_run) as repository:
        story = Story(pipeline, repository, stages, parts, spark, dict(overrides or {}), verbose)
        if dry_run:
            return story.rehearse()
        with claimed(repository.path, name):
            return story.perform()


@contextmanager
def _opened(pipeline: Pipeline, *, dry_run: bool) -> Iterator[Repository]:
    """The repository, which is made if it is not there; for a dry run an empty one elsewhere."""
    path, options = Path(pipeline.repository), storage_texts(pipeline)
    if dry_run and not os.path.lexists(path / "HEAD"):
        with tempfile.TemporaryDirectory(prefix="lancewood-") as folder:
            yield Repository.init(Path(folder) / "repository", storage_options=options)
        return
    yield Repository.open_or_init(path, storage_options=options)
