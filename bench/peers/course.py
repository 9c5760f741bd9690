"""The race: a process for each contender, and the works given to them in turn.

Knows how to talk to the processes; knows no format.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.outcome import Entrant
from bench.peers.provision import ROOT
from bench.peers.works import Kind

_SECONDS = 600
WARMING = 3
"""Passes that are not measured."""
_MEMORY = "3g"


class Silent(Exception):
    """A process ended, or said nothing for too long."""


class Worker:
    """One contender in its own process; what it prints goes to a file."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        home: Path,
        source: Path,
        jars: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        home.mkdir(parents=True)
        self.log = home.with_name(f"{home.name}.log")
        order = (name, kind.name, str(home), str(source), ",".join(jars), _MEMORY)
        with self.log.open("w") as errors:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "bench.peers.worker", *order),
                cwd=ROOT,
                env={**env, "LANCEWOOD_FSYNC": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def hear(self) -> dict[str, Any]:
        """The next answer. Raises Silent where none comes."""
        assert self._process.stdout is not None
        watchdog = threading.Timer(_SECONDS, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise Silent(last_words(self.log.read_text(errors="replace")))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, work: str, *, check: bool) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"work": work, "check": check}) + "\n")
            self._process.stdin.flush()
        except OSError:
            return {"failed": "its process has ended"}
        try:
            return self.hear()
        except Silent as silence:
            return {"failed": str(silence)}

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def last_words(log: str) -> str:
    """The line of a log that says why: Java's last exception, else the last line."""
    lines = [each.strip() for each in log.splitlines() if each.strip()]
    telling = [each for each in lines if "Exception" in each or "Error:" in each]
    return (telling or lines or ["it said nothing"])[-1][:200]


@contextlib.contextmanager
def start(
    entrants: Sequence[Entrant],
    kind: Kind,
    jars: Mapping[str, Sequence[str]],
    here: Path,
    env: Mapping[str, str],
) -> Iterator[dict[str, Worker]]:
    """The processes of those that can start; the others are refused in what they said last."""
    workers: dict[str, Worker] = {}
    try:
        for each in entrants:
            if not each.refusal:
                location = here / each.name.lower()
                jar_files = jars.get(each.name, ())
                workers[each.name] = Worker(
                    each.name, kind, location, here / "source", jar_files, env
                )
        for each in entrants:
            if each.name in workers:
                try:
                    workers[each.name].hear()
                except Silent as silence:
                    each.refusal = f"does not start: {silence}"
                    workers.pop(each.name).end()
        yield workers
    finally:
        for worker in workers.values():
            worker.end()


def race(
    entrants: Sequence[Entrant],
    workers: Mapping[str, Worker],
    works: Sequence[str],
    passes: int,
    tell: Callable[[str], None],
) -> None:
    """The works, contenders in turn. The first passes warm up, until Java has compiled most of what
    runs often, and the very first is the one that is checked."""
    present = [each for each in entrants if each.name in workers]
    for number in range(1 - WARMING, passes + 1):
        for work in works:
            tell(f"pass {number} of {passes}: {work}")
            for each in present if number % 2 else reversed(present):
                result = each.result(work)
                if not result.is_over:
                    answer = workers[each.name].ask(work, check=number == 1 - WARMING)
                    result.take(answer, counts=number > 0)
