"""What Spark says against a query, in one line, and without the stack that PySpark prints of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.spark.quiet import quiet

_condition = re.compile(r"^\[[A-Z0-9_.]+\] ")
_state = re.compile(r"\.? *SQLSTATE: \w+")
_place = re.compile(r"(line \d+),? pos \d+")
_MOST_CHARACTERS = 500


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Raise InvalidInputError that says what, and why, for what Spark refuses in the block."""
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except PySparkException as error:
        raise InvalidInputError(f"{what}: {reason(error)}") from error


def reason(error: Any) -> str:
    """The first line of what Spark says, without codes.

    A place within a line is left out, too: it is one of the text that Spark got, in which tables
    have other names.
    """
    line = _condition.sub("", str(error).strip().partition("\n")[0].strip())
    line = _place.sub(r"\1", _state.sub("", line)).rstrip(" ;.")
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
