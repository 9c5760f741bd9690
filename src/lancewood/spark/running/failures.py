"""What a failed Spark job or a refused query means, as one of our errors and without Java's stacks;
and our errors with their sentence before the stack, where Spark's own Python tells them.

Errors of tasks arrive as answers, see ``answers``. These are the others: a Python that did not
start or died, an executor that was lost too often, results too large for the driver, a cancelled
job. Only the text of an exception is read; no session is asked.

Spark hands people the text that Python prints of an exception, and that is its stack, with the
sentence below. Python prints before an exception what it came from: in ``sentence_first`` that is
the error itself, which has no stack yet.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, NamedTuple, TypeVar

from lancewood import errors
from lancewood.errors import LancewoodError
from lancewood.spark.abilities import LOGGED_REFUSALS, release_here

_TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of Spark that print every refused query with Java's stack, which may contain options."""
CALLS = "calls"
"""The key in ``error.facts`` of the Python calls that led to the error, outermost first."""
_TRACEBACK = "Traceback (most recent call last):"
_CALL = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_LIBRARIES = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<")
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<why>.*))?$")
_STAGE_FAILURE = re.compile(r"Job aborted due to stage failure: (.*)", re.DOTALL)
_MOST_CHARACTERS = 600


@contextmanager
def quiet() -> Iterator[None]:
    """Inside the block PySpark raises refusals without printing them."""
    if not LOGGED_REFUSALS.is_in(release_here()):
        yield
        return
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(each) for each in _TALKATIVE]
    before = [each.disabled for each in loggers]
    for each in loggers:
        each.disabled = True
    try:
        yield
    finally:
        for each, was in zip(loggers, before, strict=True):
            each.disabled = was


class TracebackFrame(NamedTuple):
    """A frame of a Python traceback."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function}() at {self.file} line {self.line}"


def as_our_error(error: BaseException, what: str) -> LancewoodError:
    """The error to raise for a failed Spark job; ``what`` names the work for people."""
    if isinstance(error, LancewoodError):
        return error
    text = str(error)
    if "spark.driver.maxResultSize" in text:
        return _because(
            error,
            what,
            "its tasks have more to tell than Spark lets the driver take. Raise "
            "spark.driver.maxResultSize (it is set when the session begins)",
        )
    ours = our_error(text, what=what)
    if ours is not None:
        return ours
    raised = python_error(text)
    if raised is not None:
        kind, why = raised
        if kind.endswith("ModuleNotFoundError"):
            why += ". Executors need the same packages as the driver; set PYSPARK_PYTHON to a "
            why += "Python that has them"
        calls = python_calls(text)
        why = f"{kind.rpartition('.')[2]}: {why}" if why else kind
        return _because(error, what, why + raised_by(calls), calls)
    return _because(error, what, _shortened(_first_words(text)) or type(error).__name__)


def our_error(text: str, **facts: object) -> LancewoodError | None:
    """Our error at the end of the text, which a task raised at every attempt; None without one."""
    raised = python_error(text)
    if raised is None:
        return None
    module, _, name = raised[0].rpartition(".")
    found = getattr(errors, name, None) if module == errors.__name__ else None
    if not isinstance(found, type) or not issubclass(found, LancewoodError):
        return None
    return found(raised[1], **facts)


def python_error(text: str) -> tuple[str, str] | None:
    """Class and message of the Python exception at the end of the text; None without one."""
    _, found, last = text.rpartition(_TRACEBACK)
    if not found:
        return None
    lines = iter(last.splitlines())
    for line in lines:
        raised = _RAISED.match(line)
        if raised is None:
            continue
        more = [raised["why"] or ""]
        for each in lines:
            if _is_javas(each):
                break
            more.append(each)
        return raised["kind"], _shortened("\n".join(more).strip())
    return None


def python_calls(text: str) -> tuple[TracebackFrame, ...]:
    """The calls that led to that exception, outermost first."""
    _, _, last = text.rpartition(_TRACEBACK)
    return tuple(TracebackFrame(each[1], int(each[2]), each[3]) for each in _CALL.finditer(last))


def calls_of(error: BaseException) -> tuple[TracebackFrame, ...]:
    """The calls that led to an exception raised here."""
    found = traceback.extract_tb(error.__traceback__)
    return tuple(TracebackFrame(each.filename, each.lineno or 0, each.name) for each in found)


def raised_by(calls: Sequence[TracebackFrame]) -> str:
    """The end of a message: the innermost call outside of libraries, or else the innermost."""
    own = [each for each in calls if not _LIBRARIES.search(each.file)]
    return "".join(f"; raised by {each}" for each in (own or calls)[-1:])


def _is_javas(line: str) -> bool:
    stripped = line.strip()
    return (
        not stripped
        or stripped.startswith(("at ", "SQLSTATE", "JVM stacktrace", "Driver stacktrace"))
        or line.startswith("\t")
    )


def _first_words(text: str) -> str:
    """What Spark says before the stacks."""
    found = _STAGE_FAILURE.search(text)
    lines = (found[1] if found else text).splitlines()
    said: list[str] = []
    for each in lines:
        if _is_javas(each) and said:
            break
        if each.strip():
            said.append(each.strip())
    return " ".join(said)


def _because(
    error: BaseException, what: str, why: str, calls: Sequence[TracebackFrame] = ()
) -> LancewoodError:
    facts = {CALLS: calls} if calls else {}
    made = LancewoodError(f"{what} failed on Spark: {why}", what=what, **facts)
    made.__cause__ = None
    made.add_note(f"Spark raised {type(error).__module__}.{type(error).__name__}")
    return made


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


F = TypeVar("F", bound=Callable[..., Any])
_IS_LED = "_is_led"


@contextmanager
def sentence_first() -> Iterator[None]:
    """Errors of ours that leave the block are printed with their sentence first."""
    try:
        yield
    except LancewoodError as error:
        _lead(error)
        raise


def telling_sentence_first(run: F) -> F:
    """A function or generator function whose errors begin with their sentence."""
    if isgeneratorfunction(run):

        @wraps(run)
        def rows(*args: Any, **more: Any) -> Iterator[Any]:
            with sentence_first():
                yield from run(*args, **more)

        return rows  # type: ignore[return-value]

    @wraps(run)
    def call(*args: Any, **more: Any) -> Any:
        with sentence_first():
            return run(*args, **more)

    return call  # type: ignore[return-value]


def _lead(error: LancewoodError) -> None:
    """Put the error before the first that it came from. PySpark may leave out what it was raised
    from, so it stands before the error itself as well."""
    if _IS_LED in vars(type(error)):
        return
    first: BaseException = error
    while (before := first.__cause__) is not None:
        first = before
    for each in (first, error):
        each.__context__ = copy(error)
        each.__suppress_context__ = False
    whole, kind = copy(error), type(error)
    # PySpark says that it came from nothing, and Python prints no context then: this class does.
    led: Any = type(kind.__name__, (kind,), {"__suppress_context__": False, _IS_LED: True})
    led.__module__, led.__qualname__ = kind.__module__, kind.__qualname__
    led.__reduce__ = lambda _: whole.__reduce__()
    error.__class__ = led
