"""The same table SEEN FROM SPARK. Importing this room does not load pyspark."""

from lancewood.spark.session import session

__all__ = ["session"]
