"""Errors of ours with their sentence before the stack, where Spark's own Python tells them.

Spark hands people the text that Python prints of an exception, and that is its stack, with the
sentence below. Python prints before an exception what it came from: here that is the error itself,
which has no stack yet. Knows neither sessions nor tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from lancewood.errors import LancewoodError

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
