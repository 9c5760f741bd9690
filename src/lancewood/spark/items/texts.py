"""Texts on their way between a disk, which knows bytes, and Spark, which knows UTF-8.

Pure. A name that is not UTF-8 is escaped on the way out, and nobody finds a file under it: so it
is told, and not left out.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def as_text(name: str) -> str:
    """A name as Spark can hold it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def text_of(value: pa.Scalar[Any]) -> str | None:
    """A text of Spark's; bytes that are not UTF-8 as Python has them, for whoever checks it."""
    if not value.is_valid:
        return None
    try:
        return str(value.as_py())
    except UnicodeDecodeError:
        return bytes(value.as_buffer()).decode("utf-8", "surrogateescape")
