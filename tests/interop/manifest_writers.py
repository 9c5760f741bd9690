"""Writers in processes of their own, for tests of manifest stores: they commit, or die on the way.

``python -m tests.interop.manifest_writers COMMAND …``: ``ours`` and ``pylance`` append rows,
``setting`` sets keys of the configuration, which needs no data files, and ``settings`` forks
several that do; each prints the versions that it made. ``mortal`` forks one for each line on stdin,
which kills itself before the method of ``Root`` that the line names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import lancewood as lw
import lancewood.engine.schema  # what is loaded before a fork is loaded once
import lancewood.table.by_uri
from lancewood.external.store import Root

Options = dict[str, Any]


def ours(uri: str, times: int, options: Options) -> None:
    import pyarrow as pa

    for number in range(times):
        rows = pa.table({"who": [f"ours-{os.getpid()}"], "n": [number]})
        answer(lw.open(uri, access=lw.Access(**options)).append(rows).version)


def pylance(uri: str, times: int, options: Options) -> None:
    import lance
    import pyarrow as pa

    for number in range(times):
        rows = pa.table({"who": [f"pylance-{os.getpid()}"], "n": [number]})
        done = lance.write_dataset(rows, uri, mode="append", **options)
        answer(done.version)


def setting(uri: str, times: int, options: Options) -> None:
    for number in range(times):
        table = lw.open(uri, access=lw.Access(**options)).set_config(
            {f"{os.getpid()}-{number}": "set"}
        )
        answer(table.version)


def settings(uri: str, times: int, options: Options, processes: int) -> None:
    """The process that forks has opened nothing, so nothing is inherited that must not be."""
    children = [forked(partial(setting, uri, times, options)) for _ in range(processes)]
    ended = [os.waitpid(each, 0)[1] for each in children]
    sys.exit(any(ended))


def mortal(uri: str, options: Options) -> None:
    def write(method: str) -> None:
        table = lw.open(uri, access=lw.Access(**options))
        setattr(Root, method, die)
        table.set_config({"writer": method})

    for line in sys.stdin:
        child = forked(partial(write, line.strip()))
        print(os.waitpid(child, 0)[1], flush=True)


def answer(version: int) -> None:
    """In one write, so that the lines of several processes do not run into each other."""
    os.write(sys.stdout.fileno(), f"{version}\n".encode())


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    work()
    sys.stdout.flush()
    os._exit(0)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    command, *values = sys.argv[1:]
    known: dict[str, Callable[..., None]] = {
        each.__name__: each for each in (ours, pylance, setting, settings, mortal)
    }
    known[command](values[0], *map(json.loads, values[1:]))
