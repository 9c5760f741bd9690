"""What a pipeline computes in Spark: SQL over its frames, and the Python that it calls, which is
looked for beside the file first.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.pipeline.definition.model import Function, Pipeline, Spot, Step
from lancewood.pipeline.definition.names import near, wrong
from lancewood.pipeline.definition.toml_file import hide
from lancewood.pipeline.frames.refusals import first_line, refused_at
from lancewood.pipeline.report.markup import counted
from lancewood.spark.abilities import ARROW_FUNCTIONS, release_of, require
from lancewood.spark.running.failures import calls_of, raised_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NEVER = frozenset(["__main__", "lancewood", "pyspark_lance", *sys.stdlib_module_names])
"""Modules that are not looked for beside the file."""
_loading = threading.RLock()
_PYSPARK = re.compile(r"[/\\]pyspark[/\\]")


@dataclass
class Modules:
    """The modules of one run, each loaded once."""

    folder: Path
    """The directory of the pipeline file."""
    _loaded: dict[str, ModuleType] = field(default_factory=dict)
    _beside: dict[str, ModuleType] = field(default_factory=dict)
    """What was loaded from the folder, including modules that others import."""

    def function(self, named: str, spot: Spot) -> Callable[..., Any]:
        """What ``module:function`` names; raises InvalidInputError if it is missing or not
        callable."""
        module_name, _, function_name = named.partition(":")
        found: Any = self._module(module_name, spot)
        for part in function_name.split("."):
            if not hasattr(found, part):
                callables = [name for name in vars(found) if callable(getattr(found, name))]
                raise wrong(
                    spot,
                    f"{named!r}: {_location(found)} has no {part!r}; "
                    + near(part, (each for each in callables if not each.startswith("_"))),
                )
            found = getattr(found, part)
        if not callable(found):
            raise wrong(spot, f"{named!r} is a {type(found).__name__}, not a function")
        return found  # type: ignore[no-any-return]

    def _module(self, name: str, spot: Spot) -> ModuleType:
        known = self._loaded.get(name)
        if known is None:
            try:
                known = self._loaded[name] = self._load(name)
            except ModuleNotFoundError as missing:
                if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
                    raise wrong(spot, f"module {name!r} does not load: {missing}") from missing
                raise wrong(
                    spot,
                    f"there is no module {name!r}, neither beside the file in {self.folder} nor "
                    "among the packages of this Python",
                ) from missing
            except Exception as error:
                raise wrong(
                    spot, f"module {name!r} does not load: {type(error).__name__}: {error}"
                ) from error
        return known

    def _load(self, name: str) -> ModuleType:
        if not self._is_beside(name.partition(".")[0]):
            return importlib.import_module(name)
        with _loading, self._first(), self._apart():
            # Modules loaded later import the same objects as earlier ones.
            sys.modules.update(self._beside)
            found = importlib.import_module(name)
            self._beside.update(self._those_beside())
        return found

    def _is_beside(self, top: str) -> bool:
        locations = (self.folder / f"{top}.py", self.folder / top / "__init__.py")
        return top not in _NEVER and any(each.is_file() for each in locations)

    def _those_beside(self) -> dict[str, ModuleType]:
        """The loaded modules whose names stand for something in the folder."""
        tops: dict[str, bool] = {}
        found = {}
        for name, module in list(sys.modules.items()):
            top = name.partition(".")[0]
            if top not in tops:
                tops[top] = self._is_beside(top)
            if tops[top]:
                found[name] = module
        return found

    @contextmanager
    def _first(self) -> Iterator[None]:
        """Put the folder first on the path inside the block; nothing is written into it."""
        location, was = str(self.folder), sys.dont_write_bytecode
        importlib.invalidate_caches()
        sys.path.insert(0, location)
        sys.dont_write_bytecode = True
        try:
            yield
        finally:
            sys.dont_write_bytecode = was
            sys.path.remove(location)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Hide modules of the same names from elsewhere inside the block."""
        others = self._those_beside()
        for each in others:
            del sys.modules[each]
        try:
            yield
        finally:
            for each in self._those_beside():
                del sys.modules[each]
            sys.modules.update(others)


def _location(found: Any) -> str:
    return str(getattr(found, "__file__", None) or getattr(found, "__name__", repr(found)))


_ARROW = frozenset([pa.Array, pa.ChunkedArray, "pa.Array", "pyarrow.Array"])
LINES_BEFORE = 1
"""How many lines ``over_views`` puts before the SQL."""


def over_views(sql: str, views: Mapping[str, str]) -> str:
    """The query with names bound to views; ``views`` has the view of each name."""
    if not views:
        return sql
    bound = ", ".join(f"`{name}` AS (SELECT * FROM `{view}`)" for name, view in views.items())
    return f"WITH {bound} (\n{without_end(sql)}\n)"


def without_end(sql: str) -> str:
    """The query without trailing semicolons, also where comments follow them."""
    from sqlglot import TokenType, tokenize

    tokens = tokenize(sql, read="spark")
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        last = tokens.pop()
        sql = f"{sql[: last.start]} {sql[last.start + 1 :]}"
    return sql.rstrip()


class Views:
    """Frames as temporary views with unique names, until ``close``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._prefix = f"lancewood_{uuid4().hex}"
        self._by_frame: dict[str, str] = {}

    def named(self, name: str, frame: DataFrame) -> str:
        """The view of a frame, created when first asked for."""
        known = self._by_frame.get(name)
        if known is None:
            known = f"{self._prefix}_{name}"
            frame.createOrReplaceTempView(known)
            self._by_frame[name] = known
        return known

    def close(self) -> None:
        for each in self._by_frame.values():
            self._spark.catalog.dropTempView(each)
        self._by_frame.clear()


class Registered:
    """The functions of one run, registered in the session until ``close``."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, modules: Modules) -> None:
        self._spark, self._pipeline, self._modules = spark, pipeline, modules
        self._names: list[str] = []

    def register(self, functions: Iterable[Function]) -> None:
        """Register the functions; raises InvalidInputError for one that cannot be."""
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
            require(f"function {named.name!r}", ARROW_FUNCTIONS, release_of(self._spark))
            # PySpark infers the kind from annotations, perhaps an iterator. Without them it has to
            # be told, and warns.
            form = None if _is_annotated(function) else spark.ArrowUDFType.SCALAR
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "It is preferred to specify type hints")
                register(named.name, spark.arrow_udf(function, kind, form))
        else:
            with warnings.catch_warnings():
                # PySpark warns of all annotations other than those of arrays.
                warnings.filterwarnings("ignore", "Cannot infer the eval type from type hints")
                register(named.name, function, kind)

    def close(self) -> None:
        for each in self._names:
            self._spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS `{each}`")
        self._names.clear()


def takes_arrow(function: Callable[..., Any]) -> bool:
    """Whether a function takes Arrow arrays instead of values."""
    return getattr(function, "arrow", False) is True or _is_annotated(function)


def _is_annotated(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, without a signature
        return False
    return any(_names_arrow(each.annotation) for each in parameters)


def _names_arrow(annotation: Any) -> bool:
    if isinstance(annotation, str):
        inner = annotation.rpartition("[")[2].rstrip("]")
        return annotation in _ARROW or inner in _ARROW
    arguments = getattr(annotation, "__args__", ())
    return any(each in _ARROW for each in (annotation, *arguments) if isinstance(each, type))


def _data_type(text: str) -> Any:
    """A Spark type from DDL; raises InvalidInputError for other text."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType

    try:
        return DataType.fromDDL(text)
    except PySparkException:
        raise InvalidInputError(
            f"takes a type of Spark's, such as string or array<float>, got {text!r}"
        ) from None


def check_step(step: Step, modules: Modules) -> None:
    """Raise InvalidInputError if the function is missing or does not take these arguments."""
    assert step.python is not None
    function = modules.function(step.python, step.spot.at("python"))
    try:
        inspect.signature(function).bind(*step.inputs, **step.arguments)
    except ValueError:  # written in C, without a signature
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
    """The frame that the function returns; raises InvalidInputError for anything else."""
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


def check_python(pipeline: Pipeline) -> None:
    """Raise InvalidInputError for a function that is not there, or does not take what it would be
    given.

    A module that needs a session while it loads, as ``@udf`` does, is left for later; so are the
    warnings of modules, which are loaded again then.
    """
    modules = Modules(pipeline.file.parent)
    for function in pipeline.functions:
        with _left_to_spark():
            modules.function(function.python, function.spot.at("python"))
    for step in pipeline.steps:
        if step.python is not None:
            with _left_to_spark():
                check_step(step, modules)


@contextmanager
def _left_to_spark() -> Iterator[None]:
    """Pass over what PySpark itself raises: without a session it can do little."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except InvalidInputError as refused:
        calls = () if refused.__cause__ is None else calls_of(refused.__cause__)
        if not calls or not _PYSPARK.search(calls[-1].file):
            raise
