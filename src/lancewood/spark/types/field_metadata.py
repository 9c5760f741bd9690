"""The metadata of a column, Arrow ↔ Spark.

Spark's is JSON, Arrow's is text: texts stay, other values of Spark's become their JSON. What one
side keeps for itself does not cross: keys that steer Spark, and those that steer Lance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lancewood.errors import InvalidInputError

_OF_SPARK = ("__", "spark.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
_OF_LANCE = ("lance-", "lance.", "ARROW:", "packed", "SPARK::")
_PART_OF_THE_TYPE = "ARROW:extension:"


def to_spark_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What Spark is told of a table's column: comments, and whatever else is text."""
    found = {}
    for key, value in (metadata or {}).items():
        try:
            name, text = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if not name.startswith((*_OF_LANCE, *_OF_SPARK)):
            found[name] = text
    return found


def to_table_metadata(metadata: Mapping[str, Any] | None, path: str) -> dict[str, str] | None:
    """What a new table keeps of the metadata of a frame's column.

    Raises InvalidInputError for a key that would make it a column of another type.
    """
    found = {}
    for key, value in (metadata or {}).items():
        if key.startswith(_PART_OF_THE_TYPE):
            raise InvalidInputError(
                f"the metadata {key!r} of column {path!r} is part of an Arrow type; name the type "
                "with schema=",
                column=path,
            )
        if not key.startswith(_OF_SPARK):
            found[key] = value if isinstance(value, str) else json.dumps(value)
    return found or None
