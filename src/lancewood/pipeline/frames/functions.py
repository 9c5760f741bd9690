"""Python functions that the SQL of a pipeline calls by name.

A function takes the values of one row, or, if it says so, whole Arrow arrays: its parameters are
annotated with ``pa.Array``, or it has the attribute ``arrow = True``. One that is a UDF of
PySpark's already is taken as it is. Names are the session's: one that is taken is refused, and all
are given back in the end.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Function, Pipeline
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.modules import Modules
from lancewood.pipeline.frames.refusals import refused_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARROW = frozenset([pa.Array, pa.ChunkedArray, "pa.Array", "pyarrow.Array"])


class Registered:
    """The functions of one run, known to the session by name until ``close``."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, modules: Modules) -> None:
        self._spark, self._pipeline, self._modules = spark, pipeline, modules
        self._names: list[str] = []

    def register(self, functions: Iterable[Function]) -> None:
        """Make them known; raises InvalidInputError for one that cannot be."""
        for each in functions:
            found = self._modules.function(each.python, each.spot.at("python"))
            with refused_at(each.spot, self._pipeline):
                if self._spark.catalog.functionExists(each.name):
                    raise wrong(
                        each.spot,
                        f"the session has a function {each.name!r} already, Spark's own or one of "
                        "somebody else: choose another name",
                    )
            with refused_at(each.spot.at("returns"), self._pipeline):
                self._register(each, found)
                self._names.append(each.name)

    def _register(self, named: Function, function: Callable[..., Any]) -> None:
        from pyspark.sql import functions

        spark: Any = functions  # its stubs do not know all of it
        register: Any = self._spark.udf.register
        kind = _data_type(named.returns)
        if hasattr(function, "asNondeterministic"):
            given: Any = function
            if given.returnType != kind:
                raise wrong(
                    named.spot.at("returns"),
                    f"{named.python!r} is a UDF that returns {given.returnType.simpleString()}, "
                    f"not {kind.simpleString()}",
                )
            register(named.name, given)
        elif takes_arrow(function):
            is_annotated = _is_annotated(function)
            # With annotations PySpark sees by itself what it is, perhaps an iterator; without
            # them it has to be told, and would rather not be.
            form = None if is_annotated else spark.ArrowUDFType.SCALAR
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "It is preferred to specify type hints")
                register(named.name, spark.arrow_udf(function, kind, form))
        else:
            with warnings.catch_warnings():
                # Said of every function with annotations that are not those of arrays.
                warnings.filterwarnings("ignore", "Cannot infer the eval type from type hints")
                register(named.name, function, kind)

    def close(self) -> None:
        """Give the names back."""
        for each in self._names:
            self._spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS `{each}`")
        self._names.clear()


def takes_arrow(function: Callable[..., Any]) -> bool:
    """Whether a function takes Arrow arrays instead of values."""
    return getattr(function, "arrow", False) is True or _is_annotated(function)


def _is_annotated(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # something of C, which does not say
        return False
    return any(_names_arrow(each.annotation) for each in parameters)


def _names_arrow(annotation: Any) -> bool:
    if isinstance(annotation, str):
        inner = annotation.rpartition("[")[2].rstrip("]")
        return annotation in _ARROW or inner in _ARROW
    arguments = getattr(annotation, "__args__", ())
    return any(each in _ARROW for each in (annotation, *arguments) if isinstance(each, type))


def _data_type(text: str) -> Any:
    """A Spark type from DDL; raises InvalidInputError for another text."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType

    try:
        return DataType.fromDDL(text)
    except PySparkException:
        raise InvalidInputError(
            f"takes a type of Spark's, such as string or array<float>, got {text!r}"
        ) from None
