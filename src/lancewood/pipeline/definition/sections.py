"""The small sections: ``[quarantine]``, ``[stream]`` and ``[spark]``."""

from __future__ import annotations

from pathlib import Path

from lancewood.catalog.names import checked_table
from lancewood.pipeline.definition.checks import MOST_ROWS
from lancewood.pipeline.definition.durations import parsed_duration
from lancewood.pipeline.definition.head import Head
from lancewood.pipeline.definition.model import Quarantine, Source, Stream, Target
from lancewood.pipeline.definition.names import checked_files_table
from lancewood.pipeline.definition.places import resolved
from lancewood.pipeline.definition.refusal import near, told_at, wrong
from lancewood.pipeline.definition.section import Section
from lancewood.spark.session import checked_settings

QUARANTINE_KEYS = ("table", "most_rows", "most_share")
STREAM_KEYS = ("source", "trigger", "checkpoint", "options")
SPARK_KEYS = ("master",)
"""Besides every setting whose name begins with ``spark.``."""
AVAILABLE_NOW = "available-now"


def read_quarantine(
    top: Section, sources: tuple[Source, ...], targets: tuple[Target, ...], pipeline: str
) -> Quarantine:
    """The limits that the file sets; where it sets none, no row may be bad.

    Refuses a target that is one of the tables that runs keep for themselves.
    """
    section = top.needed_table("quarantine", QUARANTINE_KEYS)
    table = section.text("table") or Quarantine().table
    with told_at(section.spot.at("table")):
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
    top: Section, sources: tuple[Source, ...], head: Head, folder: Path
) -> Stream | None:
    """Which source comes in micro-batches, and when."""
    section = top.table("stream", STREAM_KEYS)
    if section is None:
        return None
    name = section.needed_text("source")
    source = next((each for each in sources if each.name == name), None)
    if source is None:
        told = near(name, [each.name for each in sources])
        raise section.wrong("source", f"there is no source {name!r}: {told}")
    for each in sources:
        if each.incremental:
            raise wrong(
                each.spot.at("incremental"),
                "does not go with [stream], whose checkpoint says what is new: leave one out",
            )
    _check_streamed(section, source)
    if head.tag is not None and "{run}" not in head.tag:
        raise wrong(
            head.spot.at("tag"), "every batch of [stream] is a run of its own: have it say {run}"
        )
    trigger = section.needed_text("trigger")
    if trigger == "once":
        raise section.wrong("trigger", f"not 'once': {AVAILABLE_NOW!r} reads all there is")
    if trigger != AVAILABLE_NOW:
        if trigger.replace("_", "").casefold() == AVAILABLE_NOW.replace("-", ""):
            raise section.wrong("trigger", f"{trigger!r} is written {AVAILABLE_NOW!r} here")
        with told_at(section.spot.at("trigger")):
            parsed_duration(trigger)
    checkpoint = section.text("checkpoint") or f"{head.repository}/lancewood/streams/{head.name}"
    with told_at(section.spot.at("checkpoint")):
        place = resolved(folder, checkpoint)
    options = section.needed_table("options", None).settings()
    return Stream(name, trigger, place, section.spot, options)


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
    with told_at(section.spot):
        found = checked_settings({}, settings)
    return found if master is None else {"master": master, **found}
