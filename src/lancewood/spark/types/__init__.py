"""Types and values, Arrow ↔ Spark, both ways; ``docs/spark-types.md`` is the written table.

Knows what a table's columns are in Spark, and what a frame's columns become in a table. Opens no
file and needs no running Spark. Importing this does not load pyspark.
"""

from __future__ import annotations

from lancewood.spark.types.reading import Reading, spark_schema
from lancewood.spark.types.schemas import handed_over, leaf_type
from lancewood.spark.types.writing import Writing, kept_columns, named_columns

__all__ = [
    "Reading",
    "Writing",
    "handed_over",
    "kept_columns",
    "leaf_type",
    "named_columns",
    "spark_schema",
]
