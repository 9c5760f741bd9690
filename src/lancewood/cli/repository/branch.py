"""``lw branch``: lines of commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options, ref_options
from lancewood.cli.output import Output, aligned
from lancewood.cli.ref_options import LIST, NEW, check_fits, chosen_verb
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import short, subject

_DELETE = "--delete"
_KEYS = ("name", "hash", "current")


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [REVISION]",
            help="The branch to make, and where it begins: at HEAD if left out. Without a NAME "
            "branches are listed.",
        ),
    ] = None,
    delete: Annotated[
        bool, typer.Option(_DELETE, "-d", help="Delete branches that are part of others.")
    ] = False,
    force_delete: Annotated[
        bool, typer.Option("-D", help="Delete branches, with commits that no other has.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="With -d the same as -D.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List with the newest commit of each.")
    ] = False,
    show_current: Annotated[
        bool, typer.Option("--show-current", help="Print the name of the current branch.")
    ] = False,
    pattern: ref_options.Pattern = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List, make or delete branches.

    A branch costs one small file; tables get a branch of that name when they are first written
    there. A deleted branch's commits can be found in lw reflog until gc.

    JSON lines with keys: name, hash, current. A change is told with action, branch and hash.
    """
    given = names or []
    verb = chosen_verb({_DELETE: delete or force_delete}, given)
    check_fits(
        verb,
        {
            "--list": (pattern is not None, [LIST]),
            "--verbose": (verbose, [LIST]),
            "--show-current": (show_current, [LIST]),
            "--force": (force, [_DELETE]),
        },
    )
    output = Output(as_json=json)
    with repository(storage_option) as repo:
        if show_current:
            _show_current(repo, output)
        elif verb == LIST:
            _show(repo, output, pattern, verbose=verbose)
        elif verb == NEW:
            if len(given) > 2:
                raise typer.BadParameter(f"give a NAME and a REVISION, not {len(given)} words")
            made = repo.branches.create(*given)
            told = f"made branch {given[0]} at {short(made)}"
            output.document({"action": "created", "branch": given[0], "hash": made}, told)
        else:
            _delete(repo, output, given, force=force or force_delete)


def _show_current(repo: lw.Repository, output: Output) -> None:
    head = repo.head
    document = {"name": head.branch, "hash": head.hash, "current": True}
    if output.as_json or head.branch is not None:
        output.document(document, head.branch or "")


def _show(repo: lw.Repository, output: Output, pattern: str | None, *, verbose: bool) -> None:
    head = repo.head
    found = repo.branches.list()
    chosen = list(ref_options.matching({name: name for name in found}, pattern))
    if output.as_json:
        output.rows(_KEYS, ((name, found[name], name == head.branch) for name in chosen))
        return
    lines: list[list[str]] = []
    if head.branch is None and pattern is None:
        lines.append([f"* (HEAD detached at {short(head.hash)})", *_newest(repo, head.hash)])
    for name in chosen:
        mark = "*" if name == head.branch else " "
        lines.append([f"{mark} {name}", *(_newest(repo, found[name]) if verbose else ())])
    if not verbose:
        lines = [line[:1] for line in lines]
    width = len(lines[0]) if lines else 0
    for line in aligned(lines, [False] * width, [0] * width) if lines else ():
        print(line)


def _newest(repo: lw.Repository, commit: Any) -> Iterator[str]:
    yield short(commit)
    yield subject(repo.at(commit).commit.message)


def _delete(repo: lw.Repository, output: Output, names: list[str], *, force: bool) -> None:
    known = repo.branches.list()
    for each in names:
        was = known.get(each)
        repo.branches.delete(each, force=force)
        told = f"Deleted branch {each} (was {short(was)})."
        output.document({"action": "deleted", "branch": each, "hash": was}, told)
