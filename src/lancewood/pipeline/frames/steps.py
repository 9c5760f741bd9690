"""Steps that are Python: a function from frames to a frame.

It is called once, on the driver, before anything is written: what it plans is executed later.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lancewood.errors import LancewoodError
from lancewood.pipeline.definition.hiding import hide
from lancewood.pipeline.definition.model import Pipeline, Step
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.modules import Modules
from lancewood.pipeline.frames.refusals import first_line
from lancewood.pipeline.report.figures import counted
from lancewood.spark.running.failures import calls_of, raised_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_step(step: Step, modules: Modules) -> None:
    """Raise InvalidInputError for a function that is not there, or does not take what it would
    be given."""
    assert step.python is not None
    function = modules.function(step.python, step.spot.at("python"))
    try:
        inspect.signature(function).bind(*step.inputs, **step.arguments)
    except ValueError:  # something of C, which does not say
        return
    except TypeError as misfit:
        frames = counted(len(step.inputs), "frame")
        raise wrong(
            step.spot,
            f"{step.python!r} is called with {frames} and the arguments "
            f"{', '.join(step.arguments) or 'none'}, and does not take them: {misfit}",
        ) from misfit


def run_step(
    step: Step, inputs: Sequence[DataFrame], modules: Modules, pipeline: Pipeline
) -> DataFrame:
    """What the function makes of its frames; raises InvalidInputError for what is no frame."""
    from pyspark.sql import DataFrame

    assert step.python is not None
    spot = step.spot.at("python")
    function = modules.function(step.python, spot)
    try:
        made: Any = function(*inputs, **step.arguments)
    except LancewoodError:
        raise
    except Exception as error:
        text = hide(pipeline, first_line(str(error)))
        cause = error if hide(pipeline, str(error)) == str(error) else None
        text = f"{step.python!r} raised {type(error).__name__}: {text}"
        raise wrong(spot, text + raised_by(calls_of(error)[1:])) from cause
    if not isinstance(made, DataFrame):
        what = "nothing" if made is None else f"a {type(made).__module__}.{type(made).__qualname__}"
        raise wrong(spot, f"{step.python!r} has to return a DataFrame of Spark's, got {what}")
    return made
