"""``lw branch``, ``lw switch`` and ``lw tag``: names for commits."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.options import LIST, NEW, chosen_verb
from lancewood.cli.output import Output, aligned
from lancewood.cli.repository import InRepository, one_line, paragraphs, short, subject

_DELETE = "--delete"
_BRANCH_KEYS = ("name", "hash", "current")
_TAG_KEYS = ("name", "hash")


def branch_command(
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
    pattern: options.Pattern = None,
    *,
    here: InRepository,
) -> None:
    """List, make or delete branches.

    A branch costs one small file; tables get a branch of that name when they are first written
    there. A deleted branch's commits can be found in lw reflog until gc.

    JSON lines with keys: name, hash, current. A change has action, branch and hash.
    """
    given = names or []
    verb = chosen_verb(
        {_DELETE: delete or force_delete},
        given,
        {
            "--list": (pattern is not None, [LIST]),
            "--verbose": (verbose, [LIST]),
            "--show-current": (show_current, [LIST]),
            "--force": (force, [_DELETE]),
        },
    )
    output = here.output
    with here.repository() as repo:
        if show_current:
            head = repo.head
            document = {"name": head.branch, "hash": head.hash, "current": True}
            if here.json or head.branch is not None:
                output.document(document, head.branch or "")
        elif verb == LIST:
            _list_branches(repo, output, pattern, verbose=verbose)
        elif verb == NEW:
            made = repo.branches.create(*_name_and_revision(given))
            _tell(
                output,
                "created",
                "branch",
                given[0],
                made,
                f"made branch {given[0]} at {short(made)}",
            )
        else:
            known = repo.branches.list()
            for name in given:
                repo.branches.delete(name, force=force or force_delete)
                was = known.get(name)
                _tell(
                    output,
                    "deleted",
                    "branch",
                    name,
                    was,
                    f"Deleted branch {name} (was {short(was)}).",
                )


def _list_branches(
    repo: lw.Repository, output: Output, pattern: str | None, *, verbose: bool
) -> None:
    head = repo.head
    found = repo.branches.list()
    chosen = list(options.matching({name: name for name in found}, pattern))
    if output.as_json:
        output.rows(_BRANCH_KEYS, ((name, found[name], name == head.branch) for name in chosen))
        return
    shown: list[tuple[str, Any]] = [
        (f"{'*' if name == head.branch else ' '} {name}", found[name]) for name in chosen
    ]
    if head.branch is None and pattern is None:
        shown.insert(0, (f"* (HEAD detached at {short(head.hash)})", head.hash))
    if not verbose:
        print("".join(f"{name}\n" for name, _ in shown), end="")
        return
    lines = [
        (name, short(commit), subject(repo.at(commit).commit.message)) for name, commit in shown
    ]
    for line in aligned(lines, [False] * 3, [0] * 3) if lines else ():
        print(line)


def switch_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The branch, or what -d names.")
    ] = None,
    revision: Annotated[
        str | None,
        typer.Argument(metavar="[REVISION]", help="With -c: where it begins. HEAD if left out."),
    ] = None,
    create: Annotated[bool, typer.Option("--create", "-c", help="Make the branch first.")] = False,
    detach: Annotated[
        bool,
        typer.Option("--detach", "-d", help="Name a commit and no branch: for reading only."),
    ] = False,
    *,
    here: InRepository,
) -> None:
    """Make another branch the current one.

    Nothing happens to tables: on each branch of the repository they have one of their own. So
    there is nothing to stash, and what was not committed stays where it was written.

    JSON keys: branch, hash.
    """
    if create and detach:
        raise typer.BadParameter("--create and --detach do not go together")
    if revision is not None and not create:
        raise typer.BadParameter("REVISION is for --create")
    if name is None and not detach:
        raise typer.BadParameter("which branch? lw branch lists them")
    with here.repository() as repo:
        before = repo.head
        if detach:
            head = repo.detach(name or "HEAD")
            summary = f"HEAD is now at {one_line(repo.at().commit)}"
        else:
            assert name is not None
            head = repo.switch(name, create=create, at=revision or "HEAD")
            summary = f"Switched to branch '{name}'"
            if create:
                summary = f"Switched to a new branch '{name}'"
            elif before.branch == name:
                summary = f"Already on '{name}'"
    here.output.document({"branch": head.branch, "hash": head.hash}, summary)


def tag_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [REVISION]",
            help="The tag to make, and the commit it names: HEAD if left out. Without a NAME tags "
            "are listed.",
        ),
    ] = None,
    delete: Annotated[bool, typer.Option(_DELETE, "-d", help="Delete tags.")] = False,
    message: Annotated[
        list[str] | None,
        typer.Option(
            "--message",
            "-m",
            metavar="TEXT",
            help="Annotate the tag, as git does. If repeated, each is a paragraph.",
        ),
    ] = None,
    pattern: options.Pattern = None,
    *,
    here: InRepository,
) -> None:
    """List, make or delete tags.

    A tag also tags the versions of the tables, so that no cleanup removes them, pylance's
    neither. A tag does not move: delete it first.

    JSON lines with keys: name, hash. A change has action, tag and hash.
    """
    given = names or []
    verb = chosen_verb(
        {_DELETE: delete},
        given,
        {"--list": (pattern is not None, [LIST]), "--message": (message is not None, [NEW])},
    )
    output = here.output
    with here.repository() as repo:
        if verb == LIST:
            found = repo.tags.list()
            chosen = list(options.matching({name: name for name in found}, pattern))
            if here.json:
                output.rows(_TAG_KEYS, ((name, found[name]) for name in chosen))
            else:
                print("".join(f"{name}\n" for name in chosen), end="")
        elif verb == NEW:
            made = repo.tags.create(*_name_and_revision(given), message=paragraphs(message))
            _tell(output, "created", "tag", given[0], made, f"tag {given[0]} is {short(made)}")
        else:
            known = repo.tags.list()
            for name in given:
                repo.tags.delete(name)
                was = known.get(name)
                text = f"Deleted tag '{name}' (was {short(was)})"
                _tell(output, "deleted", "tag", name, was, text)


def _name_and_revision(given: list[str]) -> list[str]:
    if len(given) > 2:
        raise typer.BadParameter(f"give a NAME and a REVISION, not {len(given)} words")
    return given


def _tell(output: Output, action: str, kind: str, name: str, commit: str | None, text: str) -> None:
    """Print what became of a branch or tag."""
    output.document({"action": action, kind: name, "hash": commit}, text)
