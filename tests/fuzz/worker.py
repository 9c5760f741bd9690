"""The process that runs cases: bounded in time and memory, and allowed to die.

Started by ``campaign``, one order a line on its standard input, one line an outcome on its
standard output. The case at hand lies in a file, so that it is not lost with the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.corpus import Corpus
from tests.fuzz.target import MAY_CRASH, Context, Target, Trial
from tests.fuzz.targets import all_targets

from lancewood.errors import LancewoodError

CASE_FILE = "case"
_ADDRESS_SPACE = 6 << 30
_PER_BYTE = 64
_STANDSTILL = 8


class TooSlow(BaseException):
    """A case took longer than it may. No handler of errors may swallow it."""


def main(corpus: str, scratch: str, seconds: str, memory: str) -> None:
    """Run orders until the input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever the codec prints is not an outcome
    warnings.simplefilter("error")
    targets = all_targets(Context(Corpus(Path(corpus)), Path(scratch)))
    worker = _Worker(Path(scratch) / CASE_FILE, float(seconds), int(memory))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + _ADDRESS_SPACE, hard))
    out.write("ready\n")
    for line in sys.stdin:
        order = json.loads(line)
        target = targets[order["target"]]
        for number in range(order["first"], order["first"] + order["count"]):
            if order["case"] is None:
                data = target.make(Random(f"{target.name}/{order['seed']}/{number}"))
            else:
                data = Path(order["case"]).read_bytes()
            out.write(json.dumps(worker.run(target, data)) + "\n")


class _Worker:
    def __init__(self, case_file: Path, seconds: float, memory: int) -> None:
        self._case_file = case_file
        self._seconds = seconds
        self._memory = memory
        signal.signal(signal.SIGPROF, _stop)
        signal.signal(signal.SIGALRM, _stop)

    def run(self, target: Target, data: bytes) -> dict[str, Any]:
        """The outcome of one case: how it went, how long it took, what it needed."""
        self._case_file.write_bytes(data)
        before = _reset_peak()
        started = time.process_time()
        how, why = self._outcome(target, data)
        seconds = time.process_time() - started
        grown = max(0, _status("VmHWM") - before)
        if how != "failed" and target.name not in MAY_CRASH:
            allowed = self._memory + _PER_BYTE * len(data)
            if grown > allowed:
                how = "failed"
                why = f"memory: {grown >> 20} MiB for {len(data)} bytes, {allowed >> 20} allowed"
        if how == "failed":  # the case file is overwritten before anyone has read this outcome
            kept = self._case_file.with_name(f"{CASE_FILE}-{digest(data)}")
            if not kept.exists():  # somebody may be reading the same case of an earlier failure
                kept.write_bytes(data)
        return {"how": how, "why": why, "seconds": seconds, "grown": grown, "digest": digest(data)}

    def _outcome(self, target: Target, data: bytes) -> tuple[str, str]:
        trial = Trial()
        try:
            # Seconds of work, so that a busy machine does not matter; a standstill is given longer.
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            signal.setitimer(signal.ITIMER_REAL, _STANDSTILL * self._seconds)
            try:
                target.check(data, trial)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
        except LancewoodError:
            return "typed", ""
        except (TooSlow, MemoryError) as error:
            slow = isinstance(error, TooSlow)
            why = f"hang: more than {self._seconds} s" if slow else "memory: none was left"
            how = "died" if target.name in MAY_CRASH else "failed"
            return how, f"{why}\n{traceback.format_exc()}"
        except BaseException:
            return "failed", traceback.format_exc()
        return ("typed" if trial.typed_errors else "right"), ""


def digest(data: bytes) -> str:
    """What tells one case from another."""
    return hashlib.sha256(data).hexdigest()[:16]


def _stop(*_: object) -> None:
    raise TooSlow


def _reset_peak() -> int:
    """Forget the peak of resident memory so far; the memory that is resident now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
