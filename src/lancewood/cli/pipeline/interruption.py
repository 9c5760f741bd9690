"""Ctrl-C in the middle of a run: what is said then, and what is not.

PySpark asks Spark to cancel its jobs; the connection to Java, which waits for an answer, breaks
over that and logs it at length. Nobody needs to see it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shlex import join

_OF_PY4J = ("Exception while sending command", "KeyboardInterrupt while sending command")


@contextmanager
def interruption_told(branch: str, again: Sequence[str]) -> Iterator[None]:
    """Add to a KeyboardInterrupt how the run goes on: by the words of ``again``."""
    root = logging.getLogger()
    root.addFilter(_is_told)
    try:
        yield
    except KeyboardInterrupt as stopped:
        stopped.add_note(f"{branch} is as it was, or has the whole run; to go on: {join(again)}")
        raise
    finally:
        root.removeFilter(_is_told)


def _is_told(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_OF_PY4J)
