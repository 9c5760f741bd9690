"""Renaming a branch: everything is copied to a new root, then the record changes its name.

A branch's name is part of its root's path and of each of its manifests, so a rename is a copy. Data
files in the main root stay; files below the branch itself (deletion files, indices, data files of
pylance) are copied under the same names, since the old root is removed as a whole.

1. Both roots get an intent; after that, everything that needs the branch is looked up.
2. Files are copied, then the manifests, rewritten, until the old root has no version more.
3. The record is created under the new name. From here on both names lead to the same versions.
4. The old record is removed. The old root gets a last version that nothing can follow, so that no
   commit in progress lands there; then its files are removed, and the intents.

A version that is committed under the old name meanwhile is copied as well. If the new name has
moved on already, it is reported and left where it is. Every step can be repeated, also by two
writers at once, so the same rename again finishes an interrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, branch_location, load_snapshot, main_location
from lancewood.engine.versions import is_recorded, load_branch, newest_version
from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.format.layout import (
    TRANSACTIONS_DIR,
    TREE_DIR,
    manifest_key,
    parse_manifest_name,
    transaction_name,
)
from lancewood.format.manifest import VersionStamp
from lancewood.format.moved import (
    closed_manifest,
    is_same_manifest,
    renamed_manifest,
    renamed_transaction,
)
from lancewood.format.refs import branch_key, encode_branch
from lancewood.format.transaction import encode_transaction
from lancewood.jobs.job import chunks
from lancewood.jobs.refs.deletion import (
    MOST_KEYS,
    RootFiles,
    find_files,
    find_needs,
    load_other_refs,
    prune,
    remove_files,
    root_of,
)
from lancewood.jobs.refs.records import (
    Intent,
    Standing,
    declare,
    is_moving,
    load_standing,
    no_branch,
    withdraw,
)
from lancewood.jobs.runner import Runner
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName, branch_name
from lancewood.model.table_config import RENAMED_KEY
from lancewood.model.transaction import Restore, Transaction
from lancewood.store.base import PutOutcome, Store
from lancewood.store.readback import put_new_settled
from lancewood.version import LIBRARY, RELEASE

_ROUNDS = 10
_MANIFESTS_AT_ONCE = 16


def rename_branch(
    snapshot: Snapshot, old: str, new: str, *, runner: Runner, dry_run: bool = False
) -> Snapshot:
    """The newest version of a branch under its new name; finishes an interrupted rename. A dry run
    only checks, and gives the version that the branch is at.

    Raises NotFoundError, AlreadyExistsError, InvalidInputError if something needs the branch, and
    IncompatibleConflictError if a version landed under the old name that cannot be copied.
    """
    asked = branch_name(old)
    if asked is None:
        raise InvalidInputError("main cannot be renamed: it is the table itself")
    wanted = BranchName(new)
    if asked == wanted:
        raise InvalidInputError(f"branch {old!r} has that name already")
    rename = _Rename(snapshot, main_location(snapshot), asked, wanted, runner)
    return rename.plan() if dry_run else rename.run()


@dataclass
class _Rename:
    snapshot: Snapshot
    main: Location
    old: BranchName
    new: BranchName
    runner: Runner

    @property
    def store(self) -> Store:
        return self.main.store

    def __post_init__(self) -> None:
        self.old_root = root_of(self.main.store, self.old)
        self.new_root = root_of(self.main.store, self.new)
        self.out, self.into = Intent("move out", self.new), Intent("move in", self.old)

    def plan(self) -> Snapshot:
        """Raise what stands in the way now; write nothing."""
        if self._begun() is None:
            self._check_unneeded()
            self._check_no_files()
            self._check_free(self.old, self.old_root, self.out)
            self._check_free(self.new, self.new_root, self.into)
        is_moved = not is_recorded(self.store, self.old)
        return load_snapshot(branch_location(self.main, self.new if is_moved else self.old))

    def _begun(self) -> Intent | None:
        """The intent of this rename, if somebody has begun it.

        Raises for a branch that cannot be renamed, and for a name that is another branch's.
        """
        arriving = load_standing(self.new_root)
        if arriving is not None and arriving.intent.is_like(self.into):
            return arriving.intent
        self._check_whole()
        if is_recorded(self.store, self.new):
            raise self._exists()
        return None

    def run(self) -> Snapshot:
        begun = self._begun()
        if begun is not None and is_recorded(self.store, self.new):
            brought = begun.version
        else:
            self._begin()
            try:
                brought = self._bring()
            except (FormatError, UnsupportedError):
                # The branch stays as it was, and the copies go.
                remove_files(self.new_root, find_files(self.new_root))
                withdraw(self.new_root)
                prune(self.store, self.new)
                withdraw(self.old_root)
                raise
            self._note(brought)
            self._record()
        self._finish(brought)
        return load_snapshot(branch_location(self.main, self.new))

    def _check_whole(self) -> None:
        """Raise NotFoundError or FormatError for a branch that cannot be copied: once begun, a
        rename can only be finished."""
        if load_branch(self.store, self.old) is None:
            raise no_branch(self.store, self.old)
        if newest_version(self.old_root) is None:
            raise NotFoundError(
                f"branch {str(self.old)!r} of {self.store.uri} cannot be renamed: its root "
                f"{self.old_root.uri} holds no version; bring its files back, or delete it",
                branch=str(self.old),
            )

    def _begin(self) -> None:
        PutIfAbsent().check_trust(self.store)
        self._check_unneeded()
        self._check_no_files()
        declared = [self.old_root] if self._declare(self.old, self.old_root, self.out) else []
        try:
            self._check_unneeded()
            if self._declare(self.new, self.new_root, self.into):
                declared.append(self.new_root)
                self._check_unused()
        except (AlreadyExistsError, InvalidInputError, RetryableConflictError):
            for each in reversed(declared):
                withdraw(each)
            raise

    def _check_no_files(self) -> None:
        """Raise InvalidInputError if the new root holds other versions. Leftovers of a failed
        commit do not count."""
        standing = load_standing(self.new_root)
        if standing is not None and standing.intent.is_like(self.into):
            return
        if standing is None and find_files(self.new_root).manifests:
            raise InvalidInputError(
                f"branch {str(self.old)!r} cannot be renamed: {self.new_root.uri} holds versions "
                f"that no branch names; delete {str(self.new)!r} with force=True, or take another "
                "name"
            )

    def _check_unused(self) -> None:
        """Raise AlreadyExistsError if the new name was taken before our intent was there."""
        made = load_branch(self.store, self.new)
        if made is not None:
            mine = load_branch(self.store, self.old)
            if mine is None or mine.identifier != made.identifier:
                raise self._exists()

    def _check_unneeded(self) -> None:
        refs = load_other_refs(self.store, self.old)
        needs = find_needs(self.main, refs, self.old, [self.snapshot.manifest])
        needs.check_none(self.old, "renamed")

    def _declare(self, name: BranchName, root: Store, mine: Intent) -> bool:
        """Whether the intent is new; False if the same rename has left it before."""
        standing = self._check_free(name, root, mine)
        if standing is not None and standing.intent.is_like(mine):
            return False
        if not declare(root, mine, standing):
            raise self._busy(f"somebody else is at work on {str(name)!r}")
        return True

    def _check_free(self, name: BranchName, root: Store, mine: Intent) -> Standing | None:
        """What others are about to do with a root, unless that stands in the way."""
        standing = load_standing(root)
        if standing is not None and not standing.intent.is_like(mine):
            is_done = standing.intent.verb in ("create", "move in")
            is_done = is_done and is_recorded(self.store, name)
            moves = is_moving(self.store, name, standing)
            if moves or not (is_done or standing.is_abandoned):
                raise self._busy(f"branch {str(name)!r} {standing.intent}")
        return standing

    def _bring(self, after: int = 0) -> int:
        """Copy until the new root has every version above ``after``; returns the newest one.

        Raises NotFoundError for a branch without a version.
        """
        head = load_snapshot(branch_location(self.main, self.old)).manifest
        own = {each.path for each in head.base_paths if self.main.is_at(each, self.old_root)}
        work = Copying(self.store, self.old, self.new, frozenset(own))
        done: set[str] = set()
        for _ in range(_ROUNDS):
            files = find_files(self.old_root)
            known = done.union(find_files(self.new_root).others)
            manifests = [
                each for each in files.manifests if each not in done and version_of(each) > after
            ]
            if not manifests:
                return max([after, *(version_of(each) for each in done)])
            others = [each for each in files.others if each not in known]
            for _ in self.runner.run(work.copy, chunks(others, MOST_KEYS), what="copying files"):
                pass
            self._rewrite(work, manifests)
            done.update(others, manifests)
        raise self._busy(f"somebody keeps writing to {str(self.old)!r}")

    def _rewrite(self, work: Copying, manifests: Sequence[str]) -> None:
        tasks = chunks(manifests, _MANIFESTS_AT_ONCE)
        found = self.runner.run(work.rewrite, tasks, what="rewriting manifests")
        taken = [each for some in found for each in some]
        if taken:
            withdraw(self.old_root)
            withdraw(self.new_root)
            raise IncompatibleConflictError(
                f"{', '.join(taken)} landed in {self.old_root.uri} while {str(self.old)!r} was "
                f"renamed to {str(self.new)!r}, which has gone on by itself. It is still there; "
                f"look at both, bring over what is missing, then delete {str(self.old)!r} with "
                "force=True",
                taken=taken,
            )

    def _note(self, brought: int) -> None:
        """Record the version up to which all is copied, for a writer that finishes the rename."""
        standing = load_standing(self.new_root)
        if standing is None or not declare(
            self.new_root, replace(self.into, version=brought), standing
        ):
            raise self._busy("somebody else has taken over")

    def _record(self) -> None:
        found = load_branch(self.store, self.old)
        if found is None:
            raise no_branch(self.store, self.old)
        record = replace(found, name=self.new)
        key = branch_key(self.new)
        if put_new_settled(self.store, key, encode_branch(record)) is PutOutcome.EXISTS:
            other = load_branch(self.store, self.new)
            if other is None or other.identifier != record.identifier:
                raise self._exists()

    def _finish(self, brought: int) -> None:
        brought = self._bring_late(brought)
        self.store.delete([branch_key(self.old)])
        last = self._close(brought)
        files = find_files(self.old_root)
        manifests = tuple(each for each in files.manifests if each != last)
        remove_files(self.old_root, RootFiles(manifests, files.others))
        self.old_root.delete([last] if last else [])
        withdraw(self.old_root)
        prune(self.store, self.old)
        withdraw(self.new_root)

    def _bring_late(self, brought: int) -> int:
        """Copy what was committed under the old name since."""
        newest = newest_version(self.old_root)
        if newest is None or newest.version <= brought:
            return brought
        return self._bring(brought)

    def _close(self, brought: int) -> str | None:
        """Write a last version in the old root that nothing can follow; its key.

        A commit in progress finds the next number taken. None if the root is empty already.
        """
        location = branch_location(self.main, self.old)
        for _ in range(_ROUNDS):
            newest = newest_version(self.old_root)
            if newest is None:
                return None
            there = load_snapshot(location, version=newest.version)
            if RENAMED_KEY in there.manifest.config:
                return manifest_key(newest.version, newest.scheme)
            if newest.version > brought:
                brought = self._bring(brought)
                continue
            version = Version(newest.version + 1)
            key = manifest_key(version, newest.scheme)
            data = closed_manifest(there.manifest, self.new, _last_stamp(version))
            if put_new_settled(self.old_root, key, data) is PutOutcome.CREATED:
                return key
        raise self._busy(f"somebody keeps writing to {str(self.old)!r}")

    def _exists(self) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"branch {str(self.old)!r} cannot be renamed: branch {str(self.new)!r} of "
            f"{self.store.uri} exists already",
            branch=str(self.new),
        )

    def _busy(self, why: str) -> RetryableConflictError:
        return RetryableConflictError(
            f"branch {str(self.old)!r} of {self.store.uri} cannot be renamed to "
            f"{str(self.new)!r} now: {why}",
            branch=str(self.old),
        )


def _last_stamp(version: Version) -> VersionStamp:
    """The stamp of a Restore, which conflicts with every other change."""
    read = Version(version - 1)
    transaction = Transaction.new(read, Restore(read))
    name, data = transaction_name(read, transaction.uuid), encode_transaction(transaction)
    return VersionStamp(version, time.time_ns(), name, data, LIBRARY, RELEASE)


@dataclass(frozen=True)
class Copying:
    """The task: copy files from one root to the other."""

    main: Store
    old: BranchName
    new: BranchName
    own_paths: frozenset[str]

    def copy(self, keys: Sequence[str]) -> None:
        """Copy files other than manifests; transactions are rewritten if they name the branch."""
        source, target = root_of(self.main, self.old), root_of(self.main, self.new)
        for key in keys:
            if key.startswith(f"{TRANSACTIONS_DIR}/") and key.endswith(".txn"):
                name = f"{source.uri}/{key}"
                target.put(key, renamed_transaction(source.get(key), self.old, self.new, name))
            else:
                self.main.copy(f"{TREE_DIR}/{self.old}/{key}", f"{TREE_DIR}/{self.new}/{key}")

    def rewrite(self, keys: Sequence[str]) -> list[str]:
        """Copy manifests, rewritten; returns those whose place in the new root is taken."""
        source, target = root_of(self.main, self.old), root_of(self.main, self.new)
        taken = []
        for key in keys:
            data = renamed_manifest(
                source.get(key),
                self.old,
                self.new,
                self.own_paths,
                target.uri,
                f"{source.uri}/{key}",
            )
            if data is None or put_new_settled(target, key, data) is PutOutcome.CREATED:
                continue
            if not is_same_manifest(target.get(key), data, f"{target.uri}/{key}"):
                taken.append(key)
        return taken


def version_of(key: str) -> int:
    """The version of a manifest by its key; 1 for a detached one."""
    found = parse_manifest_name(key.rpartition("/")[2])
    return 0 if found is None else 1 if found.detached else found.version
