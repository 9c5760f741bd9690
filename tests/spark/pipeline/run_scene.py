"""A pipeline file and what it reads, for runs on a real Spark; also as a process of its own.

``python -m tests.spark.pipeline.run_scene FILE RUN EVENT`` runs the file and kills itself at an
event, or, with ``meet:FOLDER:NAME:OTHER``, waits before it publishes until another run does too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
from tests.spark.environment import of_a_quick_shell

import lancewood as lw
from lancewood.pipeline import RunFacts, run
from lancewood.pipeline.report.facts import Listener

FILE = """
[pipeline]
name = "zoo"
repository = "repo"
{more}

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = "2"

[sources.animals]
format = "csv"
path = "in"
schema = "id LONG, name STRING"
options = {{ header = "true" }}
incremental = {incremental}

[steps.named]
sql = "SELECT id, upper(name) AS name FROM animals"

[[targets]]
table = "animals"
from = "named"
mode = "merge"
on = ["id"]

[[targets]]
table = "seen"
from = "animals"
mode = "append"

[[checks]]
table = "animals"
unique = ["id"]
{warn}

[quarantine]
most_rows = 1
"""
MOST_SECONDS = 400
"""A machine may have much else to do."""


class Died(BaseException):
    """The process is gone: nothing catches it."""


class At(Listener):
    """Does something at an event, such as ``begun publish``."""

    def __init__(self, event: str = "", act: Any = None) -> None:
        self.event, self.act = event, act
        self.events: list[str] = []
        self.texts: list[str] = []

    def _event(self, name: str) -> None:
        self.events.append(name)
        if name == self.event:
            self.act()

    def begun(self, stage: str) -> None:
        self._event(f"begun {stage}")

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self._event(f"ended {stage}")

    def noted(self, text: str) -> None:
        self.texts.append(text)


@dataclass(frozen=True)
class Scene:
    """A folder with a pipeline file."""

    path: Path

    @classmethod
    def at(cls, path: Path, *, more: str = "", warn: str = "", incremental: bool = True) -> Scene:
        (path / "in").mkdir(parents=True)
        flag = str(incremental).lower()
        (path / "zoo.toml").write_text(FILE.format(more=more, warn=warn, incremental=flag))
        return cls(path)

    def give(self, name: str, *lines: str) -> None:
        """A file that comes in."""
        (self.path / "in" / f"{name}.csv").write_text("\n".join(["id,name", *lines, ""]))

    def run(self, spark: Any, run_id: str, **said: Any) -> RunFacts:
        return run(self.path / "zoo.toml", run_id=run_id, spark=spark, **said)

    @property
    def repo(self) -> lw.Repository:
        return lw.Repository.open(self.path / "repo")

    def pylance(self, table: str) -> Any:
        found = lance.dataset(str(self.path / "repo" / "tables" / f"{table}.lance"))
        found.validate()
        return found

    def rows(self, table: str) -> list[tuple[int, str]]:
        """What pylance sees on main, sorted."""
        found = self.pylance(table).to_table().to_pylist()
        return sorted((each["id"], each["name"]) for each in found)

    def check_tidy(self) -> None:
        """No branch of a run is left, in git or in a table, and the tables have no base path."""
        assert [each for each in self.repo.branches if each.startswith("run")] == []
        for each in (self.path / "repo" / "tables").iterdir():
            assert lance.dataset(str(each)).branches.list() == {}
            assert lw.open(each).base_paths == ()

    def process(self, run_id: str, event: str) -> subprocess.Popen[bytes]:
        """The same run in another process."""
        command = [sys.executable, "-m", __name__, str(self.path / "zoo.toml"), run_id, event]
        root = Path(__file__).parents[3]
        return subprocess.Popen(
            command,
            cwd=root,
            env=of_a_quick_shell(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """How a process ended, and what it said."""
    try:
        _, errors = process.communicate(timeout=MOST_SECONDS)
    finally:
        process.kill()
        process.wait()
    return process.returncode, errors.decode()


def meet(folder: Path, name: str, other: str) -> None:
    """Wait until another one is here as well."""
    (folder / name).touch()
    until = time.monotonic() + MOST_SECONDS
    while not (folder / other).exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{other} never came")
        time.sleep(0.05)


def main(file: str, run_id: str, event: str) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    listener = At(event, die)
    if event.startswith("meet:"):
        _, folder, name, other = event.split(":")
        listener = At("begun publish", lambda: meet(Path(folder), name, other))
    run(file, run_id=run_id, listener=listener)


if __name__ == "__main__":
    main(*sys.argv[1:])
