"""Outcomes of jobs over items, one by one and counted, and the id of the run in a commit.

Outcomes and tallies are small values that tasks send to the driver. The run is a trailer of the
commit message, so stock git finds it as well: ``git log
--format='%(trailers:key=Lancewood-Run,valueonly)'``.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from lancewood import errors
from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.git.history import Commits, reachable
from lancewood.git.values import Hash

_MOST_TOLD = 10
RUN = "Lancewood-Run"
_is_run = re.compile(r"[^\s\x00-\x20\x7f]{1,100}").fullmatch
_is_trailer = re.compile(r"[A-Za-z0-9-]+: .*").fullmatch
_is_claim = re.compile(rf"^{RUN}\s*:", re.IGNORECASE | re.MULTILINE).search


class ItemDone(StrEnum):
    """What was done to an item."""

    WRITTEN = "written"
    """The item has a new snapshot, tag or import."""
    UNCHANGED = "unchanged"
    """The item was in the wanted state before."""
    ALREADY = "already"
    """The run did it before, perhaps in another attempt."""
    MOVED = "moved"
    """The tag of the item pointed elsewhere and was moved."""
    REFUSED = "refused"
    """Nothing was done; ``why`` has the reason."""


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """What became of one item."""

    item: str | None
    done: ItemDone
    hash: str | None = None
    """The commit that the item is at."""
    error: str | None = None
    """The class of the error for which the item was refused."""
    why: str | None = None

    @classmethod
    def refused(cls, item: str | None, error: LancewoodError) -> ItemOutcome:
        return cls(item, ItemDone.REFUSED, None, type(error).__name__, error.message)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> ItemOutcome:
        """From a row with columns of the same names."""
        return cls(row["item"], ItemDone(row["done"]), row["hash"], row["error"], row["why"])


@dataclass
class Tally:
    """Counts of outcomes, and the first few refusals."""

    counts: dict[ItemDone, int] = field(default_factory=dict)
    refusals: list[ItemOutcome] = field(default_factory=list)

    def add(self, outcome: ItemOutcome) -> None:
        self.counts[outcome.done] = self.counts.get(outcome.done, 0) + 1
        if outcome.done is ItemDone.REFUSED and len(self.refusals) < _MOST_TOLD:
            self.refusals.append(outcome)

    def encode(self) -> bytes:
        refusals = [[each.item, each.error, each.why] for each in self.refusals]
        return json.dumps([self.counts, refusals]).encode()

    @classmethod
    def joined(cls, parts: Iterable[bytes]) -> Tally:
        """The sum of encoded tallies."""
        whole = cls()
        for each in parts:
            counts, refused = json.loads(each)
            for name, count in counts.items():
                whole.counts[ItemDone(name)] = whole.counts.get(ItemDone(name), 0) + count
            refusals = [ItemOutcome(item, ItemDone.REFUSED, None, *rest) for item, *rest in refused]
            whole.refusals += refusals[: _MOST_TOLD - len(whole.refusals)]
        return whole

    def __getitem__(self, done: ItemDone) -> int:
        return self.counts.get(done, 0)

    @property
    def items(self) -> int:
        return sum(self.counts.values())

    def check(self, what: str, *, is_shown: bool = False) -> None:
        """Raise an error if items were refused: its class is that of the first refusal, and its
        message lists the first few, unless ``is_shown``."""
        if not self.refusals:
            return
        count, first = self[ItemDone.REFUSED], self.refusals[0]
        more = f" and {count - len(self.refusals)} more" if count > len(self.refusals) else ""
        reasons = "; ".join(f"{each.item!r}: {each.why}" for each in self.refusals) + more
        kind = getattr(errors, first.error or "", LancewoodError)
        raise kind(
            f"{what} {count} of {self.items} items: {'see above' if is_shown else reasons}",
            refused=count,
            items=[each.item for each in self.refusals],
            counts={name.value: each for name, each in self.counts.items()},
        )


def new_run() -> str:
    """A new unique id: the time in UTC, and random digits."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"


def checked_run(run: object) -> str:
    """The id itself; raises InvalidInputError."""
    if not isinstance(run, str) or not _is_run(run) or not is_utf8(run):
        raise InvalidInputError(
            f"run id {str(run)[:200]!r} is not allowed: it is 1 to 100 characters without spaces"
        )
    return run


def check_claims_none(message: str) -> None:
    """Raise InvalidInputError for a message that already has a run trailer."""
    if _is_claim(message):
        raise InvalidInputError(
            f"a message is not allowed to have a line that starts with '{RUN}:': that says which "
            "run made a snapshot, and is added to it"
        )


def with_run(message: str, run: str) -> str:
    """The message with the run as a trailer, added to the trailers that it already has."""
    text = message.rstrip()
    first, _, last = text.rpartition("\n\n")
    has_trailers = bool(first) and all(map(_is_trailer, last.split("\n")))
    return f"{text}{chr(10) if has_trailers else chr(10) * 2}{RUN}: {run}"


def run_of(message: str) -> str | None:
    """The run that a message names; None for a commit that no run made."""
    first, _, last = message.rstrip().rpartition("\n\n")
    if not first:
        return None
    for line in reversed(last.split("\n")):
        key, colon, value = line.partition(":")
        if colon and key.lower() == RUN.lower():
            return value.strip()
    return None


def made_by(objects: Commits, tip: Hash, run: str) -> Hash | None:
    """The commit of a run among all ancestors of ``tip``; None if there is none.

    It is nearly always the tip itself. Otherwise all commits are read, because the clocks of later
    committers prove nothing.
    """
    for commit in reachable(objects, [tip]):
        if run_of(commit.message) == run:
            return commit.hash
    return None


def is_utf8(text: str) -> bool:
    """Whether a text can be written: names from a disk may hold other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
