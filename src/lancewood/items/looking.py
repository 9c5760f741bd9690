"""One item seen from inside: its refs, history and files as rows, and its tags.

Reading gives plain values, and reads only what the asked columns need. ``tag_item`` is the one
function that writes: a tag moves only with ``force``, and setting it twice is no error.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

from lancewood.catalog.files import walk_entries
from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.hashes import Hash
from lancewood.git.history import walk
from lancewood.git.names import HEAD, HEADS, TAGS
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.git.signature import LAST_OF_CALENDAR, Signature
from lancewood.items.outcome import ItemDone, ItemOutcome, run_of
from lancewood.repo import tag_ref
from lancewood.store.retry import LOST_RACES

REFS = ("item", "ref", "kind", "hash", "commit", "target", "is_head")
HISTORY = (
    *("item", "position", "hash", "parents", "tree"),
    *("author", "author_email", "author_time", "committer", "committer_email", "commit_time"),
    *("message", "run"),
)
CONTENTS = ("item", "path", "commit", "hash", "mode", "size", "content")
OpenedItem: TypeAlias = GitRepository
"""The git repository of one item."""


@contextmanager
def opened(folder: str, item: str, *, fsync: bool | None = False) -> Iterator[OpenedItem]:
    """The repository of an item; raises NotFoundError, and UnsupportedError for another kind."""
    path = f"{folder}/{item}"
    try:
        git = GitRepository.open(path, fsync=fsync)
    except NotFoundError:
        _check_readable(path)
        raise
    try:
        yield git
    finally:
        git.close()


def _check_readable(path: str) -> None:
    try:
        os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as cause:
        raise StorageError(f"cannot read {path}: {cause.strerror}", path=path) from cause


def refs_of(git: OpenedItem, item: str, columns: Collection[str]) -> Iterator[dict[str, Any]]:
    """HEAD and every ref: what it names, and the commit that it leads to."""
    head = git.refs.head()
    named = None if head.branch is None else HEADS + head.branch
    found: dict[str, Hash | None] = {HEAD: head.hash, **git.refs.names()}
    for ref, hash in found.items():
        yield {
            "item": item,
            "ref": _text("ref", ref),
            "kind": _kind(ref),
            "hash": hash,
            "commit": _commit_of(git, hash) if "commit" in columns else None,
            "target": _text("ref", named) if named and ref == HEAD else None,
            "is_head": ref in (HEAD, named),
        }


def _kind(ref: str) -> str:
    if ref == HEAD:
        return "head"
    return "branch" if ref.startswith(HEADS) else "tag" if ref.startswith(TAGS) else "other"


def history_of(
    git: OpenedItem, item: str, revision: str | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    """Commits, newest first; those of HEAD, all branches and all tags if ``revision`` is None."""
    if revision is not None:
        tips = [resolve(git, revision)]
    else:
        hashes = {**git.refs.names(HEADS), **git.refs.names(TAGS)}.values()
        tips = [each for each in (_commit_of(git, hash) for hash in hashes) if each]
        head = git.refs.head().hash
        tips += [] if head is None else [head]
        if not tips:
            raise NotFoundError(f"item {item!r} has no commit yet", item=item)
    for position, commit in enumerate(walk(git.objects, tips, limit=limit)):
        yield {
            "item": item,
            "position": position,
            "hash": commit.hash,
            "parents": list(commit.parents),
            "tree": commit.tree,
            "author": commit.author.name,
            "author_email": commit.author.email,
            "author_time": _moment(commit.author),
            "committer": commit.committer.name,
            "committer_email": commit.committer.email,
            "commit_time": _moment(commit.committer),
            "message": commit.message,
            "run": run_of(commit.message),
        }


def contents_of(
    git: OpenedItem,
    item: str,
    revision: str,
    columns: Collection[str],
    paths: Collection[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The files at a revision. Bytes are read only if ``columns`` has ``content`` or ``size``.

    ``paths`` limits the rows to these files; a path that does not exist has no row.
    """
    commit = resolve(git, revision)
    is_read = bool({"content", "size"} & set(columns))
    tree = git.objects.tree(git.objects.commit(commit).tree)
    for path, entry in sorted(walk_entries(git.objects, tree)):
        if paths is not None and path not in paths:
            continue
        data = git.objects.blob(entry.hash) if is_read else None
        yield {
            "item": item,
            "path": _text("path", path),
            "commit": commit,
            "hash": entry.hash,
            "mode": f"{entry.mode:06o}",
            "size": None if data is None else len(data),
            "content": data,
        }


def tag_item(
    git: OpenedItem, item: str, name: str, revision: str, by: Signature, *, force: bool
) -> ItemOutcome:
    """Tag a commit.

    A tag that leads there already is ``unchanged``. One that leads elsewhere raises
    AlreadyExistsError, or moves with ``force``.
    """
    ref, commit = tag_ref(name), resolve(git, revision)
    for _ in LOST_RACES:
        there = git.refs.read(ref)
        if there is not None:
            if git.objects.peel(there) == commit:
                return ItemOutcome(item, ItemDone.UNCHANGED, commit)
            if not force:
                raise AlreadyExistsError(
                    f"tag {name!r} is at {there[:12]}, not at {commit[:12]}; force moves it",
                    tag=name,
                    item=item,
                )
        if git.refs.move(ref, there, commit, why=f"tag: tagging {commit[:12]}", by=by):
            return ItemOutcome(item, ItemDone.WRITTEN if there is None else ItemDone.MOVED, commit)
    raise RetryableConflictError(f"tag {name!r} of item {item!r} moves all the time; try again")


def _commit_of(git: OpenedItem, hash: Hash | None) -> Hash | None:
    """The commit that a ref leads to; None if it leads to another kind of object.

    Raises NotFoundError if the object is missing.
    """
    if hash is None:
        return None
    try:
        return git.objects.peel(hash)
    except NotFoundError as error:
        if "hash" in error.facts:
            raise
        return None


def _moment(by: Signature) -> datetime | None:
    """The time of a signature; None beyond the calendar, as git allows such times."""
    return datetime.fromtimestamp(by.seconds, UTC) if by.seconds <= LAST_OF_CALENDAR else None


def _text(what: str, name: str) -> str:
    """The name; raises FormatError if it is not UTF-8, since names in git are bytes."""
    try:
        name.encode()
    except UnicodeEncodeError as cause:
        raise FormatError(f"the {what} {name!r} is not UTF-8") from cause
    return name
