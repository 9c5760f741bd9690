"""One process of the memory benchmark: opens a small table, then a large one, prints the growth.

The kernel's high-water mark (VmHWM) is reset in between. ``ru_maxrss`` would not do on Linux: a
process inherits it from the larger one that started it. Elsewhere it is all there is, and says
too little where importing needed more than opening.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from pathlib import Path
from typing import Any

from bench import OURS
from lancewood import Access


def main(library: str, small: str, large: str) -> None:
    _open(library, small)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    handle = _open(library, large)
    print(json.dumps({"growth": peak_bytes() - before}))
    del handle


def _open(library: str, table: str) -> Any:
    if library == OURS:
        import lancewood

        return lancewood.open(table, access=Access(fsync=False))
    import lance

    return lance.dataset(table)


def peak_bytes() -> int:
    """The high-water mark of this process's memory."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
