"""Publishing a run: one commit on the target branch, with its rows and its entry in the ledger; and
what it reports at its end: its error, the commits around it, earlier runs, what to do next.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lancewood.errors import (
    AlreadyExistsError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    RunFailedError,
)
from lancewood.pipeline.checks.running import tables_seen
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Check, Pipeline
from lancewood.pipeline.definition.toml_file import hide
from lancewood.pipeline.frames.refusals import failed, spark_errors
from lancewood.pipeline.report.facts import Ending, PastRun, RunFacts, Stages
from lancewood.pipeline.running.ledger import (
    Ledger,
    LedgerEntry,
    PublishedRun,
    decode_entry,
    encode_entry,
    entry_at,
    entry_bytes,
    entry_file,
)
from lancewood.repo import (
    HEADS,
    TAGS,
    Commit,
    Committed,
    Repository,
    View,
    check_nothing_beside,
    graph_lines,
)
from lancewood.table import Resolve
from lancewood.version import LIBRARY, RELEASE


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
            is_incremental = any(each.incremental for each in self.context.pipeline.sources)
            if is_incremental and entry_bytes(before, name) != entry_bytes(tip, name):
                raise RetryableConflictError(
                    f"another run of {name!r} was published meanwhile, and may have read the same "
                    "news; this one has to look again"
                )
            self._check_seen(before, tip)
        self.ledger.heal(tip)
        return {entry_file(name): encode_entry(self.entry)}

    def _check_seen(self, before: View | None, tip: View) -> None:
        """The checks hold for what they saw: with somebody else's rows beside it they may not."""
        checks = _strict(self.context.pipeline)
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


FACTS = "run_facts"
"""The key of ``error.facts`` for the facts of the run."""
_MOST_CHARACTERS = 2_000
_DEEPEST = 20
_MOST_RUNS = 30
_MOST_PAST_COMMITS = 300
_MOST_SHOWN_COMMITS = 20


def shown(pipeline: Pipeline, error: BaseException) -> str:
    """What may be shown of an error: its text without secrets and Java's stacks."""
    return _plain(pipeline, error).message[:_MOST_CHARACTERS]


def failure(pipeline: Pipeline, error: Exception, facts: RunFacts) -> LancewoodError:
    """The error to raise in place of another one: our errors keep their class, others, including
    Spark's, become a RunFailedError.

    If a text held a secret, the cause is left out, as it would reveal it.
    """
    found = _plain(pipeline, error)
    kind = RunFailedError if type(found) is LancewoodError else type(found)
    made = kind(found.message, **{**found.facts, FACTS: facts})
    for note in getattr(found, "__notes__", ()):
        made.add_note(hide(pipeline, note))
    made.add_note(f"run {facts.run} of {facts.pipeline}: {facts.folder or facts.repository}")
    made.__cause__ = None if _holds_secrets(pipeline, error) else error
    return made


def _plain(pipeline: Pipeline, error: BaseException) -> LancewoodError:
    if isinstance(error, LancewoodError):
        return type(error)(hide(pipeline, error.message), **error.facts)
    if isinstance(error, spark_errors()):
        return failed(pipeline, error, "the run")
    text = hide(pipeline, str(error)) or "it says nothing else"
    return LancewoodError(f"the run failed: {type(error).__name__}: {text}")


def _holds_secrets(pipeline: Pipeline, error: BaseException) -> bool:
    """Whether an error, or what led to it, contains a secret; in doubt it does."""
    at: BaseException | None = error
    for _ in range(_DEEPEST):
        if at is None:
            return False
        text = f"{at} {at!r}"
        if hide(pipeline, text) != text:
            return True
        at = at.__cause__ or at.__context__
    return True


def complete(facts: RunFacts, pipeline: Pipeline, repository: Repository, spark: Any) -> None:
    """Fill in the facts that come from the repository."""
    facts.versions = {LIBRARY: RELEASE, "python": platform.python_version()}
    if spark is not None:
        facts.versions["spark"] = str(spark.version)
    try:
        tip = repository.at(HEADS + pipeline.branch).hash
    except NotFoundError:
        tip = None
    if tip is not None:
        commits = repository.log(tip, limit=_MOST_SHOWN_COMMITS)
        facts.graph = [*graph_lines(commits, _one_line)]
    facts.past = past_runs(repository, pipeline, facts.commit or tip)
    facts.what_next = what_next(facts, is_batch=pipeline.stream is not None)


def what_next(facts: RunFacts, *, is_batch: bool = False) -> list[str]:
    """Commands that a person may want to type next; a stream names the runs of its batches."""
    at = shlex.quote(facts.repository)
    said = [f"--param={name}={value}" for name, value in facts.parameters.items()]
    said += [f"--full-refresh-table={each}" for each in facts.full_refresh]
    anew = shlex.join(["lw", "run", facts.file, *said])
    again = anew if is_batch else f"{anew} --run-id {shlex.quote(facts.run)}"
    match facts.ending:
        case Ending.PUBLISHED | Ending.ALREADY_PUBLISHED:
            shown = str(facts.commit)[:12]
            return [f"cd {at}", f"lw show {shown}", "lw log --graph --oneline"]
        case Ending.CHECKS_FAILED | Ending.TOO_MANY_BAD_ROWS:
            look = f"tables {facts.run_branch}"
            if facts.base_commit is not None:
                look = f"diff {facts.branch} {facts.run_branch}"
            bad_rows = []  # they are not on main
            if facts.ending is Ending.TOO_MANY_BAD_ROWS and facts.quarantine is not None:
                table = f"tables/{facts.quarantine.table}.lance@{facts.run_branch}"
                bad_rows = [f"lw table cat {table}"]
            return [f"cd {at}", f"lw {look}", *bad_rows, again]
        case Ending.FAILED:
            return [again]
        case Ending.DRY_RUN | Ending.REVERTED:
            return [anew]
        case Ending.NOTHING_NEW:
            return []


def _one_line(commit: Commit) -> str:
    subject = commit.message.strip().partition("\n")[0]
    return f"{commit.hash[:12]} {subject[:100]}"


def past_runs(repository: Repository, pipeline: Pipeline, commit: str | None) -> list[PastRun]:
    """The runs up to a commit, newest last, with the rows of the tables that the pipeline loads. At
    most ``_MOST_RUNS``, from a limited number of commits."""
    if commit is None:
        return []
    tables = dict.fromkeys(each.table for each in pipeline.targets)
    found: list[PastRun] = []
    newer: tuple[bytes, PastRun] | None = None
    commits = islice(repository.log(commit, first_parent=True), _MOST_PAST_COMMITS)
    for each in commits:
        view = repository.at(each.hash)
        data = entry_bytes(view, pipeline.name)
        if newer is not None and data != newer[0]:
            found.append(newer[1])
            if len(found) == _MOST_RUNS:
                newer = None
                break
        if data is None:
            newer = None
            continue
        entry = decode_entry(data, entry_file(pipeline.name))
        pins = {name: view.pin(name).rows for name in tables if name in view.tables}
        rows = {name: count for name, count in pins.items() if count is not None}
        newer = data, PastRun(entry.run, each.hash, each.committer.seconds, rows)
    if newer is not None:
        found.append(newer[1])
    return found[::-1]
