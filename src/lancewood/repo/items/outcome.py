"""What became of items: of one, and counted of many.

Small values that travel from tasks to whoever asked. Knows no repositories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lancewood import errors
from lancewood.errors import LancewoodError

_MOST_TOLD = 10


class Done(StrEnum):
    """What a verb did to an item."""

    WRITTEN = "written"
    """It has a new snapshot, tag or import."""
    UNCHANGED = "unchanged"
    """It was so before."""
    ALREADY = "already"
    """The same run did it before, perhaps in another attempt."""
    MOVED = "moved"
    """A tag that was elsewhere was moved."""
    REFUSED = "refused"
    """Nothing was done, and ``why`` tells the reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one item."""

    item: str | None
    done: Done
    hash: str | None = None
    """The commit that it is at."""
    error: str | None = None
    """The class of the error that refused it."""
    why: str | None = None

    @classmethod
    def refused(cls, item: str | None, error: LancewoodError) -> Outcome:
        return cls(item, Done.REFUSED, None, type(error).__name__, error.message)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Outcome:
        """From a row with the same names."""
        return cls(row["item"], Done(row["done"]), row["hash"], row["error"], row["why"])


@dataclass
class Tally:
    """Outcomes counted, and the first few of those that were refused."""

    counts: dict[Done, int] = field(default_factory=dict)
    refusals: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.counts[outcome.done] = self.counts.get(outcome.done, 0) + 1
        if outcome.done is Done.REFUSED and len(self.refusals) < _MOST_TOLD:
            self.refusals.append(outcome)

    def encode(self) -> bytes:
        told = [[each.item, each.error, each.why] for each in self.refusals]
        return json.dumps([self.counts, told]).encode()

    @classmethod
    def joined(cls, parts: Iterable[bytes]) -> Tally:
        """What several tasks counted."""
        whole = cls()
        for each in parts:
            counts, told = json.loads(each)
            for name, count in counts.items():
                whole.counts[Done(name)] = whole.counts.get(Done(name), 0) + count
            refusals = [Outcome(item, Done.REFUSED, None, *rest) for item, *rest in told]
            whole.refusals += refusals[: _MOST_TOLD - len(whole.refusals)]
        return whole

    def __getitem__(self, done: Done) -> int:
        return self.counts.get(done, 0)

    @property
    def items(self) -> int:
        return sum(self.counts.values())

    def check(self, what: str, *, told_above: bool = False) -> None:
        """Raise the error of the items that were refused, if there are any: the class of the first,
        and the first few of them by name, unless all were told before."""
        if not self.refusals:
            return
        count, first = self[Done.REFUSED], self.refusals[0]
        more = f" and {count - len(self.refusals)} more" if count > len(self.refusals) else ""
        told = "; ".join(f"{each.item!r}: {each.why}" for each in self.refusals) + more
        kind = getattr(errors, first.error or "", LancewoodError)
        raise kind(
            f"{what} {count} of {self.items} items: {'see above' if told_above else told}",
            refused=count,
            items=[each.item for each in self.refusals],
            counts={name.value: each for name, each in self.counts.items()},
        )
