"""S3 servers for tests: moto's, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

_SERVER = Path(__file__).resolve().parents[1] / "scripts" / "s3_server.py"


@contextmanager
def running_server() -> Iterator[str]:
    """The address of a server that runs for as long as it is needed."""
    with subprocess.Popen(
        [sys.executable, str(_SERVER)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        try:
            assert endpoint.startswith("http://127.0.0.1:"), "the server did not start"
            yield endpoint
        finally:
            server.kill()


def new_bucket(endpoint: str) -> str:
    """A place in a bucket that no other test uses."""
    bucket = f"test-{uuid4().hex}"
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    return f"s3://{bucket}/root"
