"""The commit: the one place where a table changes.

Judge what landed meanwhile, patch the newest manifest, publish; if somebody was faster, again.
Nothing that is already visible is ever changed or deleted.

The versions are listed before every attempt, although the next number is known: a handle may be
old, and cleanup may have removed the versions after it. A manifest put into such a gap would be
a version in the past, and the commit would be lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lancewood.engine.composer import Composer
from lancewood.engine.conflicts import conflict_of, names_of
from lancewood.engine.hints import leave_hint
from lancewood.engine.place import Place
from lancewood.engine.publish import Publisher, PutIfAbsent
from lancewood.engine.rebase import rebase_index, rebase_rows
from lancewood.engine.refs import load_branch
from lancewood.engine.sighting import WORTH_IT, Sighting, is_still_newest, take_sighting
from lancewood.engine.transactions import (
    load_transaction,
    load_transaction_of,
    missing_transaction,
)
from lancewood.engine.versions import load_manifest, versions_since
from lancewood.errors import (
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.layout import (
    VERSIONS_DIR,
    NamingScheme,
    manifest_key,
    transaction_key,
    transaction_name,
)
from lancewood.format.manifest import Stamp, splice
from lancewood.format.transaction import encode_transaction
from lancewood.model.applied import AppliedBatch
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.operations import CreateIndex
from lancewood.model.patch import ManifestPatch
from lancewood.model.refs import BranchName
from lancewood.model.transaction import Transaction
from lancewood.rules.applied import check_new, with_mark
from lancewood.rules.apply import apply, needed_version
from lancewood.rules.closed import check_open
from lancewood.rules.columns import ColumnWatch
from lancewood.rules.conflicts import judge
from lancewood.rules.features import check_writable
from lancewood.rules.lists import check_list
from lancewood.rules.patching import with_config
from lancewood.rules.verdicts import Outcome, severest
from lancewood.store.base import PutOutcome
from lancewood.version import LIBRARY, RELEASE


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """How hard a commit tries, and by which clock."""

    max_attempts: int = 64
    serializable: bool = False
    """Refuse if the table moved at all since the transaction's read version."""
    may_be_closed: bool = False
    """Write to a published branch, too: for those who publish and open it."""
    applied: AppliedBatch | None = None
    """Refuse if the table holds this batch or a later one, and note it beside the rows."""
    publisher: Publisher = field(default_factory=PutIfAbsent)
    clock: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class _Draft:
    """A version that is built, but not visible yet."""

    manifest: Manifest
    data: bytes
    step: Transaction


def commit(
    place: Place,
    base: Manifest,
    scheme: NamingScheme,
    transaction: Transaction,
    policy: CommitPolicy | None = None,
    composer: Composer | None = None,
) -> Manifest:
    """The manifest after a transaction that was built on ``base``.

    A list of operations becomes consecutive versions: all are judged and built before the first
    is published. Committing a transaction that has landed already changes nothing. With a
    ``composer`` it becomes one version, which that builds; of the transaction only the identity,
    the properties and the names of the operations count.

    Raises RetryableConflictError or IncompatibleConflictError if what landed meanwhile does not go
    together with it, CommitUnknownError if the store never said whether it landed. Nothing is
    visible after a conflict, unless it hit a list between two of its versions: ``facts["landed"]``
    then names those that are there.
    """
    policy = policy or CommitPolicy()
    check_writable(base)
    if composer is None:
        check_list(transaction.operations)
    if policy.applied is not None and len(transaction.operations) > 1:
        raise InvalidInputError(
            "a batch becomes one version; this transaction is a list of "
            f"{len(transaction.operations)} operations, each of which becomes one"
        )
    if is_detached(base.version) and policy.publisher.follows_newest:
        raise InvalidInputError(
            f"version {base.version} is detached: it is beside the history of {place.uri}, and "
            "nothing can follow it there; write to latest()"
        )
    policy.publisher.check_trust(place.store)
    attempt = _Attempt(place, scheme, transaction, policy, base, composer)
    done = attempt.run()
    if policy.publisher.follows_newest:
        leave_hint(place.store, done.version)
    return done


class _Attempt:
    """One commit under way: how far it knows the table, and which steps are still to land."""

    def __init__(
        self,
        place: Place,
        scheme: NamingScheme,
        transaction: Transaction,
        policy: CommitPolicy,
        base: Manifest,
        composer: Composer | None,
    ) -> None:
        self._place = place
        self._store = place.store
        self._scheme = scheme
        self._policy = policy
        self._whole = transaction
        self._encoded: tuple[Transaction, bytes] | None = None
        self._composer = composer
        self._steps = [transaction] if composer else list(transaction.steps())
        self._base = self._newest = base
        self._columns = ColumnWatch(base.fields, transaction.operations)
        self._landed: list[Version] = []
        self._must_rebase = False
        """Whether somebody changed a fragment that we change, too, or index."""
        self._noted: set[str] = set()
        """The transaction files that were written."""
        self._is_known = False
        """Whether the base was found to be the version that was read."""
        self._is_long = base.sighting is not None
        """Whether the directory is so long that it should not be listed again and again."""

    def run(self) -> Manifest:
        """Publish every step; the lost race for one of them is run again."""
        started = self._policy.clock()
        if self._composer is None:
            self._write_transaction(self._steps[0])
        # The queue keeps our own writers on this machine out of each other's way. It is held while
        # we step back, so the pauses below are for pylance, and for who could not queue.
        with self._store.turn(VERSIONS_DIR):
            for attempt in range(self._policy.max_attempts):
                self._catch_up()
                if self._publish(self._drafts()):
                    return self._newest
                self._policy.sleep(_pause(attempt))
        seconds = (self._policy.clock() - started) / 1e9
        raise RetryableConflictError(
            f"{names_of(self._steps)} lost the race for the next version of {self._store.uri} "
            f"{self._policy.max_attempts} times in {seconds:.1f} s; run it again when fewer "
            "writers are active",
            attempts=self._policy.max_attempts,
            seconds=seconds,
            landed=self._landed,
        )

    def _publish(self, drafts: Sequence[_Draft]) -> bool:
        """Whether all drafts became visible; the first that does not is the last to be tried."""
        for draft in drafts:
            version = draft.manifest.version
            self._write_transaction(draft.step)
            outcome = self._policy.publisher.publish(self._store, version, self._scheme, draft.data)
            if outcome is PutOutcome.EXISTS:
                return False
            before = self._newest.version
            self._has_landed(draft.manifest)
            self._check_source(draft)
            self._check_branch(draft.manifest, before)
        if drafts and self._is_long and self._policy.publisher.follows_newest:
            self._newest.sighting = take_sighting(self._store, self._newest.version)
        return True

    def _check_source(self, draft: _Draft) -> None:
        """Raises CommitUnknownError if the older version that this one was made of is gone: it
        landed, and nobody may take its files for those of a commit that did not.

        A cleanup that began before may have taken its files for those of a version that nobody
        needs. As long as its manifest is there, it has not.
        """
        source = None if self._composer else needed_version(draft.step)
        if source is None and not self._policy.publisher.follows_newest:
            source = self._base.version
        if not source or is_detached(source):
            return
        try:
            self._store.head(manifest_key(source, self._scheme))
        except NotFoundError as cause:
            version = draft.manifest.version
            raise CommitUnknownError(
                f"version {version} of {self._store.uri} was made of version {source} while a "
                "cleanup removed that, and files of it may be gone; verify() tells, and restoring "
                "the version before goes back",
                version=version,
            ) from cause
        except StorageError:
            return  # it landed, and nothing speaks against it

    def _check_branch(self, manifest: Manifest, before: Version) -> None:
        """Raises CommitUnknownError if the version landed in a root that its branch has left.

        Renaming and deleting a branch free the numbers of its versions. As long as the version
        before is there, or a record names the branch, nobody has done so.
        """
        main = self._place.main(manifest)
        if main is None or manifest.branch is None or not self._policy.publisher.follows_newest:
            return
        try:
            self._store.head(manifest_key(before, self._scheme))
        except NotFoundError:
            if load_branch(main, BranchName.found(manifest.branch)) is None:
                raise CommitUnknownError(
                    f"version {manifest.version} of branch {manifest.branch} landed at "
                    f"{self._store.uri} while the branch was renamed or deleted; look at "
                    "branches.list(), and do it again on the branch as it is now called",
                    version=manifest.version,
                    branch=manifest.branch,
                ) from None
        except StorageError:
            return  # it landed, and nothing speaks against it

    def _has_landed(self, manifest: Manifest) -> None:
        self._newest = manifest
        self._landed.append(manifest.version)
        del self._steps[0]

    def _drafts(self) -> list[_Draft]:
        """The versions to be published, each built on the one before."""
        newest, drafts = self._newest, []
        if self._steps:
            if not self._policy.may_be_closed:
                check_open(newest)
            check_new(newest.config, self._policy.applied)
        if self._composer is not None:
            return [self._composed(self._composer, step) for step in self._steps]
        for step in self._steps:
            if step.uuid != self._whole.uuid:
                step = step.rebased(newest.version)
            elif self._must_rebase:
                step = self._rebased(newest, step)
            newest, data = self._build(newest, step)
            drafts.append(_Draft(newest, data, step))
        return drafts

    def _composed(self, composer: Composer, whole: Transaction) -> _Draft:
        composition = composer.compose(self._newest)
        step = replace(whole.rebased(self._newest.version), operations=(composition.operation,))
        manifest, data = self._spliced(self._newest, self._newest, composition.patch, step)
        return _Draft(manifest, data, step)

    def _rebased(self, newest: Manifest, step: Transaction) -> Transaction:
        if isinstance(step.operation, CreateIndex):
            return rebase_index(self._base, newest, step)
        try:
            return rebase_rows(self._place, self._base, newest, step)
        except RetryableConflictError as conflict:
            raise RetryableConflictError(
                f"{names_of([step])} built on version {step.read_version} of {self._store.uri} "
                f"meets what landed up to version {newest.version}: {conflict.message}; run it "
                f"again on version {newest.version}",
                **{**conflict.facts, "version": newest.version, "landed": self._landed},
            ) from conflict

    def _build(self, newest: Manifest, step: Transaction) -> tuple[Manifest, bytes]:
        needed = needed_version(step)
        source = newest
        if needed is not None:
            source = load_manifest(self._store, needed, self._scheme)
            check_writable(source)
        patch = apply(newest, step, None if needed is None else source)
        return self._spliced(newest, source, patch, step)

    def _spliced(
        self, newest: Manifest, source: Manifest, patch: ManifestPatch, step: Transaction
    ) -> tuple[Manifest, bytes]:
        now = self._policy.clock()
        if self._policy.applied is not None:
            changed = patch.head.config
            before = source.config if changed is None else changed
            patch = with_config(
                source, patch, with_mark(before, self._policy.applied, step.uuid, now)
            )
        stamp = Stamp(
            version=self._policy.publisher.next_version(newest.version),
            timestamp_ns=now,
            transaction_file=transaction_name(step.read_version, step.uuid),
            transaction=self._encode(step),
            library=LIBRARY,
            library_version=RELEASE,
        )
        return splice(source, patch, stamp)

    def _write_transaction(self, step: Transaction) -> None:
        name = transaction_name(step.read_version, step.uuid)
        if name not in self._noted:
            self._store.put(transaction_key(name), self._encode(step))
            self._noted.add(name)

    def _encode(self, step: Transaction) -> bytes:
        """The bytes of a step; those of the last one are kept, for it is built again and again."""
        if self._encoded is None or self._encoded[0] is not step:
            self._encoded = step, encode_transaction(step)
        return self._encoded[1]

    def _catch_up(self) -> None:
        """Judge every version since the newest one we know, and raise the severest conflict.

        To run an operation again is no answer if a later version has taken away what it rests on. A
        version that carries the identity of our own step is that step: it landed before, and
        whoever asked for it did not hear so.
        """
        if not self._policy.publisher.follows_newest:
            return
        sighting = self._newest.sighting
        if isinstance(sighting, Sighting) and is_still_newest(self._store, sighting, self._scheme):
            return
        found = versions_since(self._store, self._newest.version, self._scheme)
        newer, self._is_long = found.versions, found.listed >= WORTH_IT
        if not self._is_known:
            self._check_same_table()
        if not newer:
            return
        expected = self._newest.version
        met: ConflictError | None = None
        for version in reversed(newer):
            expected = Version(expected + 1)
            if version != expected:
                gone = missing_transaction(expected, f"version {expected} was cleaned up")
                self._judge(gone, expected, newest=newer[0])
            theirs = load_transaction_of(self._store, version, self._scheme)
            if self._steps and theirs.uuid == self._steps[0].uuid:
                self._has_landed(self._read_back(version))
                met = None
            elif self._steps:
                conflict = self._judge(theirs, version)
                met = met or conflict
            else:
                return
        if met is not None:
            raise met
        if self._newest.version != newer[0]:
            self._newest = load_manifest(self._store, newer[0], self._scheme)
            check_writable(self._newest)

    def _read_back(self, version: Version) -> Manifest:
        """Our own version, found again. It is there, so failing to read it is not failing."""
        try:
            return load_manifest(self._store, version, self._scheme)
        except LancewoodError as cause:
            raise CommitUnknownError(
                f"the commit landed as version {version} of {self._store.uri}, but cannot be read "
                f"back: {cause}",
                version=version,
            ) from cause

    def _check_same_table(self) -> None:
        """Raises NotFoundError if the base version is no longer the one that we read.

        A table that was dropped and made again has the same names, and other rows behind them.
        """
        base = self._newest
        self._is_known = True
        if not base.version:
            return
        now = load_transaction_of(self._store, base.version, self._scheme)
        then = load_transaction(self._store, base)
        if now.uuid and then.uuid and now.uuid != then.uuid:
            raise NotFoundError(
                f"version {base.version} of {self._store.uri} is not the one that was read: the "
                "table was dropped and made again; open it anew",
                version=base.version,
            )

    def _judge(
        self, theirs: Transaction, version: Version, newest: Version | None = None
    ) -> ConflictError | None:
        """A conflict that running the operation again may settle; raises any other."""
        if self._composer is not None:
            self._composer.judge(theirs, version)
            return None
        mine = Transaction(
            self._whole.read_version,
            self._whole.uuid,
            tuple(each.operation for each in self._steps),
            self._whole.properties,
        )
        if self._policy.serializable:
            raise RetryableConflictError(
                f"{names_of(self._steps)} is serializable and built on version "
                f"{mine.read_version}, but version {version} has landed; run it again on the "
                "newest version",
                version=version,
                landed=self._landed,
            )
        columns = [self._columns.see(each) for each in theirs.operations]
        verdict = severest([judge(mine, theirs), *columns])
        if verdict.outcome is Outcome.REBASE and len(self._steps) == 1:
            self._must_rebase = True
            return None
        conflict = conflict_of(self._store, mine, theirs, verdict, version, newest or version)
        if conflict is not None:
            conflict.facts["landed"] = self._landed
        if isinstance(conflict, IncompatibleConflictError):
            raise conflict
        return conflict


def _pause(attempt: int) -> float:
    """How long to step back: a random moment in a window that grows to a quarter of a second."""
    return random.uniform(0, min(0.002 * 1.6**attempt, 0.25))
