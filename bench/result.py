"""What a benchmark found: rows of samples, their medians and ratios, and whether a target is met.

Knows neither how they were measured nor how they are printed.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Any

from bench.measure import Samples


@dataclass(frozen=True, slots=True)
class LeastRatio:
    """At least so many times better than pylance."""

    ratio: float


@dataclass(frozen=True, slots=True)
class Most:
    """Our own value may not be above this."""

    value: float


@dataclass(frozen=True, slots=True)
class Least:
    """Our own value may not be below this."""

    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One piece of work, measured on both sides in the same run."""

    work: str
    unit: str
    ours: Samples
    pylance: Samples = ()
    more_is_better: bool = False
    target: LeastRatio | Most | Least | None = None

    def __post_init__(self) -> None:
        if not self.ours:
            raise ValueError(f"{self.work!r} has no samples of ours")

    @property
    def our_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def pylance_median(self) -> float | None:
        return statistics.median(self.pylance) if self.pylance else None

    @property
    def ratio(self) -> float | None:
        """How many times better we are: above 1 we are faster. None where nothing divides."""
        ours, pylance = self.our_median, self.pylance_median
        if not ours or not pylance:
            return None
        return ours / pylance if self.more_is_better else pylance / ours

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if isinstance(self.target, Most):
            return self.our_median <= self.target.value
        if isinstance(self.target, Least):
            return self.our_median >= self.target.value
        if isinstance(self.target, LeastRatio):
            return self.ratio is not None and self.ratio >= self.target.ratio
        return None

    def as_json(self) -> dict[str, Any]:
        target: dict[str, float] | None = None
        if isinstance(self.target, Most):
            target = {"most": self.target.value}
        elif isinstance(self.target, Least):
            target = {"least": self.target.value}
        elif isinstance(self.target, LeastRatio):
            target = {"least_ratio": self.target.ratio}
        return {
            "work": self.work,
            "unit": self.unit,
            "more_is_better": self.more_is_better,
            "ours": self.our_median,
            "pylance": self.pylance_median,
            "ratio": self.ratio,
            "target": target,
            "met": self.is_met,
            "samples": {"ours": list(self.ours), "pylance": list(self.pylance)},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """All rows of one benchmark."""

    name: str
    title: str
    note: str = ""
    against: str = "pylance"
    """Whom the right-hand samples are of."""
    rows: tuple[Row, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    def without_ratios(self) -> Section:
        """The same without targets that speak of another size; absolute ones stay."""
        rows = tuple(
            replace(each, target=None) if isinstance(each.target, LeastRatio) else each
            for each in self.rows
        )
        return replace(self, rows=rows)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "against": self.against,
            "seconds": self.seconds,
            "rows": [each.as_json() for each in self.rows],
        }
