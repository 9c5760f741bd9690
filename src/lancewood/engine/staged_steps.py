"""The steps of a stage: what each does, the state after it, and how those who land it are told.

What lands is decoded from bytes, perhaps by another process. So a step that may only follow the
very version it was built on says so among its properties: what a composer built, what was to be
serializable, and what the bytes of a transaction do not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lancewood.engine.composer import Composer
from lancewood.engine.judging import Step
from lancewood.engine.place import Place
from lancewood.engine.policy import CommitPolicy
from lancewood.errors import IncompatibleConflictError, NotFoundError, RetryableConflictError
from lancewood.format.layout import (
    NamingScheme,
    detached_version,
    manifest_key,
    transaction_key,
)
from lancewood.format.manifest import restamped
from lancewood.format.transaction import encode_transaction
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.operations import Restore, Update
from lancewood.model.transaction import (
    EXACT_PROPERTY,
    MESSAGE_PROPERTY,
    STAGED_PROPERTY,
    Transaction,
    step_uuid,
)
from lancewood.rules.apply import needed_version
from lancewood.rules.lists import dependence


@dataclass(frozen=True, slots=True)
class StagedStep:
    """A step and the state after it, under the number that it has if nobody else writes."""

    step: Step
    manifest: Manifest
    asked: str
    """The identity that the caller gave; the step has one that follows from the stage's."""
    policy: CommitPolicy
    composer: Composer | None = None

    @property
    def transaction(self) -> Transaction:
        return self.step.transaction


def told(
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
        if isinstance(each, Update) and (each.indices_at_home or each.bases_left):
            return "it brought indices home, or gave up base paths"
    return None


def write_states(
    place: Place, scheme: NamingScheme, staged: Sequence[StagedStep]
) -> list[Manifest]:
    """Write states down as detached versions, and their transactions before them.

    Their numbers are random and nobody knows them yet, so all are put at once: one wait for the
    disk. After a failure some may be there, under numbers that nobody will ask for.
    """
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
    place.store.put_together({**transactions, **states})
    return written


def check_sources(
    place: Place, scheme: NamingScheme, base: Version, steps: Iterable[Transaction]
) -> None:
    """Raises RetryableConflictError if a landed version that the states are made of is gone.

    A cleanup that began before they were written down may have taken files for those of versions
    that nobody needs. As long as their manifests are there, it has not.
    """
    needed = {base, *(needed_version(each) or Version(0) for each in steps)}
    for version in sorted(each for each in needed if 0 < each <= base):
        try:
            place.store.head(manifest_key(version, scheme))
        except NotFoundError as cause:
            raise RetryableConflictError(
                f"version {version} of {place.uri} was removed while the next ones were "
                "made of it, and files of it may be gone; run the transaction again on the "
                "newest version",
                version=version,
            ) from cause


def check_rebuildable(
    place: Place, base: Manifest, staged: Sequence[StagedStep], now: Version
) -> None:
    """Raises RetryableConflictError where steps may only follow the version they were built on."""
    if any(each.policy.serializable for each in staged):
        why: str | None = "one of them is serializable"
    elif len(staged) > 1 and any(each.composer is not None for each in staged):
        why = "one of them was composed of several operations"
    else:
        why = dependence(base, [each.transaction.operation for each in staged])
    if why is not None:
        raise RetryableConflictError(
            f"{len(staged)} changes were staged on version {base.version} of "
            f"{place.uri}, and version {now} has landed; they cannot be built anew on "
            f"that, because {why}. Run the transaction again",
            version=now,
        )


def already_made(place: Place) -> IncompatibleConflictError:
    """What is said of a new table where somebody else made one."""
    return IncompatibleConflictError(
        f"a table was to be made at {place.uri}, and somebody else made one there meanwhile; look "
        "at it, and take another place or write to that one",
        uri=place.uri,
    )
