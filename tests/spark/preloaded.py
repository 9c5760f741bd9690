"""Spark's daemon of Python workers, with all that our tasks load already loaded when it forks one.

Tests start hundreds of workers: one whose task failed is never used again. Forking after pylance
was imported is safe, as long as it was not used.
"""

from __future__ import annotations

import gc

import lance
import pandas
from pyspark import daemon
from pyspark.sql import connect

from lancewood.data import codec
from lancewood.spark.reading import task
from lancewood.spark.source import lance_source
from lancewood.spark.writing import work

LOADED = (lance, pandas, connect, codec, task, lance_source, work)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()
