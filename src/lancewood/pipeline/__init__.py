"""The pipeline: load, check, publish, on Spark, in one command."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancewood.pipeline.definition.load import load
    from lancewood.pipeline.report.facts import Ending, RunFacts
    from lancewood.pipeline.running.leftovers import clean
    from lancewood.pipeline.running.run import run

__all__ = ["Ending", "RunFacts", "clean", "load", "run"]

_HOMES = {
    "Ending": "report.facts",
    "RunFacts": "report.facts",
    "clean": "running.leftovers",
    "load": "definition.load",
    "run": "running.run",
}
"""Which module of this room has a name: each is loaded when it is first asked for."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
