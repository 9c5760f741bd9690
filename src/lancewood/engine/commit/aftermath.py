"""What may have happened while a version was published, asked once it is there; and whether a
commit landed, asked by whoever may delete its files if, and only if, it did not.

A name that is free is not proof enough. A writer can be held up between its look at the newest
version and the put; by then others may have gone on and a cleanup may have freed the number, or the
table was dropped, or its branch deleted. What it puts is then a ghost: a version that nothing
follows, or one that stands in the way of another table. So it looks again afterwards, and takes a
ghost back.

What did land is not taken back, and what is in doubt is a CommitUnknownError: nobody may take its
files for those of a commit that did not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from lancewood.engine.location import Location
from lancewood.engine.versions import (
    load_branch,
    load_manifest,
    load_transaction_of,
    versions_since,
)
from lancewood.errors import CommitUnknownError, LancewoodError, NotFoundError, StorageError
from lancewood.format.layout import VERSIONS_DIR, NamingScheme, manifest_key
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName
from lancewood.proto import table_pb2
from lancewood.store.base import Store, is_there
from lancewood.store.together import both

HELD_NS = 5_000_000_000
"""Whoever took longer for a put, in nanoseconds, was held up, and looks more closely."""
_LOOKED_UP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PutVersion:
    """A version that was just put, in the root that its writer knew."""

    location: Location
    scheme: NamingScheme
    manifest: Manifest
    data: bytes
    """The bytes of its file."""
    before: Callable[[], Manifest | None]
    """The version that it was built on, where that is at hand."""
    lost: Callable[[], str | None]
    """A file that it brought, and that is gone."""
    witness: str
    """The key of a file that its writer found or left in this root, and that goes with the root."""
    took_ns: int
    """How long it was from before the files were looked for to the end of the put."""
    is_long: bool = False
    """Whether the versions are so many that they should not be listed without need."""
    is_first: bool = False
    """Whether it is the first of its root, whatever its number; no record names that yet."""

    @property
    def was_held(self) -> bool:
        return self.took_ns >= HELD_NS

    @property
    def store(self) -> Store:
        return self.location.store

    @property
    def version(self) -> Version:
        return self.manifest.version

    @property
    def key(self) -> str:
        return manifest_key(self.version, self.scheme)

    def stands(self) -> bool:
        """Whether it is part of the history: right after the version before it, and the newest, or
        followed by others. If not it was withdrawn, and nothing is changed.

        One listing and one look at the witness, and no more unless something is odd. Raises
        CommitUnknownError where it stays in doubt, and is still there then.
        """
        try:
            is_sound = self._is_sound()
        except CommitUnknownError:
            raise
        except LancewoodError as cause:
            if self.was_held or isinstance(cause, NotFoundError):
                raise self._doubt(f"what became of it cannot be seen: {cause}") from cause
            return True  # it landed, and nothing speaks against it
        if not is_sound:
            self._withdraw()
        return is_sound

    def _is_sound(self) -> bool:
        is_same_root, found = both(
            self.store, lambda: is_there(self.store, self.witness), self._found
        )
        after = self._after(found)
        if after is None and not is_same_root:
            # A cleanup that takes the witness of a version that did land leaves a newer one, which
            # a listing finds that begins after it.
            found = self._found()
            after = self._after(found)
        if after is not None:
            is_next = after == self.version + 1 and self._has_before(found)
            return self._is_followed_by(after, is_same_root, is_next=is_next)
        if not is_same_root:
            return False
        if not self._has_before(found):
            self._check_branch()
        return not self.was_held or self.lost() is None

    def _after(self, found: tuple[Version, ...]) -> Version | None:
        return min((each for each in found if each > self.version), default=None)

    def _has_before(self, found: tuple[Version, ...]) -> bool:
        return self.is_first or self.version == 1 or self.version - 1 in found

    def _found(self) -> tuple[Version, ...]:
        """The versions from the one before this on."""
        store, version = self.store, self.version
        if not self.is_long or self.was_held:
            with contextlib.suppress(NotFoundError):
                return versions_since(store, Version(max(0, version - 2)), self.scheme).versions
            return ()
        near = (version - 1, *range(version + 1, version + 1 + _LOOKED_UP))
        return tuple(
            Version(each)
            for each in near
            if is_there(store, manifest_key(Version(each), self.scheme))
        )

    def _is_followed_by(self, after: Version, is_same_root: bool, *, is_next: bool) -> bool:
        """Whether the next version was built on this one, or was there before it.

        One that follows is not older than this one. Where that does not tell, as with the whole
        seconds of S3, or where versions in between are gone, what this one brought does: whoever
        built on it has that too, unless it was taken out again, and then it stays in doubt.
        """
        store = self.store
        theirs = store.head(manifest_key(after, self.scheme)).modified
        mine = None
        with contextlib.suppress(NotFoundError):  # cleaned up since
            mine = store.head(self.key).modified
        if mine is not None:
            if not is_same_root:
                return False  # a cleanup takes a version before it takes the witness
            if is_next and theirs > mine and not self.was_held:
                return True
        before, brought = self.before(), set[object]()
        if before is not None:
            brought = _news(self.manifest, before)
            if brought & _marks(load_manifest(store, after, self.scheme), before):
                return True
        if mine is not None and theirs <= mine and (theirs < mine or after > self.version + 1):
            return False  # older; or of this second, and a cleanup took those right after this one
        if theirs == mine and not self.was_held and not brought:
            return True
        raise self._doubt(f"version {after} does not show whether it was built on it")

    def _check_branch(self) -> None:
        """Raises CommitUnknownError if the version landed in a root that its branch has left.

        Renaming and deleting a branch free the numbers of its versions. As long as the version
        before is there, or a record names the branch, nobody has done so.
        """
        head, main = self.manifest, self.location.main(self.manifest)
        if main is None or head.branch is None:
            return
        if load_branch(main, BranchName.found(head.branch)) is None:
            raise CommitUnknownError(
                f"version {head.version} of branch {head.branch} landed at "
                f"{self.location.uri} while the branch was renamed or deleted; look at "
                "branches.list(), and do it again on the branch as it is now called",
                version=head.version,
                branch=head.branch,
            )

    def _withdraw(self) -> None:
        """Take it back, if it is ours; raises CommitUnknownError if that cannot be done."""
        store = self.store
        try:
            if store.get(self.key) == self.data:
                store.delete([self.key])
                store.prune(VERSIONS_DIR)
        except NotFoundError:
            return
        except StorageError as cause:
            raise self._doubt(
                f"it is no part of the history, and could not be withdrawn: {cause}. Nothing "
                "follows it; remove it, and do it again"
            ) from cause

    def _doubt(self, why: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"version {self.version} of {self.store.uri} was put, and whether the history goes "
            f"through it is unknown: {why}. Look at the newest version before you do it again",
            version=self.version,
        )


def _news(manifest: Manifest, before: Manifest) -> set[object]:
    """What a version brought by which others that have it are known: files and indices, whose names
    nobody else gives, or else settings, which another may have made as well."""
    new = _marks(manifest, before) - _marks(before, before)
    return {each for each in new if not isinstance(each, _Setting)} or new


@dataclass(frozen=True, slots=True)
class _Setting:
    value: object


def _marks(manifest: Manifest, before: Manifest) -> set[object]:
    """What a version has; of its fragments only those that the one before does not have alike."""
    known = frozenset(before.message.fragments)
    fresh = [each for each in manifest.message.fragments if each not in known]
    found: set[object] = {each.uuid for each in manifest.indices}
    for fragment in Manifest(table_pb2.Manifest(fragments=fresh), name=manifest.name).fragments:
        found.update(each.path for each in fragment.files)
        deletion = fragment.deletion_file
        if deletion is not None:
            found.add((fragment.id, deletion.read_version, deletion.id))
    found.update(map(_Setting, manifest.config.items()))
    found.update(_Setting(each.SerializeToString()) for each in manifest.fields)
    return found


def check_source(store: Store, scheme: NamingScheme, version: Version, source: Version) -> None:
    """Raises CommitUnknownError if the older version that this one was made of is gone.

    A cleanup that began before may have taken its files for those of a version that nobody
    needs. As long as its manifest is there, it has not.
    """
    if not source or is_detached(source):
        return
    try:
        store.head(manifest_key(source, scheme))
    except NotFoundError as cause:
        raise CommitUnknownError(
            f"version {version} of {store.uri} was made of version {source} while a "
            "cleanup removed that, and files of it may be gone; verify() tells, and restoring "
            "the version before goes back",
            version=version,
        ) from cause
    except StorageError:
        return  # it landed, and nothing speaks against it


def find_landed(
    location: Location, scheme: NamingScheme, uuid: str, after: Version
) -> Version | None:
    """The version above ``after`` that a transaction became; None proves that there is none so far.

    Nobody may be about to commit the same transaction meanwhile. Raises CommitUnknownError where
    nobody can tell, because the table or a version in between is gone or does not say what made
    it, and StorageError if the store does not answer.
    """
    store = location.store
    try:
        newer = versions_since(store, after, scheme).versions
    except NotFoundError as gone:
        raise CommitUnknownError(
            f"nobody can tell whether transaction {uuid} landed: {gone.message}", uuid=uuid
        ) from gone
    expected, doubt = after, ""
    for version in reversed(newer):
        expected = Version(expected + 1)
        if version != expected:
            doubt, expected = doubt or f"version {expected} is gone", version
        found = load_transaction_of(store, version, scheme)
        if found.uuid == uuid:
            return version
        if not found.uuid:
            doubt = doubt or f"version {version} does not say what made it"
    if doubt:
        raise CommitUnknownError(
            f"nobody can tell whether transaction {uuid} landed on {store.uri}: {doubt}",
            uuid=uuid,
        )
    return None
