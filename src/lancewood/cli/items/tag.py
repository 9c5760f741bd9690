"""``lw items tag``: one tag in every item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.items.every import Every, Folder
from lancewood.cli.output import Output, counted
from lancewood.cli.repository import words
from lancewood.git.repository import GitRepository
from lancewood.repo.identity import author_here
from lancewood.repo.items.outcome import Done, Outcome, Tally
from lancewood.repo.items.tagging import tag_item
from lancewood.repo.ref_names import tag_ref


def command(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag.")],
    revision: words.Revision = "HEAD",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Move tags that are elsewhere.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Tag every item at a revision.

    Done again it changes nothing. An item whose tag is elsewhere is told on stderr and left as it
    is, and the command fails when all others are tagged.

    JSON keys: tag, items, tagged, moved, unchanged, refused.
    """
    tag_ref(name)
    by, tally, every = author_here(), Tally(), Every(folder, f"tagging {name!r}", json=json)

    def tagged(git: GitRepository, item: str) -> Iterator[Outcome]:
        yield tag_item(git, item, name, revision, by, force=force)

    for each in every.rows(tagged, fsync=None):
        tally.add(each)
    made, moved, same = tally[Done.WRITTEN], tally[Done.MOVED], tally[Done.UNCHANGED]
    refused = every.tally[Done.REFUSED]
    document = {
        "tag": name,
        "items": every.tally.items,
        "tagged": made,
        "moved": moved,
        "unchanged": same,
        "refused": refused,
    }
    told = [f"tagged {counted(made, 'item')} {name}"]
    told += [f"{number} {how}" for number, how in _others(moved, same, refused) if number]
    Output(as_json=json).document(document, ", ".join(told))
    every.check()


def _others(moved: int, same: int, refused: int) -> tuple[tuple[int, str], ...]:
    return (moved, "moved"), (same, "had it already"), (refused, "refused")
