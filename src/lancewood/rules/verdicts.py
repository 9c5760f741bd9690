"""What a commit that landed first means for mine: the four outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """What a commit that landed first means for mine."""

    COMPATIBLE = "compatible"
    REBASE = "rebase"
    RETRY = "retry"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and why."""

    outcome: Outcome
    reason: str = ""


COMPATIBLE = Verdict(Outcome.COMPATIBLE)
_SEVERITY = (Outcome.COMPATIBLE, Outcome.REBASE, Outcome.RETRY, Outcome.INCOMPATIBLE)


def severest(verdicts: Iterable[Verdict]) -> Verdict:
    """The first of the most severe verdicts."""
    return max(verdicts, key=lambda each: _SEVERITY.index(each.outcome), default=COMPATIBLE)
