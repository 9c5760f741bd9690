"""The id of a run: who runs twice with the same one loads once.

It names a branch of the repository and of its tables, a ref, a file and a directory, and keeps to
the rules of all of them.

The folder of a run below its repository: the report, and the rows of checks that failed.

It is made when the run begins to work. The report is written when the run is over, so one without a
report belongs to a run that is at work, or that was cut off.

Claiming a run: the same id does not run twice at once in one repository.

A file with a lock of the operating system on it, which goes with the process, however that ends.
What the file says is for people. Knows nothing of what a run does.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lancewood.errors import FormatError, InvalidInputError, RetryableConflictError
from lancewood.format.json_object import decode_object
from lancewood.git.names import checked_ref
from lancewood.pipeline.report.facts import RunFacts
from lancewood.repo.ref_names import branch_ref
from lancewood.store.disk_root import refuse_links

RUN_BRANCHES = "run/"
_MOST_CHARACTERS = 100


def new_run_id(now: datetime) -> str:
    """An id that nobody else has: the time in UTC, and some chance."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def checked_run_id(text: str) -> str:
    """The id itself; raises InvalidInputError, which says which rule it breaks."""
    if not isinstance(text, str):
        raise InvalidInputError(f"the id of a run is a text, not {type(text).__name__}")
    why = None
    if "/" in text:
        why = "it contains '/'"
    elif len(text) > _MOST_CHARACTERS:
        why = f"it has {len(text)} characters, {_MOST_CHARACTERS} are allowed"
    else:
        try:
            branch_ref(run_branch(text))
            checked_ref(f"refs/{text}")
        except InvalidInputError as refused:
            why = refused.message
    if why is not None:
        raise InvalidInputError(f"run id {text[:200]!r} is not allowed: {why}", run=text)
    return text


def run_branch(run: str) -> str:
    """The branch that a run works on."""
    return RUN_BRANCHES + run


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


_CLAIMS = "lancewood/runs/.claims"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_CLAIM_BYTES = 1024


@contextmanager
def claimed(repository: Path, run: str) -> Iterator[None]:
    """Hold a run id while the block runs; raises RetryableConflictError if somebody does."""
    file = _file(repository, run)
    refuse_links(str(repository), f"{_CLAIMS}/{run}")
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(file)
    if descriptor is None:
        raise RetryableConflictError(
            f"run {run!r} of {repository} is at work already: {_holder(file)}. Wait for it, or "
            "choose another run id",
            run=run,
        )
    try:
        now = datetime.now(UTC)
        text = f"process {os.getpid()} on {socket.gethostname()} since {now:%Y-%m-%d %H:%M:%S} UTC"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
        yield
    finally:
        # While the lock is held: who waits for this very file sees that it has no name any more.
        file.unlink(missing_ok=True)
        os.close(descriptor)


def is_claimed(repository: Path, run: str) -> bool:
    """Whether somebody holds a run id at this moment."""
    try:
        descriptor = os.open(_file(repository, run), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked(file: Path) -> int | None:
    """The file, locked by us; None if another has it."""
    while True:
        descriptor = os.open(file, _FLAGS, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # who had it has just let go
        os.close(descriptor)


def _file(repository: Path, run: str) -> Path:
    return repository / _CLAIMS / run


def _holder(file: Path) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read(_MOST_CLAIM_BYTES) or "somebody has just begun"
    except OSError:
        return "somebody"
