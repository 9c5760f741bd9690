"""A run in a few plain lines, for a terminal or a log: no colours, nothing that a terminal obeys;
and how it ended, in a few words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lancewood.pipeline.report.facts import CheckFacts, Ending, RunFacts, SourceFacts, TargetFacts
from lancewood.pipeline.report.markup import (
    count,
    counted,
    duration,
    short_hash,
    shortened,
    shown,
    size,
    total,
    visible,
)


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
            sentences = [unpublished, _kept(facts)]
            if facts.quarantine is not None:
                found = facts.quarantine
                limit = f"; allowed: {found.limit}" if found.limit else ""
                rows = f"{counted(found.rows, 'row')} went to {found.table}{limit}."
                sentences.insert(0, rows)
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


def _kept(facts: RunFacts) -> str:
    return f"What the run loaded is on {facts.run_branch}, for you to look at."


_MOST_LINES, _MOST_NAME, _MOST_FOUND, _MOST_ERROR = 12, 60, 200, 4_000
_LABEL, _MOST_NAMES = 8, 3


def lines(facts: RunFacts) -> list[str]:
    """The summary of a run, the verdict first."""
    title = verdict(facts).title
    ended = f"{title[:1].lower()}{title[1:]} in {duration(facts.seconds)}"
    report = [f"{facts.folder}/report.html"] if facts.folder else []
    error = shortened(facts.error or "", _MOST_ERROR)
    return [
        f"{_name(facts.pipeline)}: {visible(ended)}",
        *_block("run", [_run(facts)]),
        *_block("error", [visible(each) for each in error.splitlines()], most=None),
        *_block(
            "read",
            _aligned([_source(each) for each in facts.sources[:_MOST_LINES]]),
            more=len(facts.sources) - _MOST_LINES,
        ),
        *_block(
            "wrote" if is_published(facts) else "loaded",
            target_lines(facts.targets[:_MOST_LINES]),
            more=len(facts.targets) - _MOST_LINES,
        ),
        *_block("checks", check_lines(facts.checks), most=None),
        *_block("bad rows", list(_bad_rows(facts)), most=None),
        *_block("report", [visible(each) for each in report]),
        *_block("next", [visible(each) for each in facts.what_next]),
    ]


def target_lines(targets: Sequence[TargetFacts]) -> list[str]:
    """What became of tables, each on a line."""
    return _aligned([_target(each) for each in targets])


def check_lines(checks: Sequence[CheckFacts]) -> list[str]:
    """How the checks went, and those that did not hold; nothing without any."""
    return [*_checks([*checks])]


def _block(
    label: str, parts: Sequence[str], *, more: int = 0, most: int | None = _MOST_LINES
) -> Iterator[str]:
    """Lines under each other, the first of them after a word that says what they are."""
    left_out = max(more, 0)
    if most is not None and len(parts) > most:
        parts, left_out = parts[:most], left_out + len(parts) - most
    if left_out:
        parts = [*parts, f"and {left_out:,} more, in report.json"]
    for number, each in enumerate(parts):
        yield f"  {label if number == 0 else '':<{_LABEL}}  {each}".rstrip()


def _run(facts: RunFacts) -> str:
    parts = [_name(facts.run)]
    if facts.commit is not None:
        parts.append(f"commit {visible(short_hash(facts.commit))}")
    else:
        parts.append(f"branch {_name(own_branch(facts) or facts.branch)}")
    if facts.tag is not None:
        parts.append(f"tag {_name(facts.tag)}")
    if facts.attempts > 1:
        parts.append(counted(facts.attempts, "attempt"))
    if facts.batches is not None:
        parts.append(batches_text(facts.batches))
    return ", ".join(parts)


def _source(source: SourceFacts) -> tuple[str, ...]:
    return (
        _name(source.name),
        _name(source.kind),
        "" if source.rows is None else counted(source.rows, "row"),
        "" if source.files is None else counted(source.files, "file"),
        "" if source.bytes is None else size(source.bytes),
        f"{counted(source.passed_over, 'file')} passed over" if source.passed_over else "",
    )


def _target(target: TargetFacts) -> tuple[str, ...]:
    before = "new" if target.rows_before is None else count(target.rows_before)
    words = zip(CHANGES, row_changes([target]), strict=True)
    parts = [f"{number:,} {word}" for word, number in words if number]
    if target.duplicates:
        parts.append(f"{counted(target.duplicates, 'duplicate')} left out")
    if target.columns_added:
        parts.append(counted(len(target.columns_added), "new column"))
    parts += [f"{what} {_names(names)}" for what, names in index_changes(target)]
    return (
        _name(target.table),
        _name(target.mode),
        f"{before} -> {count(target.rows_after)} rows",
        ", ".join(parts),
    )


def _checks(checks: list[CheckFacts]) -> Iterator[str]:
    text = checks_text(checks)
    if text is None:
        return
    yield text
    bad = not_passed(checks)
    for each in bad[:_MOST_LINES]:
        found = f": {shown(each.found, _MOST_FOUND)}" if each.found else ""
        yield f"{'warned' if each.is_warning else 'failed'}  {_name(each.name)}{found}"
        if each.kept_at is not None:
            yield f"        rows kept at {visible(each.kept_at)}"
    if len(bad) > _MOST_LINES:
        yield f"and {len(bad) - _MOST_LINES:,} more, in report.json"


def _bad_rows(facts: RunFacts) -> Iterator[str]:
    found = facts.quarantine
    if found is None or not found.rows:
        return
    limit = f"; allowed: {visible(found.limit)}" if found.limit else ""
    yield f"{counted(found.rows, 'row')} in {_name(found.table)}{limit}"
    reasons = [
        (count(number), f"{_name(origin)}: {shown(reason, _MOST_FOUND)}")
        for origin, reason, number in found.by_reason
    ]
    yield from _aligned(reasons[:_MOST_LINES], right=(0,))
    if len(reasons) > _MOST_LINES:
        yield f"and {len(reasons) - _MOST_LINES:,} reasons more, in report.json"


def _name(text: str) -> str:
    return shown(text, _MOST_NAME)


def _names(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMES
    return ", ".join(map(_name, texts[:_MOST_NAMES])) + (f" and {more:,} more" if more > 0 else "")


def _aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            each.rjust(width) if at in right else each.ljust(width)
            for at, (each, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
