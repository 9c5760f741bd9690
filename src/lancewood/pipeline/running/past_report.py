"""The report of a run, read back: its figures for whoever asks later.

Checked on the way, since anybody may have written the file of a repository that was received. Does
not know how the run stands by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Any, TypeVar

from lancewood.errors import FormatError
from lancewood.pipeline.report.facts import CheckFacts, TargetFacts
from lancewood.pipeline.running.folder import RunFolder

_NUMBER, _TEXT = (int, NoneType), (str, NoneType)
_TARGET: dict[str, tuple[type, ...]] = {
    "table": (str,),
    "mode": (str,),
    **dict.fromkeys(("rows_before", "rows_after", "inserted", "updated", "deleted"), _NUMBER),
    **dict.fromkeys(("replaced", "duplicates", "version"), _NUMBER),
    "columns_added": (list,),
}
_CHECK: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "kind", "asked", "found"), (str,)),
    **dict.fromkeys(("is_passed", "is_warning"), (bool,)),
    **dict.fromkeys(("table", "kept_at"), _TEXT),
    "failing_rows": (int,),
}
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class PastReport:
    """What the report of a run says."""

    started: str | None = None
    seconds: float | None = None
    error: str | None = None
    targets: tuple[TargetFacts, ...] = ()
    checks: tuple[CheckFacts, ...] = ()


def past_report(folder: RunFolder) -> PastReport:
    """What was written when the run was over; nothing at all of one that is not.

    Raises FormatError for a file that no run has written.
    """
    if not folder.is_over:
        return PastReport()
    name = str(folder.data)
    document = folder.report()
    try:
        return PastReport(
            started=_checked(document.get("started"), _TEXT),
            seconds=_seconds(document.get("seconds")),
            error=_checked(document.get("error"), _TEXT),
            targets=tuple(_made(TargetFacts, each, _TARGET) for each in document["targets"]),
            checks=tuple(_made(CheckFacts, each, _CHECK) for each in document["checks"]),
        )
    except (TypeError, KeyError, OverflowError) as cause:
        raise FormatError(f"{name}: is no report of a run: {cause}", file=name) from cause


def _seconds(value: Any) -> float | None:
    found = _checked(value, (int, float, NoneType))
    return None if found is None else float(found)


def _made(kind: type[_Made], value: Any, types: dict[str, tuple[type, ...]]) -> _Made:
    return kind(**{key: _checked(value[key], types[key]) for key in types if key in value})


def _checked(value: Any, types: tuple[type, ...]) -> Any:
    """The value itself; a list has to be one of texts."""
    if type(value) not in types:
        raise TypeError(f"{value!r:.80} is not of a type that is written there")
    return tuple(_checked(each, (str,)) for each in value) if type(value) is list else value
