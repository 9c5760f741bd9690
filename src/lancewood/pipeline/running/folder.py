"""A run id, the folder of its run, and the claim that keeps the id from running twice at once.

The id names a branch of the repository and of its tables, a ref, a file and a directory, and obeys
the rules of all of them. Running twice with one id loads once.

The folder holds the report and the rows of failed checks. It is made when the run starts to work,
and the report is written at the end: without one, the run is at work or was cut off. The claim is
an operating system lock on a file, which goes with the process however that ends. The content of
the file is for people.
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
from lancewood.pipeline.context import run_branch
from lancewood.pipeline.report.facts import RunFacts
from lancewood.repo import branch_ref, checked_ref, decode_object, refuse_links

_MOST_CHARACTERS = 100
_MOST_BYTES = 64 << 20
_RUNS = "lancewood/runs"
_DATA, _PAGE, _FAILURES = "report.json", "report.html", "failures"
_CLAIMS = "lancewood/runs/.claims"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_CLAIM_BYTES = 1024


def new_run_id(now: datetime) -> str:
    """A unique id: the time in UTC, and a random part."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def checked_run_id(text: str) -> str:
    """The id itself; raises InvalidInputError that says which rule it breaks."""
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


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run keeps what people look at."""

    path: Path

    @classmethod
    def of(cls, repository: Path, pipeline: str, run: str) -> RunFolder:
        """Raises InvalidInputError if a symbolic link leads out of the repository."""
        refuse_links(str(repository), f"{_RUNS}/{pipeline}/{run}/{_FAILURES}")
        return cls(repository / _RUNS / pipeline / run)

    @classmethod
    def all_of(cls, repository: Path, run: str) -> list[RunFolder]:
        """The folders of a run id, sorted by pipeline; usually one."""
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
        """Whether the run has ended, in any way."""
        return self.data.exists()

    def begin(self) -> None:
        """Make the folder, without what an earlier attempt left in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        for each in (_DATA, _PAGE):
            (self.path / each).unlink(missing_ok=True)
        shutil.rmtree(self.path / _FAILURES, ignore_errors=True)

    def write(self, facts: RunFacts, page: str) -> None:
        """Write the report; the data comes last, as it says that the run is over."""
        self.path.mkdir(parents=True, exist_ok=True)
        document = json.dumps(facts.to_json(), indent=2, ensure_ascii=False)
        for name, text in ((_PAGE, page), (_DATA, f"{document}\n")):
            file = self.path / name
            staged = file.with_name(f".{name}.{os.getpid()}")
            staged.unlink(missing_ok=True)
            # Exclusive: a repository that was received may have a link there.
            with staged.open("x", encoding="utf-8", errors="replace") as made:
                made.write(text)
            staged.replace(file)

    def report(self) -> dict[str, Any]:
        """What was written when the run was over.

        Raises FormatError for anything that no run has written: a link, a pipe, invalid JSON.
        """
        name = str(self.data)
        try:
            # Do not wait for a pipe that nobody writes to.
            file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise FormatError(f"{name}: is no file, and so no report of a run", file=name)
                data = opened.read(_MOST_BYTES + 1)
        except OSError as cause:
            raise FormatError(f"{name}: cannot be read: {cause.strerror}", file=name) from cause
        return decode_object(data, name=name, most=_MOST_BYTES)


@contextmanager
def claimed(repository: Path, run: str) -> Iterator[None]:
    """Hold a run id inside the block; raises RetryableConflictError if another process does."""
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
        # While the lock is held, so that a process waiting for this file sees that it is gone.
        file.unlink(missing_ok=True)
        os.close(descriptor)


def is_claimed(repository: Path, run: str) -> bool:
    """Whether a run id is held at this moment."""
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
    """The file, locked by us; None if another process has it."""
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
            pass  # just released
        os.close(descriptor)


def _file(repository: Path, run: str) -> Path:
    return repository / _CLAIMS / run


def _holder(file: Path) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read(_MOST_CLAIM_BYTES) or "somebody has just begun"
    except OSError:
        return "somebody"
