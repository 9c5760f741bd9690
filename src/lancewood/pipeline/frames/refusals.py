"""What Spark refuses, in words of the file: the spot first, one line, no secrets; and which target,
step or Python function is to blame for an error while rows are on their way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lancewood.errors import (
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RunFailedError,
    UnsupportedError,
)
from lancewood.pipeline.definition.load import frames_in
from lancewood.pipeline.definition.model import Pipeline, Source, Spot, Step, Target
from lancewood.pipeline.definition.names import wrong
from lancewood.pipeline.definition.toml_file import hide
from lancewood.spark.running.failures import CALLS, TracebackFrame, as_our_error, quiet

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\.? *SQLSTATE: \w+")
_PLACE = re.compile(r"\bline (\d+)(,?) pos (\d+)")
_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+([A-Z][\w$]*)(?:: |$)")
_PY4J = re.compile(r"^An error occurred while calling .*")
_SAYS_ALL = ("AnalysisException", "ParseException", "SparkException", "IllegalArgumentException")
_COLON = "Relative path in absolute URI"
_HINTS = {
    _COLON: ". Spark reads no file with a colon in its name from a disk: rename it",
    "No suitable driver": ". Name its class in options (driver), and the JAR that has it in [spark]"
    " (spark.jars, or spark.jars.packages)",
    "Unable to infer schema": '. Say which columns it has: schema = "id LONG, name STRING"',
    "Failed to find the data source": ". Spark itself has parquet, csv, json, orc, text, xml, "
    "binaryFile and jdbc; for another one, name its JAR in [spark] (spark.jars.packages)",
    "No FileSystem for scheme": ". Name the JAR that knows it in [spark] (spark.jars.packages)",
}
_KEYS = {
    "[PATH_NOT_FOUND]": ("path", "paths"),
    "[DATA_SOURCE_NOT_FOUND]": ("format",),
    "[UNSUPPORTED_DATATYPE]": ("schema",),
    "[PARSE_SYNTAX_ERROR]": ("schema",),
}
"""The keys of a source that Spark's conditions are about."""
_OUR_COLUMN = re.compile(r"`_lancewood_\w+`, |(?:, )?`_lancewood_\w+`")
"""Among the columns that Spark proposes."""
_MALFORMED = re.compile(r"\bMALFORMED_\w*RECORD|Malformed records are detected")
_MOST_CHARACTERS = 500


@contextmanager
def refused_at(
    spot: Spot, pipeline: Pipeline, *, views: Mapping[str, str] | None = None, lines_before: int = 0
) -> Iterator[None]:
    """Raise InvalidInputError with the spot in front for what Spark, or we, find wrong.

    ``views`` are names that only we know, by the names that people know them by.
    ``lines_before`` is how many lines we put in front of the SQL that is analysed.
    """
    try:
        with quiet():
            yield
    except LancewoodError as error:
        if error.message.startswith((f"{spot.file}: ", f"{spot.file} line ")):
            raise
        text = hide(pipeline, error.message)
        if isinstance(error, InvalidInputError | NotFoundError | UnsupportedError):
            raise wrong(spot, text) from None
        raise type(error)(f"{spot}: {text}", **error.facts) from None
    except spark_errors() as error:
        text = first_line(str(error), lines_before)
        text += next((hint for part, hint in _HINTS.items() if part in text), "")
        for name, view in (views or {}).items():
            text = text.replace(view, name)
        raise wrong(_key_of(spot, str(error)), hide(pipeline, text)) from None


@contextmanager
def spark_may_be_gone() -> Iterator[None]:
    """Ignore errors of giving things back: a session that has ended has none of them any more."""
    with suppress(*spark_errors(), OSError):
        yield


def spark_errors() -> tuple[type[Exception], ...]:
    """What calls of PySpark raise: its own errors, and those of Java."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    except ImportError:  # a client of Connect alone
        return (PySparkException,)
    return PySparkException, Py4JError


def failed(pipeline: Pipeline, error: BaseException, what: str) -> LancewoodError:
    """The error for a Spark job that failed while a run was at work; ``what`` names the work.

    Errors of ours stay what they are, but for secrets.
    """
    if isinstance(error, LancewoodError) and hide(pipeline, error.message) == error.message:
        return error
    found = as_our_error(error, what)
    text = hide(pipeline, found.message)
    if "FILE_NOT_EXIST" in str(error) or "FileNotFoundException" in str(error):
        text += ". A file was removed or replaced while the run read it: run again"
    if _COLON in str(error):
        text += _HINTS[_COLON]
    if _MALFORMED.search(str(error)):
        text += (
            ". A row of it does not parse: mend it, or have such rows put into quarantine: that "
            "takes a schema, no mode, and a limit ([quarantine] most_rows = 10)"
        )
    made = type(found)(text, **found.facts)
    for note in getattr(found, "__notes__", ()):
        made.add_note(note)
    return made


def _key_of(spot: Spot, text: str) -> Spot:
    """The key below the spot that Spark means, if the file has it; else the spot."""
    keys = next((keys for condition, keys in _KEYS.items() if condition in text), ())
    below = (spot.at(each) for each in keys)
    return next((each for each in below if each.line is not None), spot)


def first_line(text: str, lines_before: int = 0) -> str:
    """What Spark says in the first line that says something, without codes, classes and stacks."""
    lines = (each.strip().removeprefix(": ") for each in text.splitlines())
    line = next((each for each in lines if each and not _PY4J.match(each)), "")
    kind = _JAVA_CLASS.match(line)
    if kind is not None:
        rest = line[kind.end() :]
        says_all = kind[1].endswith(_SAYS_ALL) or _CONDITION.match(rest) is not None
        line = rest if rest and says_all else f"{kind[1]}: {rest}".rstrip(": ")
    line = _STATE.sub("", _CONDITION.sub("", line))
    line = _OUR_COLUMN.sub("", line)
    line = _PLACE.sub(lambda found: _moved(found, lines_before), line)
    line = line.rstrip(" ;.\n")
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _moved(found: re.Match[str], lines_before: int) -> str:
    return f"line {max(1, int(found[1]) - lines_before)}{found[2]} pos {found[3]}"


@dataclass(frozen=True)
class Uses:
    """The frames of a pipeline and what they read."""

    inputs: Mapping[str, Sequence[str]]
    """The frames that every source and step reads, as often as it does."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How often a frame is read on the way to targets; frames that no target needs are missing."""
    in_steps: frozenset[str] = frozenset()
    """Frames that another frame reads, perhaps not all of their rows."""

    @classmethod
    def of(cls, pipeline: Pipeline) -> Uses:
        """The file was checked when it was read: all names lead to frames, and none to itself."""
        frames: list[Source | Step] = [*pipeline.sources, *pipeline.steps]
        names = [each.name for each in frames]
        inputs = {each.name: _inputs(each, names) for each in frames}
        counts: Counter[str] = Counter()
        for target in pipeline.targets:
            if target.source is not None:
                # Rows that delete and rows that upsert are separated in two passes.
                counts[target.source] += 1 if target.deleted is None else 2
        needed, in_steps = list(counts), set[str]()
        for name in needed:
            for each in inputs.get(name, ()):
                if each not in counts:
                    needed.append(each)
                counts[each] += 1
                in_steps.add(each)
        return cls(inputs, dict(counts), frozenset(in_steps))


def _inputs(origin: Source | Step, names: Iterable[str]) -> tuple[str, ...]:
    if origin.sql is not None:
        return frames_in(origin.sql, names)
    return origin.inputs if isinstance(origin, Step) else ()


def blamed(
    pipeline: Pipeline, error: Exception, what: str, target: Target | None = None
) -> Exception:
    """The error to raise in place of another one: if rows or functions caused it, it says at which
    target and in which step. Any other error is returned unchanged."""
    found = failed(pipeline, error, what) if isinstance(error, spark_errors()) else error
    if not isinstance(found, LancewoodError):
        return error
    if type(found) not in (InvalidInputError, RunFailedError, LancewoodError):
        return error
    text = found.message
    if target is None or target.source is not None:
        source = None if target is None else target.source
        steps = steps_to_blame(pipeline, found.facts.get(CALLS, ()), source)
        text += f", in step {' or '.join(steps)}" if steps else ""
    spot = None if target is None else target.spot
    if spot and not text.startswith((f"{spot.file}: ", f"{spot.file} line ")):
        text = f"{spot}: {text}"
    kind = RunFailedError if type(found) is LancewoodError else type(found)
    return kind(text, **found.facts)


def steps_to_blame(
    pipeline: Pipeline, calls: Sequence[TracebackFrame], source: str | None
) -> list[str]:
    """The steps on the way to a frame, or all if ``source`` is None, whose Python is among the
    calls: those whose SQL calls one of the functions, else those with Python of the same module."""
    known = _on_the_way(pipeline, source)
    steps = [each for each in pipeline.steps if each.name in known]
    functions = [each.name for each in pipeline.functions if _is_called(each.python, calls)]
    by_sql = [each.name for each in steps if any(_names(each, name) for name in functions)]
    by_module = [each.name for each in steps if each.python and any(_calls_in(each.python, calls))]
    return by_sql or by_module


def _on_the_way(pipeline: Pipeline, source: str | None) -> Collection[str]:
    uses = Uses.of(pipeline)
    if source is None:
        return uses.counts.keys()
    found = [source]
    for name in found:
        found += [each for each in uses.inputs.get(name, ()) if each not in found]
    return found


def _is_called(named: str, calls: Sequence[TracebackFrame]) -> bool:
    function = named.rpartition(":")[2].rpartition(".")[2]
    return any(each.function == function for each in _calls_in(named, calls))


def _calls_in(named: str, calls: Sequence[TracebackFrame]) -> Iterator[TracebackFrame]:
    """The calls in the module of ``module:function``."""
    path = named.partition(":")[0].replace(".", "/")
    for each in calls:
        if each.file.replace("\\", "/").endswith((f"/{path}.py", f"/{path}/__init__.py")):
            yield each


def _names(step: Step, function: str) -> bool:
    call = re.compile(rf"\b{re.escape(function)}`?\s*\(", re.IGNORECASE)
    texts = (step.sql or "", *(each.where for each in step.rejects))
    return any(call.search(each) for each in texts)
