"""A faulty wire: a proxy in front of an object store's HTTP endpoint that disturbs chosen requests.

It does not support TLS. Faults happen to a real client over a real socket, so timeouts and retries
are the client's own.
"""

from __future__ import annotations

import http.client
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import urlsplit

Fault = Literal[
    "reset",
    "drop",
    "late",
    "slow-down",
    "slow-down-after",
    "error",
    "error-after",
    "refuse",
    "careless",
]
"""``reset``: the connection breaks before the request is carried out. ``drop``: it is carried out,
then the connection breaks. ``late``: it is carried out, and the answer waits until the client has
given up. ``slow-down``: 503, and ``error``: 500, not carried out; ``slow-down-after`` and
``error-after``: the same, although it was carried out. ``refuse``: 403, not carried out.
``careless``: carried out as if it had no condition."""

LONGEST_WAIT = 60.0
"""Seconds after which a late answer is sent after all; a client without a timeout would hang."""

_SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")
_ERROR = (500, "InternalError", "We encountered an internal error. Please try again.")
_BEFORE = {
    "slow-down": _SLOW_DOWN,
    "error": _ERROR,
    "refuse": (403, "AccessDenied", "Access Denied"),
}
_AFTER = {"slow-down-after": _SLOW_DOWN, "error-after": _ERROR}
_OWN_HEADERS = {"connection", "transfer-encoding", "keep-alive", "content-length"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in; ``number`` counts from 1."""

    number: int
    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def is_conditional(self) -> bool:
        return self.method == "PUT" and not {"if-none-match", "if-match"}.isdisjoint(self.headers)


Plan = Callable[[Request], Fault | None]


def at(number: int, fault: Fault) -> Plan:
    """A plan that disturbs one request."""
    return lambda request: fault if request.number == number else None


class FaultyWire:
    """A context: ``endpoint`` is a proxy of ``upstream`` that treats each request as ``plan`` says.
    ``play`` starts counting again, with another plan."""

    def __init__(self, upstream: str, plan: Plan | None = None) -> None:
        target = urlsplit(upstream)
        self._host, self._port = str(target.hostname), int(target.port or 80)
        self._lock = threading.Lock()
        self._plan = plan
        self._requests: list[Request] = []
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> Sequence[Request]:
        """Every request since the last ``play``, disturbed ones included."""
        return tuple(self._requests)

    def play(self, plan: Plan | None = None) -> None:
        """Forget the requests so far, and go on with this plan."""
        with self._lock:
            self._plan, self._requests = plan, []

    def arrived(self, method: str, path: str, headers: Mapping[str, str]) -> Fault | None:
        """Count a request and return its fault, if any."""
        with self._lock:
            request = Request(len(self._requests) + 1, method, path, headers)
            self._requests.append(request)
            return self._plan(request) if self._plan else None

    def connect(self) -> http.client.HTTPConnection:
        """A connection to the real server."""
        return http.client.HTTPConnection(self._host, self._port, timeout=LONGEST_WAIT)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, wire: FaultyWire) -> None:
        self.wire = wire
        super().__init__(("127.0.0.1", 0), _Relay)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: clients that disconnect are expected here."""


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._upstream = self.server.wire.connect()

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _relay(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.server.wire.arrived(self.command, self.path, headers)
        if fault == "careless":
            headers = {k: v for k, v in headers.items() if k not in ("if-none-match", "if-match")}
        if fault in _BEFORE:
            self._answer_xml(*_BEFORE[fault])
            return
        if fault == "reset":
            self._break()
            return
        status, found, answer = self._carry_out(headers, body)
        if fault in _AFTER:
            self._answer_xml(*_AFTER[fault])
        elif fault == "drop" or (fault == "late" and self._client_gave_up()):
            self._break()
        else:
            self._answer(status, found, answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _carry_out(
        self, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        headers.pop("transfer-encoding", None)
        headers["content-length"] = str(len(body))
        self._upstream.request(self.command, self.path, body, headers)
        answer = self._upstream.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        length = str(len(body))
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
            elif name.lower() == "content-length" and self.command == "HEAD":
                length = value
        if status not in (204, 304):
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body)

    def _answer_xml(self, status: int, code: str, text: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>".encode()
        if self.command == "HEAD":
            body = b""
        self._answer(status, [("Content-Type", "application/xml")], body)

    def _client_gave_up(self) -> bool:
        """Wait for the client's end of the connection to close."""
        readable, _, _ = select.select([self.connection], [], [], LONGEST_WAIT)
        return bool(readable)

    def _break(self) -> None:
        """End the connection by a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
