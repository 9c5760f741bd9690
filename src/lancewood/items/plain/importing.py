"""Importing the plain layout: a git repository with the same branches, tags and HEAD.

Each snapshot becomes a commit with one file, and a trailer says which snapshot it was. The history
follows ``log.jsonl``. Everything is read and checked before anything is written. A new repository
is made whole. In an existing one refs move one by one, and refs that no import made are not moved.
Every snapshot, also one that no ref leads to, stays reachable under ``refs/lancewood/plain``.
Importing again changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Protocol

from lancewood.catalog.files import ObjectSink, put_entries, walk_entries
from lancewood.catalog.names import checked_path
from lancewood.errors import (
    AlreadyExistsError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.history import is_ancestor
from lancewood.git.names import HEAD, HEADS, TAGS
from lancewood.git.repository import GitRepository
from lancewood.git.syncing import sync_paths
from lancewood.git.values import Hash, Signature, is_hash
from lancewood.items.folder import ItemFolder, path_on_disk
from lancewood.items.plain.layout import LOG, LogLine, Plain, log_lines, read_plain
from lancewood.items.writing import PackedObjects, make_whole, new_settings
from lancewood.repo import author_here
from lancewood.store.disk import DiskStore

SNAPSHOT = "Plain-Snapshot"
ARCHIVE = "refs/lancewood/plain"
FILE_NAME = "snapshot"
_MOST_PACKED = 256 << 20
"""Bytes that are held in memory at once; a larger repository is written object by object."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The refs and snapshots that an import found, and the refs that it changed."""

    path: Path
    head: str
    """The branch that HEAD names, or the hash of a commit."""
    branches: int
    tags: int
    snapshots: int
    changed: tuple[str, ...]
    """Refs that were made or moved, with HEAD if an existing one moved; empty if nothing
    changed."""
    refs: dict[str, Hash] = field(repr=False)
    """The commit of every ref."""


def import_plain(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    name: str = FILE_NAME,
    author: str | None = None,
    log: bool = True,
    force: bool = False,
    fsync: bool | None = None,
) -> Imported:
    """Import one plain repository into a repository, which is made if it does not exist.

    A snapshot becomes a commit with one file, called ``name``. If the source has a ``log.jsonl``,
    commits follow each other as it says, unless ``log`` is False; otherwise each ref has one
    commit. ``force`` moves refs that lead elsewhere.

    Raises IntegrityError for a snapshot whose bytes do not match its name, InvalidInputError for a
    name that git refuses and for a target with other things in it, and AlreadyExistsError for a ref
    of the target that no import made. Then nothing has changed.
    """
    return import_as(
        source, target, name=name, by=author_here(author), log=log, force=force, fsync=fsync
    )


def import_as(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    name: str,
    by: Signature,
    log: bool,
    force: bool,
    fsync: bool | None,
    folder: ItemFolder | None = None,
) -> Imported:
    """``import_plain`` with a known author.

    With ``folder`` the target is one of many items in a folder: it is made in their staging folder,
    and its name is durable once they are settled.
    """
    source = path_on_disk(source, "a repository in the plain layout")
    target = path_on_disk(target, "the repository that is imported into")
    _check_apart(source, target)
    plain, file = read_plain(source), checked_path(name)
    store = DiskStore(target, fsync)
    is_small = sum(each.size for each in plain.objects.values()) <= _MOST_PACKED
    if not os.path.lexists(f"{store.uri}/{HEAD}") and _is_free(store.uri) and is_small:
        born = _born(plain, store, file, by, log, folder)
        if born is not None:
            return born
    if not os.path.lexists(f"{store.uri}/{HEAD}"):
        _is_free(store.uri)
        branch = "main" if is_hash(plain.head) else plain.head.removeprefix(HEADS)
        with suppress(AlreadyExistsError):  # another who imports the same was faster
            GitRepository.init(store.uri, branch=branch, settings=new_settings(), fsync=fsync)
    git = GitRepository.open(store.uri, fsync=fsync)
    try:
        return _moved(plain, git, file, by, log, force)
    finally:
        git.close()


def _check_apart(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    one, other = Path(source).resolve(), Path(target).resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise InvalidInputError(
            f"{source} cannot be imported into {target}: one is in the other", path=str(target)
        )


def _is_free(target: str) -> bool:
    """Whether nothing is at the target; raises InvalidInputError for a folder with other things."""
    above, name = os.path.split(target)
    return ItemFolder(above, fsync=False).check_free(name)


def _born(
    plain: Plain,
    store: DiskStore,
    file: str,
    by: Signature,
    log: bool,
    folder: ItemFolder | None,
) -> Imported | None:
    """A new repository; None if something is at the target by now."""
    packed = PackedObjects()
    commits, history = _committed(plain, PlainCommits(plain, packed, by, file), log)
    refs = {ref: commits.of_ref(ref, hash) for ref, hash in plain.refs.items()}
    head = commits.of_ref(HEAD, plain.head) if is_hash(plain.head) else plain.head
    kept = commits.put_archive(commits.archive(history), ())
    above = os.path.dirname(store.uri)
    if folder is not None:
        staging = folder.staging()
    else:
        with _or_storage_error(f"cannot make {above}"):
            os.makedirs(above, exist_ok=True)
        staging = f"{above}/.tmp{os.urandom(8).hex()}"
    is_born = make_whole(
        store.uri,
        staging=staging,
        head=head,
        refs={**refs, ARCHIVE: kept},
        objects=packed.found,
        settings=new_settings(),
        fsync=store.fsync,
    )
    if not is_born:
        return None
    if folder is None and store.fsync:
        with _or_storage_error(f"cannot sync {above}"):
            sync_paths(directories=[above])
    return _imported(plain, store.uri, head, refs, tuple(refs))


@contextmanager
def _or_storage_error(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise StorageError(f"{what}: {cause.strerror}") from cause


def _moved(
    plain: Plain, git: GitRepository, file: str, by: Signature, log: bool, force: bool
) -> Imported:
    """Import into an existing repository."""
    commits, history = _committed(plain, PlainCommits(plain, git.objects, by, file), log)
    refs: dict[str, Hash] = {}
    moves: list[tuple[str, Hash | None, Hash]] = []
    for ref, hash in plain.refs.items():
        there = git.refs.read(ref)
        wanted = commits.of_ref(ref, hash)
        refs[ref] = (
            wanted if there is None else _next(git, commits, ref, hash, there, wanted, force)
        )
        if refs[ref] != there:
            moves.append((ref, there, refs[ref]))
    head, now = plain.head, git.refs.head()
    if is_hash(head):
        made = None if now.branch is not None or now.hash is None else made_from(git, now.hash)
        is_there = made == (head, file)
        head = str(now.hash) if is_there else commits.of_ref(HEAD, head)
    else:
        is_there = now.branch == head.removeprefix(HEADS)
    tree, kept = commits.archive(history), git.refs.read(ARCHIVE)
    if kept is None or git.objects.commit(kept).tree != tree:
        moves.append((ARCHIVE, kept, commits.put_archive(tree, () if kept is None else (kept,))))
    _check_side_by_side(git, [ref for ref, there, _ in moves if there is None])
    for ref, there, new in moves:
        if not git.refs.move(ref, there, new, why="import-plain", by=by):
            raise RetryableConflictError(
                f"{ref} of {git.path} was moved meanwhile; import again", ref=ref
            )
    changed = [ref for ref, _, _ in moves if ref != ARCHIVE]
    if not is_there:
        if is_hash(head):
            git.refs.detach_head(Hash(head), why="import-plain", by=by)
        else:
            git.refs.switch_head(head.removeprefix(HEADS), why="import-plain", by=by)
        changed.append(HEAD)
    return _imported(plain, str(git.path), head, refs, tuple(changed))


def _next(
    git: GitRepository,
    commits: PlainCommits,
    ref: str,
    hash: str,
    there: Hash,
    wanted: Hash,
    force: bool,
) -> Hash:
    """Where an existing ref goes; raises AlreadyExistsError if the import may not move it."""
    tip = git.objects.peel(there)
    made = made_from(git, tip)
    if made == (hash, commits.name):
        return there
    if force:
        return wanted
    if made is not None and made[1] != commits.name:
        raise AlreadyExistsError(
            f"{ref} of {git.path} has its snapshot as {made[1]!r}, not as {commits.name!r}; import "
            "with that name, elsewhere, or with force",
            ref=ref,
        )
    if ref.startswith(HEADS):
        if is_ancestor(git.objects, tip, wanted):
            return wanted
        if made is not None:
            return commits.on_top(hash, tip)
    raise AlreadyExistsError(
        f"{ref} of {git.path} is at {there[:12]}, and plain snapshot {hash[:12]} is not there; "
        "import elsewhere, or with force",
        ref=ref,
    )


def made_from(git: GitRepository, hash: Hash) -> tuple[str, str] | None:
    """The snapshot that an import made a commit from, and the name of its file; None for other
    commits, even with a copied message."""
    commit = git.objects.commit(hash)
    snapshot = snapshot_of(commit.message)
    if snapshot is None:
        return None
    files = [*islice(walk_entries(git.objects, git.objects.tree(commit.tree)), 2)]
    if len(files) != 1 or sha256(git.objects.blob(files[0][1].hash)).hexdigest() != snapshot:
        return None
    return snapshot, files[0][0]


def snapshot_of(message: str) -> str | None:
    """The plain snapshot that a commit was made from; None for any other commit."""
    for line in reversed(message.rstrip().split("\n")):
        key, colon, value = line.partition(": ")
        if colon and key == SNAPSHOT:
            return value.strip()
    return None


def _check_side_by_side(git: GitRepository, new: Sequence[str]) -> None:
    """Raise AlreadyExistsError if a new ref would be a directory of another ref, or the reverse.

    Git keeps refs as files, so this is checked before any of them is made.
    """
    there = git.refs.names()
    folders = {ref[:at]: ref for ref in there for at, each in enumerate(ref) if each == "/"}
    for ref in new:
        above = (ref[:at] for at, each in enumerate(ref) if each == "/")
        other = folders.get(ref) or next((each for each in above if each in there), None)
        if other is not None:
            raise AlreadyExistsError(
                f"{ref} cannot be made in {git.path}: {other} is there, and one name cannot be a "
                "directory of another; import elsewhere, or rename one of them",
                ref=ref,
            )


def _committed(plain: Plain, commits: PlainCommits, log: bool) -> tuple[PlainCommits, bytes | None]:
    """Put all objects and commits; also return the bytes of the log."""
    commits.put_all()
    history = plain.log()
    if history is not None and log:
        commits.follow(log_lines(history, f"{plain.path}/{LOG}"))
    return commits, history


def _imported(
    plain: Plain, path: str, head: str, refs: dict[str, Hash], changed: tuple[str, ...]
) -> Imported:
    return Imported(
        Path(path),
        head,
        sum(each.startswith(HEADS) for each in refs),
        sum(each.startswith(TAGS) for each in refs),
        len(plain.objects),
        changed,
        refs,
    )


class PuttingCommits(ObjectSink, Protocol):
    """Where objects and commits are put."""

    def put_commit(
        self,
        tree: Hash,
        parents: Sequence[Hash],
        author: Signature,
        message: str,
        committer: Signature | None = None,
    ) -> Hash: ...


@dataclass
class PlainCommits:
    """Makes commits from the snapshots of one plain repository; reads each object once."""

    plain: Plain
    into: PuttingCommits
    by: Signature
    name: str
    """The name of a snapshot's file in its commit."""
    blobs: dict[str, Hash] = field(default_factory=dict)
    _at: dict[str, tuple[str, Hash]] = field(default_factory=dict)
    """By ref, as far as the log was followed: the snapshot and its commit."""
    _last: dict[str, Hash] = field(default_factory=dict)
    """The last commit of each snapshot."""

    def put_all(self) -> None:
        """Put the bytes of every snapshot; raises IntegrityError for a damaged one."""
        for hash, each in self.plain.objects.items():
            self.blobs[hash] = self.into.put_blob(each.read())

    def follow(self, lines: Iterable[LogLine]) -> None:
        """Make the commits of the log. Lines about snapshots that do not exist are skipped."""
        for line in lines:
            if line.hash not in self.blobs:
                continue
            if line.op == "branch":
                self._at[line.ref] = line.hash, self.commit(line.hash)
                continue
            parents = []
            if line.parent is not None and line.parent in self.blobs:
                known = self._at.get(line.ref)
                is_ours = known is not None and known[0] == line.parent
                parents = [known[1] if known and is_ours else self.commit(line.parent)]
            made = self._put(line.hash, parents, line.seconds, line.label)
            self._at[line.ref] = line.hash, made
            self._last[line.hash] = made

    def of_ref(self, ref: str, hash: str) -> Hash:
        """The commit that a ref is at."""
        known = self._at.get(ref)
        return known[1] if known is not None and known[0] == hash else self.commit(hash)

    def commit(self, hash: str) -> Hash:
        """The commit of a snapshot; made without parents if the log has none."""
        if hash not in self._last:
            self._last[hash] = self._put(hash, [], None, None)
        return self._last[hash]

    def on_top(self, hash: str, parent: Hash) -> Hash:
        """A commit of a snapshot with the given parent."""
        return self._put(hash, [parent], None, None)

    def archive(self, log: bytes | None) -> Hash:
        """A tree with every snapshot under its own name, and the log."""
        files: dict[str, Hash] = {
            f"objects/{hash[:2]}/{hash[2:]}": blob for hash, blob in self.blobs.items()
        }
        if log is not None:
            files[LOG] = self.into.put_blob(log)
        return self.into.put_tree(put_entries(self.into, files))

    def put_archive(self, tree: Hash, parents: Sequence[Hash]) -> Hash:
        return self.into.put_commit(tree, parents, self.by, "every snapshot of the plain layout")

    def _put(
        self, hash: str, parents: Sequence[Hash], seconds: int | None, label: str | None
    ) -> Hash:
        when = self.plain.objects[hash].seconds if seconds is None else seconds
        author = replace(self.by, seconds=when, offset_minutes=0)
        entries = put_entries(self.into, {self.name: self.blobs[hash]})
        text = f"{label or f'snapshot {hash[:12]}'}\n\n{SNAPSHOT}: {hash}"
        return self.into.put_commit(self.into.put_tree(entries), parents, author, text)
