"""``lw merge``, ``cherry-pick``, ``revert``, ``reset``: adding work to a branch, or undoing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.merge_options import MergeOptions
from lancewood.cli.output import UNCHANGED
from lancewood.cli.repository.deciding import conflicts_told
from lancewood.cli.repository.names import InRepository
from lancewood.cli.repository.showing import (
    Adopt,
    Author,
    Into,
    Merging,
    Messages,
    OnBranch,
    OneRevision,
    Revision,
    committed_facts,
    committed_text,
    one_line,
    paragraphs,
    short,
    stat_lines,
    taken_in_lines,
)
from lancewood.cli.showing import in_words, note_all
from lancewood.repo import Committed, Hash

_COUNTED = ("inserted", "updated", "deleted", "rewritten", "joined", "resolved")


@dataclass(frozen=True, kw_only=True)
class Moving(InRepository):
    """The options of a command that brings a branch to another state, or plans to."""

    branch: OnBranch = None
    dry_run: options.DryRun = False

    @property
    def facts(self) -> dict[str, Any]:
        return {"branch": self.branch, "dry_run": self.dry_run}


def merge_command(
    name: Merging,
    into: Into = None,
    message: Messages = None,
    author: Author = None,
    adopt: Adopt = False,
    dry_run: options.DryRun = False,
    *,
    decide: MergeOptions,
    here: InRepository,
) -> None:
    """Bring the work of a branch into the current one.

    Tables that only one side changed are taken as they are there; of those that both changed,
    different rows, and different cells of one row, are put together. Where both changed the same
    cell, or one deleted what the other changed, the command ends with 16, all tables are named, and
    nothing is changed: nothing is left half merged, and there is nothing to abort. lw conflicts
    shows such rows; the options decide them, for all tables, and lw resolve does so beforehand.

    What was written directly to a table that is merged into, and not committed, becomes part of
    the merge, and is named.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done, dry_run, rows, stale,
    uncovered_indices, left_out_indices, merged, fast_forward. In done each table has how it came:
    published, taken, restored, removed, merged. In rows each one that was merged by rows has
    inserted, updated, deleted, rewritten, joined, resolved; stale are decisions on conflicts that
    are not there; what taken_in names has table, versions, message. By table, uncovered_indices do
    not cover what came, and left_out_indices are those of the branch that have to be built here.
    """
    with here.repository() as repo, conflicts_told(here):
        target = into or repo.head.branch
        before = repo.branches.list().get(target) if target else None
        theirs = repo.at(name).hash
        facts = decide.facts(lambda rules: repo.conflicts(name, branch=into, resolve=rules))
        done = repo.merge(
            name,
            branch=into,
            message=paragraphs(message),
            author=author,
            adopt=adopt,
            dry_run=dry_run,
            **facts,
        )
        moved = done.is_new and done.hash == theirs
        summary = _merged_text(repo, done, name, before, is_moved=moved)
        here.output.document(
            {**_merged_facts(done), "merged": name, "fast_forward": moved}, summary
        )
        note_all(done.notes)


def _merged_text(
    repo: lw.Repository,
    done: Committed,
    name: str,
    before: Hash | None,
    *,
    is_moved: bool,
) -> str:
    if not done.is_new:
        return "Already up to date."
    if done.is_dry_run:
        return _planned(done, f"merge {name} into {done.branch}")
    assert done.hash is not None
    if is_moved:
        first = [f"Updating {short(before)}..{short(done.hash)}", "Fast-forward"]
    else:
        how = "by rows" if done.merged else "by publishing"
        first = [f"Merge made {how}: {short(done.hash)}"]
    changes = repo.show(done.hash).changes if before is None else repo.diff(before, done.hash)
    return "\n".join([*first, *stat_lines(changes, dict(done.merged)), *taken_in_lines(done)])


def revert_command(
    revision: OneRevision, author: Author = None, *, decide: MergeOptions, move: Moving
) -> None:
    """Take back what a commit did, as a new commit.

    Each table that the commit changed gets the content it had before, where it is still what the
    commit made of it. Where it was changed since, the rows and cells that the commit changed are
    changed back; if later commits changed the same, the command ends with 16, and nothing is done
    unless the options decide: --theirs is what was before the commit, --ours what is here now.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done, dry_run, rows, stale,
    uncovered_indices, left_out_indices.
    """
    with move.repository() as repo, conflicts_told(move):
        facts = decide.facts(lambda rules: repo.conflicts(revision, resolve=rules, verb="revert"))
        done = repo.revert(revision, author=author, **facts, **move.facts)
        stay = "which stay as they are: lw table index create and drop change them"
        summary = _text(repo, done, f"revert {revision} on {done.branch}", revision, stay)
        move.output.document(_merged_facts(done), summary)
        note_all(done.notes)


def cherry_pick_command(revision: OneRevision, *, decide: MergeOptions, move: Moving) -> None:
    """Do again what a commit did, as a new commit.

    Each table that the commit changed gets the content it has there, where it is still what it was
    before that commit. Where it differs, the rows and cells that the commit changed are changed
    here; if the same was changed here, the command ends with 16, and nothing is done unless the
    options decide: --theirs is what the commit made, --ours what is here.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done, dry_run, rows, stale,
    uncovered_indices, left_out_indices.
    """
    with move.repository() as repo, conflicts_told(move):
        facts = decide.facts(
            lambda rules: repo.conflicts(revision, resolve=rules, verb="cherry_pick")
        )
        done = repo.cherry_pick(revision, **facts, **move.facts)
        stay = "which are built anew: lw table index create"
        summary = _text(repo, done, f"pick {revision} for {done.branch}", revision, stay)
        move.output.document(_merged_facts(done), summary)
        note_all(done.notes)


def reset_command(
    revision: Revision = "HEAD",
    soft: Annotated[
        bool, typer.Option("--soft", help="Move the branch only, and leave tables as they are.")
    ] = False,
    hard: Annotated[
        bool, typer.Option("--hard", help="What is done without --soft, for fingers used to git.")
    ] = False,
    *,
    move: Moving,
) -> None:
    """Put the branch and its tables back to a commit.

    Each table that differs gets a new version with the content of that commit: numbers only grow,
    and older versions stay. lw reflog shows where the branch was.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done, dry_run.
    """
    if soft and hard:
        raise typer.BadParameter("--soft and --hard do not go together")
    with move.repository() as repo:
        done = repo.reset(revision, soft=soft, **move.facts)
        assert done.hash is not None
        name = "HEAD" if done.branch == repo.head.branch else done.branch
        summary = f"{name} is now at {one_line(repo.at(done.hash).commit)}"
        if move.dry_run:
            summary = _planned(done, f"reset {done.branch} to {short(done.hash)}")
        move.output.document(_facts(done), summary)


def _text(repo: lw.Repository, done: Committed, what: str, revision: str, stay: str) -> str:
    if not done.is_new:
        changes = repo.show(revision).changes
        if any(e.added_indices or e.removed_indices or e.changed_indices for e in changes):
            return f"nothing to commit: {revision} changed indices, {stay}"
        return "nothing to commit, tables clean"
    return _planned(done, what) if done.is_dry_run else committed_text(repo, done)


def _planned(done: Committed, what: str) -> str:
    rows = {name: f" ({in_words(each)})" for name, each in done.merged}
    tables = ", ".join(f"{each}{rows.get(each, '')}" for each in done.tables)
    return f"would {what}: {tables or 'no table'}; {UNCHANGED}"


def _facts(done: Committed) -> dict[str, Any]:
    how = {name: each.value for name, each in done.done}
    return {**committed_facts(done), "done": how, "dry_run": done.is_dry_run}


def _merged_facts(done: Committed) -> dict[str, Any]:
    rows = {name: {word: getattr(each, word) for word in _COUNTED} for name, each in done.merged}
    return {
        **_facts(done),
        "rows": rows,
        "stale": done.stale,
        "uncovered_indices": {name: list(each) for name, each in done.uncovered_indices},
        "left_out_indices": {name: list(each) for name, each in done.left_out_indices},
    }
