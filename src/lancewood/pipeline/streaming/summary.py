"""A stream in figures: those of its batches together, as if it were one run.

Each batch is added when it is done and then forgotten: a stream may run for months.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lancewood.pipeline.loading.quarantine import MOST_REASONS
from lancewood.pipeline.report.facts import (
    Ending,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    TargetFacts,
)
from lancewood.pipeline.report.markup import total
from lancewood.pipeline.running.folder import RunFolder

_RANK = (Ending.NOTHING_NEW, Ending.REVERTED, Ending.ALREADY_PUBLISHED, Ending.PUBLISHED)
"""The ways in which batches end well: the stream ends in the last of them in which a batch did."""


class Summary:
    """The facts of a stream that goes on."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        facts.ending, facts.batches = Ending.NOTHING_NEW, 0

    def add(self, batch: RunFacts) -> None:
        """One more batch is done. What a repeated batch brings in counts for nothing."""
        facts = self.facts
        facts.batches = (facts.batches or 0) + 1
        facts.attempts = max(facts.attempts, batch.attempts)
        facts.stages = _stages(facts.stages, batch.stages)
        facts.folder, facts.run_branch = batch.folder, batch.run_branch
        facts.graph, facts.past, facts.versions = batch.graph, batch.past, batch.versions
        if batch.commit is not None:
            facts.commit, facts.tag = batch.commit, batch.tag
        if batch.ending in _RANK:
            facts.ending = max(facts.ending, batch.ending, key=_RANK.index)
            facts.what_next = batch.what_next
        if batch.ending not in (Ending.ALREADY_PUBLISHED, Ending.REVERTED):
            facts.base_commit = facts.base_commit or batch.base_commit
            facts.checks = batch.checks or facts.checks
            facts.sources = _sources(facts.sources, batch.sources)
            facts.quarantine = _quarantine(facts.quarantine, batch.quarantine)
        if batch.ending is Ending.PUBLISHED:
            facts.targets = _targets(facts.targets, batch.targets)

    def stop(self, batch: RunFacts, number: int) -> None:
        """A batch ended without an error, and was not published: the stream ends with it."""
        facts = self.facts
        page = RunFolder(Path(batch.folder)).page
        facts.ending = batch.ending
        facts.error = (
            f"{batch.ending.value} in batch {number}, and the stream stopped before it: nothing of "
            f"it is published. Look at branch {batch.run_branch} and at {page}; the stream goes "
            "on with this batch when it is started again"
        )
        facts.what_next = batch.what_next

    def fail(self, batch: RunFacts) -> None:
        """An error ended a batch, and with it the stream: where there is something to see."""
        facts = self.facts
        facts.folder, facts.run_branch = batch.folder, batch.run_branch
        facts.stages = _stages(facts.stages, batch.stages)
        facts.what_next = batch.what_next


def _sources(before: Sequence[SourceFacts], now: Sequence[SourceFacts]) -> list[SourceFacts]:
    known = {each.name: each for each in before}
    return [
        replace(
            each,
            rows=total((known[each.name].rows, each.rows)),
            files=total((known[each.name].files, each.files)),
            bytes=total((known[each.name].bytes, each.bytes)),
        )
        if each.name in known
        else each
        for each in now
    ]


def _targets(before: Sequence[TargetFacts], now: Sequence[TargetFacts]) -> list[TargetFacts]:
    """Targets in the order of the file, batches added up: a table may be among them twice."""
    if not before:
        return [*now]
    return [_target(old, new) for old, new in zip(before, now, strict=True)]


def _target(old: TargetFacts, new: TargetFacts) -> TargetFacts:
    return replace(
        new,
        rows_before=old.rows_before,
        inserted=total((old.inserted, new.inserted)),
        updated=total((old.updated, new.updated)),
        deleted=total((old.deleted, new.deleted)),
        duplicates=total((old.duplicates, new.duplicates)),
        replaced=total((old.replaced, new.replaced)),
        columns_added=_either(old.columns_added, new.columns_added),
        indices_created=_either(old.indices_created, new.indices_created),
        indices_extended=_either(old.indices_extended, new.indices_extended),
        files=old.files + new.files,
        bytes=old.bytes + new.bytes,
        seconds=old.seconds + new.seconds,
    )


def _either(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _quarantine(
    before: QuarantineFacts | None, now: QuarantineFacts | None
) -> QuarantineFacts | None:
    if before is None or now is None:
        return now or before
    counts: Counter[tuple[str, str]] = Counter()
    for origin, reason, rows in (*before.by_reason, *now.by_reason):
        counts[origin, reason] += rows
    most = counts.most_common(MOST_REASONS)
    by_reason = tuple((origin, reason, rows) for (origin, reason), rows in most)
    sample = now.sample or before.sample
    return replace(now, rows=before.rows + now.rows, by_reason=by_reason, sample=sample)


def _stages(before: Sequence[StageFacts], now: Sequence[StageFacts]) -> list[StageFacts]:
    """Stages of one name together, in the order in which each was first there."""
    found = {each.name: each for each in before}
    for each in now:
        old = found.get(each.name)
        found[each.name] = (
            replace(each, begun=None)
            if old is None
            else StageFacts(
                each.name,
                old.seconds + each.seconds,
                rows=total((old.rows, each.rows)),
                bytes=total((old.bytes, each.bytes)),
                files=total((old.files, each.files)),
                is_failed=old.is_failed or each.is_failed,
            )
        )
    return [*found.values()]
