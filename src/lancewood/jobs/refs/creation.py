"""Creating a branch: its first version, then its record.

1. An intent is left in the new root, so that two writers who create the same branch from different
   versions do not both put a first version there.
2. Row ids are claimed, the first version is written, and the source version is checked again: as
   long as it exists, no cleanup has removed its files.
3. The record is created. From here on the branch exists.
4. If the source version or the parent branch was being removed, the branch is taken back.
5. The intent is removed.

The next attempt at the same name handles an interrupted creation: it finishes the same branch, and
clears away a different one when nobody can still be working on it. Which of the two a root without
a record is follows from the transaction and the fragments of its version.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    At,
    Snapshot,
    branch_location,
    load_snapshot,
    main_location,
    resolve,
)
from lancewood.engine.upkeep import check_not_being_removed
from lancewood.engine.versions import (
    is_recorded,
    is_replaced,
    list_versions,
    load_refs,
    load_transaction,
)
from lancewood.engine.write import OwnIds, check_source, claim_ids, write_clone
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.layout import TRANSACTIONS_DIR, manifest_key
from lancewood.format.manifest import VersionStamp
from lancewood.format.moved import CloneHead, clone_manifest
from lancewood.format.refs import branch_key, encode_branch
from lancewood.jobs.refs import records as intents
from lancewood.jobs.refs.deletion import find_files, prune, remove_files
from lancewood.jobs.refs.records import (
    Intent,
    Standing,
    declare,
    descent_from,
    is_leaving,
    is_moving,
    load_standing,
    withdraw,
)
from lancewood.jobs.refs.tags import checked_metadata
from lancewood.model.refs import Branch, BranchName
from lancewood.model.transaction import Clone
from lancewood.store.base import PutOutcome, Store, is_there
from lancewood.store.clock import is_older
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import LOST_RACES
from lancewood.store.together import both


def create_branch(
    snapshot: Snapshot,
    name: str,
    at: At = None,
    *,
    metadata: Mapping[str, str] | None = None,
    own_ids: bool = True,
) -> Snapshot:
    """The first version of a new branch, which has the number of the version at ``at``.

    ``own_ids`` gives it row ids that no other branch hands out, as far as rows have ids; a branch
    that is published and deleted can do without.

    Raises AlreadyExistsError, also if another writer was faster; RetryableConflictError while
    another writer creates, deletes or renames it; InvalidInputError if its root holds other
    versions.
    """
    new = BranchName(name)
    known = checked_metadata(metadata)
    source = resolve(snapshot, at)
    check_source(source)
    return _Creation(source, main_location(snapshot), new, known, own_ids).run()


@dataclass
class _Creation:
    source: Snapshot
    main: Location
    name: BranchName
    metadata: Mapping[str, str]
    own_ids: bool

    def __post_init__(self) -> None:
        branch = self.source.manifest.branch
        self.parent = None if branch is None else BranchName.found(branch)
        self.target = branch_location(self.main, self.name)
        self.started = time.monotonic()
        self.is_declared = False
        """Whether the intent in the root is ours."""
        self.ids: OwnIds | None = None
        """The row ids that were claimed for the branch."""

    @property
    def root(self) -> Store:
        return self.target.store

    def run(self) -> Snapshot:
        store, version = self.main.store, self.source.manifest.version
        self._check_absent()
        descent = descent_from(store, self.parent, version)
        record = Branch(
            name=self.name,
            parent_branch=self.parent,
            parent_version=version,
            created_at_seconds=int(time.time()),
            manifest_size=0,
            identifier=tuple(descent),
            metadata=self.metadata,
        )
        if self.metadata:
            encode_branch(record)  # refuses metadata that is too large before anything is written
        PutIfAbsent().check_trust(store)
        try:
            if store.is_far:  # claiming row ids beforehand takes no longer
                cleared, _ = both(store, self._declare, self._claim)
            else:
                cleared = self._declare()
            self._check_absent()
            made = self._first_version(cleared)
        except (CommitUnknownError, StorageError):
            raise
        except LancewoodError:
            self._withdraw()
            raise
        try:
            self._check_source()
        except NotFoundError:
            self._take_back()
            raise
        self._check_in_time()
        data = encode_branch(replace(record, manifest_size=made.manifest.size))
        if put_new_settled(store, branch_key(self.name), data) is PutOutcome.EXISTS:
            self._withdraw()
            raise self._exists()
        try:
            self._check_parent()
            check_not_being_removed(store, self.parent, version)
            self._check_source()
            if not list_versions(self.root).versions:  # another writer made it and deleted it
                raise self._busy("its versions were deleted meanwhile")
        except (NotFoundError, RetryableConflictError):
            store.delete([branch_key(self.name)])
            self._take_back()
            raise
        withdraw(self.root)
        return made

    def _declare(self) -> bool:
        """Leave the intent; whether what is in the root is known to be abandoned."""
        mine = Intent("create", self.parent, self.source.manifest.version)
        for _ in LOST_RACES:
            standing = load_standing(self.root)
            if standing is not None:
                if standing.intent == mine:
                    return False  # another writer creates the same branch: the first put wins
                self._check_abandoned(standing)
            if declare(self.root, mine, standing):
                self.is_declared = True
                if standing is not None and standing.intent.verb != "create":
                    self._clear()  # finishes a deletion or rename that was interrupted
                return standing is not None
            self._check_absent()
        raise self._busy("others keep creating or deleting it")

    def _claim(self) -> OwnIds | None:
        if self.own_ids and self.ids is None:
            version = self.source.manifest.version
            self.ids = claim_ids(self.main, self.source, self.name, version)
        return self.ids

    def _check_abandoned(self, standing: Standing) -> None:
        self._check_absent()
        if is_moving(self.main.store, self.name, standing):
            raise self._busy(f"it {standing.intent}; rename it again to finish that")
        if not standing.is_abandoned:
            minutes = int(intents.ABANDONED.total_seconds() // 60)
            raise self._busy(
                f"it {standing.intent}, or that was cut off; after {minutes} minutes anybody may "
                "take over, and delete with force=True clears it at once"
            )

    def _first_version(self, cleared: bool) -> Snapshot:
        """The first version, as we or another writer that creates the same branch made it."""
        for _ in LOST_RACES:
            found = list_versions(self.root)
            if not found.versions:
                self._check_in_time()
                try:
                    return write_clone(
                        self.source,
                        self.target,
                        branch=self.name,
                        base_name=self.parent,
                        ids=self._claim(),
                    )
                except AlreadyExistsError:
                    continue  # another writer that creates the same branch was faster
            there = load_snapshot(self.target, version=found.versions[-1])
            is_only = len(found.versions) == 1
            if is_only and is_the_clone(there, self.source, self.name):
                return there
            if not is_only or _clone_of(there, self.name) is None:
                raise self._occupied()
            if not cleared and not self._is_old(there):
                raise self._busy("another version was put there a moment ago")
            self._clear()
        raise self._busy("others keep writing there")

    def _is_old(self, there: Snapshot) -> bool:
        key = manifest_key(there.manifest.version, there.scheme)
        modified = self.root.head(key).modified
        return is_older(self.root, modified, intents.ABANDONED, TRANSACTIONS_DIR)

    def _check_source(self) -> None:
        """Raise NotFoundError if the source version, and so perhaps its files, was removed."""
        source, version = self.source, self.source.manifest.version
        root = branch_location(self.main, self.parent).store
        is_gone = not is_there(root, manifest_key(version, source.scheme))
        if is_gone or is_replaced(root, source.manifest, source.scheme):
            raise NotFoundError(
                f"version {version} of {source.location.uri} was removed while branch "
                f"{str(self.name)!r} was made of it, by a cleanup or with its table; make it of a "
                "version that is there",
                version=version,
            )

    def _check_parent(self) -> None:
        """Raise NotFoundError if the parent was deleted or renamed.

        A deletion leaves its intent, then looks for children; we write our record, then look for
        the intent. So one of the two sees the other.
        """
        if self.parent is None:
            return
        store = self.main.store
        if is_leaving(store, self.parent) or not is_recorded(store, self.parent):
            raise NotFoundError(
                f"branch {str(self.parent)!r} was deleted or renamed while branch "
                f"{str(self.name)!r} was made of it; nothing was made",
                branch=str(self.parent),
            )

    def _withdraw(self) -> None:
        """Remove the intent, unless it is another writer's that we joined."""
        if self.is_declared:
            withdraw(self.root)

    def _take_back(self) -> None:
        remove_files(self.root, find_files(self.root))
        withdraw(self.root)
        prune(self.main.store, self.name)

    def _check_absent(self) -> None:
        if is_recorded(self.main.store, self.name):
            raise self._exists()

    def _clear(self) -> None:
        """Remove all files from the root; raises InvalidInputError if a ref still needs them."""
        refs = load_refs(self.main.store)
        if any(each.parent_branch == self.name for each in refs.branches) or any(
            each.branch == self.name for each in refs.tags
        ):
            raise self._occupied()
        remove_files(self.root, find_files(self.root))

    def _check_in_time(self) -> None:
        """Raise RetryableConflictError if others may have taken over."""
        if time.monotonic() - self.started > intents.ABANDONED.total_seconds() / 2 > 0:
            raise self._busy("the store was so slow that somebody else may be at it by now")

    def _exists(self) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"branch {str(self.name)!r} of {self.main.uri} exists already", branch=str(self.name)
        )

    def _busy(self, why: str) -> RetryableConflictError:
        return RetryableConflictError(
            f"branch {str(self.name)!r} of {self.main.uri} cannot be created now: {why}",
            branch=str(self.name),
        )

    def _occupied(self) -> InvalidInputError:
        return InvalidInputError(
            f"branch {str(self.name)!r} of {self.main.uri} is not recorded, but {self.root.uri} "
            "holds versions of an earlier one, as a deletion by pylance leaves them where branches "
            "nest; delete it with force=True, or take another name",
            branch=str(self.name),
        )


def is_the_clone(there: Snapshot, source: Snapshot, name: BranchName) -> bool:
    """Whether a version is what creating the branch from the source would write."""
    made = _clone_of(there, name)
    if made is None:
        return False
    head = source.manifest
    if made.ref_version != head.version or made.ref_name != head.branch:
        return False
    stamp = VersionStamp(head.version, 0, "", b"", "", "")
    expected, _ = clone_manifest(head, CloneHead(made.ref_path, head.branch, name), stamp)
    mine, theirs = expected.message, there.manifest.message
    return (
        list(mine.fields) == list(theirs.fields)
        and sorted(map(str, mine.base_paths)) == sorted(map(str, theirs.base_paths))
        and list(map(attrgetter("message"), expected.fragments))
        == list(map(attrgetter("message"), there.manifest.fragments))
        and expected.indices == there.manifest.indices
    )


def _clone_of(there: Snapshot, name: BranchName) -> Clone | None:
    """The operation that made this first version of the branch; None for any other version."""
    if there.manifest.branch != name:
        return None
    operation = load_transaction(there.location.store, there.manifest).operation
    if not isinstance(operation, Clone) or not operation.is_shallow:
        return None
    is_first = operation.ref_version == there.manifest.version
    return operation if is_first and operation.branch_name == name else None
