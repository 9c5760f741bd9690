"""``lw conflicts`` and ``lw resolve``: rows that a merge would leave to decide, and decisions.

Also how every command that merges rows ends where conflicts are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import typer

import lancewood as lw
from lancewood.cli.merge_options import ConflictOptions, Deciding
from lancewood.cli.output import counted, note, paged
from lancewood.cli.repository.names import InRepository
from lancewood.cli.repository.showing import Author, Into, Merging, plain
from lancewood.cli.showing import note_stale
from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.repo import decisions_ref
from lancewood.table import Conflicts

_SAID = {
    "update/update": "changed on both sides",
    "update/delete": "changed here and deleted there",
    "delete/update": "deleted here and changed there",
    "insert/insert": "inserted on both sides",
    "key": "given the primary key that another row got on the other side",
}
_OF_CELLS = ("update/update", "insert/insert")
_UNCHANGED = ", and nothing has changed"
_NO_CONFLICT = "no row is in conflict"


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
            note(f"{plain(table)}: {_in_words(each)}")
        note_stale(conflict.facts["stale"])
        what, _, way_out = conflict.message.partition(_UNCHANGED)
        way_out = way_out.rpartition("; ")[2]
        count = counted(conflict.facts["conflicts"], "conflict")
        said = f"{what}{_UNCHANGED}: {count} in {counted(len(found), 'table')}. {way_out}"
        raise MergeConflictError(said, **conflict.facts) from conflict


def _in_words(found: Mapping[str, Any]) -> str:
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
        output = here.output
        with paged(output, is_text=asked.kind is None):
            count = sum(asked.show(each, output, title) for title, each in found.items())
        if not found:
            here.note(_NO_CONFLICT)
        kept = _kept(repo, name, into, table) if verb == "merge" else ()
        asked.note_stale(found.values(), facts["resolve"], kept)
    asked.end([count])


def _kept(repo: lw.Repository, name: str, into: str | None, table: str | None) -> Iterator[str]:
    """The conflicts that decisions were kept for."""
    for other, decisions in repo.decisions(name, branch=into).items():
        if table in (None, other):
            yield from (row.conflict for each in decisions for row in each.rows)


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
        if list_them:
            _list(repo, name, into, here)
        elif forget:
            _forget(repo, name, into, here)
        else:
            assert table is not None
            _decide(repo, name, table, into, author, decide, here)


def _decide(
    repo: lw.Repository,
    name: str,
    table: str,
    into: str | None,
    author: str | None,
    decide: Keeping,
    here: InRepository,
) -> None:
    """Keep a decision; one that does not fit the table is refused before."""
    found = repo.conflicts(name, table=table, branch=into)
    if table not in found:
        raise InvalidInputError(
            f"a merge of {name!r} has nothing to decide about table {table!r}: lw conflicts "
            f"{name} shows what it has",
            table=table,
        )
    find = partial(repo.conflicts, name, table=table, branch=into)
    resolve = decide.resolve(lambda rules: find(resolve=rules))
    if decide.where is None:
        _left(repo.conflicts(name, table=table, branch=into, resolve=resolve)[table])
    commit = repo.resolve(name, table, resolve, where=decide.where, branch=into, author=author)
    left = _left(repo.conflicts(name, table=table, branch=into)[table])
    target = into or repo.head.branch or ""
    facts = {"branch": target, "merging": name, "table": table, "hash": commit, "left": left}
    said = "columns are left to decide" if left is None else _said_left(left)
    ref = decisions_ref(target, name)
    here.output.document(facts, f"{plain(table)}: {said}; git log {ref} shows what was decided")


def _left(found: Conflicts) -> int | None:
    """How many conflicts are left; None if columns are to be decided first."""
    return None if found.columns else found.count()


def _said_left(left: int) -> str:
    if not left:
        return "all conflicts are decided"
    return f"{counted(left, 'conflict')} {'is' if left == 1 else 'are'} left"


def _list(repo: lw.Repository, name: str, into: str | None, here: InRepository) -> None:
    found = repo.decisions(name, branch=into)
    rows = [(table, each) for table, all_of_it in found.items() for each in all_of_it]
    if not rows and not here.json:
        note("nothing was decided")
        return
    shown = ((table, each.encode() if here.json else str(each)) for table, each in rows)
    here.output.rows(("table", "decision"), shown)


def _forget(repo: lw.Repository, name: str, into: str | None, here: InRepository) -> None:
    was_any = repo.forget_decisions(name, branch=into)
    target = into or repo.head.branch
    facts = {"branch": target, "merging": name, "forgotten": was_any}
    about = f"about merging {plain(name)} into {target}"
    text = f"forgot what was decided {about}" if was_any else f"nothing was decided {about}"
    here.output.document(facts, text)
