"""The group ``lw items``: which commands it has, and where each of them lives."""

from __future__ import annotations

from typing import ClassVar

from lancewood.cli.lazy import Entry, LazyGroup, new_app

_HOME = "lancewood.cli.items"


class ItemsGroup(LazyGroup):
    """The commands on all repositories below a folder."""

    entries: ClassVar[dict[str, Entry]] = {
        "refs": Entry(f"{_HOME}.refs", "List HEAD, branches and tags of every item."),
        "log": Entry(f"{_HOME}.log", "Show the commits of every item, newest first."),
        "files": Entry(f"{_HOME}.files", "List the files of every item at a revision."),
        "tag": Entry(f"{_HOME}.tag", "Tag every item at a revision."),
    }
    known_as: ClassVar[dict[str, str]] = {
        "history": "log",
        "contents": "files",
        "ls": "files",
        "ls-files": "files",
        "branch": "refs",
        "branches": "refs",
        "tags": "refs",
    }


group = new_app(
    ItemsGroup,
    help="Look at, and tag, all small repositories below a folder.",
    no_args_is_help=True,
    add_completion=False,
)


@group.callback()
def items() -> None:
    """Look at, and tag, all small repositories below a folder."""
