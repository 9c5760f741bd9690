"""How the server of the columnar door's workers starts, and whom it serves."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lancewood.spark.columnar import protocol
from lancewood.spark.columnar.jar import mark
from lancewood.spark.worker_server import READY, SECRET

pytest.importorskip("pyspark", reason="pyspark is not installed")

OURS = b"s" * SECRET


@contextmanager
def server(**environ: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A server that was told a secret, and where it listens."""
    started = subprocess.Popen(
        [sys.executable, "-u", "-m", "lancewood.spark.worker_server", mark()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environ},
    )
    assert started.stdin is not None
    assert started.stdout is not None
    with started:
        started.stdin.write(OURS)
        started.stdin.flush()
        line = next(each for each in started.stdout if each.startswith(READY.encode()))
        yield started, Path(line.decode().removeprefix(READY).strip())
        started.stdin.close()


def answers(path: Path, secret: bytes) -> bool:
    """Whether somebody with a secret is served."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(secret)
        connection.sendall(bytes([protocol.PLAN]) + protocol.texts([]) * 2 + protocol.integer(1))
        ready, _, _ = select.select([connection], [], [], 30)
        try:
            return bool(ready) and connection.recv(4) == protocol.integer(protocol.ERROR)
        except ConnectionResetError:
            return False


def test_only_those_with_the_secret_are_served_whatever_imports_print(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello'); print('no end', end='')")
    imports = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    with server(PYTHONPATH=imports) as (started, path):
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert answers(path, OURS)
        assert not answers(path, b"x" * SECRET)
    assert started.returncode == 0
    assert not path.parent.exists()


def test_it_starts_where_the_folder_for_temporary_files_has_a_long_name(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with server(TMPDIR=str(folder)) as (_, path):
        assert answers(path, OURS)
    assert not list(folder.iterdir())


def test_without_a_secret_nobody_is_served() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lancewood.spark.worker_server", mark()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "secret" in done.stderr
