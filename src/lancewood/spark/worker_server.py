"""The process that the columnar door starts beside an executor: it forks a worker for each
connection, and does nothing else.

Run by Java as ``python -m lancewood.spark.worker_server MARK``, which says what Java was made of:
where that came from another machine, this Lancewood may be another one. It has everything loaded
that a worker needs, so that one is there in milliseconds, and has never used any of it: pylance
must not be forked once it has read something. Java tells it a secret on its input, and hears in a
line of its output where it listens. It ends when that input does; workers end when their connection
does.

Beside a driver its workers plan what ``format("lance")`` reads. Whatever is not a plain read of
rows is left to the source that Spark runs in Python, errors included: it tells them in its own way.
"""

from __future__ import annotations

import gc
import hmac
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, BinaryIO

from lancewood.spark.columnar.jar import mark
from lancewood.spark.columnar.protocol import PythonCommand
from lancewood.spark.columnar.worker import Worker
from lancewood.spark.reading.plan import columnar_read, plan_read
from lancewood.spark.source.lance_source import TableSource, assumed_slots
from lancewood.spark.source.options import Use, check_use
from lancewood.version import RELEASE

SECRET = 32
"""Bytes that Java says first, to the server and on each connection."""
READY = "lancewood workers: "
"""Begins the line that says where the server listens; whatever else is printed is no such line."""
_MOST_FOLDER = 75
"""Bytes of a folder's path in which a socket has room: that of a socket has 103 at most."""
_WAITING = 64
_SECONDS = 30
_BUFFER = 1 << 16

Serve = Callable[[Any, Any], None]
"""Does what comes in from one file, and answers on another, until the first ends."""


def run(load: Callable[[], Serve]) -> None:
    """Listen until the input ends. ``load`` imports what workers need, and gives what they do."""
    secret = os.read(0, SECRET)
    if len(secret) < SECRET:
        raise SystemExit("this is started by Java, which says a secret first")
    serve = load()
    where = tempfile.gettempdir()
    is_short = len(os.fsencode(where)) <= _MOST_FOLDER
    folder = tempfile.mkdtemp(prefix="lancewood-", dir=where if is_short else "/tmp")
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            path = os.path.join(folder, "workers")
            listening.bind(path)
            listening.listen(_WAITING)
            # The line may follow what an import has printed; what is printed later goes to the log.
            os.write(1, f"\n{READY}{path}\n".encode())
            os.dup2(2, 1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, _leave)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            gc.collect()
            gc.freeze()
            _listen(listening, secret, serve)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)


def _listen(listening: socket.socket, secret: bytes, serve: Serve) -> None:
    while True:
        ready, _, _ = select.select([listening.fileno(), 0], [], [])
        if 0 in ready and not os.read(0, 1):
            return
        if listening.fileno() in ready:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _be_a_worker(connection, secret, serve)
            connection.close()


def _be_a_worker(connection: socket.socket, secret: bytes, serve: Serve) -> None:
    """Never returns, and runs nothing of what the server would run at its end."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(0)
        connection.settimeout(_SECONDS)
        shown = b""
        while len(shown) < SECRET and (more := connection.recv(SECRET - len(shown))):
            shown += more
        connection.settimeout(None)
        if hmac.compare_digest(shown, secret):
            with (
                connection.makefile("rb", _BUFFER) as incoming,
                connection.makefile("wb", _BUFFER) as out,
            ):
                serve(incoming, out)
    except BaseException:
        os._exit(1)
    os._exit(0)


_LOADED = (
    "lance.file",
    "pyspark.sql.types",
    "lancewood.data.codec",
    "lancewood.engine.rows",
    "lancewood.expr",
    "lancewood.spark.reading.task",
    "lancewood.spark.types",
    "duckdb",
)
"""Modules that the first request would import."""


def load() -> Serve:
    """Import everything, and give what a worker does."""
    # The server forks, and has used nothing of it.
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    for each in _LOADED:
        import_module(each)

    def serve(incoming: BinaryIO, out: BinaryIO) -> None:
        Worker(incoming, out, plan_source).serve()

    return serve


def plan_source(options: Mapping[str, str], slots: int) -> bytes | None:
    """The read that options describe, encoded, for a Spark that runs ``slots`` tasks at once.

    None for a table about the table, for a stream, and for a limit that tasks cannot keep to.
    """
    source = TableSource(options)
    asked = source.asked
    if asked.metadata is not None or asked.streaming:
        return None
    check_use(asked, Use.READ)
    scan = source.scan()
    if asked.partitions is not None:
        slots = assumed_slots(asked.partitions)
    plan = plan_read(scan.snapshot, scan.request, slots)
    return (
        None if plan.limit is not None else columnar_read(plan, scan, slots).encode(PythonCommand())
    )


if __name__ == "__main__":
    if sys.argv[1:] != [mark()]:
        sys.exit(f"Lancewood {RELEASE} is here, and another one where the read was planned")
    run(load)
