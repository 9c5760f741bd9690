"""Item repositories SEEN FROM SPARK: read, written, tagged and imported by the million.

Importing this room does not load pyspark.
"""

from __future__ import annotations

from lancewood.spark.items.importing import import_plain
from lancewood.spark.items.reading import ItemFrames, read
from lancewood.spark.items.result import ItemsDone
from lancewood.spark.items.tagging import tag
from lancewood.spark.items.writing import write

__all__ = ["ItemFrames", "ItemsDone", "import_plain", "read", "tag", "write"]
