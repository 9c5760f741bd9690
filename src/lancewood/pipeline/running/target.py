"""The target of a run, before anything happens: its branch is there, and its names are free.

Reads refs, and changes nothing.
"""

from __future__ import annotations

from contextlib import suppress

from lancewood.errors import AlreadyExistsError, NotFoundError
from lancewood.git.names import TAGS
from lancewood.pipeline.definition.head import filled_tag
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.running.ledger import Ledger
from lancewood.pipeline.running.resume import is_of_a_run


def check_target(ledger: Ledger, pipeline: Pipeline, facts: RunFacts) -> None:
    """Refuse a branch that is not there, a run's branch that is somebody's, a tag that is.

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
            return  # of this run, before a reset took it away: it moves
        raise wrong(
            spot.at("tag"),
            f"there is a tag {tag!r} already, at {at[:12]}, and a tag stays where it is; "
            "have it say {run} or {date}",
        )


def tag_of(pipeline: Pipeline, facts: RunFacts) -> str | None:
    """The tag that a run sets once it is published; None if the file asks for none."""
    if pipeline.tag is None:
        return None
    date = facts.started[:10]
    return filled_tag(pipeline.tag, run=facts.run, pipeline=facts.pipeline, date=date)
