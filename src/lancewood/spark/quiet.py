"""Asking Spark what it may refuse, without PySpark printing the refusal before we tell it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They print every refused query with Java's stack, in which options may stand."""


@contextmanager
def quiet() -> Iterator[None]:
    """Refusals inside the block are raised, and not printed."""
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
