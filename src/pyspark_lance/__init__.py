"""Lets Spark find ``format("lance")`` by itself: it looks into every package called pyspark_…"""

from lancewood.spark.source.lance_source import LanceSource as DefaultSource

__all__ = ["DefaultSource"]
