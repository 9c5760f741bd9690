"""Running cases in a child process, counting outcomes, keeping what failed.

A child that dies or hangs costs one case: the next child goes on with the one after it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fuzz.corpus import make_corpus
from tests.fuzz.target import MAY_CRASH

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "tests.fuzz.worker")
_START_LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that broke the law, and the file that holds it."""

    target: str
    why: str
    case: Path

    @property
    def command(self) -> str:
        """What replays it."""
        return f"python -m tests.fuzz --target {self.target} --replay {self.case}"

    def __str__(self) -> str:
        return f"{self.target}: {self.why.strip()}\n  replay: {self.command}"


@dataclass(slots=True)
class Tally:
    """How the cases of one target went."""

    right: int = 0
    typed: int = 0
    crashes: int = 0
    """Cases that ended or exhausted the process in the codec, where that is known to happen."""
    slowest: float = 0.0
    most_memory: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return self.right + self.typed + self.crashes + len(self.failures)


class Campaign:
    """A child process and a corpus, ready to run cases. Use it in a ``with``."""

    def __init__(self, directory: Path, *, seconds: float = 20.0, memory: int = 256 << 20) -> None:
        """``seconds`` of work and ``memory`` bound a case; failures stay in ``directory``."""
        self._directory = directory
        self._corpus = directory / "corpus"
        self._scratch = directory / "scratch"
        self._seconds = seconds
        self._memory = memory
        self._child: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._log = directory / "worker.log"

    def __enter__(self) -> Self:
        if not self._corpus.exists():
            make_corpus(self._corpus)
        self._scratch.mkdir(exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_child()

    def run(
        self,
        target: str,
        seed: int,
        count: int,
        *,
        first: int = 0,
        case: Path | None = None,
        tally: Tally | None = None,
    ) -> Tally:
        """Run cases ``first`` to ``first + count`` of a seed, or one that was kept in a file."""
        tally = tally or Tally()
        at, end = first, first + count
        while at < end:
            for outcome in self._outcomes(target, seed, at, end - at, case):
                name = f"{target}-{seed}-{at}.case"
                self._count(tally, target, outcome, name)
                at += 1
        return tally

    def _count(self, tally: Tally, target: str, outcome: dict[str, Any], name: str) -> None:
        tally.slowest = max(tally.slowest, outcome["seconds"])
        tally.most_memory = max(tally.most_memory, outcome["grown"])
        if outcome["how"] == "right":
            tally.right += 1
        elif outcome["how"] == "typed":
            tally.typed += 1
        elif target in MAY_CRASH and outcome["how"] == "died":
            tally.crashes += 1
        else:
            kept = self._directory / name
            kept.write_bytes(self._case(outcome).read_bytes())
            tally.failures.append(Failure(target, outcome["why"], kept))

    def _case(self, outcome: dict[str, Any]) -> Path:
        """The file of a case that failed; of one that ended the process, the case at hand."""
        case = self._scratch / "case"
        return case.with_name(f"case-{outcome['digest']}") if "digest" in outcome else case

    def _outcomes(
        self, target: str, seed: int, first: int, count: int, case: Path | None
    ) -> Iterator[dict[str, Any]]:
        """Outcomes until all are there or the child is gone."""
        child = self._started()
        assert child.stdin is not None
        order: dict[str, Any] = {"target": target, "seed": seed, "first": first, "count": count}
        order["case"] = str(case) if case else None
        child.stdin.write(json.dumps(order).encode() + b"\n")
        child.stdin.flush()
        for _ in range(count):
            line = self._line(child, 10 * self._seconds + 10)
            if line is None:
                yield self._died(child)
                return
            yield json.loads(line)

    def _died(self, child: subprocess.Popen[bytes]) -> dict[str, Any]:
        # A process that died closes its output first; one that hangs keeps it open.
        hung = child.poll() is None
        self._end_child()
        tail = self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
        why = "the process hung" if hung else f"the process died with {child.returncode}"
        return {"how": "died", "why": f"{why}\n{tail}", "seconds": 0.0, "grown": 0}

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            limits = [str(self._seconds), str(self._memory)]
            with self._log.open("w") as log:
                self._child = subprocess.Popen(
                    [*_COMMAND, str(self._corpus), str(self._scratch), *limits],
                    cwd=ROOT,
                    env={**os.environ, "RUST_BACKTRACE": "0", "PYTHONHASHSEED": "0"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                )
            if self._line(self._child, _START_LIMIT) != b"ready":
                raise RuntimeError(f"the worker did not start:\n{self._log.read_text()}")
        return self._child

    def _line(self, child: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """The next line of the child; None where it hangs or is gone."""
        assert child.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
                return None
            more = os.read(child.stdout.fileno(), 1 << 16)
            if not more:
                child.wait()
                return None
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _end_child(self) -> None:
        child, self._child = self._child, None
        self._unread = b""
        if child is None:
            return
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        for each in (child.stdin, child.stdout):
            if each is not None:
                with _ignoring_a_broken_pipe():
                    each.close()
        child.wait()


@contextmanager
def _ignoring_a_broken_pipe() -> Iterator[None]:
    try:
        yield
    except OSError:
        return
