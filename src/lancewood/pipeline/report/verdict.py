"""How a run ended, in a few words, for the page and for the terminal.

Says only what the facts say: of an error it does not guess what is published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lancewood.pipeline.report.facts import (
    CheckFacts,
    Ending,
    RunFacts,
    SourceFacts,
    TargetFacts,
)
from lancewood.pipeline.report.markup import counted, total


class Tone(StrEnum):
    """What the end of a run means for whoever waits for the data."""

    GOOD = "good"
    QUIET = "quiet"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    tone: Tone
    title: str
    sentences: tuple[str, ...]


def verdict(facts: RunFacts) -> RunVerdict:
    """The verdict of a run."""
    untouched = f"{facts.branch} is as it was."
    unpublished = f"Nothing was published: {untouched}"
    if facts.batches is not None:
        unpublished = "Of the last batch nothing was published."
    sentences: list[str]
    match facts.ending:
        case Ending.PUBLISHED:
            tone = Tone.WARN if not_passed(facts.checks) else Tone.GOOD
            title, sentences = f"Published into {facts.branch}", [_changes(facts)]
        case Ending.NOTHING_NEW:
            tone, title = Tone.QUIET, "Nothing new"
            sentences = [f"Nothing changed, and no commit was made: {untouched}"]
        case Ending.ALREADY_PUBLISHED:
            tone, title = Tone.QUIET, "Already published"
            sentences = ["This run id was published before. Nothing was loaded again."]
        case Ending.REVERTED:
            tone, title = Tone.BAD, "Reverted"
            sentences = ["This run id was published and then reverted. Nothing was loaded again."]
        case Ending.CHECKS_FAILED:
            number = len(failing(facts.checks))
            tone = Tone.BAD
            title = f"{counted(number, 'check')} failed" if number else "Checks failed"
            sentences = [unpublished, _kept(facts)]
        case Ending.TOO_MANY_BAD_ROWS:
            tone, title = Tone.BAD, "Too many bad rows"
            sentences = [*_bad_rows(facts), unpublished, _kept(facts)]
        case Ending.DRY_RUN:
            tone, title = Tone.QUIET, "Dry run"
            sentences = [f"Nothing was published: {untouched}"]
        case Ending.FAILED:
            tone, title, sentences = Tone.BAD, "Failed", ["An error ended the run."]
    text = checks_text(facts.checks)
    if text is not None:
        sentences.append(f"{text}.")
    if facts.attempts > 1:
        sentences.append(f"It took {facts.attempts} attempts, because {facts.branch} moved.")
    return RunVerdict(tone, title, tuple(sentences))


def is_published(facts: RunFacts) -> bool:
    """Whether what the run did is on the branch, since now or since before."""
    return facts.ending in (Ending.PUBLISHED, Ending.ALREADY_PUBLISHED)


def own_branch(facts: RunFacts) -> str | None:
    """The run's branch if it may have been left; None after an ending without one."""
    left = (Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS, Ending.FAILED)
    return facts.run_branch or None if facts.ending in left else None


CHANGES = ("inserted", "updated", "deleted", "replaced")
"""What may happen to rows, in the order of ``row_changes``."""


def row_changes(targets: Sequence[TargetFacts]) -> tuple[int | None, ...]:
    """How many rows were inserted, updated, deleted and replaced in all tables together."""
    return tuple(total(getattr(each, what) for each in targets) for what in CHANGES)


def index_changes(target: TargetFacts) -> list[tuple[str, tuple[str, ...]]]:
    """What became of the indices of a table, in words, and their names; nothing where there is
    nothing to say."""
    said = [
        ("index created:", target.indices_created),
        ("index extended:", target.indices_extended),
        ("index waits:", target.indices_waiting),
        ("index not published:", target.indices_left_out),
    ]
    return [(what, names) for what, names in said if names]


def rows_read(sources: Sequence[SourceFacts]) -> tuple[int | None, str]:
    """How many rows came in, as far as that is known, and of which sources that is."""
    read = [each for each in sources if not each.is_derived]
    known = [each.rows for each in read if each.rows is not None]
    which = "" if len(known) == len(read) else f" from {len(known):,} of {len(read):,} sources"
    return total(known), f"rows read{which}"


def not_passed(checks: list[CheckFacts]) -> list[CheckFacts]:
    """Checks that failed, and then those that warned."""
    return [*failing(checks), *warning(checks)]


def failing(checks: list[CheckFacts]) -> list[CheckFacts]:
    """Checks that kept the run from publishing."""
    return [each for each in checks if not each.is_passed and not each.is_warning]


def warning(checks: list[CheckFacts]) -> list[CheckFacts]:
    """Checks that did not hold and kept nothing back."""
    return [each for each in checks if not each.is_passed and each.is_warning]


def checks_text(checks: list[CheckFacts]) -> str | None:
    """How the checks went: ``16 of 18 checks passed, 1 failed, 1 warned``; None without any."""
    if not checks:
        return None
    failed, warned = len(failing(checks)), len(warning(checks))
    if not failed and not warned:
        return "The check passed" if len(checks) == 1 else f"All {len(checks):,} checks passed"
    passed = len(checks) - failed - warned
    parts = [f"{passed:,} of {counted(len(checks), 'check')} passed"]
    if failed:
        parts.append(f"{failed:,} failed")
    if warned:
        parts.append(f"{warned:,} warned")
    return ", ".join(parts)


def _changes(facts: RunFacts) -> str:
    tables = len({each.table for each in facts.targets})
    words = zip(CHANGES, row_changes(facts.targets), strict=True)
    parts = [f"{number:,} {what}" for what, number in words if number]
    rows = f": rows {', '.join(parts)}" if parts else ""
    what = "One commit" if facts.batches is None else f"A stream of {batches_text(facts.batches)}"
    return f"{what} brought {counted(tables, 'table')} to {facts.branch}{rows}."


def batches_text(number: int) -> str:
    return "1 batch" if number == 1 else f"{number:,} batches"


def _bad_rows(facts: RunFacts) -> list[str]:
    if facts.quarantine is None:
        return []
    found = facts.quarantine
    rows = f"{counted(found.rows, 'row')} went to {found.table}"
    return [f"{rows}; allowed: {found.limit}." if found.limit else f"{rows}."]


def _kept(facts: RunFacts) -> str:
    return f"What the run loaded is on {facts.run_branch}, for you to look at."
