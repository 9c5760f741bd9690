"""The next state of a table in a repository: an older version, the work on another branch or a part
of it, or what both sides changed merged by rows.

Each way ends in a stage on the newest version of the branch, which a transaction then commits. A
stage can only follow the version it was made for or, for the work of a branch, one that it was
judged against as well.

The bases of a merge by rows are those of the commits, not of the tables: what a commit took back
stays taken back, whatever versions the table has. Rows can be told apart by their ids if these are
stable and if every branch involved hands out its own; tables where they cannot are refused.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lancewood.catalog.pin import Pin
from lancewood.engine.commit import CommitPolicy, commit
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    Snapshot,
    has_settled_ids,
    load_snapshot,
    same_indices,
)
from lancewood.engine.staging import Stage
from lancewood.errors import InvalidInputError, LancewoodError, MergeConflictError
from lancewood.format.manifest import content_digest
from lancewood.git.history import merge_bases
from lancewood.git.text_merge import Favor
from lancewood.git.values import Hash
from lancewood.jobs.diff import nothing_before
from lancewood.jobs.merge.decisions import Decision, decided
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.merge_branch import merged_config
from lancewood.jobs.merge.merged_version import MergedVersion
from lancewood.jobs.merge.resolve import EACH, Resolve, decided_names, told_apart, value_columns
from lancewood.jobs.merge.row_merge import Detect, PreparedMerge, RowMerge
from lancewood.jobs.publish.branch_work import BranchWork
from lancewood.jobs.publish.prepare import prepare, prepare_again, publishing
from lancewood.jobs.publish.publication import Publication
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.model.ids import Version
from lancewood.model.transaction import HeadChanges, Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.decisions import read_decisions
from lancewood.repo.landing import pinned_state, restoring
from lancewood.repo.outcome import Committed
from lancewood.repo.writable import working_location, writable_head


@dataclass(frozen=True)
class RowMerges:
    """How rows are merged that both sides changed."""

    resolve: Resolve = field(default_factory=Resolve)
    detect: Detect = "cells"
    runner: Runner = field(default_factory=LocalRunner)
    decisions: Mapping[str, Sequence[Decision]] = field(default_factory=dict)
    """Decisions that were made before, by table."""
    by_table: Mapping[str, Resolve] = field(default_factory=dict)
    """Rules of tables for which ``resolve`` does not count."""
    fitted: dict[str, Resolve] = field(default_factory=dict)
    """What of ``resolve`` is about columns that other tables have; filled in by ``row_merge``."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """The conflicts of each table on which there were decisions; filled in by ``judge``."""
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The indices of each table that theirs built, and that stay there; filled in by ``judge``."""

    def resolve_of(self, table: str) -> Resolve:
        """What decides conflicts of a table."""
        return self.by_table.get(table, self.resolve)

    def with_decisions(self, context: RepoContext, kept: Hash | None) -> RowMerges:
        """Add the decisions that the commit ``kept`` keeps, if there is one."""
        if kept is None:
            return self
        return replace(self, decisions=read_decisions(context.git.objects, kept))

    @property
    def favor(self) -> Favor | None:
        """The side that counts in files, too."""
        side = self.resolve.rows
        return None if side == "base" else side

    def check_table(self, table: str) -> None:
        """Raise MergeConflictError for a table that both sides changed, if that is a conflict and
        nobody said which side is taken."""
        sides = (each.rules.get("rows") for each in self.decisions.get(table, ()))
        if self.detect == "tables" and not any((self.resolve_of(table).rows, *sides)):
            raise MergeConflictError(
                "both sides changed it, and detect='tables' makes that a conflict", conflicts=1
            )

    def row_merge(
        self, table: str, base: Bases[Snapshot], ours: Snapshot, theirs: Snapshot
    ) -> RowMerge | None:
        """A merge of two states; None if their rows cannot be told apart."""
        for state in (*base.all, ours, theirs):
            if not (state.manifest.has_stable_row_ids and has_settled_ids(state)):
                return None
        if table not in self.by_table:
            self.fitted[table] = _fitting(self.resolve, base.first, ours, theirs)
        resolve = self.by_table.get(table) or self.fitted[table]
        found = RowMerge(base, ours, theirs, resolve, self.detect, table)
        return decided(found, self.decisions.get(table, ()))

    @property
    def stale(self) -> int:
        """How many decisions are on conflicts that are not there, once all tables are judged."""
        given = (decided_names(each) for each in (self.resolve, *self.by_table.values()))
        kept = (self._kept(table) for table in self.decisions)
        return len(frozenset().union(*given, *kept).difference(*self.used.values()))

    def stale_of(self, table: str) -> int:
        """Number of decisions kept for a table whose conflicts are not there."""
        return len(self._kept(table) - self.used.get(table, set()))

    def _kept(self, table: str) -> set[str]:
        return {row.conflict for each in self.decisions.get(table, ()) for row in each.rows}

    def check_columns(self, refused: str) -> None:
        """Raise InvalidInputError for rules and values about columns that no table has which is
        merged by rows; ``refused`` is what cannot be done."""
        known = {name for each in self.fitted.values() for name in _named(each)}
        missing = ", ".join(map(repr, sorted(_named(self.resolve) - known)))
        if self.fitted and missing:
            raise InvalidInputError(
                f"{refused}, and nothing has changed. resolve names {missing}, which is no column "
                f"of a table that is merged by rows: looked at {', '.join(sorted(self.fitted))}",
                tables=sorted(self.fitted),
            )

    def judge(self, row_merge: RowMerge, *, dry_run: bool, is_merge: bool) -> NextState | None:
        """The merge, prepared; None if it changes nothing. ``is_merge``: ours holds all of theirs
        afterwards. Raises MergeConflictError, and what planning the version after ours raises."""
        ours = row_merge.ours.manifest
        prepared = PreparedMerge(row_merge, self.runner, writes=not dry_run)
        found = prepared.merged_rows
        self.used[row_merge.table] = found.used
        self.left_out[row_merge.table] = prepared.left_out_indices
        version = prepared.version({})
        if version.head == HeadChanges() and not found.changes_rows:
            prepared.discard()
            return None
        if is_merge:
            config = dict(ours.config if version.head.config is None else version.head.config)
            version.head = replace(
                version.head, config=config | merged_config(ours, row_merge.theirs)
            )
        try:
            version.plan(ours)
        except LancewoodError:
            prepared.discard()
            raise
        return NextState(row_merge.ours, version, prepared)


@dataclass(frozen=True, slots=True)
class NextState:
    """What comes after a version of a table, judged and planned. For the work of a branch nothing
    was written; of a merge by rows its rows are, and nothing names them yet."""

    head: Snapshot
    composer: Publication | MergedVersion
    prepared: PreparedMerge | None = None
    """The merge by rows, if it is one."""

    def stage(self, message: str) -> Stage:
        """The version after ``head``, with the files that it needs."""
        stage, identity = Stage(self.head, message=message), str(uuids.uuid4())
        if isinstance(self.composer, Publication):
            transaction = publishing(self.composer.work, identity, {})
        else:
            operation = self.composer.plan(self.head.manifest).operation
            properties = self.composer.properties
            transaction = Transaction(
                self.head.manifest.version, identity, (operation,), properties
            )
        stage.compose(transaction, self.composer)
        return stage

    def discard(self) -> None:
        """Remove the rows that were written."""
        if self.prepared is not None:
            self.prepared.discard()


def with_merged(
    made: Committed, name: str, judged: Mapping[str, NextState | None], rows: RowMerges
) -> Committed:
    """What was done, and what became of the rows of tables that were merged by rows."""
    merged, left_out = [], dict(rows.left_out)
    for table, state in sorted(judged.items()):
        composer = None if state is None else state.composer
        if isinstance(composer, Publication):
            left_out[table] = composer.left_out
        elif composer is not None and state is not None and state.prepared is not None:
            brought, uncovered = composer.brought, composer.uncovered_indices
            told = state.prepared.told(name, brought, uncovered, dry_run=made.is_dry_run)
            merged.append((table, replace(told, stale=rows.stale_of(table))))
    return replace(
        made,
        merged=tuple(merged),
        left_out_indices=tuple(each for each in sorted(left_out.items()) if each[1]),
        stale=rows.stale,
    )


def load_bases(context: RepoContext, commits: Sequence[Hash], name: str) -> Bases[Snapshot] | None:
    """A table as commits have it, and what is below them if there are several; None if one of them
    does not have the table.

    Raises NotFoundError for a state that is gone.
    """

    def distinct(found: Iterable[Hash]) -> list[Hash | None]:
        """Commits with different states of the table; none if one of them does not have it."""
        known: dict[Hash | None, Hash | None] = {}
        for each in found:
            known.setdefault(context.tree(each).blob_hash(name), each)
        return [] if None in known else [*known.values()]

    def below(one: Hash | None, other: Hash | None) -> list[Hash | None]:
        assert one is not None, "what is not there has nothing beside it"
        assert other is not None, "what is not there has nothing beside it"
        return distinct(merge_bases(context.git.objects, one, other))

    found = distinct(commits)
    if not found:
        return None
    states = dict[Hash | None, Snapshot]()

    def state(commit: Hash | None) -> Snapshot:
        """The table as a commit has it; the same object for commits that have the same."""
        if commit is None:
            return nothing_before(state(found[0]))
        pinned = context.tree(commit).blob_hash(name)
        if pinned not in states:
            states[pinned] = pinned_state(context, context.tree(commit).pin(name))
        return states[pinned]

    return Bases.of(found, below, lambda _: None, lambda commit: commit).each(state)


def current_state(
    context: RepoContext,
    branch: str,
    tip: Hash | None,
    name: str,
    pin: Pin,
    *,
    dry_run: bool,
    adopt: bool = False,
) -> Snapshot:
    """A table as a branch has it now, to be written. In a dry run nothing lands, and no branch of
    the table is made."""
    if not dry_run:
        return writable_head(context, branch, tip, name, pin, adopt=adopt)
    location = working_location(context, branch, pin)
    if location is None or pin.landing is not None:
        return pinned_state(context, pin)
    return load_snapshot(location)


def checked_decision(
    context: RepoContext, into: str, name: str, table: str, resolve: Resolve
) -> Decision:
    """What is decided about a table, to be kept. Raises NotFoundError for a table, and
    InvalidInputError for columns, that neither the branch nor what is merged into it has: nothing
    can be decided about them."""
    tip, theirs = context.tip(into), context.commit(name)
    context.check_table(table, tip, theirs)
    states, ours = [], context.tree(tip).find(table)
    if ours is not None:
        states.append(current_state(context, into, tip, table, ours, dry_run=True))
    pin = context.tree(theirs).find(table)
    if pin is not None:
        states.append(pinned_state(context, pin))
    known = {each.name: each for state in reversed(states) for each in state.arrow_schema}
    if resolve.decisions is not None:
        decisions = told_apart(resolve.decisions, pa.schema([*known.values()]))
        resolve = replace(resolve, decisions=decisions)
    missing = [repr(each) for each in sorted(_named(resolve)) if not _is_in(each, known)]
    if missing:
        raise InvalidInputError(
            f"nothing is kept: the decision names {', '.join(missing)}, which is no column of "
            f"table {table!r}: they are {', '.join(sorted(known))}",
            table=table,
        )
    return Decision.of(resolve)


def _fitting(resolve: Resolve, base: Snapshot, ours: Snapshot, theirs: Snapshot) -> Resolve:
    """Drop from ``resolve`` rules and values for columns that the merged table does not have: those
    that neither side has, or that one of them took away."""
    old, here, there = ({*each.schema.by_name} for each in (base, ours, theirs))
    merged, known = (here & there) | ((here ^ there) - old), old | here | there
    columns = {name: rule for name, rule in resolve.columns.items() if name in {EACH, *merged}}
    decisions, schema = resolve.decisions, resolve.schema
    if decisions is not None:
        given = value_columns(decisions).items()
        others = [column for name, column in given if name not in merged]
        decisions = decisions.drop_columns(others)
    if isinstance(schema, Mapping):
        schema = {name: each for name, each in schema.items() if _is_in(name, known)}
    return replace(resolve, columns=columns, decisions=decisions, schema=schema)


def _named(resolve: Resolve) -> set[str]:
    """The columns that rules and values are about."""
    values = () if resolve.decisions is None else value_columns(resolve.decisions)
    schema = resolve.schema if isinstance(resolve.schema, Mapping) else ()
    return {*resolve.columns, *values, *schema} - {EACH, ""}


def _is_in(name: str, columns: Iterable[str]) -> bool:
    """Whether a decision about the schema is about one of these columns, a field of it, or all."""
    return name in ("", EACH) or any(f"{name}.".startswith(f"{each}.") for each in columns)


def restored(head: Snapshot, source: Snapshot, message: str) -> Stage:
    """The state ``source`` of the same branch after its newest version."""
    stage = Stage(head, message=message)
    stage.commit(restoring(head, source), CommitPolicy(serializable=True))
    return stage


def clear(head: Snapshot, fork: Version) -> None:
    """Return a table to an older version, as a new one."""
    source = load_snapshot(head.location, version=fork)
    mine, theirs = head.manifest, source.manifest
    is_same = content_digest(mine.message) == content_digest(theirs.message)
    if not is_same or not same_indices(mine, theirs):
        transaction = restoring(head, source, message="what was given up goes")
        commit(head.location, head.manifest, head.scheme, transaction)


def judge_published(main: Location, work: BranchWork, runner: Runner) -> NextState | None:
    """The work of a branch, judged against the newest version of its target; None if it changes
    nothing. Raises ConflictError."""
    publication, newest = prepare(main, work, runner)
    return _planned(newest, publication)


def judge_repeated(
    main: Location, work: BranchWork, head: Snapshot, runner: Runner
) -> NextState | None:
    """A part of a branch's work, judged against a version with the content that the part began
    with; None if it changes nothing. Raises ConflictError."""
    return _planned(head, prepare_again(main, work, head, runner))


def _planned(head: Snapshot, publication: Publication | None) -> NextState | None:
    if publication is None:
        return None
    publication.plan(head.manifest)
    return NextState(head, publication)
