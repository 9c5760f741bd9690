"""``lw items refs``: the refs of every item."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.items.every import Every, Folder
from lancewood.cli.output import Output
from lancewood.cli.repository.telling import short
from lancewood.repo.items.looking import REFS, refs_of


def command(folder: Folder, json: options.Json = False) -> None:
    """List HEAD, branches and tags of every item.

    An item is a folder with HEAD, refs and objects. One that cannot be read is told on stderr, and
    the command fails when all others are shown. Millions of items are read by
    lancewood.spark.items.

    JSON lines with keys: item, ref, kind, hash, commit, target, is_head.
    """
    every = Every(folder, "listing refs", json=json)
    found = every.rows(lambda git, item: refs_of(git, item, REFS))
    if json:
        Output(as_json=True).rows(REFS, ([row[key] for key in REFS] for row in found))
    else:
        Output(as_json=False).rows(
            ("item", "ref", "hash", "target"),
            ([row["item"], row["ref"], short(row["hash"]), row["target"] or ""] for row in found),
        )
    every.check()
