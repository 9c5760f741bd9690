"""Items on a disk: their names, how they are found, where they may be made; and one item seen from
inside: its refs, history and files as rows, and its tags.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from lancewood.catalog.files import walk_entries
from lancewood.catalog.names import broken_rule, shown, tag_ref
from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedError,
)
from lancewood.git.history import walk
from lancewood.git.names import HEAD, HEADS, TAGS, is_dot_git
from lancewood.git.ref_files import LEFT_BEHIND
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.git.syncing import sync_paths
from lancewood.git.values import LAST_OF_CALENDAR, Hash, Signature
from lancewood.items.outcome import ItemDone, ItemOutcome, is_utf8, run_of
from lancewood.store.base import is_in_the_making
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store
from lancewood.store.retry import CROWDED_FOLDERS, LOST_RACES

STAGING = ".lancewood"
"""The folder where new items are made before they get their names; it holds no items."""
_OF_A_REPOSITORY = ("HEAD", "refs")
"""No item may have these in its name: the folder around it would be taken for an item."""
_MOST_BYTES = 1024
_MOST_PART_BYTES = 250
# A path that went through ``Path`` has one slash left of s3://bucket, and Spark writes file:/data.
_scheme_of = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/").match
_PARTS = ("HEAD", "objects", "refs")
_ENOUGH = 2
_OF_GIT = frozenset({"HEAD", "config", "objects", "refs", "logs", "tables", "packed-refs"})
_is_ours = re.compile(r"[0-9a-f]{16}").fullmatch
"""Matches the folders in which tasks make new items."""


def checked_item(item: object) -> str:
    """The name itself; raises InvalidInputError that says which rule it breaks."""
    if not isinstance(item, str):
        raise InvalidInputError(
            "an item has no name: the column item is null"
            if item is None
            else f"the name of an item is a text, not {type(item).__name__}"
        )
    why = _broken_rule(item)
    if why is not None:
        raise InvalidInputError(f"item {shown(item)} is not allowed: {why}", item=item)
    return item


def _broken_rule(item: str) -> str | None:
    why = broken_rule(item, most_bytes=_MOST_BYTES, most_part_bytes=_MOST_PART_BYTES)
    if why is not None:
        return why
    parts = item.split("/")
    if parts[0].lower() == STAGING:
        return f"{STAGING!r} is where new items are made"
    for part in parts:
        if part in _OF_A_REPOSITORY:
            return f"{part!r} is in a repository, and the folder it is in would be taken for one"
        if is_in_the_making(part):
            return f"{part!r} is what files are called that are not finished"
    return None


def path_on_disk(location: str | os.PathLike[str], what: str) -> str:
    """The absolute path of a path or a ``file:`` URI.

    Raises UnsupportedError, with ``what`` as its subject, for any other URI, and InvalidInputError
    for anything that is not a path.
    """
    text = os.fspath(location)
    scheme = _scheme_of(text)
    if scheme is not None and scheme[1].lower() != "file":
        raise UnsupportedError(
            f"{what} is on a local or mounted disk, such as a network file system; "
            f"{scheme[1]}:// is not one"
        )
    if scheme is None and isinstance(location, os.PathLike):
        return DiskStore(text).uri
    return open_store(text).uri


def is_item(path: str) -> bool:
    """Whether a folder is an item. Does not list it, as it may hold millions of entries."""
    return sum(os.path.lexists(f"{path}/{each}") for each in _PARTS) >= _ENOUGH


def top_folders(folder: str) -> Iterator[str]:
    """The folders directly in ``folder``, in no order and lazily, as there may be millions.

    Raises NotFoundError, and InvalidInputError for a folder that is itself an item.
    """
    if is_item(folder):
        raise InvalidInputError(
            f"{folder} is itself a repository: name the folder that its items are in", path=folder
        )
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                if each.name != STAGING and _is_folder(each):
                    yield each.name
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise NotFoundError(f"there is no folder {folder}", path=folder) from cause
    except OSError as cause:
        raise StorageError(f"cannot list {folder}: {cause.strerror}", path=folder) from cause


def first_folders(folder: str) -> Iterator[str]:
    """Like ``top_folders``, but descends through folders that hold a single folder, so that the
    result can be shared out. Names are relative to ``folder``."""
    names = top_folders(folder)
    few = [*islice(names, 2)]
    while len(few) == 1:
        found = [*expand(folder, few[0])]
        if len(found) == 1 and found[0][1]:
            break
        few = [name for name, _ in found]
    yield from few
    yield from names


def expand(folder: str, name: str) -> Iterator[tuple[str, bool]]:
    """The folder itself if it is an item, otherwise the folders in it.

    Yields names relative to ``folder`` and whether each is an item. A folder that has vanished
    yields nothing. One that cannot be read counts as an item, so that opening it reports the error.
    """
    found, folders = 0, []
    try:
        with os.scandir(f"{folder}/{name}") as entries:
            for each in entries:
                found += each.name in _PARTS
                if _is_folder(each):
                    folders.append(each.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        found = _ENOUGH
    if found >= _ENOUGH:
        yield name, True
        return
    for inner in sorted(folders):
        yield f"{name}/{inner}", False


def items_below(folder: str, name: str) -> Iterator[str]:
    """Every item at or below a folder, in order."""
    stack = [name]
    while stack:
        found = [*expand(folder, stack.pop())]
        yield from (each for each, is_item in found if is_item)
        stack += [each for each, is_item in reversed(found) if not is_item]


def find_items(folder: str) -> Iterator[str]:
    """Every item below a folder, in order; raises what ``top_folders`` raises."""
    for each in sorted(top_folders(folder)):
        yield from items_below(folder, each)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether items may be at or below an entry."""
    name = entry.name
    return (
        entry.is_dir(follow_symlinks=False) and not is_dot_git(name) and not is_in_the_making(name)
    )


class ItemFolder:
    """The folder of items as one task sees it. Remembers checked folders. Not thread-safe."""

    def __init__(self, folder: str, *, fsync: bool) -> None:
        self.folder = os.path.realpath(folder)
        self._fsync = fsync
        self._known: set[str] = set()
        """Folders known to be inside the folder and no items."""
        self._changed: set[str] = set()
        """Folders that have to be synced."""
        self._staging: str | None = None
        self._count = 0

    def path(self, item: str) -> str:
        return f"{self.folder}/{item}"

    def make_room(self, item: str) -> None:
        """Make the folders above an item.

        Raises InvalidInputError if one of them is an item or a link, or if the item is a link.
        """
        self._check_above(os.path.dirname(self.path(item)), item, make=True)
        self._check_no_link(self.path(item), item)

    def check_inside(self, item: str) -> None:
        """Check the same without making anything; raises NotFoundError if a folder is missing."""
        self._check_above(os.path.dirname(self.path(item)), item, make=False)
        self._check_no_link(self.path(item), item)

    def check_free(self, item: str) -> bool:
        """True if nothing is at the place of the item, False for the remains of an unfinished
        ``init``.

        Raises InvalidInputError for anything else, which is left as it is.
        """
        path = self.path(item)
        try:
            names = os.listdir(path)
        except FileNotFoundError:
            return True
        except OSError as cause:
            raise InvalidInputError(
                f"item {item!r} cannot be made: {path} is no folder", item=item
            ) from cause
        other = sorted(each for each in names if each not in _OF_GIT and not is_in_the_making(each))
        if other:
            raise InvalidInputError(
                f"item {item!r} cannot be made: {path} is a folder in which there is "
                f"{other[0]!r}; items are not in each other, and share no folder with other things",
                item=item,
            )
        if _has_refs(path) and not os.path.lexists(f"{path}/HEAD"):
            raise InvalidInputError(
                f"item {item!r} cannot be written: {path} is a repository that lost its HEAD; "
                "write 'ref: refs/heads/' and the name of its branch there",
                item=item,
            )
        return not names

    def check_alone(self, item: str) -> None:
        """Check that the folder around a new item did not become an item itself meanwhile.

        If it did, take the new item away and raise InvalidInputError. A folder that is no longer
        empty cannot become an item, so one check is enough.
        """
        path = self.path(item)
        above = os.path.dirname(path)
        if above == self.folder or not is_item(above):
            return
        self._known.discard(above)
        with suppress(OSError):
            os.rename(path, self.staging())
        raise self._in_another(item, above)

    def staging(self) -> str:
        """A free path for something new, which no listing shows until it is renamed.

        Raises InvalidInputError if the staging folder is a link.
        """
        if self._staging is None:
            above = f"{self.folder}/{STAGING}"
            if os.path.islink(above):
                raise InvalidInputError(
                    f"no item can be made in {self.folder}: {above} is a link, and new items are "
                    "made in a folder of that name; remove the link",
                    path=above,
                )
            self._staging = _made_below(above)
            _remove_old(above)
        self._count += 1
        return f"{self._staging}/{self._count}"

    def named(self, item: str) -> None:
        """Note that an item got its name, which is not durable before ``settle``."""
        self._changed.add(os.path.dirname(self.path(item)))

    def settle(self) -> None:
        """Make all names durable and remove the staging folder. Raises StorageError."""
        if self._fsync and self._changed:
            try:
                sync_paths(directories=sorted(self._changed))
            except OSError as cause:
                raise StorageError(f"cannot sync {self.folder}: {cause.strerror}") from cause
        self._changed.clear()
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            with suppress(OSError):
                os.rmdir(f"{self.folder}/{STAGING}")
            self._staging = None

    def _check_above(self, path: str, item: str, *, make: bool) -> None:
        if path in self._known:
            return
        if path != self.folder:
            self._check_above(os.path.dirname(path), item, make=make)
        if make:
            self._make(path)
        if path != self.folder:
            self._check_no_link(path, item)
        if not os.path.isdir(path):
            if make:
                raise InvalidInputError(
                    f"item {item!r} cannot be made: {path} is no folder", item=item
                )
            raise NotFoundError(f"there is no item {item!r} in {self.folder}", item=item)
        if is_item(path):
            raise self._in_another(item, path)
        self._known.add(path)

    def _make(self, path: str) -> None:
        try:
            if path == self.folder:
                Path(path).mkdir(parents=True, exist_ok=True)
            else:
                os.mkdir(path)
            self._changed.add(os.path.dirname(path))
        except FileExistsError:
            return
        except OSError as cause:
            raise StorageError(f"cannot make {path}: {cause.strerror}", path=path) from cause

    def _in_another(self, item: str, path: str) -> InvalidInputError:
        return InvalidInputError(
            f"item {item!r} is not allowed: {path} is an item, and items are not in each other",
            item=item,
        )

    def _check_no_link(self, path: str, item: str) -> None:
        if os.path.islink(path):
            raise InvalidInputError(
                f"item {item!r} is not allowed: {path} is a link, and may lead out of "
                f"{self.folder}",
                item=item,
            )


def _has_refs(path: str) -> bool:
    """Whether something was committed: an unfinished ``init`` has no ref yet."""
    if os.path.lexists(f"{path}/packed-refs"):
        return True
    return any(files for _, _, files in os.walk(f"{path}/refs"))


def _made_below(above: str) -> str:
    """A new folder. Tries again, because a task that ends may remove the folder above."""
    made = f"{above}/{os.urandom(8).hex()}"
    for attempt in CROWDED_FOLDERS:
        try:
            os.makedirs(made)
            break
        except OSError as cause:
            if attempt == CROWDED_FOLDERS.last or not isinstance(
                cause, FileNotFoundError | FileExistsError
            ):
                raise StorageError(f"cannot make {made}: {cause.strerror}") from cause
    return made


def _remove_old(above: str) -> None:
    """Remove what dead tasks left behind. Folders younger than a day may be in use."""
    with suppress(OSError):
        for name in filter(_is_ours, os.listdir(above)):
            path = f"{above}/{name}"
            with suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > LEFT_BEHIND:
                    shutil.rmtree(path, ignore_errors=True)


REFS = ("item", "ref", "kind", "hash", "commit", "target", "is_head")
HISTORY = (
    *("item", "position", "hash", "parents", "tree"),
    *("author", "author_email", "author_time", "committer", "committer_email", "commit_time"),
    *("message", "run"),
)
CONTENTS = ("item", "path", "commit", "hash", "mode", "size", "content")
_KINDS = {HEAD: "head", HEADS: "branch", TAGS: "tag"}
OpenedItem: TypeAlias = GitRepository
"""The git repository of one item."""


@contextmanager
def opened(folder: str, item: str, *, fsync: bool | None = False) -> Iterator[OpenedItem]:
    """The repository of an item; raises NotFoundError, and UnsupportedError for another kind."""
    path = f"{folder}/{item}"
    try:
        git = GitRepository.open(path, fsync=fsync)
    except NotFoundError:
        try:
            os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as cause:
            raise StorageError(f"cannot read {path}: {cause.strerror}", path=path) from cause
        raise
    try:
        yield git
    finally:
        git.close()


def refs_of(git: OpenedItem, item: str, columns: Collection[str]) -> Iterator[dict[str, Any]]:
    """HEAD and every ref: what it names, and the commit that it leads to."""
    head = git.refs.head()
    named = None if head.branch is None else HEADS + head.branch
    found: dict[str, Hash | None] = {HEAD: head.hash, **git.refs.names()}
    for ref, hash in found.items():
        yield {
            "item": item,
            "ref": _text("ref", ref),
            "kind": next(
                (kind for begin, kind in _KINDS.items() if ref.startswith(begin)), "other"
            ),
            "hash": hash,
            "commit": _commit_of(git, hash) if "commit" in columns else None,
            "target": _text("ref", named) if named and ref == HEAD else None,
            "is_head": ref in (HEAD, named),
        }


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
    if not is_utf8(name):
        raise FormatError(f"the {what} {name!r} is not UTF-8")
    return name
