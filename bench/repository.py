"""Commits of a repository, its log, and opening a table at a tag; against git called as a program.

What is compared is what one would do without us: write the pins as files of a git repository by
calling git, and the rows with pylance.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import lance

import lancewood as lw
from bench import OURS
from bench.contenders import OurAppender, PylanceAppender, ten_rows
from bench.git_program import GIT, GitProgram
from bench.histories import OurGit, make_history
from bench.measure import Contender, Samples, interleave
from bench.places import Places, scratch
from bench.result import Least, Row, Section
from bench.scale import Scale
from bench.tables import make_small
from lancewood.catalog.pin import encode_pin

_GIT = "git"
_BUDGETED = 20
_GOAL = 300.0
_PASSES = 3


def run(scale: Scale, places: Places) -> Section:
    rows: list[Row] = []
    for count, sync in itertools.product(scale.repository_tables, (True, False)):
        with scratch(places.disk) as here:
            rows += _commits(here, count, sync, scale.commit_passes)
    with scratch(places.fast) as here:
        rows += _logs(here / "repository", scale.commits)
    with scratch(places.fast) as here:
        rows += _at_a_tag(here / "repository", scale.commit_passes)
    return Section(
        name="repository",
        title="Repository",
        note=(
            "Commits on disk, one after another; a table has ten rows, and in each commit another "
            "one has moved. Synced: objects, refs and their logs, and for us the tables too; git "
            "with `core.fsync=all`. *commit* records where the tables stand (the append that moved "
            "one is not timed), *transaction* appends ten rows and commits (git: pylance appends, "
            "unsynced), *git alone* writes one changed pin, two trees, a commit and a ref. git "
            "takes five processes for each of them. The log and the tag are on "
            f"{places.fast_name}; each sample opens the repository, unless a handle is kept."
        ),
        against="git as a program",
        rows=tuple(rows),
    )


def _commits(here: Path, count: int, sync: bool, passes: int) -> Iterator[Row]:
    names = [f"t{number}" for number in range(count)]
    repository = _made(here / "ours", names, sync)
    head = repository.at()
    pins = {f"{each}.json": encode_pin(head.pin(each)) for each in names}
    git = GitProgram.init(here / "git", pins, sync=sync) if GIT else None
    ours = OurGit.init(here / "alone", pins, sync=sync)
    appenders = {each: OurAppender(_table(here / "ours", each)) for each in names}
    make_small(here / "pylance.lance")
    pylance = PylanceAppender(here / "pylance.lance")
    data, turn, number = ten_rows(), itertools.cycle(names), itertools.count()

    def changed() -> tuple[str, bytes]:
        name = f"{next(turn)}.json"
        return name, pins[name].replace(b'"rows": 10', b'"rows": %d' % next(number))

    def by_transaction() -> None:
        with repository.transaction(message="ten rows more") as changes:
            changes.table(next(turn)).append(data)

    def by_pylance_and_git() -> None:
        pylance.append(data)
        assert git is not None
        git.commit(*changed())

    append: dict[str, Contender] = {OURS: lambda: appenders[next(turn)].append(data)}
    git_alone: Contender | None = None if git is None else lambda: git.commit(*changed())
    works: tuple[tuple[str, Contender, Contender | None, dict[str, Contender]], ...] = (
        ("commit", lambda: repository.commit("one table moved"), git_alone, append),
        ("transaction", by_transaction, None if git is None else by_pylance_and_git, {}),
        ("git alone", lambda: ours.commit(*changed()), git_alone, {}),
    )
    for work, our_job, git_job, before in works:
        found = interleave(_both(our_job, git_job), passes, before)
        is_goal = work == "commit" and sync and count == _BUDGETED
        yield Row(
            work=f"{_counted(count)}: {work}, {'synced' if sync else 'not synced'}",
            unit="/s",
            ours=_rates(found[OURS]),
            pylance=_rates(found.get(_GIT, ())),
            more_is_better=True,
            target=Least(_GOAL) if is_goal else None,
        )
    if GIT:
        _check_count(here / "ours", 1 + 2 * (passes + 1))
        _check_count(here / "alone", 1 + passes + 1)


def _logs(path: Path, commits: int) -> Iterator[Row]:
    make_history(path, commits)
    git = GitProgram(path) if GIT else None
    yield from _log(path, git, commits, "as they were written")
    if git is not None:
        git.run("repack", "-a", "-d", "-q")
        yield from _log(path, git, commits, "packed by git")


def _log(path: Path, git: GitProgram | None, commits: int, how: str) -> Iterator[Row]:
    page = 50

    def walk(limit: int | None) -> Contender:
        wanted = commits if limit is None else min(limit, commits)

        def job() -> None:
            found = sum(1 for _ in lw.Repository.open(path).log(limit=limit))
            if found != wanted:
                raise RuntimeError(f"the log of {commits} commits showed {found} of {wanted}")

        return job

    jobs: tuple[tuple[str, Contender, tuple[str, ...], int], ...] = (
        (f"the first {page}", walk(page), (f"--max-count={page}",), 4 * _PASSES),
        ("all", walk(None), (), _PASSES),
    )
    for what, our_job, options, passes in jobs:
        git_job = _git_log(git, options)
        found = interleave(_both(our_job, git_job), passes)
        yield Row(
            work=f"log of {commits:,} commits, {how}: {what}",
            unit="ms",
            ours=found[OURS],
            pylance=found.get(_GIT, ()),
        )


def _git_log(git: GitProgram | None, options: tuple[str, ...]) -> Contender | None:
    return None if git is None else lambda: git.run("log", "--format=raw", *options)


def _at_a_tag(path: Path, passes: int) -> Iterator[Row]:
    names = [f"t{number}" for number in range(3)]
    repository = _made(path, names, sync=False)
    OurAppender(_table(path, "t0")).append(ten_rows())
    repository.commit("twice the rows")
    repository.tags.create("v1")
    for _ in range(10):
        OurAppender(_table(path, "t0")).append(ten_rows())
        repository.commit("one table moved")
    git = GitProgram(path) if GIT else None

    def by_git_and_pylance() -> object:
        assert git is not None
        pin = json.loads(git.run("cat-file", "blob", "v1:tables/t0.json"))
        return _twenty(lance.dataset(path / pin["uri"], version=pin["version"]).count_rows())

    git_job = None if git is None else by_git_and_pylance
    jobs: tuple[tuple[str, Callable[[], lw.Repository]], ...] = (
        ("open the repository", lambda: lw.Repository.open(path)),
        ("repository open", lambda: repository),
    )
    for how, opened in jobs:
        our_job = _counting(opened)
        found = interleave(_both(our_job, git_job), passes)
        yield Row(
            work=f"count the rows of a table at a tag, {how}",
            unit="ms",
            ours=found[OURS],
            pylance=found.get(_GIT, ()),
        )


def _counting(opened: Callable[[], lw.Repository]) -> Contender:
    return lambda: _twenty(opened().at("v1").table("t0").count_rows())


def _twenty(rows: int) -> int:
    if rows != 20:
        raise RuntimeError(f"the table had 20 rows at the tag, {rows} were counted")
    return rows


def _made(path: Path, names: list[str], sync: bool) -> lw.Repository:
    """A repository with tables of ten rows and one commit."""
    made = lw.Repository.init(path, fsync=False)
    with made.transaction(message="first") as changes:
        for each in names:
            changes.create_table(each, ten_rows())
    return lw.Repository.open(path, fsync=sync)


def _table(path: Path, name: str) -> Path:
    return path / "tables" / f"{name}.lance"


def _both(our_job: Contender, git_job: Contender | None) -> dict[str, Contender]:
    return {OURS: our_job} if git_job is None else {OURS: our_job, _GIT: git_job}


def _rates(milliseconds: Samples) -> Samples:
    return tuple(1_000 / each for each in milliseconds)


def _counted(count: int) -> str:
    return "1 table" if count == 1 else f"{count:,} tables"


def _check_count(path: Path, wanted: int) -> None:
    found = GitProgram(path).count()
    if found != wanted:
        raise RuntimeError(f"{path}: {wanted} commits were made, git finds {found}")
