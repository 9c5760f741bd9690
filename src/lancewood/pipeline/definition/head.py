"""The section ``[pipeline]``, and the small ones: ``[quarantine]``, ``[stream]``, ``[spark]``.

Names are checked against the rules of the repository, which is not opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.checks import MOST_ROWS
from lancewood.pipeline.definition.model import (
    FAIL,
    Option,
    Pipeline,
    Quarantine,
    Source,
    Spot,
    Stream,
    Target,
)
from lancewood.pipeline.definition.names import (
    checked_files_table,
    checked_pipeline,
    errors_at,
    near,
    resolved,
    resolved_path,
    wrong,
)
from lancewood.pipeline.definition.section import Section, parsed_duration
from lancewood.repo import branch_ref, checked_author, checked_message, checked_table, checked_tag
from lancewood.spark.session import checked_settings

KEYS = (
    "name",
    "repository",
    "branch",
    "tag",
    "message",
    "author",
    "attempts",
    "keep_failed",
    "kept_rows",
    "storage_options",
)
RUNS = "run"
"""The branches of runs are below it, so no other branch can have this name."""
MOST_ATTEMPTS = 20
MOST_KEPT_ROWS = 100_000
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(Pipeline)}
_RUN_EXAMPLES = ("20260131T235959Z-0a1b2c", "a", "0", "A_b-c.d", "x" * 100)
_DATE_EXAMPLE = "2026-01-31"
_location = re.compile(r"\{([^{}]*)\}|[{}]")
QUARANTINE_KEYS = ("table", "most_rows", "most_share")
STREAM_KEYS = ("source", "trigger", "checkpoint", "options")
SPARK_KEYS = ("master",)
"""Keys of the Spark section besides all settings whose names start with ``spark.``."""
AVAILABLE_NOW = "available-now"


@dataclass(frozen=True, slots=True)
class PipelineHead:
    """The section ``[pipeline]``, defaults filled in."""

    name: str
    repository: str
    branch: str
    tag: str | None
    message: str | None
    author: str | None
    attempts: int
    keep_failed: timedelta
    kept_rows: int
    storage_options: dict[str, Option]
    spot: Spot


def read_head(section: Section, folder: Path) -> PipelineHead:
    """Read ``[pipeline]``; raises InvalidInputError for the first wrong key."""
    name = section.needed_text("name")
    with errors_at(section.spot.at("name")):
        checked_pipeline(name)
    repository = section.text("repository") or f".lancewood/{name}"
    with errors_at(section.spot.at("repository")):
        repository = resolved_path(folder, repository)
    message, author = section.text("message"), section.text("author")
    with errors_at(section.spot.at("message")):
        message = message and checked_message(message)
    with errors_at(section.spot.at("author")):
        author and checked_author(author)
    kept_rows = section.number("kept_rows", 0, MOST_KEPT_ROWS)
    return PipelineHead(
        name=name,
        repository=repository,
        branch=_branch(section),
        tag=_tag(section, name),
        message=message,
        author=author,
        attempts=section.number("attempts", 1, MOST_ATTEMPTS) or _DEFAULTS["attempts"],
        keep_failed=section.duration("keep_failed") or _DEFAULTS["keep_failed"],
        kept_rows=_DEFAULTS["kept_rows"] if kept_rows is None else kept_rows,
        storage_options=section.options("storage_options"),
        spot=section.spot,
    )


def _branch(section: Section) -> str:
    branch = section.text("branch") or str(_DEFAULTS["branch"])
    with errors_at(section.spot.at("branch")):
        branch_ref(branch)
        if branch == RUNS or branch.startswith(f"{RUNS}/"):
            raise InvalidInputError(
                f"branch {branch!r} cannot be published into: {RUNS}/… are the branches of runs"
            )
    return branch


def _tag(section: Section, pipeline: str) -> str | None:
    template = section.text("tag")
    if template is None:
        return None
    spot = section.spot.at("tag")
    for found in _location.finditer(template):
        if found[1] not in ("run", "pipeline", "date"):
            raise wrong(
                spot, f"{found[0]!r} stands for nothing: there are {{run}}, {{pipeline}}, {{date}}"
            )
    with errors_at(spot):
        for run in _RUN_EXAMPLES:
            filled_tag(template, run=run, pipeline=pipeline, date=_DATE_EXAMPLE)
    return template


def filled_tag(template: str, *, run: str, pipeline: str, date: str) -> str:
    """The tag of one run; raises InvalidInputError if it is not a valid name."""
    values = {"run": run, "pipeline": pipeline, "date": date}
    return checked_tag(_location.sub(lambda found: values.get(found[1] or "", found[0]), template))


def read_quarantine(
    top: Section, sources: tuple[Source, ...], targets: tuple[Target, ...], pipeline: str
) -> Quarantine:
    """The limits that the file sets; without any, no row may be bad.

    Refuses a target that is one of the tables that runs keep for themselves.
    """
    section = top.needed_table("quarantine", QUARANTINE_KEYS)
    table = section.text("table") or Quarantine().table
    with errors_at(section.spot.at("table")):
        checked_table(table)
    kept = {table.casefold(): "for bad rows"}
    for source in sources:
        if source.incremental and source.paths:
            files = checked_files_table(pipeline, source.name)
            kept[files.casefold()] = f"for the files that {source.spot.key} has seen"
    for target in targets:
        if target.table.casefold() in kept:
            why = kept[target.table.casefold()]
            raise wrong(target.spot.at("table"), f"{target.table!r} is kept {why}: take another")
    most_rows = section.number("most_rows", 0, MOST_ROWS)
    most_share = section.share("most_share", 0)
    if most_share is not None and most_share > 1:
        raise section.wrong("most_share", "is more than all rows: takes at most 100 %")
    if most_rows is None and most_share is None:
        most_rows = Quarantine().most_rows
    return Quarantine(table, most_rows, most_share)


def read_stream(
    top: Section,
    sources: tuple[Source, ...],
    targets: tuple[Target, ...],
    head: PipelineHead,
    folder: Path,
) -> Stream | None:
    """Which source comes in micro-batches, and when; None without ``[stream]``."""
    section = top.table("stream", STREAM_KEYS)
    if section is None:
        return None
    name = section.needed_text("source")
    source = next((each for each in sources if each.name == name), None)
    if source is None:
        text = near(name, [each.name for each in sources])
        raise section.wrong("source", f"there is no source {name!r}: {text}")
    for each in sources:
        if each.incremental:
            raise wrong(
                each.spot.at("incremental"),
                "does not go with [stream], whose checkpoint says what is new: leave one out",
            )
    for target in targets:
        if target.on_conflict != FAIL:
            raise wrong(
                target.spot.at("on_conflict"),
                "does not go with [stream]: every batch would take row ids of its own, of which a "
                "table has enough for some hundred thousand runs. A batch begins anew instead",
            )
    _check_streamed(section, source)
    if head.tag is not None and "{run}" not in head.tag:
        raise wrong(
            head.spot.at("tag"), "every batch of [stream] is a run of its own: put {run} into it"
        )
    trigger = section.needed_text("trigger")
    if trigger == "once":
        raise section.wrong("trigger", f"not 'once': {AVAILABLE_NOW!r} reads all there is")
    if trigger != AVAILABLE_NOW:
        if trigger.replace("_", "").casefold() == AVAILABLE_NOW.replace("-", ""):
            raise section.wrong("trigger", f"{trigger!r} is written {AVAILABLE_NOW!r} here")
        with errors_at(section.spot.at("trigger")):
            parsed_duration(trigger)
    checkpoint = section.text("checkpoint") or f"{head.repository}/lancewood/streams/{head.name}"
    with errors_at(section.spot.at("checkpoint")):
        location = resolved(folder, checkpoint)
    options = section.needed_table("options", None).settings()
    return Stream(name, trigger, location, section.spot, options)


def _check_streamed(section: Section, source: Source) -> None:
    if source.sql is not None or source.revision is not None:
        raise section.wrong("source", f"{source.name!r} is SQL or one revision, and stands still")
    if len(source.paths) > 1:
        raise section.wrong(
            "source",
            f"{source.name!r} has {len(source.paths)} paths, and a stream reads one: a folder "
            "above them, or one with wild cards",
        )


def read_spark(top: Section) -> dict[str, str]:
    """Settings of the session, ``master`` among them."""
    section = top.table("spark", None)
    if section is None:
        return {}
    master = section.text("master")
    settings = section.settings(but=SPARK_KEYS)
    for name in settings:
        if not name.startswith("spark."):
            raise wrong(
                section.spot,
                f"{name!r} is no setting: there are master and names that begin with 'spark.'",
            )
    with errors_at(section.spot):
        found = checked_settings({}, settings)
    return found if master is None else {"master": master, **found}
