"""Whether operations may follow what landed since they were built.

Reads the table and changes nothing. The rules are in ``rules.conflicts``; a verdict against an
operation becomes an error that says what was asked, what it met, and the way out. What passes is
built in ``drafting``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lancewood.engine.commit.composer import Composer
from lancewood.engine.commit.publish import CommitPolicy
from lancewood.engine.location import Location
from lancewood.engine.versions import (
    WORTH_IT,
    Sighting,
    is_replaced,
    is_still_newest,
    load_manifest,
    load_transaction_of,
    missing_transaction,
    versions_since,
)
from lancewood.errors import (
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import AppliedBatch
from lancewood.model.transaction import Operation, Transaction, operation_name, operation_text
from lancewood.rules.columns import ColumnWatch
from lancewood.rules.conflicts import judge
from lancewood.rules.features import check_writable
from lancewood.rules.overlaps import Outcome, Verdict, check_list, severest
from lancewood.store.base import Store
from lancewood.store.together import both


def conflict_of(
    store: Store,
    mine: Transaction,
    theirs: Transaction,
    verdict: Verdict,
    version: Version,
    look_at: Version,
) -> ConflictError | None:
    """The error for what ``theirs``, which landed as ``version``, means for mine; None if they are
    compatible."""
    if verdict.outcome is Outcome.COMPATIBLE:
        return None
    met = operation_name(theirs.operations[0])
    text = (
        f"{', '.join(map(operation_text, mine.operations))} built on version {mine.read_version} "
        f"of {store.uri} meets {operation_text(theirs.operations[0])} in version {version}: "
        f"{verdict.reason}"
    )
    if verdict.outcome is not Outcome.INCOMPATIBLE:
        return RetryableConflictError(
            f"{text}; run it again on version {look_at}", version=version, operation=met
        )
    return IncompatibleConflictError(
        f"{text}; look at version {look_at} and decide whether to run it again on that",
        version=version,
        operation=met,
    )


def names_of(steps: Sequence[Transaction]) -> str:
    """The names of the operations of some transactions, each once."""
    names = [operation_text(each) for step in steps for each in step.operations]
    return ", ".join(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class CommitStep:
    """What is to become one version, and the batch that it contains."""

    transaction: Transaction
    applied: AppliedBatch | None = None


def steps_of(
    transaction: Transaction, policy: CommitPolicy, composer: Composer | None = None
) -> list[CommitStep]:
    """The versions that a transaction is to become; raises InvalidInputError if it cannot.

    A composer builds one version, however many operations the transaction lists.
    """
    if composer is None:
        check_list(transaction.operations)
    if policy.applied is not None and len(transaction.operations) > 1:
        raise InvalidInputError(
            "a batch becomes one version; this transaction is a list of "
            f"{len(transaction.operations)} operations, each of which becomes one"
        )
    whole = (transaction,) if composer else transaction.steps()
    return [CommitStep(each, policy.applied) for each in whole]


class Judging:
    """Steps built on ``base``: how far they are judged, and which are still to land."""

    def __init__(
        self,
        location: Location,
        scheme: NamingScheme,
        base: Manifest,
        steps: Sequence[CommitStep],
        policy: CommitPolicy,
        composer: Composer | None = None,
    ) -> None:
        self.base = self.newest = base
        self.steps = list(steps)
        self.landed: list[Version] = []
        self.is_long = base.sighting is not None
        """Whether the directory is so long that it should not be listed again and again."""
        self._location = location
        self._store = location.store
        self._scheme = scheme
        self._policy = policy
        self._composer = composer
        self._first = self.steps[0].transaction
        self._columns = ColumnWatch(base.fields, self._operations)
        self._must_rebase = False
        """Whether somebody changed a fragment that we change, too, or index."""
        self._is_known = False
        """Whether the base was found to be the version that was read."""

    @property
    def names(self) -> str:
        """The names of the operations that are still to land."""
        return names_of([each.transaction for each in self.steps])

    def has_landed(self, manifest: Manifest) -> None:
        """Whether this version is the next step."""
        self.newest = manifest
        self.landed.append(manifest.version)
        del self.steps[0]

    def doubt(self) -> None:
        """Forget the newest known version: it may be gone, with its whole table."""
        self.newest.sighting = None
        self._is_known = False

    def catch_up(self, upto: Manifest | None = None) -> None:
        """Judge every version since the newest known one, and raise the severest conflict.

        Running an operation again does not help if a later version has removed what it depends on.
        A version with the identity of our own step is that step: it landed before, and the answer
        was lost. ``upto`` is the version to end with.
        """
        sighting = self.newest.sighting
        if isinstance(sighting, Sighting) and is_still_newest(self._store, sighting, self._scheme):
            return
        found, _ = both(
            self._store,
            lambda: versions_since(self._store, self.newest.version, self._scheme),
            lambda: None if self._is_known else self.check_same_table(),
        )
        newer, self.is_long = found.versions, found.listed >= WORTH_IT
        if upto is not None:
            newer = tuple(each for each in newer if each <= upto.version)
        if not newer:
            return
        expected = self.newest.version
        met: ConflictError | None = None
        for version in reversed(newer):
            expected = Version(expected + 1)
            if version != expected:
                gone = missing_transaction(expected, f"version {expected} was cleaned up")
                self._judge(gone, expected, newest=newer[0])
            theirs = load_transaction_of(self._store, version, self._scheme)
            if self.steps and theirs.uuid == self.steps[0].transaction.uuid:
                self.has_landed(self._read_back(version))
                met = None
            elif self.steps:
                conflict = self._judge(theirs, version)
                met = met or conflict
            else:
                return
        if met is not None:
            raise met
        if self.newest.version != newer[0]:
            is_given = upto is not None and upto.version == newer[0]
            self.newest = upto if upto and is_given else self._loaded(newer[0])
            check_writable(self.newest, self._location.repository)

    def follow(self, history: Sequence[Transaction], newest: Manifest) -> None:
        """Judge consecutive versions that exist in memory only, up to ``newest``; raises
        ConflictError.

        None of them is one of our steps.
        """
        met: ConflictError | None = None
        for number, theirs in enumerate(history, newest.version - len(history) + 1):
            conflict = self._judge(theirs, Version(number))
            met = met or conflict
        if met is not None:
            raise met
        self.newest = newest

    def _loaded(self, version: Version) -> Manifest:
        return load_manifest(self._store, version, self._scheme)

    def _read_back(self, version: Version) -> Manifest:
        """Our own version, which landed: failing to read it does not mean that the commit
        failed."""
        try:
            return self._loaded(version)
        except LancewoodError as cause:
            raise CommitUnknownError(
                f"the commit landed as version {version} of {self._store.uri}, but cannot be read "
                f"back: {cause}",
                version=version,
            ) from cause

    def check_same_table(self) -> None:
        """Raise NotFoundError if the version to build on is no longer the one that we read."""
        base = self.newest
        self._is_known = True
        if base.version and is_replaced(self._store, base, self._scheme):
            raise NotFoundError(
                f"version {base.version} of {self._store.uri} is not the one that was read: the "
                "table was dropped and made again; open it anew",
                version=base.version,
            )

    def _judge(
        self, theirs: Transaction, version: Version, newest: Version | None = None
    ) -> ConflictError | None:
        """A conflict that running the operation again may resolve; raises any other."""
        if self._composer is not None:
            self._composer.judge(theirs, version)
            return None
        mine = replace(self._first, operations=tuple(self._operations))
        if self._policy.serializable:
            raise RetryableConflictError(
                f"{self.names} is serializable and built on version "
                f"{mine.read_version}, but version {version} has landed; run it again on the "
                "newest version",
                version=version,
                landed=self.landed,
            )
        columns = [self._columns.see(each) for each in theirs.operations]
        verdict = severest([judge(mine, theirs), *columns])
        if verdict.outcome is Outcome.REBASE and len(self.steps) == 1:
            self._must_rebase = True
            return None
        conflict = conflict_of(self._store, mine, theirs, verdict, version, newest or version)
        if conflict is not None:
            conflict.facts["landed"] = self.landed
        if isinstance(conflict, IncompatibleConflictError):
            raise conflict
        return conflict

    @property
    def _operations(self) -> Iterator[Operation]:
        return (operation for each in self.steps for operation in each.transaction.operations)
