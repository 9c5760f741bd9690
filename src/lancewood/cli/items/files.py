"""``lw items files``: the files of every item."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.items.every import Every, Folder
from lancewood.cli.output import Output, size
from lancewood.cli.repository import words
from lancewood.cli.repository.telling import short
from lancewood.repo.items.looking import CONTENTS, contents_of

_KEYS = tuple(each for each in CONTENTS if each != "content")


def command(folder: Folder, revision: words.Revision = "HEAD", json: options.Json = False) -> None:
    """List the files of every item at a revision.

    JSON lines with keys: item, path, commit, hash, mode, size.
    """
    every = Every(folder, "listing files", json=json)
    found = every.rows(lambda git, item: contents_of(git, item, revision, _KEYS))
    if json:
        Output(as_json=True).rows(_KEYS, ([row[key] for key in _KEYS] for row in found))
    else:
        Output(as_json=False).rows(
            ("item", "path", "size", "hash"),
            ([row["item"], row["path"], size(row["size"]), short(row["hash"])] for row in found),
        )
    every.check()
