"""Writers in processes of their own, for tests of manifest stores: they append, or die on the way.

``python -m tests.interop.manifest_writers append WHO URI TIMES JSON`` appends rows one by one and
prints the versions that they became; ``mortal URI JSON`` forks a writer for each line on stdin,
which kills itself before the method of ``Root`` that the line names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import lancewood as lw
from lancewood.external.protocol import Root


def append(who: str, uri: str, times: int, options: dict[str, Any]) -> None:
    """Rows are (who, number); a retry that somebody may run is run."""
    import pyarrow as pa

    for number in range(times):
        rows = pa.table({"who": [f"{who}-{os.getpid()}"], "n": [number]})
        if who == "ours":
            print(lw.open(uri, **options).append(rows).version, flush=True)
        else:
            import lance

            done = lance.write_dataset(rows, uri, mode="append", **options)
            print(done.version, flush=True)


def mortal(uri: str, options: dict[str, Any]) -> None:
    """The process that forks has opened nothing, so nothing is inherited that must not be."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            method = line.strip()
            table = lw.open(uri, **options)
            setattr(Root, method, die)
            table.set_config({"writer": method})
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "append":
        append(sys.argv[2], sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5]))
    else:
        mortal(sys.argv[2], json.loads(sys.argv[3]))
