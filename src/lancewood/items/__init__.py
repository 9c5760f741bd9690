"""Items: many small repositories below one folder, each with files of its own and without tables.

``read``, ``write``, ``tag`` and ``import_plain`` work on all of them at once, on Spark. Importing
this room does not load pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

if TYPE_CHECKING:
    from lancewood.items.spark.reading import ItemFrames, read
    from lancewood.items.spark.running import ItemsDone
    from lancewood.items.spark.writing import import_plain, tag, write

__all__ = ["ItemFrames", "ItemsDone", "import_plain", "read", "tag", "write"]

_NAMES = {
    "lancewood.items.spark.reading": "ItemFrames read",
    "lancewood.items.spark.running": "ItemsDone",
    "lancewood.items.spark.writing": "import_plain tag write",
}
__getattr__, __dir__ = lazy_names(globals(), _NAMES)
