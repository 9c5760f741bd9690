"""Publishing a run: one commit on the target branch, with its rows and its entry in the ledger.

Before it becomes visible, and again whenever the target moved, it is asked whether it may: the run
must not be there already, no other run may have read the same news, and what the checks looked at
must be as they saw it, also where others write beside the repository. Tables that both sides
changed are judged by the repository, and merged by rows where the file says what decides those that
both changed. Afterwards the commit gets its tag and its ref, and the run's
branch goes; these steps can be repeated, and one that fails is reported and does not undo the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lancewood.errors import AlreadyExistsError, LancewoodError, RetryableConflictError
from lancewood.pipeline.checks.running import tables_seen
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Check, Pipeline
from lancewood.pipeline.report.facts import RunFacts, Stages
from lancewood.pipeline.running.ledger import (
    Ledger,
    LedgerEntry,
    PublishedRun,
    encode_entry,
    entry_at,
    entry_bytes,
    entry_file,
)
from lancewood.repo import TAGS, Committed, View, check_nothing_beside
from lancewood.table import Resolve


def publish(context: RunContext, ledger: Ledger, entry: LedgerEntry, message: str) -> Committed:
    """Bring the run's branch into the target; a run that is there already is no commit.

    Raises ConflictError where the two do not go together; the target is untouched then.
    """
    permission = _Permission(context, ledger, entry)
    return context.repository.merge(
        context.branch,
        branch=context.pipeline.branch,
        squash=True,
        message=message,
        author=context.pipeline.author,
        files=permission.files,
        only_committed=checked_tables(context),
        resolve={name: Resolve.of(each) for name, each in context.pipeline.on_conflict.items()},
    )


def say_left_out(facts: RunFacts, done: Committed) -> None:
    """Say in the facts which indices of the run's branch did not come with the rows."""
    left_out = dict(done.left_out_indices)
    for each in facts.targets:
        built = (*each.indices_created, *each.indices_extended)
        each.indices_left_out = tuple(
            name for name in left_out.get(each.table, ()) if name in built
        )


def checked_tables(context: RunContext) -> list[str]:
    """The tables of the run's branch that a check looks at which can keep it from publishing."""
    checks = _strict(context.pipeline)
    tables = context.repository.at(context.branch).tables
    return [name for name in tables if any(_looks_at(each, name) for each in checks)]


def check_beside(context: RunContext) -> None:
    """Raise RetryableConflictError, before anything is loaded, for what ``publish`` would refuse:
    a table with rows that nobody has committed, which no check would see."""
    tables = {each.table for each in context.pipeline.targets}
    for name in tables.intersection(checked_tables(context)):
        check_nothing_beside(name, context.open_now(name))


def has_work(context: RunContext) -> bool:
    """Whether the run changed a table, or made one."""
    before = () if context.base is None else context.repository.at(context.base).tables
    now = context.repository.at(context.branch)
    return any(each not in before or now.pin(each).branch == context.branch for each in now.tables)


def commit_message(pipeline: Pipeline, facts: RunFacts) -> str:
    """What the published commit says."""
    lines = [pipeline.message or f"{pipeline.name}: run {facts.run}", ""]
    for each in facts.targets:
        rows = "" if each.rows_after is None else f", {each.rows_after:,} rows now"
        lines.append(f"{each.table}: {each.mode}{rows}")
    if facts.quarantine is not None and facts.quarantine.rows:
        count = facts.quarantine.rows
        lines.append(f"{facts.quarantine.table}: {count:,} bad {'row' if count == 1 else 'rows'}")
    return "\n".join([*lines, "", f"Pipeline: {pipeline.name}", f"Run: {facts.run}"])


@dataclass(frozen=True, slots=True)
class Finishing:
    """What remains to be done once a run is published: its tag, its ref, and removing its
    branch."""

    context: RunContext
    ledger: Ledger
    stages: Stages

    def run(self, published: PublishedRun) -> None:
        """Every step, in this order: the ref is set before the branch goes, because together with
        the file at the tip it says that the run is published."""
        self.stages.facts.commit = published.commit
        tag = published.entry.tag
        if tag is not None:
            self._step("tag", f"tag {tag} was not set", lambda: self._tag(tag, published))
        self._step("record", "the run got no ref yet", lambda: self.ledger.note(published))
        stays = f"branch {self.context.branch} stays"
        self._step("remove branch", stays, self.context.remove_branch)

    def _step(self, stage: str, otherwise: str, act: Callable[[], None]) -> None:
        with self.stages(stage):
            try:
                act()
            except (LancewoodError, OSError) as failed:
                self.stages.listener.noted(f"{otherwise}: {failed}")

    def _tag(self, name: str, published: PublishedRun) -> None:
        repository = self.context.repository
        with suppress(AlreadyExistsError):
            repository.tags.create(name, at=published.commit)
        found = repository.at(TAGS + name).hash
        if found != published.commit:
            if not self.ledger.is_lost(found, published.entry.run):
                raise AlreadyExistsError(f"it is at commit {found[:12]} already", tag=name)
            # The tag is of this run, from before a reset.
            repository.tags.delete(name)
            repository.tags.create(name, at=published.commit)
            self.stages.listener.noted(f"tag {name} was at {found[:12]}, which was reset away")
        self.stages.facts.tag = name


@dataclass(frozen=True, slots=True)
class _Permission:
    context: RunContext
    ledger: Ledger
    entry: LedgerEntry

    def files(self, tip: View | None) -> Mapping[str, bytes] | None:
        """The entry, for a commit after ``tip``; None if the run is published there."""
        name = self.context.pipeline.name
        now = entry_at(tip, name)
        if now is not None and now.run == self.entry.run:
            return None
        base = self.context.base
        if tip is not None and tip.hash != base:
            before = None if base is None else self.context.repository.at(base)
            self._check_news(before, tip)
            self._check_seen(before, tip)
        self.ledger.heal(tip)
        return {entry_file(name): encode_entry(self.entry)}

    def _check_news(self, before: View | None, tip: View) -> None:
        pipeline = self.context.pipeline
        if not any(each.incremental for each in pipeline.sources):
            return
        if entry_bytes(before, pipeline.name) != entry_bytes(tip, pipeline.name):
            raise RetryableConflictError(
                f"another run of {pipeline.name!r} was published meanwhile, and may have read the "
                "same news; this one has to look again"
            )

    def _check_seen(self, before: View | None, tip: View) -> None:
        """The checks hold for what they saw: with somebody else's rows beside it they may not."""
        checks = _strict(self.context.pipeline)
        if not checks:
            return
        known = () if before is None else before.tables
        for table in sorted({*known, *tip.tables}):
            if not any(_looks_at(each, table) for each in checks):
                continue
            pins = [
                view.pin(table) if view is not None and table in view.tables else None
                for view in (before, tip)
            ]
            if pins[0] != pins[1]:
                raise RetryableConflictError(
                    f"table {table!r} of branch {self.context.pipeline.branch!r} changed while the "
                    "run was at work, and the checks have not seen that; they have to look again",
                    table=table,
                )


def _strict(pipeline: Pipeline) -> list[Check]:
    return [each for each in pipeline.checks if not each.is_warning]


def _looks_at(check: Check, table: str) -> bool:
    """Whether a check may look at a table: SQL does not tell upper and lower case apart."""
    return table.casefold() in {each.casefold() for each in tables_seen(check)}
