"""The same table SEEN FROM SPARK. Importing this room does not load pyspark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazily: once a module is loaded, its package has it under the name that the function needs.
from lancewood.spark.runner import runner
from lancewood.spark.session import session

if TYPE_CHECKING:
    from lancewood.spark.columns.add import add_columns
    from lancewood.spark.reading.read import count, read
    from lancewood.spark.source.metadata import metadata
    from lancewood.spark.writing.write import write
    from lancewood.spark.writing.written import Written

__all__ = ["Written", "add_columns", "count", "metadata", "read", "runner", "session", "write"]

_HOMES = {
    "add_columns": "columns.add",
    "count": "reading.read",
    "read": "reading.read",
    "metadata": "source.metadata",
    "write": "writing.write",
    "Written": "writing.written",
}
"""Which module of this room has a name: each is loaded when it is first asked for."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
