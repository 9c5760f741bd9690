"""One line that tells people, once for each Spark, that ``format("lance")`` goes the slow way.

A session that Lancewood has never been asked about has no columnar door: Spark finds the source in
Python by itself, and plans its reads in processes that cannot bring Java classes to the driver.
They can say so, and what they print goes to the console of the driver. That it has been said, or
need not be, is a file in the folder that Spark removes with its context: planning processes come
and go, and know nothing of each other.
"""

from __future__ import annotations

import os
import sys

_MARK = ".lancewood-columnar"
LINE = (
    'lancewood: format("lance") hands rows over one by one in this Spark session; call '
    "lancewood.spark.session() once after the session is made, and reads go by columns, several "
    "times as fast (LANCEWOOD_SPARK_COLUMNAR=0 in the environment keeps this line away)"
)


def say_once() -> None:
    """Where Spark plans a read in Python: print the line, unless a mark says that it was said, or
    that the session was asked whether it has the door. Elsewhere nothing is said."""
    from pyspark import SparkFiles

    folder = SparkFiles._root_directory if SparkFiles._is_running_on_worker else None
    if folder is not None and leave_mark(folder):
        print(LINE, file=sys.stderr, flush=True)


def leave_mark(folder: str) -> bool:
    """Leave it in the folder for files of a driver. False if there is one, or none can be left:
    then there might be a line for every read."""
    try:
        with open(os.path.join(folder, _MARK), "x"):
            return True
    except OSError:
        return False
