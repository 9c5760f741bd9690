"""Sixteen processes that wait for one word and then append, all at once.

They are started anew, never forked (a forked pylance hangs), and live through all rounds, so that
importing is paid for once. A crew that says nothing for too long is ended, and that is an error.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Report:
    """What one process did in one round; moments are of the clock that processes share."""

    started: float
    ended: float
    waits: tuple[float, ...]
    """Seconds of every append, failed ones included."""
    acknowledged: tuple[int, ...]
    """The first ids of the appends that succeeded."""
    errors: tuple[str, ...]


class Crew:
    """A context: the processes end with it."""

    def __init__(self, size: int) -> None:
        self._members = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.crew_member"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(size)
        ]

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.kill()
        for member in self._members:
            member.communicate()

    def append(
        self,
        library: str,
        table: Path | str,
        *,
        appends: int,
        fsync: bool,
        options: dict[str, str] | None = None,
    ) -> tuple[Report, ...]:
        """One round: all open the table, then all append. Their ids do not meet."""
        watchdog = threading.Timer(_SECONDS, self._end)
        watchdog.start()
        try:
            for number, member in enumerate(self._members):
                order = {
                    "library": library,
                    "table": str(table),
                    "appends": appends,
                    "fsync": fsync,
                    "options": options,
                    "first_id": 1_000_000 * (number + 1),
                }
                _say(member, order)
            for member in self._members:
                _hear(member)
            for member in self._members:
                _say(member, "go")
            answers = [_hear(member) for member in self._members]
        finally:
            watchdog.cancel()
        return tuple(
            Report(
                each["started"],
                each["ended"],
                tuple(each["waits"]),
                tuple(each["acknowledged"]),
                tuple(each["errors"]),
            )
            for each in answers
        )

    def _end(self) -> None:
        for member in self._members:
            member.kill()


def _say(member: subprocess.Popen[str], word: object) -> None:
    pipe: IO[str] | None = member.stdin
    assert pipe is not None
    pipe.write(json.dumps(word) + "\n")
    pipe.flush()


def _hear(member: subprocess.Popen[str]) -> Any:
    pipe: IO[str] | None = member.stdout
    assert pipe is not None
    line = pipe.readline()
    if not line:
        raise RuntimeError(
            f"process {member.pid} of the crew ended, or said nothing for {_SECONDS} s"
        )
    return json.loads(line)
