"""One process of the benchmark of changes: does them in turn, and prints what each of them took.

Time, the bytes of the files that came into being, and the growth of the peak resident size. A
process each time: otherwise the memory of one contender would be the other's high-water mark.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.change_contenders import changes, spread, together
from bench.memory_worker import peak_bytes

_SMALL = 1_000


def main(library: str, table: str, small: str, rows: str, where: str, *names: str) -> None:
    for each in changes(library, Path(small), spread(_SMALL)).values():
        each()  # what is loaded once in a process is nobody's time
    task = {"spread": spread, "together": together}[where](int(rows))
    todo = changes(library, Path(table), task)
    print(json.dumps([_measured(Path(table), name, todo) for name in names]))


def _measured(table: Path, name: str, todo: object) -> dict[str, float]:
    assert isinstance(todo, dict)
    before = _sizes(table)
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    memory = peak_bytes()
    start = time.perf_counter()
    result = todo[name]()
    seconds = time.perf_counter() - start
    grown = peak_bytes() - memory
    del result
    after = _sizes(table)
    written = sum(size for path, size in after.items() if before.get(path) != size)
    return {"milliseconds": seconds * 1_000, "bytes": written, "memory": grown}


def _sizes(table: Path) -> dict[str, int]:
    found = {}
    waiting: Sequence[str] = [str(table)]
    while waiting:
        deeper = []
        for directory in waiting:
            with os.scandir(directory) as entries:
                for each in entries:
                    if each.is_dir():
                        deeper.append(each.path)
                    else:
                        found[each.path] = each.stat().st_size
        waiting = deeper
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
