"""Spark's Python daemon, whose workers look for planted faults where they write files and items.

Spark starts it in place of its own: ``spark.python.daemon.module``. A worker is changed after the
fork, because a daemon that has loaded the codec must not fork.
"""

from __future__ import annotations

import socket

import pyspark.daemon
from tests.spark.clusters.faults import reach

_own_worker = pyspark.daemon.worker
_changed: list[type] = []


def worker(sock: socket.socket, authenticated: bool) -> int:
    """One task; the process may have had others."""
    if not _changed:
        _look_for_faults()
    return _own_worker(sock, authenticated)


def _look_for_faults() -> None:
    from lancewood.data.codec import FileWriter
    from lancewood.items import writing
    from lancewood.items.outcome import ItemOutcome
    from lancewood.items.writing import ItemFiles

    own_write, own_close = FileWriter.write, FileWriter.close

    def write(self: FileWriter, batch: object) -> None:
        own_write(self, batch)
        reach("write", self._location)

    def close(self: FileWriter) -> int:
        size = own_close(self)
        reach("close", self._location)
        return size

    own_item = writing.ItemWriter.write

    def write_item(self: writing.ItemWriter, files: ItemFiles) -> ItemOutcome:
        done = own_item(self, files)
        reach("item", self._folder.path(files.item))
        return done

    FileWriter.write, FileWriter.close = write, close  # type: ignore[method-assign]
    writing.ItemWriter.write = write_item  # type: ignore[method-assign]
    _changed.append(FileWriter)


pyspark.daemon.worker = worker

if __name__ == "__main__":
    pyspark.daemon.manager()
