"""What was found: who took part, how long each work took, what was written; as text and as JSON.

A time counts only where the answer was right. Knows nothing of Spark.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bench.peers.works import WRITING
from bench.report import TIMES, format_number, render_table

LANCEWOOD, PARQUET = "Lancewood", "Parquet"


@dataclass(slots=True)
class Result:
    """One work of one contender: samples, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Seconds of processors."""
    written: list[int] = field(default_factory=list)
    cannot: str = ""
    failed: str = ""

    @property
    def is_over(self) -> bool:
        """Whether it need not be asked again."""
        return bool(self.cannot or self.failed)

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds and not self.is_over else None

    @property
    def cpu_median(self) -> float | None:
        return statistics.median(self.cpu) if self.cpu and not self.is_over else None

    @property
    def megabytes(self) -> float | None:
        if not self.written or self.is_over:
            return None
        return statistics.median(self.written) / 1e6

    def take(self, answer: Mapping[str, Any], *, counts: bool) -> None:
        """Note an answer of a worker; ``counts`` is false for the pass that only warms up."""
        if "cannot" in answer:
            self.cannot = answer["cannot"]
        elif "failed" in answer:
            self.failed = answer["failed"]
        elif answer.get("answer") != answer.get("expected"):
            self.failed = f"wrong answer: {answer['answer']} instead of {answer['expected']}"
        elif counts:
            self.seconds.append(float(answer["seconds"]))
            self.cpu.append(float(answer["cpu"]))
            self.written.append(int(answer["bytes"]))


@dataclass(slots=True)
class Entrant:
    """A contender that was asked to take part, and why it does not where it does not."""

    name: str
    package: str = ""
    refusal: str = ""
    results: dict[str, Result] = field(default_factory=dict)

    def result(self, work: str) -> Result:
        return self.results.setdefault(work, Result())


def render_markdown(facts: Mapping[str, str], note: str, entrants: Sequence[Entrant]) -> str:
    """The machine, who takes part, times, megabytes, and what cannot be done."""
    present = [each for each in entrants if not each.refusal]
    parts = [
        "## Peers on Spark",
        note,
        render_table(("fact", "value"), list(facts.items())),
        "\n".join(f"- {each.name}: {each.refusal or each.package or 'here'}" for each in entrants),
    ]
    if present:
        medians = {"seconds": _wall, "CPU seconds": _cpu}
        parts += [_times(present, what, median) for what, median in medians.items()]
        parts.append(_megabytes(present))
    if reasons := _reasons(present):
        parts += ["What is not in the tables:", "\n".join(reasons)]
    return "\n\n".join(parts)


def render_json(
    facts: Mapping[str, str], settings: Mapping[str, Any], entrants: Sequence[Entrant]
) -> dict[str, Any]:
    """The same for programs, with every sample."""
    return {
        "machine": dict(facts),
        **settings,
        "contenders": [
            {
                "name": each.name,
                "package": each.package or None,
                "refusal": each.refusal or None,
                "works": {work: _as_json(result) for work, result in each.results.items()},
            }
            for each in entrants
        ],
    }


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "seconds": result.seconds,
        "cpu": result.cpu,
        "bytes": result.written,
        "cannot": result.cannot or None,
        "failed": result.failed or None,
    }


def _wall(result: Result) -> float | None:
    return result.median


def _cpu(result: Result) -> float | None:
    return result.cpu_median


_Median: TypeAlias = Callable[[Result], float | None]


def _times(entrants: Sequence[Entrant], what: str, median: _Median) -> str:
    yardstick = {each.name: each for each in entrants}.get(PARQUET)
    lines = []
    for work in _works(entrants):
        whole = None if yardstick is None else median(yardstick.result(work))
        cells = [_time(each, work, whole, median) for each in entrants]
        lines.append((work, *cells))
    return render_table((what, *(each.name for each in entrants)), lines)


def _time(entrant: Entrant, work: str, whole: float | None, median: _Median) -> str:
    result = entrant.result(work)
    found = median(result)
    if found is None:
        return _without(result)
    text = f"{found:.2f} s" if found >= 0.1 else f"{format_number(found * 1_000)} ms"
    if not whole or not found or entrant.name == PARQUET:
        return text
    return f"{text} ({format_number(whole / found)}{TIMES})"


def _megabytes(entrants: Sequence[Entrant]) -> str:
    lines = []
    for work in (each for each in _works(entrants) if each in WRITING):
        results = [each.result(work) for each in entrants]
        cells = [
            _without(each) if each.megabytes is None else _size(each.megabytes) for each in results
        ]
        lines.append((work, *cells))
    return render_table(("written", *(each.name for each in entrants)), lines)


def _size(megabytes: float) -> str:
    small = megabytes < 0.1
    return f"{format_number(megabytes * 1_000)} KB" if small else f"{format_number(megabytes)} MB"


def _without(result: Result) -> str:
    if result.cannot:
        return "cannot"
    return "failed" if result.failed else ""


def _reasons(entrants: Sequence[Entrant]) -> list[str]:
    """One line for each reason, with the works that it keeps a contender from."""
    lines = []
    for entrant in entrants:
        works: dict[str, list[str]] = {}
        for work, result in entrant.results.items():
            if result.is_over:
                verb = "cannot" if result.cannot else "failed to"
                works.setdefault(f"{verb}|{result.cannot or result.failed}", []).append(work)
        for key, names in works.items():
            verb, reason = key.split("|", 1)
            lines.append(f"- {entrant.name} {verb} {', '.join(names)}: {reason}")
    return lines


def _works(entrants: Sequence[Entrant]) -> list[str]:
    return list(dict.fromkeys(work for each in entrants for work in each.results))
