"""The parts of a real run, from the rooms that have them."""

from __future__ import annotations

from typing import Any

from lancewood.pipeline.checks.planning import check_tables, plan_checks
from lancewood.pipeline.checks.running import run_checks
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.definition.names import checked_files_table
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.without_spark import check_python, has_no_news
from lancewood.pipeline.loading.load import load_target
from lancewood.pipeline.loading.planning import plan_targets
from lancewood.pipeline.loading.quarantine import load_quarantine
from lancewood.pipeline.report.following import following
from lancewood.pipeline.report.page import page
from lancewood.pipeline.running.ground import RunGround
from lancewood.pipeline.running.parts import Parts, Session
from lancewood.spark.types.new_table import arrow_schema
from lancewood.spark.writing.write import write


def load_files(spark: Session, ground: RunGround, table: str, files: Any) -> None:
    """Append the files that a source has read to the table that remembers them; they are all that
    it remembers of a source that was read from the start."""
    pipeline = ground.pipeline
    from_start = [each.name for each in pipeline.sources if each.is_from_start]
    is_anew = table in [checked_files_table(pipeline.name, each) for each in from_start]
    uri, branch = ground.create(table, arrow_schema(files.schema))
    write(
        files,
        uri,
        "overwrite" if is_anew else "append",
        branch=branch,
        storage_options=ground.storage_options,
    )


def check_file(pipeline: Pipeline, ground: RunGround) -> None:
    """What a run has to know of its file before Spark starts, or if nothing is new."""
    check_python(pipeline)
    check_tables(pipeline, ground)


PARTS = Parts(
    has_no_news=has_no_news,
    check_file=check_file,
    frames=Frames,
    plan_targets=plan_targets,
    load_target=load_target,
    load_quarantine=load_quarantine,
    load_files=load_files,
    plan_checks=plan_checks,
    run_checks=run_checks,
    page=page,
    following=following,
)
