"""The steps of a stage: what each does, the state after it, and which of them are part of the
history already.

What lands is decoded from bytes, perhaps by another process. So a step that may only follow the
very version it was built on says so among its properties: what a composer built, what was to be
serializable, and what the bytes of a transaction do not tell. Steps that landed are found by their
identities, in names and transactions of the versions above the base.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewood.engine.versions import load_transaction_of, versions_since
from lancewood.errors import IncompatibleConflictError, NotFoundError, RetryableConflictError
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.transaction import (
    EXACT_PROPERTY,
    MESSAGE_PROPERTY,
    STAGED_PROPERTY,
    Restore,
    Transaction,
    Update,
    step_uuid,
)
from lancewood.store.base import Store

if TYPE_CHECKING:
    from lancewood.engine.commit import CommitPolicy, CommitStep, Composer
    from lancewood.engine.location import Location
    from lancewood.format.layout import NamingScheme


@dataclass(frozen=True, slots=True)
class StagedStep:
    """A step and the state after it, under the number that it has if nobody else writes."""

    step: CommitStep
    manifest: Manifest
    asked: str
    """The identity that the caller gave; the step has one that follows from the stage's."""
    policy: CommitPolicy
    composer: Composer | None = None

    @property
    def transaction(self) -> Transaction:
        return self.step.transaction


def staged_as(
    transaction: Transaction,
    stage: str,
    at: int,
    policy: CommitPolicy,
    is_composed: bool,
    message: str | None,
) -> Transaction:
    """The transaction under the identity of a step of a stage, with a word on why it cannot be
    rebased; ``message`` is for one that has none."""
    why = "it was composed of several" if is_composed else _why_exact(transaction, policy)
    properties = {
        key: each for key, each in transaction.properties.items() if key != EXACT_PROPERTY
    }
    if why is not None:
        properties[EXACT_PROPERTY] = why
    properties[STAGED_PROPERTY] = stage
    if message is not None:
        properties.setdefault(MESSAGE_PROPERTY, message)
    return replace(transaction, uuid=step_uuid(stage, at), properties=properties)


def _why_exact(transaction: Transaction, policy: CommitPolicy) -> str | None:
    if policy.serializable:
        return "it is serializable"
    for each in transaction.operations:
        if isinstance(each, Restore) and each.base_paths is not None:
            return "it sets base paths"
        if isinstance(each, Update) and (each.indices_in_own_root or each.bases_left):
            return "it copied indices to the own root, or gave up base paths"
    return None


def write_states(
    location: Location, scheme: NamingScheme, staged: Sequence[StagedStep]
) -> list[Manifest]:
    """Write states down as detached versions, and their transactions before them.

    Their numbers are random and nobody knows them yet, so all are put at once: one wait for the
    disk. After a failure some may be there, under numbers that nobody will ask for.
    """
    from lancewood.format.layout import detached_version, manifest_key, transaction_key
    from lancewood.format.manifest import restamped
    from lancewood.format.transaction import encode_transaction

    transactions, states, written = {}, {}, []
    for each in staged:
        manifest = each.manifest
        name = manifest.transaction_file
        assert name is not None, "every draft names its transaction"
        transactions[transaction_key(name)] = encode_transaction(each.transaction)
        number = detached_version()
        made, data = restamped(manifest, number, manifest.timestamp_ns)
        states[manifest_key(number, scheme)] = data
        written.append(made)
    location.store.put_together({**transactions, **states})
    return written


def check_sources(
    location: Location, scheme: NamingScheme, base: Version, steps: Iterable[Transaction]
) -> None:
    """Raises RetryableConflictError if a landed version that the states are made of is gone.

    A cleanup that began before they were written down may have taken files for those of versions
    that nobody needs. As long as their manifests are there, it has not.
    """
    from lancewood.format.layout import manifest_key
    from lancewood.rules.apply import needed_version

    needed = {base, *(needed_version(each) or Version(0) for each in steps)}
    for version in sorted(each for each in needed if 0 < each <= base):
        try:
            location.store.head(manifest_key(version, scheme))
        except NotFoundError as cause:
            raise RetryableConflictError(
                f"version {version} of {location.uri} was removed while the next ones were "
                "made of it, and files of it may be gone; run the transaction again on the "
                "newest version",
                version=version,
            ) from cause


def check_rebuildable(
    location: Location, base: Manifest, staged: Sequence[StagedStep], now: Version
) -> None:
    """Raises RetryableConflictError where steps may only follow the version they were built on."""
    from lancewood.rules.overlaps import dependence

    if any(each.policy.serializable for each in staged):
        why: str | None = "one of them is serializable"
    elif len(staged) > 1 and any(each.composer is not None for each in staged):
        why = "one of them was composed of several operations"
    else:
        why = dependence(base, [each.transaction.operation for each in staged])
    if why is not None:
        raise RetryableConflictError(
            f"{len(staged)} changes were staged on version {base.version} of "
            f"{location.uri}, and version {now} has landed; they cannot be built anew on "
            f"that, because {why}. Run the transaction again",
            version=now,
        )


def already_made(location: Location) -> IncompatibleConflictError:
    """What is said of a new table where somebody else made one."""
    return IncompatibleConflictError(
        f"a table was to be made at {location.uri}, and somebody else made one there meanwhile; "
        "look at it, and take another place or write to that one",
        uri=location.uri,
    )


@dataclass(frozen=True, slots=True)
class Landed:
    """The versions that the steps became, oldest first."""

    versions: tuple[Version, ...]
    is_exact: bool
    """Nobody else wrote in between: they are the staged states, row ids and all."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the versions above the base say of a landing."""

    landing: Landing
    scheme: NamingScheme
    newest: Version
    found: tuple[Version, ...]
    """The versions of the steps that were found, oldest first."""
    count: int
    """How many steps have landed; some of their versions may have been cleaned up since."""
    is_cut: bool = False
    """Whether versions above the base were cleaned up: steps that are not found may have landed."""

    @property
    def is_landed(self) -> bool:
        return self.count == len(self.landing.steps)

    @property
    def landed(self) -> Landed:
        is_exact = self.found == exact_versions(self.landing)
        return Landed(self.found, is_exact)

    @property
    def exact(self) -> int:
        """How many steps have landed right after the base, before anything else did."""
        exact = exact_versions(self.landing)
        alike = (one == other for one, other in zip(self.found, exact, strict=False))
        return next((at for at, same in enumerate(alike) if not same), len(self.found))

    @property
    def is_disturbed(self) -> bool:
        """Whether somebody else wrote after the base, before all steps had landed."""
        return self.newest != self.landing.base + self.exact


def look_for(store: Store, landing: Landing) -> Sight:
    """Look for the steps in the versions above the base.

    If the last step is where it is without anybody in between, so are the others: a step is only
    put right after the newest version, and after the step before it.
    """
    listed = versions_since(store, landing.base)
    newer, scheme = listed.versions, listed.scheme
    newest = newer[0] if newer else landing.base
    last = landing.last_exact_version
    if newest >= last and is_in_place(store, landing, scheme):
        return Sight(landing, scheme, newest, exact_versions(landing), len(landing.steps))
    found: list[Version] = []
    count = 0
    at = {uuid: number for number, uuid in enumerate(landing.uuids)}
    for version in reversed(newer):
        number = at.get(_uuid_of(store, version, scheme))
        if number is not None:
            found.append(version)
            count = number + 1
            if count == len(landing.steps):
                break
    is_cut = len(newer) < newest - landing.base
    return Sight(landing, scheme, newest, tuple(found), count, is_cut)


def _uuid_of(store: Store, version: Version, scheme: NamingScheme) -> str:
    return load_transaction_of(store, version, scheme).uuid


def is_last_step(head: ManifestHead, landing: Landing) -> bool:
    """Whether a version is what the last step became; then all of them have landed."""
    made_by = head.transaction_file
    return made_by is not None and made_by.endswith(f"-{landing.uuids[-1]}.txn")


def is_in_place(store: Store, landing: Landing, scheme: NamingScheme) -> bool:
    """Whether the last step is the version that it becomes if nobody else writes.

    Then all steps have landed, and the last one alone tells it from now on. One small read.
    """
    return _uuid_of(store, landing.last_exact_version, scheme) == landing.uuids[-1]


def exact_versions(landing: Landing) -> tuple[Version, ...]:
    """The versions that the steps become if nobody else writes in between."""
    return tuple(landing.exact_version(number) for number in range(len(landing.steps)))
