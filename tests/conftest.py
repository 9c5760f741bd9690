"""What many tests ask for: stock git, an S3 server, cleanups that need not wait for other writers,
and properties that may take their time.

The server is moto's, in a process of its own, one for each worker of pytest.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

from lancewood.jobs.upkeep import retention

SERVER = Path(__file__).resolve().parents[1] / "scripts" / "s3_server.py"

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that stock git judges is skipped where there is none."""
    try:
        yield
    except FileNotFoundError as missing:
        if missing.filename == "git":
            pytest.skip("stock git is the judge here, and there is none on this machine")
        raise


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of a running server."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        try:
            assert endpoint.startswith("http://127.0.0.1:"), "the server did not start"
            yield endpoint
        finally:
            server.kill()


@pytest.fixture
def s3_options(s3_endpoint: str) -> dict[str, str]:
    """What both clients need to reach it."""
    return {
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": "planted-secret-of-the-tests",
        "aws_region": "us-east-1",
        "aws_endpoint": s3_endpoint,
        "allow_http": "true",
    }


@pytest.fixture
def s3_root(s3_endpoint: str) -> str:
    """A place in a bucket that no other test uses."""
    bucket = f"test-{uuid4().hex}"
    request = urllib.request.Request(f"{s3_endpoint}/{bucket}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    return f"s3://{bucket}/root"


@pytest.fixture
def no_commit_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleanup takes versions that were made a moment ago."""
    monkeypatch.setattr(retention, "COMMITTING", timedelta(0))
