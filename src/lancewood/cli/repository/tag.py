"""``lw tag``: names for commits that stay where they are."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options, ref_options
from lancewood.cli.output import Output
from lancewood.cli.ref_options import LIST, NEW, check_fits, chosen_verb
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import short

_DELETE = "--delete"
_KEYS = ("name", "hash")


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [REVISION]",
            help="The tag to make, and the commit it names: HEAD if left out. Without a NAME tags "
            "are listed.",
        ),
    ] = None,
    delete: Annotated[bool, typer.Option(_DELETE, "-d", help="Delete tags.")] = False,
    pattern: ref_options.Pattern = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List, make or delete tags.

    A tag also tags the versions of the tables, so that no cleanup removes them, pylance's
    neither. A tag does not move: delete it first.

    JSON lines with keys: name, hash. A change is told with action, tag and hash.
    """
    given = names or []
    verb = chosen_verb({_DELETE: delete}, given)
    check_fits(verb, {"--list": (pattern is not None, [LIST])})
    output = Output(as_json=json)
    with repository(storage_option) as repo:
        if verb == LIST:
            found = repo.tags.list()
            chosen = list(ref_options.matching({name: name for name in found}, pattern))
            if json:
                output.rows(_KEYS, ((name, found[name]) for name in chosen))
            else:
                print("".join(f"{name}\n" for name in chosen), end="")
        elif verb == NEW:
            if len(given) > 2:
                raise typer.BadParameter(f"give a NAME and a REVISION, not {len(given)} words")
            made = repo.tags.create(*given)
            told = f"tag {given[0]} is {short(made)}"
            output.document({"action": "created", "tag": given[0], "hash": made}, told)
        else:
            known = repo.tags.list()
            for each in given:
                was = known.get(each)
                repo.tags.delete(each)
                told = f"Deleted tag '{each}' (was {short(was)})"
                output.document({"action": "deleted", "tag": each, "hash": was}, told)
