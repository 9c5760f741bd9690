"""The files that one item is to get, from rows: checked before anything of it is written.

Pure. Knows paths, contents and messages; does not know where the rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lancewood.catalog.file_names import checked_paths
from lancewood.errors import InvalidInputError
from lancewood.git.loose import MOST_BYTES
from lancewood.repo.committing.messages import checked_message
from lancewood.repo.items.names import checked_item
from lancewood.repo.items.runs import check_claims_none

Mode: TypeAlias = Literal["replace", "update"]


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of an item: a path and its content, or None for one that goes."""

    path: str | None
    content: bytes | None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ItemFiles:
    """What is to be written to one item."""

    item: str
    files: dict[str, bytes]
    removed: tuple[str, ...]
    message: str


def item_files(item: object, rows: Iterable[FileRow], mode: Mode, message: str) -> ItemFiles:
    """The rows of one item as its files; raises InvalidInputError naming what is wrong.

    ``message`` is for an item whose rows have none.
    """
    name = checked_item(item)
    files: dict[str, bytes] = {}
    removed: list[str] = []
    seen: set[str] = set()
    messages: set[str] = set()
    for row in rows:
        if row.path is None:
            raise InvalidInputError(f"a row of item {name!r} has no path: it is null", item=name)
        if row.path in seen:
            raise InvalidInputError(
                f"item {name!r} has more than one row for {row.path!r}", item=name, path=row.path
            )
        seen.add(row.path)
        if row.message is not None:
            messages.add(row.message)
        if row.content is not None:
            _check_size(name, row.path, len(row.content))
            files[row.path] = row.content
        elif mode == "update":
            removed.append(row.path)
        else:
            raise InvalidInputError(
                f"{row.path!r} of item {name!r} has no content: it is null. With mode 'replace' "
                "leave the row out, and the file is gone; with mode 'update' null removes it",
                item=name,
                path=row.path,
            )
    if len(messages) > 1:
        raise InvalidInputError(
            f"item {name!r} has {len(messages)} messages, and a snapshot has one", item=name
        )
    checked_paths(files)
    checked_paths(removed)
    text = checked_message(messages.pop() if messages else message)
    check_claims_none(text)
    _check_utf8(name, text)
    return ItemFiles(name, files, tuple(removed), text)


def _check_size(item: str, path: str, size: int) -> None:
    if size > MOST_BYTES:
        raise InvalidInputError(
            f"{path!r} of item {item!r} has {size} bytes, {MOST_BYTES} is the most", item=item
        )


def _check_utf8(item: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the message of item {item!r} is not UTF-8", item=item) from cause
