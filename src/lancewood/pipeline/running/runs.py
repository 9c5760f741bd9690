"""The runs that a repository knows: their ids, folders and claims, their reports and states; and
removing the branches of unfinished ones.

The id of a run names a branch of the repository and of its tables, a ref, a file and a directory,
and obeys the rules of all of them. Running twice with one id loads once.

The folder holds the report and the rows of failed checks. It is made when the run starts to work,
and the report is written at the end: without one, the run is at work or was cut off. The claim is
an operating system lock on a file, which goes with the process however that ends. The content of
the file is for people.

Nothing here starts Spark. Reports are checked, since anybody may have written the files of a
repository that was received. A failed run leaves its branch for people to look at; it is removed
when it is old enough. A branch that a process holds, or that no run has made, is left alone.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.pipeline.context import RUN_BRANCHES, run_branch
from lancewood.pipeline.definition.names import near
from lancewood.pipeline.report.facts import CheckFacts, Ending, RunFacts, TargetFacts, from_json
from lancewood.pipeline.running.ledger import decode_message, entry_at, tip_of
from lancewood.repo import (
    HEADS,
    MAIN,
    Hash,
    Repository,
    branch_ref,
    checked_ref,
    decode_object,
    refuse_links,
)

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


AT_WORK, CUT_OFF, RESET_AWAY = "at work", "cut off", "reset away"
_MARKS = "runs/"
OLDER_THAN = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class KnownRun:
    """One run and its state."""

    run: str
    pipeline: str | None
    """The name of the pipeline; None if it is unknown, because its folder is gone."""
    state: str
    """``at work``, ``cut off``, or how it ended, such as ``checks failed``. For a published run
    what the history says now: ``published``, ``reverted by …``, ``reset away``."""
    when: datetime
    """When the branch of the run last moved, or when the run was published."""
    branch: str | None = None
    """The branch of a run that was not published."""
    commit: Hash | None = None
    """The commit that published the run."""
    report: str | None = None


def known_runs(
    repository: Repository, pipeline: str | None = None, limit: int | None = None
) -> list[KnownRun]:
    """Runs with a branch, then published ones, newest first, at most ``limit``; ``pipeline``
    selects one pipeline. Branches made by people do not count."""
    kinds = [*_unfinished(repository, pipeline)], [*_published(repository, pipeline)]
    found = [each for kind in kinds for each in sorted(kind, key=attrgetter("when"), reverse=True)]
    return _with_history(repository, found[:limit])


def count_runs(repository: Repository, pipeline: str | None = None) -> int:
    """How many runs ``known_runs`` finds without a limit."""
    return len([*_unfinished(repository, pipeline), *_published(repository, pipeline)])


def known_run(repository: Repository, run: str, pipeline: str | None = None) -> KnownRun:
    """One of the known runs, or a run that ended without a branch and left a report.

    Raises NotFoundError, and InvalidInputError if runs of several pipelines have this id.
    """
    known = known_runs(repository, pipeline)
    found = [each for each in known if each.run == run]
    pipelines = {each.pipeline for each in found}
    for folder in RunFolder.all_of(repository.path, checked_run_id(run)):
        of = folder.path.parent.name
        if of not in pipelines and pipeline in (None, of) and folder.is_over:
            when = datetime.fromtimestamp(folder.data.stat().st_mtime, UTC)
            state = _state(repository.path, run, folder)
            found.append(KnownRun(run, of, state, when, report=_report(folder)))
    if not found:
        of = "" if pipeline is None else f" of pipeline {pipeline!r}"
        raise NotFoundError(
            f"{repository.path} knows no run {run!r}{of}: {near(run, {e.run for e in known})}",
            run=run,
        )
    if len(found) > 1:
        names = " and ".join(sorted(str(each.pipeline) for each in found))
        raise InvalidInputError(
            f"there are runs {run!r} of {names}: say which pipeline with --pipeline", run=run
        )
    return found[0]


def _unfinished(repository: Repository, pipeline: str | None) -> Iterator[KnownRun]:
    for run in unfinished_runs(repository):
        branch = run_branch(run)
        folders = RunFolder.all_of(repository.path, run)
        for folder in folders:
            if pipeline in (None, folder.path.parent.name):
                yield KnownRun(
                    run=run,
                    pipeline=folder.path.parent.name,
                    state=_state(repository.path, run, folder),
                    when=last_written(repository, branch),
                    branch=branch,
                    report=_report(folder),
                )
        if not folders and pipeline is None and is_of_a_run(repository, run):
            yield KnownRun(run, None, CUT_OFF, last_written(repository, branch), branch)


def _published(repository: Repository, pipeline: str | None) -> Iterator[KnownRun]:
    prefix = _MARKS if pipeline is None else f"{_MARKS}{pipeline}/"
    for name, commit in repository.marks.list(prefix).items():
        of, _, run = name.removeprefix(_MARKS).partition("/")
        seconds = repository.at(commit).commit.committer.seconds
        yield KnownRun(
            run=run,
            pipeline=of,
            state=Ending.PUBLISHED.value,
            when=datetime.fromtimestamp(seconds, UTC),
            commit=commit,
            report=_report(RunFolder.of(repository.path, of, run)),
        )


def _with_history(repository: Repository, runs: list[KnownRun]) -> list[KnownRun]:
    """Give published runs the state that the history of their branch shows."""
    by_branch: dict[str, list[Hash]] = {}
    for each in runs:
        if each.commit is not None:
            by_branch.setdefault(_branch(repository, each), []).append(each.commit)
    states: dict[Hash | None, str] = {}
    for branch, commits in by_branch.items():
        tip = tip_of(repository, branch)
        held = {} if tip is None else repository.held(commits, tip.hash)
        for commit in commits:
            by = held.get(commit)
            if commit not in held:
                states[commit] = RESET_AWAY
            elif by is not None:
                states[commit] = f"reverted by {by[:12]}"
    return [replace(each, state=states.get(each.commit, each.state)) for each in runs]


def _branch(repository: Repository, run: KnownRun) -> str:
    """The branch that a run was published into; in doubt the current one."""
    assert run.commit is not None
    assert run.pipeline is not None
    entry = entry_at(repository.at(run.commit), run.pipeline)
    return (entry and entry.branch) or repository.head.branch or MAIN


def _state(repository: Path, run: str, folder: RunFolder) -> str:
    if is_claimed(repository, run):
        return AT_WORK
    if not folder.is_over:
        return CUT_OFF
    try:
        return str(folder.report()["ending"])
    except (FormatError, KeyError):
        return Ending.FAILED.value


def _report(folder: RunFolder) -> str | None:
    return str(folder.page) if folder.page.exists() else None


@dataclass(frozen=True, slots=True)
class PastReport:
    """What the report of a run says."""

    started: str | None = None
    seconds: float | None = None
    error: str | None = None
    targets: tuple[TargetFacts, ...] = ()
    checks: tuple[CheckFacts, ...] = ()


def past_report(folder: RunFolder) -> PastReport:
    """The report of a run; an empty one if the run is not over.

    Raises FormatError for a file that no run has written.
    """
    if not folder.is_over:
        return PastReport()
    name = str(folder.data)
    document = folder.report()
    try:
        return from_json(PastReport, {**dict.fromkeys(("targets", "checks")), **document})
    except (TypeError, ValueError, OverflowError) as cause:
        raise FormatError(f"{name}: is no report of a run: {cause}", file=name) from cause


def is_of_a_run(repository: Repository, run: str) -> bool:
    """Whether the branch of a run id was made by a run and not by a person: the run's folder
    exists, or a commit of the branch mentions the run."""
    if RunFolder.all_of(repository.path, run):
        return True
    try:
        tip = repository.at(HEADS + run_branch(run)).commit
    except NotFoundError:
        return True  # there is no branch
    progress = decode_message(tip.message)
    return progress is not None and progress.run == run


def clean(
    repository: Repository | str | os.PathLike[str],
    *,
    older_than: timedelta = OLDER_THAN,
    dry_run: bool = False,
    pipeline: str | None = None,
) -> tuple[str, ...]:
    """Remove the branches of runs that were not published, in the repository and in its tables;
    returns the ids of those runs. ``dry_run`` only lists them.

    A branch goes if it was last written more than ``older_than`` ago and nobody is at work on it;
    ``pipeline`` restricts this to one pipeline. The current branch stays, as do reports and kept
    rows.
    """
    if older_than < timedelta(0):
        raise InvalidInputError(f"older_than is {older_than}: it takes a time of 0 or more")
    opened = repository if isinstance(repository, Repository) else Repository.open(repository)
    latest = datetime.now(UTC) - older_than
    return tuple(
        run
        for run in unfinished_runs(opened)
        if (pipeline is None or RunFolder.of(opened.path, pipeline, run).is_there)
        and is_of_a_run(opened, run)
        and _goes(opened, run, latest, dry_run=dry_run)
    )


def unfinished_runs(repository: Repository) -> list[str]:
    """The ids of runs with a branch, or with the remains of one."""
    names = {*repository.branches.list(RUN_BRANCHES), *repository.branches.leaving()}
    found = (each.removeprefix(RUN_BRANCHES) for each in names if each.startswith(RUN_BRANCHES))
    return sorted(each for each in found if "/" not in each)


def _goes(repository: Repository, run: str, latest: datetime, *, dry_run: bool) -> bool:
    branch = RUN_BRANCHES + run
    if last_written(repository, branch) > latest:
        return False
    try:
        with claimed(Path(repository.path), run):
            if last_written(repository, branch) > latest:
                return False
            if not dry_run:
                with suppress(NotFoundError):
                    repository.branches.delete(branch, force=True, tables=True)
    except LancewoodError:
        return False
    return True


def last_written(repository: Repository, branch: str) -> datetime:
    """When a branch last moved; the commit it started from may be older."""
    moved = next(iter(repository.reflog(HEADS + branch)), None)
    if moved is not None:
        return datetime.fromtimestamp(moved.by.seconds, UTC)
    try:
        seconds = repository.at(HEADS + branch).commit.committer.seconds
    except NotFoundError:
        return datetime.fromtimestamp(0, UTC)  # its deletion was cut off
    return datetime.fromtimestamp(seconds, UTC)
