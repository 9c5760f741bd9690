"""``lw items`` and ``lw repo import-plain``: many small repositories below a folder.

Items are read one after the other. One that fails does not stop the others: people get a note about
it on stderr, and the command fails at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from lancewood.cli import options
from lancewood.cli.output import counted, moment, size
from lancewood.cli.repository import Author, Revision, short
from lancewood.errors import LancewoodError
from lancewood.items.folder import (
    CONTENTS,
    HISTORY,
    REFS,
    OpenedItem,
    contents_of,
    find_items,
    history_of,
    opened,
    path_on_disk,
    refs_of,
    tag_item,
)
from lancewood.items.outcome import ItemDone, ItemOutcome, Tally
from lancewood.items.plain.importing import FILE_NAME, import_plain
from lancewood.repo import HEADS, author_here, tag_ref

Folder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="What the items are below, at any depth.")
]
_FILES = tuple(each for each in CONTENTS if each != "content")
_TIMES = ("author_time", "commit_time")


class Every:
    """Goes through the items and counts the failures."""

    def __init__(self, folder: Path, what: str, given: options.Printing) -> None:
        self._folder = path_on_disk(folder, "a folder of items")
        self._what = what
        self._given = given
        self.tally = Tally()

    def rows(
        self, rows_of: Callable[[OpenedItem, str], Iterator[Any]], *, fsync: bool | None = False
    ) -> Iterator[Any]:
        """The rows of all items. For people, an item that fails gets a note on stderr."""
        for item in find_items(self._folder):
            try:
                with opened(self._folder, item, fsync=fsync) as git:
                    yield from rows_of(git, item)
            except LancewoodError as error:
                self._given.note(f"lw: {item!r}: {error.message}")
                self.tally.add(ItemOutcome.refused(item, error))
            else:
                self.tally.add(ItemOutcome(item, ItemDone.UNCHANGED))

    def check(self) -> None:
        """Raise the error of the first item that failed."""
        self.tally.check(f"{self._what} failed for", is_shown=not self._given.json)


def refs_command(folder: Folder, *, given: options.Printing) -> None:
    """List HEAD, branches and tags of every item.

    An item is a folder with HEAD, refs and objects. One that cannot be read is named on stderr, and
    the command fails when all others are shown. Millions of items are read by
    lancewood.items.

    JSON lines with keys: item, ref, kind, hash, commit, target, is_head.
    """
    every = Every(folder, "listing refs", given)
    found = every.rows(lambda git, item: refs_of(git, item, REFS))
    given.output.listing(
        found,
        (REFS, itemgetter(*REFS)),
        (
            ("item", "ref", "hash", "target"),
            lambda row: (row["item"], row["ref"], short(row["hash"]), row["target"] or ""),
        ),
    )
    every.check()


def log_command(
    folder: Folder,
    revision: Revision = "HEAD",
    limit: Annotated[
        int | None,
        typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N of each item."),
    ] = None,
    *,
    given: options.Printing,
) -> None:
    """Show the commits of every item, newest first.

    JSON lines with keys: item, position, hash, parents, tree, author, author_email, author_time,
    committer, committer_email, commit_time, message, run.
    """
    every = Every(folder, "reading history", given)
    found = every.rows(lambda git, item: history_of(git, item, revision, limit))
    columns = ("item", "hash", "time", "author", "run", "message")
    given.output.listing(found, (HISTORY, _commit_facts), (columns, _commit_line), cut=True)
    every.check()


def _commit_facts(row: dict[str, Any]) -> list[Any]:
    return [moment(row[key]) if key in _TIMES else row[key] for key in HISTORY]


def _commit_line(row: dict[str, Any]) -> tuple[Any, ...]:
    time, first_line = moment(row["commit_time"]), row["message"].partition("\n")[0]
    return row["item"], short(row["hash"]), time, row["author"], row["run"] or "", first_line


def files_command(folder: Folder, revision: Revision = "HEAD", *, given: options.Printing) -> None:
    """List the files of every item at a revision.

    JSON lines with keys: item, path, commit, hash, mode, size.
    """
    every = Every(folder, "listing files", given)
    found = every.rows(lambda git, item: contents_of(git, item, revision, _FILES))
    given.output.listing(
        found,
        (_FILES, itemgetter(*_FILES)),
        (
            ("item", "path", "size", "hash"),
            lambda row: (row["item"], row["path"], size(row["size"]), short(row["hash"])),
        ),
    )
    every.check()


def tag_command(
    folder: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag.")],
    revision: Revision = "HEAD",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Move tags that are elsewhere.")
    ] = False,
    *,
    given: options.Printing,
) -> None:
    """Tag every item at a revision.

    Done again it changes nothing. An item whose tag is elsewhere is named on stderr and left as it
    is, and the command fails when all others are tagged.

    JSON keys: tag, items, tagged, moved, unchanged, refused.
    """
    tag_ref(name)
    by, tally, every = author_here(), Tally(), Every(folder, f"tagging {name!r}", given)

    def tagged(git: OpenedItem, item: str) -> Iterator[ItemOutcome]:
        yield tag_item(git, item, name, revision, by, force=force)

    for each in every.rows(tagged, fsync=None):
        tally.add(each)
    made, moved, same = tally[ItemDone.WRITTEN], tally[ItemDone.MOVED], tally[ItemDone.UNCHANGED]
    refused = every.tally[ItemDone.REFUSED]
    document = {
        "tag": name,
        "items": every.tally.items,
        "tagged": made,
        "moved": moved,
        "unchanged": same,
        "refused": refused,
    }
    parts = [f"tagged {counted(made, 'item')} {name}"]
    others = ((moved, "moved"), (same, "had it already"), (refused, "refused"))
    parts += [f"{number} {how}" for number, how in others if number]
    given.output.document(document, ", ".join(parts))
    every.check()


def import_plain_command(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Where HEAD, refs and objects are; only read.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="The repository; made if it is not there.")
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="PATH", help="What the file of a snapshot is called.")
    ] = FILE_NAME,
    author: Author = None,
    no_log: Annotated[
        bool, typer.Option("--no-log", help="Leave the history that log.jsonl tells.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Move refs of TARGET that lead elsewhere.")
    ] = False,
    *,
    given: options.Printing,
) -> None:
    """Import snapshots in the plain layout of ADR-019 into a repository.

    SOURCE holds HEAD, refs/heads/NAME and refs/tags/NAME as texts with the 64 digits of a snapshot,
    and each snapshot as raw bytes in objects/, named by their SHA-256. Every snapshot is checked,
    and becomes a commit with one file; where there is a log.jsonl, the commits follow each other as
    it tells. Snapshots that no ref leads to are kept under refs/lancewood/plain. Done again it
    changes nothing.

    JSON keys: path, head, branches, tags, snapshots, changed.
    """
    done = import_plain(source, target, name=name, author=author, log=not no_log, force=force)
    document = {
        "path": str(done.path),
        "head": done.head,
        "branches": done.branches,
        "tags": done.tags,
        "snapshots": done.snapshots,
        "changed": [*done.changed],
    }
    head = done.head.removeprefix(HEADS)
    shown = head if done.head.startswith(HEADS) else f"{head[:12]} (detached)"
    found = ", ".join(
        [
            counted(done.snapshots, "snapshot"),
            f"{done.branches} {'branch' if done.branches == 1 else 'branches'}",
            counted(done.tags, "tag"),
        ]
    )
    changes = (
        counted(len(done.changed), "ref") + " made or moved" if done.changed else "nothing is new"
    )
    given.output.document(document, f"{found}; HEAD is {shown}; {changes}")
