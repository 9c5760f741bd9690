"""A PostgreSQL server of the tests' own: Debian's, in a temporary directory, on a socket there.

It refuses to run as root, and then runs as the first user that is there of ``postgres`` and
``nobody``. Tests that need it are skipped where it is not installed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_USERS = ("postgres", "nobody")


def find_server() -> Path | None:
    """The directory of PostgreSQL's programs; None where there are none."""
    found = shutil.which("postgres")
    places = [Path(found).parent] if found else _PLACES
    return next((each for each in places if (each / "initdb").exists()), None)


@contextmanager
def running(programs: Path) -> Iterator[str]:
    """A server; yields the uri of its database."""
    directory = Path(tempfile.mkdtemp(prefix="lancewood-pg-"))
    user: int | None = None
    if os.getuid() == 0:
        known = {each.pw_name: each for each in pwd.getpwall()}
        owner = next(known[each] for each in _USERS if each in known)
        user = owner.pw_uid
        os.chown(directory, owner.pw_uid, owner.pw_gid)
    data = directory / "data"
    subprocess.run(
        [f"{programs}/initdb", "-D", str(data), "-A", "trust", "-U", "lancewood", "-N"],
        user=user,
        cwd=directory,
        check=True,
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
    )
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(directory),
        "fsync": "off",
        "max_connections": "40",
    }
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    server = subprocess.Popen(
        [f"{programs}/postgres", "-D", str(data), *options],
        user=user,
        cwd=directory,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(server, directory)
        yield f"postgresql://lancewood@/postgres?host={directory}"
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(30)
        shutil.rmtree(directory, ignore_errors=True)


def _wait(server: subprocess.Popen[bytes], directory: Path) -> None:
    """Until it takes connections."""
    import psycopg

    for _ in range(600):
        assert server.poll() is None, "the server did not start"
        try:
            psycopg.connect(f"postgresql://lancewood@/postgres?host={directory}").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise AssertionError("the server did not start in time")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The uri of a database of a running server."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = find_server()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: scripts/install_postgresql.sh")
    with running(programs) as uri:
        yield uri
