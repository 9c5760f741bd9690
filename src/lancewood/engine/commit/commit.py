"""The commit: the one place where a table changes.

Judge what landed meanwhile, patch the newest manifest, publish; start over if another writer was
faster. Nothing that others made visible is ever changed or deleted.

The versions are listed before every attempt, although the next number is known: a handle may be
old, and cleanup may have removed the versions after it. A manifest put into such a gap would be a
version in the past, and the commit would be lost. A writer that is held up between the listing and
the put may still hit a gap, so the versions are checked once more afterwards (``aftermath``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from lancewood.engine.commit.aftermath import PutVersion, check_source
from lancewood.engine.commit.composer import Composer
from lancewood.engine.commit.drafting import Draft, Drafting
from lancewood.engine.commit.judging import CommitStep, steps_of
from lancewood.engine.commit.new_files import File, lost_file, seen_files
from lancewood.engine.commit.publish import CommitPolicy, check_manifest_store
from lancewood.engine.location import Location
from lancewood.engine.versions import leave_hint, take_sighting
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.format.layout import (
    VERSIONS_DIR,
    NamingScheme,
    transaction_key,
    transaction_name,
)
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import leaves_manifest_store
from lancewood.model.transaction import Transaction
from lancewood.rules.apply import needed_version
from lancewood.rules.features import check_writable
from lancewood.store.base import PutOutcome
from lancewood.store.together import both

__all__ = ["CommitPolicy", "Committed", "check_commit", "commit", "commit_steps"]


@dataclass(frozen=True, slots=True)
class Committed:
    """The manifest after the last step, and the version that each step became."""

    manifest: Manifest
    versions: tuple[Version, ...]


def commit(
    location: Location,
    base: Manifest,
    scheme: NamingScheme,
    transaction: Transaction,
    policy: CommitPolicy | None = None,
    composer: Composer | None = None,
) -> Manifest:
    """Commit a transaction that was built on ``base``, and return the manifest after it.

    A list of operations becomes consecutive versions: all are judged and built before the first is
    published. Committing a transaction that has landed already changes nothing. A ``composer``
    builds one version instead; it uses only the identity, the properties and the names of the
    operations of the transaction.

    Raises RetryableConflictError or IncompatibleConflictError if it conflicts with what landed
    meanwhile, CommitUnknownError if the store never said whether it landed. Nothing is visible
    after a conflict, unless it hit a list between two of its versions: ``facts["landed"]`` then
    names the versions that landed.
    """
    policy = policy or CommitPolicy()
    steps = _checked_steps(location, base, transaction, policy, composer)
    return commit_steps(location, base, scheme, steps, policy, composer).manifest


def check_commit(
    location: Location,
    base: Manifest,
    scheme: NamingScheme,
    transaction: Transaction,
    policy: CommitPolicy | None = None,
) -> None:
    """Raise what ``commit`` would raise now, and write nothing."""
    policy = policy or CommitPolicy()
    steps = _checked_steps(location, base, transaction, policy, None)
    drafting = Drafting(location, scheme, base, steps, policy)
    drafting.catch_up()
    drafting.check()


def _checked_steps(
    location: Location,
    base: Manifest,
    transaction: Transaction,
    policy: CommitPolicy,
    composer: Composer | None,
) -> Sequence[CommitStep]:
    """The steps of a transaction; raises for one that this table cannot have."""
    check_writable(base, location.repository)
    if not leaves_manifest_store(transaction.operations):
        check_manifest_store(location, base)
    steps = steps_of(transaction, policy, composer)
    if policy.publisher.follows_newest:
        check_in_history(location, base)
    return steps


def check_in_history(location: Location, base: Manifest) -> None:
    """Raise InvalidInputError for a version that nothing can follow, such as one of a commit."""
    if is_detached(base.version):
        raise InvalidInputError(
            f"this state is detached: it is beside the history of {location.uri}, and nothing can "
            "follow it there; a table of a repository's commit is written in "
            "repo.transaction(), any other at latest()"
        )


def commit_steps(
    location: Location,
    base: Manifest,
    scheme: NamingScheme,
    steps: Sequence[CommitStep],
    policy: CommitPolicy,
    composer: Composer | None = None,
    *,
    noted: Collection[str] = (),
) -> Committed:
    """Commit steps that were checked already; ``noted`` are transaction files that exist already.

    The steps must not depend on each other: see ``rules.overlaps``.
    """
    policy.publisher.check_trust(location.store)
    drafting = Drafting(location, scheme, base, steps, policy, composer)
    done = _Attempt(location, scheme, policy, drafting, composer, {*noted}).run()
    if policy.publisher.follows_newest:
        leave_hint(location.store, done.version)
    return Committed(done, tuple(drafting.landed))


@dataclass(frozen=True, slots=True)
class _Look:
    """What was seen before a step is published."""

    started: int
    """The time, by the clock of the policy."""
    seen: frozenset[File] = frozenset()
    """The files of the step that were there."""


@dataclass
class _Attempt:
    """One commit in progress."""

    location: Location
    scheme: NamingScheme
    policy: CommitPolicy
    drafting: Drafting
    composer: Composer | None
    noted: set[str]
    """The transaction files that were written."""

    def run(self) -> Manifest:
        """Publish every step, and try again after a lost race."""
        drafting, policy, store = self.drafting, self.policy, self.location.store
        started = policy.clock()
        if self.composer is None:
            self._write_transaction(drafting.steps[0].transaction)
        # The queue keeps our own writers on this machine out of each other's way. It is held while
        # we back off, so the pauses below are for pylance, and for writers that could not queue.
        with store.turn(VERSIONS_DIR):
            for _ in policy.retry:
                look = self._look()
                if self._publish(drafting.drafts(), look):
                    return drafting.newest
        seconds = (policy.clock() - started) / 1e9
        raise RetryableConflictError(
            f"{drafting.names} lost the race for the next version of {store.uri} "
            f"{policy.retry.attempts} times in {seconds:.1f} s; run it again when fewer "
            "writers are active",
            attempts=policy.retry.attempts,
            seconds=seconds,
            landed=drafting.landed,
        )

    def _look(self) -> _Look:
        """Catch up with other commits, and check the files already known to come with the next
        step."""
        drafting, started = self.drafting, self.policy.clock()
        if not self.policy.publisher.follows_newest:
            return _Look(started)
        steps = () if self.composer else drafting.steps[:1]
        coming = [each for step in steps for each in step.transaction.operations]
        _, seen = both(
            self.location.store,
            drafting.catch_up,
            lambda: seen_files(self.location, drafting.base, coming),
        )
        return _Look(started, seen)

    def _publish(self, drafts: Sequence[Draft], look: _Look) -> bool:
        """Whether all drafts became visible; stops at the first that does not."""
        drafting, publisher, store = self.drafting, self.policy.publisher, self.location.store
        for draft in drafts:
            version = draft.manifest.version
            if self._write_transaction(draft.step.transaction) and publisher.follows_newest:
                look = _Look(look.started)
                drafting.check_same_table()
            self._check_files(draft, look)
            if publisher.publish(store, version, self.scheme, draft.data) is PutOutcome.EXISTS:
                return False
            if publisher.follows_newest and not self._stands(draft, look):
                drafting.doubt()
                self.noted.clear()
                return False
            drafting.has_landed(draft.manifest)
            self._check_source(draft)
            look = _Look(self.policy.clock())
        if drafts and drafting.is_long and publisher.follows_newest:
            drafting.newest.sighting = take_sighting(store, drafting.newest.version)
        return True

    def _check_files(self, draft: Draft, look: _Look) -> None:
        """Raise RetryableConflictError if a file that the draft adds is gone, NotFoundError if the
        whole table is."""
        lost = self._lost(draft, look.seen)
        if lost is not None:
            if self.policy.publisher.follows_newest:
                self.drafting.doubt()
                self.drafting.catch_up()
            raise RetryableConflictError(
                f"{lost}, which {self.drafting.names} on {self.location.uri} needs, is gone: a "
                "cleanup took it for what a failed writer left. Nothing was changed; write again",
                file=lost,
                landed=self.drafting.landed,
            )

    def _lost(self, draft: Draft, seen: Set[File] = frozenset()) -> str | None:
        return lost_file(self.location, draft.source, draft.patch, draft.manifest, seen)

    def _stands(self, draft: Draft, look: _Look) -> bool:
        """Whether a draft that was put is part of the history; a ghost is withdrawn, and counts as
        a lost race."""
        step = draft.step.transaction
        return PutVersion(
            location=self.location,
            scheme=self.scheme,
            manifest=draft.manifest,
            data=draft.data,
            before=lambda: self.drafting.newest,
            lost=lambda: self._lost(draft),
            witness=transaction_key(transaction_name(step.read_version, step.uuid)),
            took_ns=self.policy.clock() - look.started,
            is_long=self.drafting.is_long,
        ).stands()

    def _check_source(self, draft: Draft) -> None:
        source = None if self.composer else needed_version(draft.step.transaction)
        if source is None and not self.policy.publisher.follows_newest:
            source = self.drafting.base.version
        if source is not None:
            check_source(self.location.store, self.scheme, draft.manifest.version, source)

    def _write_transaction(self, step: Transaction) -> bool:
        """Write the transaction file; whether it was new. The file later proves that this is still
        the same table, so a check made before it was written has to be repeated."""
        name = transaction_name(step.read_version, step.uuid)
        if name in self.noted:
            return False
        self.location.store.put(transaction_key(name), self.drafting.encoded(step))
        self.noted.add(name)
        return True
