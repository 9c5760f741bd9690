"""What a root without a record is: the very branch that is asked for, or another's first step.

Judges by the transaction that made a version and by its fragments. Changes nothing.

Making a branch: its first version, then its record.

1. An intent is left in the new root, so that two who make the same branch from different versions
   do not both put a first version there.
2. The first version is written, and the version it was made from is looked at again: as long as
   that is there, no cleanup has taken its files for garbage.
3. The record is created. From here on the branch exists.
4. The version it was made from, or the branch that was its parent, may have been on its way out;
   then it is taken back.
5. The intent goes.

Whatever is cut off is found by the next who makes a branch of that name: the same branch is
finished, an unfinished other one is cleared away when nobody can still be at work on it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.place import Place
from lancewood.engine.snapshot import At, Snapshot, branch_place, load_snapshot, main_place, resolve
from lancewood.engine.upkeep import check_not_doomed
from lancewood.engine.versions import (
    VersionList,
    is_recorded,
    is_replaced,
    list_versions,
    load_refs,
    load_transaction,
)
from lancewood.engine.write import check_source, write_clone
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.clone import CloneHead, clone_manifest
from lancewood.format.layout import TRANSACTIONS_DIR, manifest_key
from lancewood.format.manifest import Stamp
from lancewood.format.refs import branch_key, encode_branch
from lancewood.jobs.naming import records as intents
from lancewood.jobs.naming.branch_root import find_files, prune, remove_files
from lancewood.jobs.naming.records import (
    Intent,
    Standing,
    declare,
    descent_from,
    is_leaving,
    is_moving,
    load_standing,
    new_record,
    withdraw,
)
from lancewood.jobs.naming.tags import checked_metadata
from lancewood.model.operations import Clone
from lancewood.model.refs import BranchName
from lancewood.store.base import PutOutcome, Store, is_there
from lancewood.store.clock import is_older
from lancewood.store.readback import put_new_settled


def is_lone_clone(there: Snapshot, found: VersionList, name: BranchName) -> bool:
    """Whether a root holds nothing but the first version of a branch of that name."""
    return len(found.versions) == 1 and _clone_of(there, name) is not None


def is_the_clone(there: Snapshot, source: Snapshot, name: BranchName) -> bool:
    """Whether a version is what making the branch from the source would write."""
    made = _clone_of(there, name)
    if made is None:
        return False
    head = source.manifest
    if made.ref_version != head.version or made.ref_name != head.branch:
        return False
    stamp = Stamp(head.version, 0, "", b"", "", "")
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
    """The operation that made a first version of this branch; None if something else did."""
    if there.manifest.branch != name:
        return None
    operation = load_transaction(there.place.store, there.manifest).operation
    if not isinstance(operation, Clone) or not operation.is_shallow:
        return None
    is_first = operation.ref_version == there.manifest.version
    return operation if is_first and operation.branch_name == name else None


_ATTEMPTS = 5


def create_branch(
    snapshot: Snapshot,
    name: str,
    at: At = None,
    *,
    metadata: Mapping[str, str] | None = None,
) -> Snapshot:
    """The first version of a new branch, which has the number of the version that ``at`` means.

    Raises AlreadyExistsError, also if another was faster; RetryableConflictError while somebody
    else makes, deletes or renames it; InvalidInputError if its root holds versions of something
    else.
    """
    new = BranchName(name)
    known = checked_metadata(metadata)
    source = resolve(snapshot, at)
    check_source(source)
    return _Creation(source, main_place(snapshot), new, known).run()


@dataclass
class _Creation:
    source: Snapshot
    main: Place
    name: BranchName
    metadata: Mapping[str, str]

    def __post_init__(self) -> None:
        branch = self.source.manifest.branch
        self.parent = None if branch is None else BranchName.found(branch)
        self.target = branch_place(self.main, self.name)
        self.started = time.monotonic()
        self.is_declared = False
        """Whether the intent in the root is ours."""

    @property
    def root(self) -> Store:
        return self.target.store

    def run(self) -> Snapshot:
        store, version = self.main.store, self.source.manifest.version
        self._check_absent()
        descent = descent_from(store, self.parent, version)
        record = new_record(
            self.name, self.parent, version, descent, int(time.time()), self.metadata
        )
        if self.metadata:
            encode_branch(record)  # what is too large is refused before anything is written
        PutIfAbsent().check_trust(store)
        cleared = self._declare()
        try:
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
            check_not_doomed(store, self.parent, version)
            self._check_source()
            self._check_made()
        except (NotFoundError, RetryableConflictError):
            store.delete([branch_key(self.name)])
            self._take_back()
            raise
        withdraw(self.root)
        return made

    def _declare(self) -> bool:
        """Whether what stands in the root is known to be nobody's any more."""
        mine = Intent("create", self.parent, self.source.manifest.version)
        for _ in range(_ATTEMPTS):
            standing = load_standing(self.root)
            if standing is not None:
                if standing.intent == mine:
                    return False  # whoever began with the same: the store says who is first
                self._check_abandoned(standing)
            if declare(self.root, mine, standing):
                self.is_declared = True
                return standing is not None and self._clear_deleted(standing)
            self._check_absent()
        raise self._busy("others keep creating or deleting it")

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

    def _clear_deleted(self, standing: Standing) -> bool:
        """Finish a deletion or a rename that was cut off."""
        if standing.intent.verb != "create":
            self._check_no_children()
            remove_files(self.root, find_files(self.root))
        return True

    def _first_version(self, cleared: bool) -> Snapshot:
        for _ in range(_ATTEMPTS):
            found = list_versions(self.root)
            if not found.versions:
                self._check_in_time()
                try:
                    return write_clone(
                        self.source,
                        self.target,
                        branch=self.name,
                        base_name=self.parent,
                    )
                except AlreadyExistsError:
                    continue  # somebody who makes the same branch was faster
            there = load_snapshot(self.target, version=found.versions[-1])
            if len(found.versions) == 1 and is_the_clone(there, self.source, self.name):
                return there
            if not is_lone_clone(there, found, self.name):
                raise self._occupied()
            if not cleared and not self._is_old(there):
                raise self._busy("another version was put there a moment ago")
            self._check_no_children()
            remove_files(self.root, find_files(self.root))
        raise self._busy("others keep writing there")

    def _is_old(self, there: Snapshot) -> bool:
        key = manifest_key(there.manifest.version, there.scheme)
        modified = self.root.head(key).modified
        return is_older(self.root, modified, intents.ABANDONED, TRANSACTIONS_DIR)

    def _check_source(self) -> None:
        """A version that is cleaned up while a branch is made of it may have lost its files."""
        source, version = self.source, self.source.manifest.version
        root = branch_place(self.main, self.parent).store
        is_gone = not is_there(root, manifest_key(version, source.scheme))
        if is_gone or is_replaced(root, source.manifest, source.scheme):
            raise NotFoundError(
                f"version {version} of {source.place.uri} was removed while branch "
                f"{str(self.name)!r} was made of it, by a cleanup or with its table; make it of a "
                "version that is there",
                version=version,
            )

    def _check_made(self) -> None:
        """A branch that another made and deleted before it was recorded takes its root along."""
        if not list_versions(self.root).versions:
            raise self._busy("its versions were deleted meanwhile")

    def _check_parent(self) -> None:
        """Whoever deletes the parent looks for children after saying so, and we look after our
        record is there: one of the two sees the other."""
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
        """Step back, if it is not somebody else's intent that we joined."""
        if self.is_declared:
            withdraw(self.root)

    def _take_back(self) -> None:
        remove_files(self.root, find_files(self.root))
        withdraw(self.root)
        prune(self.main.store, self.name)

    def _check_absent(self) -> None:
        if is_recorded(self.main.store, self.name):
            raise self._exists()

    def _check_no_children(self) -> None:
        refs = load_refs(self.main.store)
        if any(each.parent_branch == self.name for each in refs.branches) or any(
            each.branch == self.name for each in refs.tags
        ):
            raise self._occupied()

    def _check_in_time(self) -> None:
        """Raises RetryableConflictError when others may have taken over."""
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
