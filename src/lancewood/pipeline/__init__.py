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

_NAMES = {
    "lancewood.pipeline.definition.load": "load",
    "lancewood.pipeline.report.facts": "Ending RunFacts",
    "lancewood.pipeline.running.runs": "clean",
    "lancewood.pipeline.start": "run",
}
__getattr__, __dir__ = lazy_names(globals(), _NAMES)
