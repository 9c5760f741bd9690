"""Landing: the states of a transaction become ordinary versions of their branch.

Each step lands at most once, under its own identity, by whoever comes: the writer of the
transaction, or any later one, or two at once. Before every attempt the versions above the base are
searched for the steps, and a manifest is only put right after the newest version. Where nobody else
wrote, the staged manifests are put there as they are, but for number and time. Where somebody did,
the operations are judged and built anew, as by any commit, or the landing is refused: the history
of the table and the transaction have diverged. Knows nothing of commits of a repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lancewood.engine.staging.steps import Landed, Sight, already_made, exact_versions, look_for
from lancewood.engine.versions import leave_hint, load_manifest, load_transaction
from lancewood.errors import (
    ConflictError,
    IncompatibleConflictError,
    IntegrityError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import ANY_REPOSITORY, AppliedBatch, marks
from lancewood.model.transaction import (
    EXACT_PROPERTY,
    MissingTransaction,
    Overwrite,
    UnknownOperation,
)
from lancewood.store.base import PutOutcome

if TYPE_CHECKING:
    from lancewood.engine.commit import CommitPolicy, CommitStep, Drafting
    from lancewood.engine.location import Location
    from lancewood.engine.staging.staging import Stage
    from lancewood.format.layout import NamingScheme

__all__ = ["Landed", "LandingState", "find_landing", "land"]


@dataclass(frozen=True, slots=True)
class LandingState:
    """How far a landing is: landed, waiting or diverged."""

    versions: tuple[Version, ...] = ()
    """The versions that the steps became; none before all have landed."""
    is_exact: bool = True
    """Whether ``versions`` are the staged states, or would be if they landed now."""
    conflict: ConflictError | None = None
    """What landing would raise."""

    @property
    def is_landed(self) -> bool:
        return bool(self.versions)

    @property
    def is_waiting(self) -> bool:
        """Whether the states could land now."""
        return not self.versions and self.conflict is None

    @property
    def is_diverged(self) -> bool:
        return self.conflict is not None


def land(
    location: Location,
    landing: Landing,
    policy: CommitPolicy | None = None,
    *,
    stage: Stage | None = None,
) -> Landed:
    """Bring the steps onto the branch whose root this is, as consecutive versions.

    Landing what has landed is one listing and one small read. ``stage`` is where it comes from, if
    that is at hand: then nothing is read. Raises ConflictError for a divergence, NotFoundError if a
    staged manifest or the table is gone, CommitUnknownError if the store never said what became of
    a step.
    """
    from lancewood.engine.commit import CommitPolicy
    from lancewood.format.layout import VERSIONS_DIR

    policy = policy or CommitPolicy()
    location = location.written_by(
        ANY_REPOSITORY
    )  # it was committed, whoever may write from now on
    task = _Landing(location, landing, policy, {} if stage is None else stage.known)
    if stage is not None and stage.base.version == landing.base and stage.is_base_newest():
        sight = Sight(landing, stage.scheme, landing.base, (), 0)
        task.is_long = stage.base.sighting is not None
    else:
        sight = look_for(location.store, landing)
    if sight.is_landed:
        return sight.landed
    policy.publisher.check_trust(location.store)
    with location.store.turn(VERSIONS_DIR):
        for attempt in policy.retry:
            if attempt:
                sight = look_for(location.store, landing)
                if sight.is_landed:
                    return sight.landed
            if sight.is_disturbed:
                break
            if task.put(sight):
                leave_hint(location.store, landing.last_exact_version)
                return Landed(exact_versions(landing), is_exact=True)
        else:
            raise RetryableConflictError(
                f"transaction {landing.uuid} lost the race for the next version of "
                f"{location.uri} {policy.retry.attempts} times; land it again when fewer writers "
                "are active",
                attempts=policy.retry.attempts,
            )
    return task.rebase(sight)


def find_landing(location: Location, landing: Landing) -> LandingState:
    """How far a landing is; reads, and writes nothing."""

    while True:
        sight = look_for(location.store, landing)
        if sight.is_landed:
            return LandingState(sight.landed.versions, sight.landed.is_exact)
        from lancewood.engine.commit import CommitPolicy

        task = _Landing(location.written_by(ANY_REPOSITORY), landing, CommitPolicy(), {})
        try:
            if not sight.is_disturbed:
                task.check_files(sight)
                return LandingState()
            drafting = task.drafting(sight)
            drafting.catch_up()
            if drafting.steps:
                drafting.check()
                return LandingState(is_exact=False)
        except ConflictError as conflict:
            return LandingState(is_exact=False, conflict=conflict)
        except NotFoundError:
            if sight.is_disturbed:
                raise
            return LandingState()


@dataclass
class _Landing:
    location: Location
    landing: Landing
    policy: CommitPolicy
    known: Mapping[Version, Manifest]
    is_long: bool = False
    """Whether the directory is so long that it should not be listed without need."""
    _loaded: dict[int, Manifest] = field(default_factory=dict)

    def put(self, sight: Sight) -> bool:
        """Whether the missing steps were put right after the newest version, as they are; the first
        that is not is the last to be tried."""
        from lancewood.engine.commit import PutVersion
        from lancewood.format.layout import manifest_key
        from lancewood.format.manifest import restamped

        store, landing, scheme = self.location.store, self.landing, sight.scheme
        before = 0
        if sight.exact:
            # By another lander, whose clock may be ahead of ours.
            before = load_manifest(store, sight.newest, scheme).timestamp_ns
        missing = range(sight.exact, len(landing.steps))
        states = [self._staged(number, scheme) for number in missing]
        self.check_files(sight)
        for number, staged in zip(missing, states, strict=True):
            version = landing.exact_version(number)
            started = self.policy.clock()
            before = max(before, staged.timestamp_ns, started)
            manifest, data = restamped(staged, version, before)
            outcome = self.policy.publisher.publish(store, version, scheme, data)
            if outcome is PutOutcome.EXISTS:
                return False
            put = PutVersion(
                location=self.location,
                scheme=scheme,
                manifest=manifest,
                data=data,
                before=partial(self._before, number, scheme),
                lost=partial(self._lost_file, number, scheme),
                witness=manifest_key(landing.steps[number], scheme),
                took_ns=self.policy.clock() - started,
                is_long=self.is_long,
            )
            if not put.stands():
                return False
        return True

    def _before(self, number: int, scheme: NamingScheme) -> Manifest | None:
        """The state that a step was built on; None where it is gone."""
        try:
            if number:
                return self._staged(number - 1, scheme)
            base = self.landing.base
            return load_manifest(self.location.store, base, scheme) if base else None
        except NotFoundError:
            return None

    def _lost_file(self, number: int, scheme: NamingScheme) -> str | None:
        from lancewood.engine.commit import lost_staged_file

        before, state = self._before(number, scheme), self._staged(number, scheme)
        return None if before is None else lost_staged_file(self.location, before, state)

    def rebase(self, sight: Sight) -> Landed:
        """Land what is missing after what others wrote."""
        from lancewood.engine.commit import commit_steps
        from lancewood.format.layout import transaction_name

        drafting = self.drafting(sight)
        names = [
            transaction_name(each.transaction.read_version, each.transaction.uuid)
            for each in drafting.steps
        ]
        done = commit_steps(
            self.location, drafting.base, sight.scheme, drafting.steps, self.policy, noted=names
        )
        versions = (*sight.found[: sight.exact], *done.versions)
        return Landed(versions, versions == exact_versions(self.landing))

    def drafting(self, sight: Sight) -> Drafting:
        """The steps that did not land right after the base, on the state that the first of them was
        built on.

        Raises ConflictError where they may only follow that very state.
        """
        from lancewood.engine.commit import Drafting
        from lancewood.rules.overlaps import dependence

        landing, exact = self.landing, sight.exact
        if sight.is_cut:
            raise self._lost(sight)
        if not landing.base and not exact:
            raise already_made(self.location)
        base = self._base(sight)
        self.check_files(sight, base)
        steps = [self._step(number, sight) for number in range(exact, len(landing.steps))]
        why = dependence(base, [each.transaction.operation for each in steps])
        if why is not None:
            raise self._diverged(sight, f"its steps depend on each other: {why}")
        return Drafting(self.location, sight.scheme, base, steps, self.policy)

    def check_files(self, sight: Sight, before: Manifest | None = None) -> None:
        """Raise IncompatibleConflictError if files that the missing steps brought are gone; those
        of a stage that is at hand were written just now."""
        from lancewood.engine.commit import lost_staged_file

        landing, store = self.landing, self.location.store
        if landing.version in self.known:
            return
        at = Version(landing.base + sight.exact)
        if before is None and at:
            before = load_manifest(store, at, sight.scheme)
        last = self._staged(len(landing.steps) - 1, sight.scheme)
        lost = lost_staged_file(self.location, before, last)
        if lost is not None:
            raise IncompatibleConflictError(
                f"transaction {landing.uuid} cannot land on {self.location.uri}: {lost}, which its "
                f"version {landing.version} needs, is gone. A cleanup that does not know the "
                "repository removed it",
                uuid=landing.uuid,
                file=lost,
            )

    def _base(self, sight: Sight) -> Manifest:
        version = Version(self.landing.base + sight.exact)
        try:
            return load_manifest(self.location.store, version, sight.scheme)
        except NotFoundError as cause:
            why = f"version {version}, which it was built on, was cleaned up"
            raise self._diverged(sight, why) from cause

    def _step(self, number: int, sight: Sight) -> CommitStep:
        from lancewood.engine.commit import CommitStep

        staged = self._staged(number, sight.scheme)
        transaction = load_transaction(self.location.store, staged)
        operation = transaction.operation
        if isinstance(operation, MissingTransaction | UnknownOperation):
            raise self._diverged(sight, f"what step {number + 1} does cannot be read")
        why = transaction.properties.get(EXACT_PROPERTY)
        if why is not None:
            raise self._diverged(sight, f"step {number + 1} may follow no other version: {why}")
        if isinstance(operation, Overwrite):
            told = replace(operation, file_version=staged.file_version)
            transaction = replace(transaction, operations=(told,))
        return CommitStep(transaction, _applied(staged, transaction.uuid))

    def _staged(self, number: int, scheme: NamingScheme) -> Manifest:
        """The staged state after a step; raises IntegrityError if it is another's."""
        from lancewood.engine.commit import check_manifest_store
        from lancewood.format.layout import manifest_key, transaction_name
        from lancewood.rules.features import check_writable

        landing, store = self.landing, self.location.store
        version = landing.steps[number]
        found = self.known.get(version) or self._loaded.get(number)
        if found is None:
            found = self._loaded[number] = load_manifest(store, version, scheme)
            check_writable(found, self.location.repository)
            check_manifest_store(self.location, found)
        expected = transaction_name(Version(landing.base + number), landing.uuids[number])
        if found.transaction_file != expected:
            raise IntegrityError(
                f"{store.uri}/{manifest_key(version, scheme)}: is not step {number + 1} of "
                f"transaction {landing.uuid}: it was made by {found.transaction_file}",
                version=version,
            )
        return found

    def _lost(self, sight: Sight) -> IncompatibleConflictError:
        return IncompatibleConflictError(
            f"transaction {self.landing.uuid} was built on version {self.landing.base} of "
            f"{self.location.uri}, and versions after that, up to {sight.newest}, were removed by "
            "a cleanup that does not know the repository; whether it landed among them cannot be "
            f"told any more. Its states still read, as version {self.landing.version}; look at "
            "both, and decide which one is to go on",
            version=sight.newest,
            uuid=self.landing.uuid,
        )

    def _diverged(self, sight: Sight, why: str) -> IncompatibleConflictError:
        return IncompatibleConflictError(
            f"transaction {self.landing.uuid} was built on version {self.landing.base} of "
            f"{self.location.uri}, and others wrote up to version {sight.newest} before it landed; "
            f"it cannot land after that: {why}. Its states still read, as version "
            f"{self.landing.version}; look at both, and decide which one is to go on",
            version=sight.newest,
            uuid=self.landing.uuid,
        )


def _applied(staged: Manifest, uuid: str) -> AppliedBatch | None:
    """The batch that a step brought."""
    for app, mark in marks(staged.config):
        if mark.uuid == uuid:
            return AppliedBatch(app, mark.batch)
    return None
