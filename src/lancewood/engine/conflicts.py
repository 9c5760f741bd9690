"""From a verdict to the error that says so: what was asked, what it met, and the way out."""

from __future__ import annotations

from collections.abc import Sequence

from lancewood.errors import ConflictError, IncompatibleConflictError, RetryableConflictError
from lancewood.model.ids import Version
from lancewood.model.operations import operation_name, told_operation
from lancewood.model.transaction import Transaction
from lancewood.rules.verdicts import Outcome, Verdict
from lancewood.store.base import Store


def conflict_of(
    store: Store,
    mine: Transaction,
    theirs: Transaction,
    verdict: Verdict,
    version: Version,
    look_at: Version,
) -> ConflictError | None:
    """The error for what ``theirs``, which landed as ``version``, means for mine; None if both go
    together."""
    if verdict.outcome is Outcome.COMPATIBLE:
        return None
    met = operation_name(theirs.operations[0])
    text = (
        f"{', '.join(map(told_operation, mine.operations))} built on version {mine.read_version} "
        f"of {store.uri} meets {told_operation(theirs.operations[0])} in version {version}: "
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
    """The operations of some transactions, each kind once."""
    names = [told_operation(each) for step in steps for each in step.operations]
    return ", ".join(dict.fromkeys(names))
