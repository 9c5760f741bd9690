"""A run in a few plain lines, for a terminal or a log: no colours, nothing that a terminal obeys.

Short however large the run was; the page and ``report.json`` have the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lancewood.pipeline.report.facts import CheckFacts, RunFacts, SourceFacts, TargetFacts
from lancewood.pipeline.report.markup import (
    count,
    counted,
    duration,
    short_hash,
    shortened,
    shown,
    size,
    visible,
)
from lancewood.pipeline.report.verdict import (
    CHANGES,
    batches_text,
    checks_text,
    index_changes,
    is_published,
    not_passed,
    own_branch,
    row_changes,
    verdict,
)

_MOST_LINES, _MOST_NAME, _MOST_FOUND, _MOST_ERROR = 12, 60, 200, 4_000
_LABEL, _MOST_NAMES = 8, 3


def lines(facts: RunFacts) -> list[str]:
    """The summary of a run, the verdict first."""
    title = verdict(facts).title
    ended = f"{title[:1].lower()}{title[1:]} in {duration(facts.seconds)}"
    report = [f"{facts.folder}/report.html"] if facts.folder else []
    return [
        f"{_name(facts.pipeline)}: {visible(ended)}",
        *_block("run", [_run(facts)]),
        *_block("error", _error(facts.error), most=None),
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


def _error(text: str | None) -> list[str]:
    if text is None:
        return []
    return [visible(each) for each in shortened(text, _MOST_ERROR).splitlines()]


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
