"""The section ``[pipeline]``: what it is called, and where and how it publishes.

Knows which names the repository allows. Opens none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.git.names import checked_tag
from lancewood.pipeline.definition.model import Option, Pipeline, Spot
from lancewood.pipeline.definition.names import checked_pipeline
from lancewood.pipeline.definition.places import resolved_path
from lancewood.pipeline.definition.refusal import told_at, wrong
from lancewood.pipeline.definition.section import Section
from lancewood.repo.committing.messages import checked_message
from lancewood.repo.identity import checked_author
from lancewood.repo.ref_names import branch_ref

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
"""Branches of runs are below it, so that none can have it as a name."""
MOST_ATTEMPTS = 20
MOST_KEPT_ROWS = 100_000
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(Pipeline)}
_EXAMPLES = {
    "run": ("20260131T235959Z-0a1b2c", "a", "0", "A_b-c.d", "x" * 100),
    "date": ("2026-01-31",),
}
_place = re.compile(r"\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Head:
    """What the section says, defaults filled in."""

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


def read_head(section: Section, folder: Path) -> Head:
    """Raises InvalidInputError for the first key that is wrong."""
    name = section.needed_text("name")
    with told_at(section.spot.at("name")):
        checked_pipeline(name)
    repository = section.text("repository") or f".lancewood/{name}"
    with told_at(section.spot.at("repository")):
        repository = resolved_path(folder, repository)
    message, author = section.text("message"), section.text("author")
    with told_at(section.spot.at("message")):
        message = message and checked_message(message)
    with told_at(section.spot.at("author")):
        author and checked_author(author)
    kept_rows = section.number("kept_rows", 0, MOST_KEPT_ROWS)
    return Head(
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


def filled_tag(template: str, *, run: str, pipeline: str, date: str) -> str:
    """The tag of one run; raises InvalidInputError for one that is no good name."""
    values = {"run": run, "pipeline": pipeline, "date": date}
    return checked_tag(_place.sub(lambda found: values.get(found[1] or "", found[0]), template))


def _branch(section: Section) -> str:
    branch = section.text("branch") or str(_DEFAULTS["branch"])
    with told_at(section.spot.at("branch")):
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
    for found in _place.finditer(template):
        if found[1] not in ("run", "pipeline", "date"):
            raise wrong(
                spot, f"{found[0]!r} stands for nothing: there are {{run}}, {{pipeline}}, {{date}}"
            )
    with told_at(spot):
        for run in _EXAMPLES["run"]:
            filled_tag(template, run=run, pipeline=pipeline, date=_EXAMPLES["date"][0])
    return template
