"""A process that forks a worker for each connection, and does nothing else.

It has everything loaded that a worker needs, so that one is there in milliseconds, and has never
used any of it: pylance must not be forked once it has read something. Java starts it, tells it a
secret on its input, and hears in a line of its output where it listens. It ends when that input
does; workers end when their connection does.
"""

from __future__ import annotations

import gc
import hmac
import os
import select
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from typing import Any

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
