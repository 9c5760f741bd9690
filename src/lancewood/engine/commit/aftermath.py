"""Checks after a version was published: does it stand, and did a commit land at all?

A free name does not prove that a put was right. Between listing the versions and the put, a writer
may be held up while others commit, a cleanup frees the number, the table is dropped or its branch
is deleted. What it then puts is a ghost: a version that nothing follows, or one in the way of
another table. So every writer checks again after the put, and withdraws a ghost.

A version that landed is never withdrawn. In doubt the error is CommitUnknownError, so that nobody
deletes files that a landed commit may need.
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
"""A writer whose put took longer than this, in nanoseconds, was held up and checks more closely."""
_NEXT_CHECKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PutVersion:
    """A version that was just put, in the root that its writer knew."""

    location: Location
    scheme: NamingScheme
    manifest: Manifest
    data: bytes
    """The bytes of the manifest file."""
    before: Callable[[], Manifest | None]
    """The version that the new one was built on, if available."""
    lost: Callable[[], str | None]
    """The key of a file that it added and that is gone."""
    witness: str
    """The key of a file that its writer saw or wrote here, and that disappears with the root."""
    took_ns: int
    """The time from before the check of its files to the end of the put."""
    is_long: bool = False
    """Whether the table has so many versions that listing them should be avoided."""
    is_first: bool = False
    """Whether the version is the first of its root; no branch record exists yet."""

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
        """Whether the version is part of the history: it comes right after the version before it,
        and is the newest or followed by others. A version that is not is withdrawn.

        Costs one listing and one look at the witness, unless something is odd. Raises
        CommitUnknownError where it stays in doubt; the version is left in place then.
        """
        try:
            is_sound = self._is_sound()
        except CommitUnknownError:
            raise
        except LancewoodError as cause:
            if self.was_held or isinstance(cause, NotFoundError):
                raise self._doubt(f"what became of it cannot be seen: {cause}") from cause
            return True  # it landed, and there is no evidence against it
        if not is_sound:
            self._withdraw()
        return is_sound

    def _is_sound(self) -> bool:
        is_same_root, found = both(
            self.store, lambda: is_there(self.store, self.witness), self._found
        )
        after = self._after(found)
        if after is None and not is_same_root:
            # A cleanup that removes the witness of a landed version leaves a newer version, which a
            # second listing finds.
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
        """The versions from the one before this one on."""
        store, version = self.store, self.version
        if not self.is_long or self.was_held:
            with contextlib.suppress(NotFoundError):
                return versions_since(store, Version(max(0, version - 2)), self.scheme).versions
            return ()
        near = (version - 1, *range(version + 1, version + 1 + _NEXT_CHECKED))
        return tuple(
            Version(each)
            for each in near
            if is_there(store, manifest_key(Version(each), self.scheme))
        )

    def _is_followed_by(self, after: Version, is_same_root: bool, *, is_next: bool) -> bool:
        """Whether the next version was built on this one, rather than there before it.

        A successor is never older than this version. Where timestamps cannot decide (S3 has whole
        seconds) or versions in between are gone, what this version added decides: a successor has
        it too, unless it was removed again, and then the doubt remains.
        """
        store = self.store
        theirs = store.head(manifest_key(after, self.scheme)).modified
        mine = None
        with contextlib.suppress(NotFoundError):  # cleaned up since
            mine = store.head(self.key).modified
        if mine is not None:
            if not is_same_root:
                return False  # a cleanup removes a version before its witness
            if is_next and theirs > mine and not self.was_held:
                return True
        before, brought = self.before(), set[object]()
        if before is not None:
            brought = _additions(self.manifest, before)
            if brought & _contents(load_manifest(store, after, self.scheme), before):
                return True
        if mine is not None and theirs <= mine and (theirs < mine or after > self.version + 1):
            return False  # older; or of the same second, with versions in between gone
        if theirs == mine and not self.was_held and not brought:
            return True
        raise self._doubt(f"version {after} does not show whether it was built on it")

    def _check_branch(self) -> None:
        """Raise CommitUnknownError if the version landed in a root that its branch has left.

        Renaming or deleting a branch frees its version numbers. Neither has happened while the
        version before is there, or while a record names the branch.
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
        """Delete the version if it is ours; raises CommitUnknownError if that fails."""
        store = self.store
        try:
            if store.get(self.key) == self.data:
                store.delete([self.key])
                store.prune(VERSIONS_DIR)
        except NotFoundError:
            return
        except StorageError as cause:
            raise self._doubt(
                f"it is not part of the history, and could not be withdrawn: {cause}. Nothing "
                "follows it; remove it, and do it again"
            ) from cause

    def _doubt(self, why: str) -> CommitUnknownError:
        return CommitUnknownError(
            f"version {self.version} of {self.store.uri} was put, but whether it became part of "
            f"the history is unknown: {why}. Look at the newest version before you do it again",
            version=self.version,
        )


def _additions(manifest: Manifest, before: Manifest) -> set[object]:
    """What a version added that identifies its successors: files and indices, whose names are
    unique, or else settings, which another version may have set as well."""
    new = _contents(manifest, before) - _contents(before, before)
    return {each for each in new if not isinstance(each, _Setting)} or new


@dataclass(frozen=True, slots=True)
class _Setting:
    value: object


def _contents(manifest: Manifest, before: Manifest) -> set[object]:
    """What a version contains; of its fragments only those that differ from the version before."""
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
    """Raise CommitUnknownError if the older version that this one was made from is gone.

    A cleanup that began earlier may have removed its files. While its manifest is there, it has
    not.
    """
    if not source or is_detached(source):
        return
    try:
        store.head(manifest_key(source, scheme))
    except NotFoundError as cause:
        raise CommitUnknownError(
            f"version {version} of {store.uri} was made from version {source} while a "
            "cleanup removed that, and files of it may be gone; verify() checks that, and "
            "restoring the version before undoes it",
            version=version,
        ) from cause
    except StorageError:
        return  # it landed, and there is no evidence against it


def find_landed(
    location: Location, scheme: NamingScheme, uuid: str, after: Version
) -> Version | None:
    """The version above ``after`` that a transaction became; None proves that there is none so far.

    Nobody may be about to commit the same transaction meanwhile. Raises CommitUnknownError where it
    cannot be decided, because the table or a version in between is gone or does not say what made
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
