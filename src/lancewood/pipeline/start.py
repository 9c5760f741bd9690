"""Starting a run, from a file or from a loaded pipeline.

Opens the repository and claims the run id; ``running.run`` does the rest.

In a full refresh the same pipeline rebuilds some of its tables: they start without rows, and the
incremental sources that lead to them are read from the start.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lancewood.errors import InvalidInputError
from lancewood.pipeline.context import new_facts, run_branch, storage_texts
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.definition.model import Mode, Pipeline, Target
from lancewood.pipeline.definition.names import near, wrong
from lancewood.pipeline.frames.refusals import Uses
from lancewood.pipeline.report.facts import Listener, RunFacts, Stages
from lancewood.pipeline.running.run import PipelineRun, SparkWork, start_session
from lancewood.pipeline.running.runs import checked_run_id, claimed, new_run_id
from lancewood.pipeline.streaming import run_stream
from lancewood.repo import Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refreshed(pipeline: Pipeline, tables: bool | Collection[str]) -> Pipeline:
    """The pipeline with a full refresh of some tables, or of all that it writes if True.

    Raises InvalidInputError for a table that it does not write or cannot rebuild, and if a source
    that is read from the start also leads to a table that is not rebuilt.
    """
    known = list(dict.fromkeys(each.table for each in pipeline.targets))
    chosen = set(known) if tables is True else {*(tables or ())}
    if not chosen:
        return pipeline
    for each in sorted(chosen.difference(known)):
        raise InvalidInputError(
            f"there is no target {each!r} to be refreshed: {near(each, known)}", table=each
        )
    if pipeline.stream is not None:
        raise wrong(
            pipeline.stream.spot,
            "goes on from its checkpoint: for a full refresh drop the tables, and take another "
            "checkpoint",
        )
    uses = Uses.of(pipeline)
    leading = [(each, _news(pipeline, uses, each)) for each in pipeline.targets]
    from_start = {name for target, names in leading if target.table in chosen for name in names}
    for target, names in leading:
        shared = from_start & names
        if target.table not in chosen and shared:
            raise wrong(
                target.spot,
                f"{target.table!r} gets rows of {min(shared)!r} too, which a full refresh of "
                f"{', '.join(map(repr, sorted(chosen)))} reads from the start: refresh both",
            )
    anew = f"{pipeline.digest} full refresh of {' '.join(sorted(chosen))}"
    return replace(
        pipeline,
        sources=tuple(
            replace(each, is_from_start=each.name in from_start) for each in pipeline.sources
        ),
        targets=tuple(_anew(pipeline.targets, chosen)),
        full_refresh=tuple(sorted(chosen)),
        digest=hashlib.sha256(anew.encode()).hexdigest(),
    )


def _anew(targets: Sequence[Target], chosen: Collection[str]) -> list[Target]:
    """The first target of a table empties it, and columns are computed for every row."""
    begun = set[str]()
    found = []
    for each in targets:
        if each.table not in chosen:
            found.append(each)
        elif each.mode is Mode.ADD_COLUMNS:
            found.append(replace(each, overwrite=True))
        else:
            if each.mode is Mode.MERGE and each.not_matched == "ignore" and each.table not in begun:
                raise wrong(
                    each.spot.at("not_matched"),
                    f"inserts nothing, so that {each.table!r} would be empty after a full refresh: "
                    "its rows come from elsewhere",
                )
            is_anew = each.mode is not Mode.OVERWRITE and each.table not in begun
            found.append(replace(each, is_anew=is_anew))
            begun.add(each.table)
    return found


def _news(pipeline: Pipeline, uses: Uses, target: Target) -> set[str]:
    """The incremental sources that lead to a target."""
    waiting = [] if target.source is None else [target.source]
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += uses.inputs[name]
    return {each.name for each in pipeline.sources if each.incremental and each.name in seen}


def run(
    pipeline: str | os.PathLike[str] | Pipeline,
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
    """Run the pipeline that a file describes, or that ``load`` has read; returns what it did.

    ``parameters`` fill in those of the file, and secrets come from ``environment``, by default that
    of the process; ``load`` takes both for a pipeline that is loaded already.

    The same ``run_id`` twice publishes once; without one a new id is made. ``dry_run`` finds
    everything that can be known without loading, and writes nothing. ``full_refresh`` rebuilds the
    named tables, or all: incremental sources are read from the start. ``spark`` is the session to
    use; by default one is started with the settings of the file, on ``master`` if given.
    ``verbose`` lets Spark log failing tasks, with Java's stacks.

    The facts say how the run ended: failing checks and too many bad rows raise nothing. Raises
    InvalidInputError for errors in the file, RetryableConflictError if the same id is running now,
    and whatever else made it fail, with the facts as ``error.facts["run_facts"]``.

    A file with ``[stream]`` runs until its stream ends, each micro-batch as its own run; the facts
    cover all batches. Ctrl-C lets the current batch finish.
    """
    loaded = pipeline
    if not isinstance(loaded, Pipeline):
        loaded = load(Path(loaded), parameters, environment)
    elif parameters is not None or environment is not None:
        raise InvalidInputError(
            f"pipeline {loaded.name!r} is loaded already: give parameters and environment to load()"
        )
    loaded = refreshed(loaded, full_refresh)
    if master is not None:
        loaded = replace(loaded, spark={**loaded.spark, "master": master})
    if loaded.stream is not None:
        return run_stream(
            loaded,
            partial(run_pipeline, verbose=verbose),
            (lambda: start_session(loaded)) if spark is None else (lambda: spark),
            run_id=run_id,
            dry_run=dry_run,
            listener=listener,
            verbose=verbose,
        )
    return run_pipeline(
        loaded, run_id=run_id, dry_run=dry_run, spark=spark, listener=listener, verbose=verbose
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
    work: SparkWork | None = None,
) -> RunFacts:
    """Run a loaded pipeline once; ``overrides`` replace the frames of sources."""
    started = datetime.now(UTC)
    name = new_run_id(started) if run_id is None else checked_run_id(run_id)
    facts = new_facts(pipeline, name, run_branch(name), started)
    stages = Stages(listener or Listener(), facts)
    with _opened(pipeline, dry_run=dry_run) as repository:
        this = PipelineRun(
            pipeline, repository, stages, work or SparkWork(), spark, overrides or {}, verbose
        )
        if dry_run:
            return this.plan()
        with claimed(repository.path, name):
            return this.execute()


@contextmanager
def _opened(pipeline: Pipeline, *, dry_run: bool) -> Iterator[Repository]:
    """The repository, created if missing; for a dry run an empty one elsewhere instead."""
    path, options = Path(pipeline.repository), storage_texts(pipeline)
    if dry_run and not os.path.lexists(path / "HEAD"):
        with tempfile.TemporaryDirectory(prefix="lancewood-") as folder:
            yield Repository.init(Path(folder) / "repository", storage_options=options)
        return
    yield Repository.open_or_init(path, storage_options=options)
