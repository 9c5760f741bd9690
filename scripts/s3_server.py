"""An S3 server for tests and benchmarks: moto's, on a free port of this machine, in memory.

``python scripts/s3_server.py [bucket…]`` prints one line, the endpoint, and serves until its parent
process is gone. moto looks whether a key is there and writes it in two steps, so two conditional
puts at once could both win, and a listing can trip over a write; so requests are carried out one
after the other. A listing goes through the whole bucket: give each piece of work one of its own.
Knows no credentials: any are accepted.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any

from moto import backends
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class QuietHandler(MotoRequestHandler):
    """Answers at once, and does not log every request."""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def one_at_a_time(inner: Application) -> Application:
    """The same application, with a lock around it.

    The body is read before the lock is taken: a slow sender holds nobody up.
    """
    lock = threading.Lock()

    def outer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with lock:
            return [*inner(environ, start_response)]

    return outer


def list_modules_once() -> None:
    """moto looks through its own directory twice for every request, which takes a third of it."""
    modules = [*backends.list_of_moto_modules()]
    backends.list_of_moto_modules = lambda: modules


def end_with(parent: int) -> None:
    """Leave as soon as the process that started this one is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description="moto's S3 server, on a free port of loopback.")
    parser.add_argument("buckets", nargs="*", metavar="bucket", help="buckets to begin with")
    parser.add_argument("--port", type=int, default=0, help="a port of your choice")
    chosen = parser.parse_args()
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    list_modules_once()
    application = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server(
        "127.0.0.1", chosen.port, application, threaded=True, request_handler=QuietHandler
    )
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    endpoint = f"http://127.0.0.1:{server.port}"
    for bucket in chosen.buckets:
        request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
        urllib.request.urlopen(request).close()
    print(endpoint, flush=True)
    serving.join()


if __name__ == "__main__":
    main()
