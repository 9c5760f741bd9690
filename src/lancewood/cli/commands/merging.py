"""``lw merge``, ``cherry-pick``, ``revert`` and ``reset``, ``lw conflicts`` and ``resolve``, and
``lw table merge-branch``, ``conflicts`` and ``publish``: bringing work to a branch, or undoing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.conflicts import ConflictOptions, Deciding, MergeOptions, note_all, note_stale
from lancewood.cli.output import UNCHANGED, counted, note, picked
from lancewood.cli.repository import (
    Adopt,
    Author,
    InRepository,
    Into,
    Merging,
    Messages,
    OnBranch,
    OneRevision,
    Revision,
    committed_facts,
    committed_text,
    in_words,
    one_line,
    paragraphs,
    plain,
    short,
    stat_lines,
    taken_in_lines,
)
from lancewood.cli.tables import Planned, TableOptions, counts_of, stands
from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.repo import Committed, Hash, decisions_ref
from lancewood.table import MAIN, Conflicts

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
    stay = "which stay as they are: lw table index create and drop change them"
    _replay("revert", "revert {} on {}", revision, stay, decide, move, author=author)


def cherry_pick_command(revision: OneRevision, *, decide: MergeOptions, move: Moving) -> None:
    """Do again what a commit did, as a new commit.

    Each table that the commit changed gets the content it has there, where it is still what it was
    before that commit. Where it differs, the rows and cells that the commit changed are changed
    here; if the same was changed here, the command ends with 16, and nothing is done unless the
    options decide: --theirs is what the commit made, --ours what is here.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done, dry_run, rows, stale,
    uncovered_indices, left_out_indices.
    """
    stay = "which are built anew: lw table index create"
    _replay("cherry_pick", "pick {} for {}", revision, stay, decide, move)


def _replay(
    verb: Literal["revert", "cherry_pick"],
    what: str,
    revision: str,
    stay: str,
    decide: MergeOptions,
    move: Moving,
    **more: Any,
) -> None:
    """Do what a commit did again, or back. ``stay`` says what to do about indices, which no verb
    brings along."""
    with move.repository() as repo, conflicts_told(move):
        facts = decide.facts(lambda rules: repo.conflicts(revision, resolve=rules, verb=verb))
        done: Committed = getattr(repo, verb)(revision, **more, **facts, **move.facts)
        if done.is_dry_run and done.is_new:
            text = _planned(done, what.format(revision, done.branch))
        elif done.is_new:
            text = committed_text(repo, done)
        else:
            text, changes = "nothing to commit, tables clean", repo.show(revision).changes
            if any(e.added_indices or e.removed_indices or e.changed_indices for e in changes):
                text = f"nothing to commit: {revision} changed indices, {stay}"
        move.output.document(_merged_facts(done), text)
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


def _planned(done: Committed, what: str) -> str:
    rows = {name: f" ({in_words(each)})" for name, each in done.merged}
    tables = ", ".join(f"{each}{rows.get(each, '')}" for each in done.tables)
    return f"would {what}: {tables or 'no table'}; {UNCHANGED}"


def _facts(done: Committed) -> dict[str, Any]:
    how = {name: each.value for name, each in done.done}
    return {**committed_facts(done), "done": how, "dry_run": done.is_dry_run}


def _merged_facts(done: Committed) -> dict[str, Any]:
    return {
        **_facts(done),
        "rows": {name: picked(each, *_COUNTED) for name, each in done.merged},
        "stale": done.stale,
        "uncovered_indices": dict(done.uncovered_indices),
        "left_out_indices": dict(done.left_out_indices),
    }


_SAID = {
    "update/update": "changed on both sides",
    "update/delete": "changed here and deleted there",
    "delete/update": "deleted here and changed there",
    "insert/insert": "inserted on both sides",
    "key": "given the primary key that another row got on the other side",
}
_OF_CELLS = ("update/update", "insert/insert")
_UNCHANGED = ", and nothing has changed"


@contextmanager
def conflicts_told(here: InRepository) -> Iterator[None]:
    """Tell of conflicts of rows in a line for each table, before the error that names them all."""
    try:
        yield
    except MergeConflictError as conflict:
        found: Mapping[str, Mapping[str, Any]] = conflict.facts.get("by_table", {})
        if here.json or not found or not all("kinds" in each for each in found.values()):
            raise
        for table, each in found.items():
            note(f"{plain(table)}: {_conflicts_in_words(each)}")
        note_stale(conflict.facts["stale"])
        what, _, way_out = conflict.message.partition(_UNCHANGED)
        way_out = way_out.rpartition("; ")[2]
        count = counted(conflict.facts["conflicts"], "conflict")
        said = f"{what}{_UNCHANGED}: {count} in {counted(len(found), 'table')}. {way_out}"
        raise MergeConflictError(said, **conflict.facts) from conflict


def _conflicts_in_words(found: Mapping[str, Any]) -> str:
    """The conflicts of a table by what the sides did, and their cells by column."""
    kinds = sorted(found["kinds"].items(), reverse=True)
    columns = ", ".join(f"{name} {count:,}" for name, count in found.get("columns", {}).items())
    of_cells = [kind for kind, _ in kinds if kind in _OF_CELLS]
    parts = []
    for kind, number in kinds:
        verb = "was" if number == 1 else "were"
        where = f" ({columns})" if columns and of_cells[-1:] == [kind] else ""
        parts.append(f"{counted(number, 'row')} {verb} {_SAID.get(kind, kind)}{where}")
    return ", ".join(parts)


def conflicts_command(
    name: Merging,
    into: Into = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="Only those of this table.")
    ] = None,
    cherry_pick: Annotated[
        bool,
        typer.Option("--cherry-pick", help="Those of lw cherry-pick REVISION, not of a merge."),
    ] = False,
    revert: Annotated[
        bool, typer.Option("--revert", help="Those of lw revert REVISION, not of a merge.")
    ] = False,
    *,
    asked: ConflictOptions,
    here: InRepository,
) -> None:
    """Show the rows that a merge, a cherry-pick or a revert would leave to decide.

    One line for each cell that both sides changed, with its value in the base, here and there.
    Nothing is changed. What lw resolve kept is decided already, and so is what the options decide.
    Columns in conflict are shown instead of rows, until --schema decides them. A file, by -o or
    --format, is for the conflicts of one table; -n counts for each table.

    JSON lines with keys: table, _conflict, _kind, _rowid, _columns, base, ours, theirs; where there
    is a primary key it is key, before base. Of columns table, column, kind, ours, theirs; with -o
    one document with file, format, conflicts.
    """
    asked.check(as_json=here.json)
    if cherry_pick and revert:
        raise typer.BadParameter("--cherry-pick and --revert do not go together")
    verb: Literal["merge", "cherry_pick", "revert"] = "revert" if revert else "merge"
    verb = "cherry_pick" if cherry_pick else verb
    with here.repository() as repo:
        find = partial(repo.conflicts, name, table=table, branch=into, verb=verb)
        facts = asked.facts(lambda rules: find(resolve=rules))
        found = find(**facts)
        if asked.kind is not None:
            found = _one_table(found, table)
        kept = repo.decisions(name, branch=into) if verb == "merge" else {}
        of_rows = [
            row.conflict
            for other, decisions in kept.items()
            if table in (None, other)
            for each in decisions
            for row in each.rows
        ]
        asked.show_all(found, here.output, facts["resolve"], of_rows)


def _one_table(found: dict[str, Conflicts], table: str | None) -> dict[str, Conflicts]:
    """The conflicts that go into a file; raises BadParameter if they are of several tables."""
    if table is not None or len(found) < 2:
        return found
    some = {name: each for name, each in found.items() if each.count()}
    if len(some) > 1:
        raise typer.BadParameter(
            f"a file has the conflicts of one table: say --table {', or '.join(some)}"
        )
    return some


@dataclass(frozen=True, kw_only=True)
class Keeping(Deciding):
    """What is decided, and about which conflicts."""

    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="SQL",
            help="Take --ours, --theirs or --base for such conflicts alone: 'ours.id = 3', "
            "\"_kind = 'delete/update'\".",
        ),
    ] = None


def resolve_command(
    name: Merging,
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="The table whose conflicts are decided."),
    ] = None,
    into: Into = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show what was decided, and decide nothing.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget all that was decided about this merge.")
    ] = False,
    author: Author = None,
    *,
    decide: Keeping,
    here: InRepository,
) -> None:
    """Decide conflicts of a merge, and keep that until it is done.

    A decision is a commit on refs/lancewood/merges/INTO/NAME, which git log shows: who decided
    what, and when. Several people may decide, each a part, and the next lw merge uses all of it; of
    two decisions on the same conflict the later one counts. A decision on a row that has changed
    since decides nothing.

    JSON keys: branch, merging, table, hash, left. With --list JSON lines with table, decision; with
    --forget one document with branch, merging, forgotten.
    """
    if list_them and forget:
        raise typer.BadParameter("--list and --forget do not go together")
    if (list_them or forget) and (table is not None or decide.is_any or decide.where):
        raise typer.BadParameter("--list and --forget decide nothing: leave the rest out")
    if not (list_them or forget) and (table is None or not decide.is_any):
        raise typer.BadParameter(
            "say which TABLE, and how its conflicts are decided: --ours, --theirs, --rule, …"
        )
    with here.repository() as repo:
        target = into or repo.head.branch or ""
        if list_them:
            kept = repo.decisions(name, branch=into)
            rows = [(table, each) for table, some in kept.items() for each in some]
            if not rows and not here.json:
                note("nothing was decided")
                return
            shown = ((table, each.encode() if here.json else str(each)) for table, each in rows)
            here.output.rows(("table", "decision"), shown)
        elif forget:
            was_any = repo.forget_decisions(name, branch=into)
            facts = {"branch": target, "merging": name, "forgotten": was_any}
            about = f"about merging {plain(name)} into {target}"
            said = f"forgot what was decided {about}"
            here.output.document(facts, said if was_any else f"nothing was decided {about}")
        else:
            assert table is not None
            left, commit = _decide(repo, name, table, into, author, decide)
            facts = {"branch": target, "merging": name, "table": table, "hash": commit}
            said = "columns are left to decide"
            if left is not None:
                said = f"{counted(left, 'conflict')} {'is' if left == 1 else 'are'} left"
            said = said if left != 0 else "all conflicts are decided"
            ref = decisions_ref(target, name)
            text = f"{plain(table)}: {said}; git log {ref} shows what was decided"
            here.output.document({**facts, "left": left}, text)


def _decide(
    repo: lw.Repository,
    name: str,
    table: str,
    into: str | None,
    author: str | None,
    decide: Keeping,
) -> tuple[int | None, Hash]:
    """Keep a decision, and say how many conflicts are left, and which commit has it. A decision
    that does not fit the table is refused before."""
    find = partial(repo.conflicts, name, table=table, branch=into)
    if table not in find():
        raise InvalidInputError(
            f"a merge of {name!r} has nothing to decide about table {table!r}: lw conflicts "
            f"{name} shows what it has",
            table=table,
        )
    resolve = decide.resolve(lambda rules: find(resolve=rules))
    if decide.where is None:
        _left(find(resolve=resolve)[table])
    commit = repo.resolve(name, table, resolve, where=decide.where, branch=into, author=author)
    return _left(find()[table]), commit


def _left(found: Conflicts) -> int | None:
    """How many conflicts are left; None if columns are to be decided first."""
    return None if found.columns else found.count()


WorkOn: TypeAlias = Annotated[
    str, typer.Argument(metavar="BRANCH", help="The branch whose work is merged.")
]
IntoBranch: TypeAlias = Annotated[
    str | None,
    typer.Option("--into", metavar="NAME", help="The branch that gets it; as in URI@NAME."),
]


def table_merge_branch_command(
    uri: options.Uri,
    name: WorkOn,
    into: IntoBranch = None,
    *,
    decide: MergeOptions,
    write: Planned,
) -> None:
    """Merge the work on a branch into another one, by rows.

    Any branch goes into any other, as often as you like, as one version. Different rows, and
    different cells of one row, are put together. Where both changed the same cell, or one deleted
    what the other changed, the command ends with 16 and nothing has changed: conflicts shows them,
    and the options decide them, the first that says something about one. The branch stays as it is.

    JSON keys: uri, version, branch, dry_run, branch_version, into, bases, merged, fast_forward,
    inserted, updated, deleted, rewritten, joined, resolved, stale, adopted_files, written_rows,
    uncovered_indices, left_out_indices.
    """
    table = write.to_write(uri, is_main_meant=into is not None)
    facts = decide.facts(lambda rules: {uri: table.branches.conflicts(name, into, resolve=rules)})
    after = write.run(table.branches.merge, name, into, **facts)
    counts, target = counts_of(after, lw.Merged), after.branch or MAIN
    text = f"{target} has all of {name} already: {stands(after)}"
    if counts.is_new:
        came = "as it is" if counts.is_fast_forward else in_words(counts)
        what = f"version {counts.branch_version} of {name} into {target}: {came}"
        text = write.outcome("merge", "merged", f"{what}; {stands(after)}")
    write.answer(
        after,
        text,
        **picked(counts, "branch", "branch_version"),
        into=target,
        bases=counts.bases,
        merged=counts.is_new,
        fast_forward=counts.is_fast_forward,
        **picked(counts, *_COUNTED, "stale", "adopted_files", "written_rows"),
        **picked(counts, "uncovered_indices", "left_out_indices"),
    )
    note_all(counts.notes)


def table_conflicts_command(
    uri: options.Uri,
    name: WorkOn,
    into: IntoBranch = None,
    *,
    asked: ConflictOptions,
    given: TableOptions,
) -> None:
    """Show the rows that a merge of a branch would leave to decide.

    One line for each cell that both sides changed, with its value in the base, here and on the
    branch. Nothing is changed. With options that decide conflicts, those that are left. Columns in
    conflict are shown instead of rows, until --schema decides them.

    JSON lines with keys: _conflict, _kind, _rowid, _columns, base, ours, theirs; where there is a
    primary key it is key, before base. Of columns column, kind, ours, theirs; with -o one document
    with file, format, conflicts.
    """
    asked.check(as_json=given.json)
    branches = given.opened(uri).branches
    facts = asked.facts(lambda rules: {uri: branches.conflicts(name, into, resolve=rules)})
    found = branches.conflicts(name, into, **facts)
    asked.show_all({None: found}, given.output, facts["resolve"])


def table_publish_command(
    uri: options.Uri,
    name: Annotated[
        str | None,
        typer.Argument(metavar="BRANCH", help="The branch to publish; as in URI@BRANCH."),
    ] = None,
    onto: Annotated[
        str | None,
        typer.Option("--onto", metavar="NAME", help="Make sure that this is the branch's parent."),
    ] = None,
    by_reference: Annotated[
        bool,
        typer.Option(
            "--by-reference",
            help="Leave files below the branch where they are; a tag then keeps the branch.",
        ),
    ] = False,
    *,
    write: Planned,
) -> None:
    """Bring the work on a branch to the branch it was made from.

    It becomes one version there, beside whatever others did meanwhile; where the two do not go
    together it is refused, and nothing has changed. The branch is closed afterwards: branch --reset
    opens it again, and branch --delete removes it. If it is cut off, run it again. --dry-run tells
    whether it would be refused.

    JSON keys: uri, version, branch, dry_run, branch_version, onto, published, fast_forward,
    adopted_files, left_out_indices.
    """
    table = write.to_write(uri, is_main_meant=name is not None)
    name = table.branch if name is None else name
    if name is None:
        raise typer.BadParameter("say which branch: BRANCH, or URI@BRANCH")
    after = write.run(table.branches.publish, name, onto, adopt=not by_reference)
    counts, target = counts_of(after, lw.Published), after.branch or MAIN
    text = f"{target} has all of {name} already: {stands(after)}"
    if counts.is_new:
        how = "as it is" if counts.is_fast_forward else "beside what others did"
        what = f"version {counts.branch_version} of {name} onto {target}, {how}: {stands(after)}"
        text = write.outcome("publish", "published", what)
    write.answer(
        after,
        text,
        **picked(counts, "branch", "branch_version"),
        onto=target,
        published=counts.is_new,
        fast_forward=counts.is_fast_forward,
        **picked(counts, "adopted_files", "left_out_indices"),
    )
    note_all(counts.notes)
