"""One table in one transaction of a repository: its next states, built and not visible yet.

A stage begins at a landed version, or at nothing for a table that is to be made. Every change is
applied to its newest state in memory, by the rules of any commit, and under the numbers that the
versions have if nobody else writes; so row ids and row versions are those of the versions to be.
``publish`` writes the states down as detached versions, which nothing but their number leads to.
``landing`` makes them part of the history. Commits of a repository are not known here.
"""

from __future__ import annotations

import threading
import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lancewood.engine.commit import (
    CommitPolicy,
    Composer,
    Detached,
    Draft,
    Drafting,
    PutIfAbsent,
    steps_of,
)
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, read_version
from lancewood.engine.staging.steps import (
    StagedStep,
    already_made,
    check_rebuildable,
    check_sources,
    staged_as,
    write_states,
)
from lancewood.engine.versions import (
    Sighting,
    is_still_newest,
    load_manifest,
    take_sighting,
    versions_since,
)
from lancewood.engine.write import WriteRequest, commit_written, write_first
from lancewood.errors import (
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
)
from lancewood.format.layout import (
    NamingScheme,
)
from lancewood.model.ids import Version, is_detached
from lancewood.model.lines import Landing
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import Transaction


@dataclass(frozen=True)
class StagedSnapshot(Snapshot):
    """A state of a table in a transaction: what is written to it stays in the stage.

    Sent to another process it is a plain snapshot, which can be read there and not written to.
    """

    stage: Stage = field(kw_only=True, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot, (self.location, self.manifest, self.scheme)

    def newest(self) -> Snapshot:
        return self.stage.snapshot

    def transaction_of(self, version: Version) -> Transaction:
        at = version - self.stage.base.version
        return super().transaction_of(version) if at <= 0 else self.stage.steps[at - 1]

    def unlanded(self, version: int) -> Snapshot | None:
        return self.stage.state(version)

    @property
    def landed_version(self) -> Version | None:
        return self.stage.base.version or None

    def together(self, other: Snapshot) -> Snapshot:
        return StagedSnapshot(other.location, other.manifest, other.scheme, stage=self.stage)

    def commit(self, transaction: Transaction, policy: CommitPolicy | None = None) -> Snapshot:
        """The snapshot after the transaction, in the stage; nothing is published.

        Raises ConflictError like a commit if the stage went on since its read version.
        """
        self._check_own()
        return self._followed_by(self.stage.commit(transaction, policy, read=self.manifest))

    def check_commit(self, transaction: Transaction, policy: CommitPolicy | None = None) -> None:
        self._check_own()
        self.stage.check(transaction, policy, read=self.manifest)

    def _check_own(self) -> None:
        """Raise InvalidInputError where nothing can be written to the stage."""
        if self.location.uri != self.stage.location.uri:
            raise InvalidInputError(
                f"this transaction writes to {self.stage.location.uri}, and the handle is on "
                f"{self.location.uri}; what is read from there can be written to the transaction's "
                "own"
            )
        self.stage.check_open()


class Stage:
    """The next states of one table. Threads may share it; each change is applied as a whole."""

    def __init__(
        self, snapshot: Snapshot, *, uuid: str | None = None, message: str | None = None
    ) -> None:
        """A stage on a landed version, or on version 0. ``uuid`` is the identity of everything
        that is staged; by default a new one. ``message`` is that of steps which have none."""
        base = snapshot.manifest
        if isinstance(snapshot, StagedSnapshot) or is_detached(base.version):
            raise InvalidInputError(
                f"version {base.version} of {snapshot.location.uri} is not part of its history; a "
                "stage begins at a version that is"
            )
        snapshot.check_writable()
        self.uuid = str(uuids.uuid4()) if uuid is None else uuid
        self.message = message
        self.location: Location = snapshot.location
        self.scheme: NamingScheme = snapshot.scheme
        self.base: Manifest = base
        """The version that the first step is built on."""
        self._first = snapshot
        self._staged: list[StagedStep] = []
        self._numbers: list[Version] = []
        """The detached versions of the steps that are written down."""
        self._published: Manifest | None = None
        self._sighting = base.sighting
        self._closed: str | None = None
        self._lock = threading.RLock()

    @classmethod
    def new(
        cls, location: Location, data: Any, request: WriteRequest, message: str | None = None
    ) -> Stage:
        """A stage for a table that is to be made. Raises AlreadyExistsError."""
        plan, transaction = write_first(location, data, request, message=message)
        stage = cls(plan.before, message=message)
        commit_written(stage.snapshot, transaction, CommitPolicy(), file_roots=plan.roots)
        return stage

    def close(self, why: str) -> None:
        """Take no more changes from those who hold its states; ``why`` is what they are told."""
        self._closed = self._closed or why

    def check_open(self) -> None:
        """Raise InvalidInputError once the stage was closed: a change would go nowhere."""
        if self._closed is not None:
            raise InvalidInputError(self._closed)

    @property
    def steps(self) -> tuple[Transaction, ...]:
        """What was staged so far, one transaction for each version to be."""
        return tuple(each.transaction for each in self._staged)

    @property
    def snapshot(self) -> StagedSnapshot:
        """The newest state."""
        return self._snapshot(self._newest)

    @property
    def published(self) -> Snapshot:
        """The detached version that holds everything that was published.

        Raises InvalidInputError before that.
        """
        if self._published is None:
            raise InvalidInputError(
                f"nothing of {self.location.uri} was published by this stage yet"
            )
        return Snapshot(self.location, self._published, self.scheme)

    @property
    def known(self) -> Mapping[Version, Manifest]:
        """The states that are written down, by their detached versions."""
        return {
            number: each.manifest for number, each in zip(self._numbers, self._staged, strict=False)
        }

    def is_base_newest(self) -> bool:
        """Whether nobody has written after the base; a long directory is not listed for that."""
        if self._is_sighted():
            return True
        return not versions_since(self.location.store, self.base.version, self.scheme).versions

    def state(self, version: int) -> StagedSnapshot | None:
        """The state that is going to have this number; None for versions up to the base.

        Raises NotFoundError for one that was not staged.
        """
        at = version - self.base.version
        if at <= 0 or is_detached(Version(version)):
            return None
        staged = self._staged[:at]
        if len(staged) < at:
            raise NotFoundError(
                f"version {version} of {self.location.uri} is not staged: the newest state is "
                f"{self._newest.version}",
                version=version,
                newest=self._newest.version,
            )
        return self._snapshot(staged[-1].manifest)

    def commit(
        self,
        transaction: Transaction,
        policy: CommitPolicy | None = None,
        *,
        read: Manifest | None = None,
    ) -> StagedSnapshot:
        """The state after a transaction; see ``StagedSnapshot.commit``.

        One that is staged already changes nothing. ``read`` is the version it was built on, where
        that is at hand.
        """
        policy = policy or CommitPolicy()
        with self._lock:
            again = self._find(transaction.uuid)
            if again is not None:
                return self._snapshot(again)
            drafting = self._drafting(transaction, policy, read)
            return self._take(drafting.drafts(), transaction.uuid, policy)

    def check(
        self, transaction: Transaction, policy: CommitPolicy | None, *, read: Manifest
    ) -> None:
        """Raise what ``commit`` would raise now, and stage nothing."""
        with self._lock:
            self._drafting(transaction, policy or CommitPolicy(), read).check()

    def _drafting(
        self, transaction: Transaction, policy: CommitPolicy, read: Manifest | None
    ) -> Drafting:
        """The transaction on the newest state."""
        steps = [
            replace(each, transaction=self._told(each.transaction, at, policy))
            for at, each in enumerate(steps_of(transaction, policy), len(self._staged))
        ]
        since = transaction.read_version - self.base.version
        drafting = Drafting(
            self.location,
            self.scheme,
            self._read(transaction, read),
            steps,
            self._timed(policy),
            load=self._load,
            on_newest=True,
        )
        if since < 0:
            drafting.catch_up(self.base)
        drafting.follow(self.steps[max(since, 0) :], self._newest)
        return drafting

    def compose(
        self, transaction: Transaction, composer: Composer, policy: CommitPolicy | None = None
    ) -> StagedSnapshot:
        """The state after one step that a composer builds.

        It must have judged everything up to the base, and is asked to judge the steps that are
        staged. Such a step lands only where nobody wrote in between.
        """
        policy = policy or CommitPolicy()
        with self._lock:
            again = self._find(transaction.uuid)
            if again is not None:
                return self._snapshot(again)
            (step,) = steps_of(transaction, policy, composer)
            mine = self._told(step.transaction, len(self._staged), policy, is_composed=True)
            drafting = Drafting(
                self.location,
                self.scheme,
                self.base,
                [replace(step, transaction=mine)],
                self._timed(policy),
                composer,
            )
            drafting.follow(self.steps, self._newest)
            return self._take(drafting.drafts(), transaction.uuid, policy, composer)

    def publish(self) -> Landing:
        """Write every state down as a detached version, with its transaction; what is written down
        already stays as it is.

        Raises InvalidInputError if nothing was staged, RetryableConflictError if a version that the
        states are made of was cleaned up meanwhile, StorageError if the store failed.
        """
        with self._lock:
            if not self._staged:
                raise InvalidInputError(f"nothing was staged for {self.location.uri}")
            Detached().check_trust(self.location.store)
            is_sighted = self._is_sighted()
            waiting = self._staged[len(self._numbers) :]
            if waiting:
                written = write_states(self.location, self.scheme, waiting)
                self._published = written[-1]
                self._numbers += [each.version for each in written]
            if is_sighted:
                self._sighting = take_sighting(self.location.store, self.base.version)
            check_sources(self.location, self.scheme, self.base.version, self.steps)
            return Landing(self.base.version, self.uuid, tuple(self._numbers))

    def rebuild(self, head: Snapshot, policy: CommitPolicy | None = None) -> Stage:
        """A stage with the same operations and the same identity on a newer landed version.

        Every version up to ``head`` is judged as by a commit. Raises RetryableConflictError or
        IncompatibleConflictError where they do not go together, or the steps depend on each other;
        nothing has changed then.
        """
        now = head.manifest.version
        if now == self.base.version:
            return self
        if not self._staged:
            return Stage(head, uuid=self.uuid, message=self.message)
        if not self.base.version:
            raise already_made(self.location)
        check_rebuildable(self.location, self.base, self._staged, now)
        policy = policy or CommitPolicy()
        composer = self._staged[0].composer
        fresh = Stage(head, uuid=self.uuid, message=self.message)
        drafting = Drafting(
            self.location,
            self.scheme,
            self.base,
            [each.step for each in self._staged],
            fresh._timed(policy),
            composer,
            on_newest=True,
        )
        drafting.catch_up(head.manifest)
        if drafting.landed:
            raise CommitUnknownError(
                f"{drafting.names or 'everything'} of transaction {self.uuid} was to be built "
                f"anew, but it landed on {self.location.uri}, as version {drafting.landed[0]}: it "
                "was committed",
                versions=drafting.landed,
            )
        for draft, before in zip(drafting.drafts(), self._staged, strict=True):
            fresh._take([draft], before.asked, before.policy, before.composer)
        return fresh

    @property
    def _newest(self) -> Manifest:
        return self._staged[-1].manifest if self._staged else self.base

    def _is_sighted(self) -> bool:
        sighting = self._sighting
        return isinstance(sighting, Sighting) and is_still_newest(
            self.location.store, sighting, self.scheme
        )

    def _snapshot(self, manifest: Manifest) -> StagedSnapshot:
        made = StagedSnapshot(self.location, manifest, self.scheme, stage=self)
        return self._first._followed_by(made)

    def _find(self, asked: str) -> Manifest | None:
        """The state after a transaction that is staged already."""
        found = [each.manifest for each in self._staged if each.asked == asked]
        return found[-1] if found else None

    def _told(
        self, transaction: Transaction, at: int, policy: CommitPolicy, *, is_composed: bool = False
    ) -> Transaction:
        return staged_as(transaction, self.uuid, at, policy, is_composed, self.message)

    def _read(self, transaction: Transaction, read: Manifest | None) -> Manifest:
        """The version or state that a transaction was built on."""
        version = transaction.read_version
        if version == self.base.version:
            return self.base
        if is_detached(version):
            raise InvalidInputError(
                f"this state is detached: it is beside the history of {self.location.uri}, and "
                "nothing can follow it there"
            )
        staged = self.state(version)
        if staged is not None:
            return staged.manifest
        if read is not None and read.version == version:
            return read
        return read_version(self.location, self.scheme, transaction)

    def _load(self, version: Version) -> Manifest:
        staged = self.state(version)
        if staged is not None:
            return staged.manifest
        if version == self.base.version:
            return self.base
        return load_manifest(self.location.store, version, self.scheme)

    def _timed(self, policy: CommitPolicy) -> CommitPolicy:
        """The policy with a clock that never runs back behind the newest state."""
        clock = _not_before(policy.clock, self._newest.timestamp_ns)
        return replace(policy, clock=clock, publisher=PutIfAbsent())

    def _take(
        self,
        drafts: Sequence[Draft],
        asked: str,
        policy: CommitPolicy,
        composer: Composer | None = None,
    ) -> StagedSnapshot:
        for each in drafts:
            self._staged.append(StagedStep(each.step, each.manifest, asked, policy, composer))
        return self.snapshot


def _not_before(clock: Callable[[], int], floor: int) -> Callable[[], int]:
    last = floor

    def tell() -> int:
        nonlocal last
        last = max(last, clock())
        return last

    return tell
