"""Drafts: the versions that operations become, built on the newest one and not visible yet.

Publishes nothing: a commit puts a draft right after the newest version (``engine.commit``), a stage
keeps it (``engine.staging``). Only a rebase writes files, which nothing refers to yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lancewood.engine.commit.composer import Composer
from lancewood.engine.commit.judging import CommitStep, Judging, names_of
from lancewood.engine.commit.publish import CommitPolicy
from lancewood.engine.commit.rebase import check_rows, rebase_index, rebase_rows
from lancewood.engine.location import Location
from lancewood.errors import RetryableConflictError
from lancewood.format.layout import NamingScheme, transaction_name
from lancewood.format.manifest import VersionStamp, splice
from lancewood.format.transaction import encode_transaction
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import ANY_REPOSITORY
from lancewood.model.transaction import CreateIndex, ManifestPatch, Transaction
from lancewood.rules.apply import apply, needed_version
from lancewood.rules.features import check_new, check_open, check_writable, with_mark
from lancewood.rules.patching import with_config
from lancewood.version import LIBRARY, RELEASE


@dataclass(frozen=True, slots=True)
class Draft:
    """A version that is built, but not visible yet."""

    manifest: Manifest
    data: bytes
    step: CommitStep
    source: Manifest
    """The version that the patch changes: the one before, or the one that is restored."""
    patch: ManifestPatch


class Drafting(Judging):
    """Steps that are judged, and built on the newest version that they may follow.

    ``load`` loads the version that a restore names. ``on_newest``: every step, also the first, is
    recorded as built on the version before it.
    """

    def __init__(
        self,
        location: Location,
        scheme: NamingScheme,
        base: Manifest,
        steps: Sequence[CommitStep],
        policy: CommitPolicy,
        composer: Composer | None = None,
        *,
        load: Callable[[Version], Manifest] | None = None,
        on_newest: bool = False,
    ) -> None:
        super().__init__(location, scheme, base, steps, policy, composer)
        self._load = load or self._loaded
        self._on_newest = on_newest
        self._encoded: tuple[Transaction, bytes] | None = None

    def drafts(self) -> list[Draft]:
        """The versions to be published, each built on the one before."""
        self._check_open()
        newest, drafts = self.newest, []
        for step in self.steps:
            check_new(newest.config, step.applied)
            if self._composer is not None:
                return [self._composed(self._composer, step)]
            draft = self._build(newest, self._on(newest, step))
            newest = draft.manifest
            drafts.append(draft)
        return drafts

    def check(self) -> None:
        """Raise what ``drafts`` would raise, without writing anything."""
        if not self._must_rebase:
            self.drafts()
            return
        self._check_open()
        for step in self.steps:
            check_new(self.newest.config, step.applied)
            if not isinstance(step.transaction.operation, CreateIndex):
                self._rebased(self.newest, step.transaction, check_rows)

    def _check_open(self) -> None:
        if self.steps and not self._policy.may_be_closed:
            check_open(self.newest)

    def _on(self, newest: Manifest, step: CommitStep) -> CommitStep:
        """A step as it is recorded on the newest version."""
        transaction = step.transaction
        if transaction.uuid != self._first.uuid:
            transaction = transaction.rebased(newest.version)
        elif self._must_rebase and isinstance(transaction.operation, CreateIndex):
            transaction = rebase_index(self.base, newest, transaction)
        elif self._must_rebase:
            transaction = self._rebased(newest, transaction, rebase_rows)
        if self._on_newest:
            transaction = transaction.rebased(newest.version)
        return step if transaction is step.transaction else replace(step, transaction=transaction)

    def _rebased(
        self,
        newest: Manifest,
        transaction: Transaction,
        rebase: Callable[[Location, Manifest, Manifest, Transaction], Transaction],
    ) -> Transaction:
        try:
            return rebase(self._location, self.base, newest, transaction)
        except RetryableConflictError as conflict:
            raise RetryableConflictError(
                f"{names_of([transaction])} built on version {transaction.read_version} of "
                f"{self._store.uri} meets what landed up to version {newest.version}: "
                f"{conflict.message}; run it again on version {newest.version}",
                **{**conflict.facts, "version": newest.version, "landed": self.landed},
            ) from conflict

    def _composed(self, composer: Composer, whole: CommitStep) -> Draft:
        composition = composer.compose(self.newest)
        transaction = replace(
            whole.transaction.rebased(self.newest.version), operations=(composition.operation,)
        )
        step = replace(whole, transaction=transaction)
        return self._spliced(self.newest, self.newest, composition.patch, step)

    def _build(self, newest: Manifest, step: CommitStep) -> Draft:
        needed = needed_version(step.transaction)
        source = newest
        if needed is not None:
            source = self._load(needed)
            check_writable(source, ANY_REPOSITORY)  # the newest version says who may write now
        patch = apply(newest, step.transaction, None if needed is None else source)
        return self._spliced(newest, source, patch, step)

    def _spliced(
        self, newest: Manifest, source: Manifest, patch: ManifestPatch, step: CommitStep
    ) -> Draft:
        now = self._policy.clock()
        transaction = step.transaction
        if step.applied is not None:
            changed = patch.head.config
            before = source.config if changed is None else changed
            patch = with_config(
                source, patch, with_mark(before, step.applied, transaction.uuid, now)
            )
        stamp = VersionStamp(
            version=self._policy.publisher.next_version(newest.version),
            timestamp_ns=now,
            transaction_file=transaction_name(transaction.read_version, transaction.uuid),
            transaction=self.encoded(transaction),
            library=LIBRARY,
            library_version=RELEASE,
        )
        manifest, data = splice(source, patch, stamp)
        return Draft(manifest, data, step, source, patch)

    def encoded(self, transaction: Transaction) -> bytes:
        """The bytes of a step; those of the last one are cached, since it is built repeatedly."""
        if self._encoded is None or self._encoded[0] is not transaction:
            self._encoded = transaction, encode_transaction(transaction)
        return self._encoded[1]
