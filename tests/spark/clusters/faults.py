"""Planting failures into executors: a test arms them, a worker that gets there fires them.

An armed fault is a file. Whoever renames it first fires it, so each is fired once, on whatever
executor. ``LANCEWOOD_TEST_FAULTS`` names the directory; workers that fire run under
``faulty_daemon``. Knows nothing of sessions.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

DIRECTORY = "LANCEWOOD_TEST_FAULTS"


class PlantedError(Exception):
    """A failure that is nobody's fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens when a data file is written to, or has been closed, when an item was written,
    or some rows have been read.

    ``kill`` ends the executor with SIGKILL, ``fail`` raises, ``stall`` waits until Spark ends the
    task, ``hold`` until the test lets it go on, ``pass`` does nothing. ``partition`` and
    ``attempt`` narrow down in which task, ``under`` in which table.
    """

    point: Literal["write", "close", "item", "read"]
    action: Literal["kill", "fail", "stall", "hold", "pass"]
    partition: int | None = None
    attempt: int | None = None
    under: str = ""
    pipe: str = ""


class Held:
    """A task that waits for the test."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = pipe

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Entered when the task is there; it goes on when this is left."""
        with self._pipe.open("w"):
            yield


class Faults:
    """The faults of one test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def arm(self, *faults: Fault) -> None:
        """Each is fired once, in this order where several would do."""
        for number, each in enumerate(faults):
            name = f"{number:03}-{uuid4().hex}"
            written = self._directory / f"{name}.new"
            written.write_text(json.dumps(asdict(each)))
            written.rename(self._directory / f"{name}.armed")

    def hold(self, point: Literal["write", "close"], under: str) -> Held:
        """Hold one task where it writes or has closed a file."""
        pipe = self._directory / f"{uuid4().hex}.pipe"
        os.mkfifo(pipe)
        self.arm(Fault(point, "hold", under=under, pipe=str(pipe)))
        return Held(pipe)

    def left(self) -> int:
        """How many have not been fired."""
        return len(list(self._directory.glob("*.armed")))

    def clear(self) -> None:
        for each in self._directory.iterdir():
            each.unlink()


def reach(point: str, location: str) -> None:
    """On an executor: fire the fault that waits here, if there is one."""
    for armed in sorted(Path(os.environ[DIRECTORY]).glob("*.armed")):
        try:
            fault = Fault(**json.loads(armed.read_text()))
            if not _is_here(fault, point, location):
                continue
            armed.rename(armed.with_suffix(".fired"))
        except FileNotFoundError:
            continue  # another worker was faster
        _fire(fault)
        return


def _is_here(fault: Fault, point: str, location: str) -> bool:
    from pyspark import TaskContext

    context = TaskContext.get()
    return (
        context is not None
        and fault.point == point
        and fault.under in location
        and fault.partition in (None, context.partitionId())
        and fault.attempt in (None, context.attemptNumber())
    )


def java_of_this_worker() -> int:
    """The pid of the Java whose Python worker this is."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


def _fire(fault: Fault) -> None:
    if fault.action == "pass":
        return
    if fault.action == "hold":
        Path(fault.pipe).read_bytes()
        return
    if fault.action == "fail":
        raise PlantedError(f"planted at {fault.point}")
    if fault.action == "kill":
        os.kill(java_of_this_worker(), signal.SIGKILL)
    while True:
        signal.pause()
