"""The pipeline: load, check, publish, on Spark, in one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

if TYPE_CHECKING:
    from lancewood.pipeline.definition.load import load
    from lancewood.pipeline.report.facts import Ending, RunFacts
    from lancewood.pipeline.running.runs import clean
    from lancewood.pipeline.start import run

__all__ = ["Ending", "RunFacts", "clean", "load", "run"]

_MODULES = {
    "Ending": "lancewood.pipeline.report.facts",
    "RunFacts": "lancewood.pipeline.report.facts",
    "clean": "lancewood.pipeline.running.runs",
    "load": "lancewood.pipeline.definition.load",
    "run": "lancewood.pipeline.start",
}
__getattr__, __dir__ = lazy_names(globals(), _MODULES)
