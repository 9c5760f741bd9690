"""The folder of a run below its repository: the report, and the rows of checks that failed.

It is made when the run begins to work. The report is written when the run is over, so one without a
report belongs to a run that is at work, or that was cut off.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lancewood.errors import FormatError
from lancewood.format.json_object import decode_object
from lancewood.pipeline.report.facts import RunFacts
from lancewood.store.disk_root import refuse_links

_MOST_BYTES = 64 << 20
_RUNS = "lancewood/runs"
_DATA, _PAGE, _FAILURES = "report.json", "report.html", "failures"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run keeps what people look at."""

    path: Path

    @classmethod
    def of(cls, repository: Path, pipeline: str, run: str) -> RunFolder:
        """Raises InvalidInputError where a symbolic link leads out of the repository."""
        refuse_links(str(repository), f"{_RUNS}/{pipeline}/{run}/{_FAILURES}")
        return cls(repository / _RUNS / pipeline / run)

    @classmethod
    def all_of(cls, repository: Path, run: str) -> list[RunFolder]:
        """Those of a run id, in the order of their pipelines: usually one."""
        found = (each / run for each in (repository / _RUNS).glob("[!.]*"))
        return [cls(each) for each in sorted(found) if each.is_dir()]

    @property
    def page(self) -> Path:
        return self.path / _PAGE

    @property
    def data(self) -> Path:
        return self.path / _DATA

    @property
    def is_there(self) -> bool:
        return self.path.is_dir()

    @property
    def is_over(self) -> bool:
        """Whether the run came to an end, whichever."""
        return self.data.exists()

    def begin(self) -> None:
        """Make the folder, without what an earlier attempt left in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        for each in (_DATA, _PAGE):
            (self.path / each).unlink(missing_ok=True)
        shutil.rmtree(self.path / _FAILURES, ignore_errors=True)

    def write(self, facts: RunFacts, page: str) -> None:
        """Keep the report; the data last, for it says that the run is over."""
        self.path.mkdir(parents=True, exist_ok=True)
        document = json.dumps(facts.to_json(), indent=2, ensure_ascii=False)
        for name, text in ((_PAGE, page), (_DATA, f"{document}\n")):
            file = self.path / name
            staged = file.with_name(f".{name}.{os.getpid()}")
            staged.unlink(missing_ok=True)
            # A file that was not there: whoever sent the repository may have left a link.
            with staged.open("x", encoding="utf-8", errors="replace") as made:
                made.write(text)
            staged.replace(file)

    def report(self) -> dict[str, Any]:
        """What was written when the run was over.

        Raises FormatError for what no run has left there: a link, a pipe, what is no JSON.
        """
        name = str(self.data)
        try:
            # A pipe that nobody writes to is not waited for.
            file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise FormatError(f"{name}: is no file, and so no report of a run", file=name)
                data = opened.read(_MOST_BYTES + 1)
        except OSError as cause:
            raise FormatError(f"{name}: cannot be read: {cause.strerror}", file=name) from cause
        return decode_object(data, name=name, most=_MOST_BYTES)
