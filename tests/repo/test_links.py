"""A repository from somebody else, in which directories or files are links: nothing is written, and
nothing removed, where they lead, and nothing of it is told. A new verb gets a line in ``VERBS``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.interop.git_judge import git
from tests.repo.scene import ONE, Scene, rows

from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.git.repository import GitRepository
from lancewood.repo.repository import Repository


def _commit(repo: Repository) -> object:
    with repo.transaction("main", message="more") as changes:
        changes.table(ONE).append(rows(9))
    return changes.result


VERBS: dict[str, Callable[[Repository], object]] = {
    "commit": _commit,
    "snapshot": lambda repo: repo.snapshot({"notes.txt": b"new"}, message="files"),
    "branch": lambda repo: repo.branches.create("new/deep/branch"),
    "branch -D": lambda repo: repo.branches.delete("side/old", force=True, tables=True),
    "tag": lambda repo: repo.tags.create("new/tag"),
    "tag -d": lambda repo: repo.tags.delete("v1"),
    "reset": lambda repo: repo.reset("HEAD~1"),
    "revert": lambda repo: repo.revert("HEAD"),
    "merge": lambda repo: repo.merge("side/old"),
    "cherry-pick": lambda repo: repo.cherry_pick("side/old"),
    "switch": lambda repo: repo.switch("side/old"),
    "protect": lambda repo: repo.protect(),
    "exclusive": lambda repo: repo.exclusive(True),
    "reflog": lambda repo: list(repo.reflog("main")),
    "gc": lambda repo: repo.gc(in_flight=timedelta(0), tables=True),
    "fsck": lambda repo: repo.fsck(),
    "status": lambda repo: repo.status(),
    "add": lambda repo: repo.add("again", repo.path / f"tables/{ONE}.lance"),
}
LINKED = [
    "refs",
    "refs/heads",
    "refs/heads/side",
    "refs/heads/new",
    "refs/tags",
    "logs",
    "logs/refs",
    "logs/refs/heads",
    "logs/refs/heads/side",
    "objects",
    "objects/pack",
    "objects/every",
    "lancewood",
    "tables",
    f"tables/{ONE}.lance",
]
LINKED_FILES = ["HEAD", "config", "packed-refs", "logs/HEAD", "logs/refs/heads/main"]
LINKED_FILES += ["refs/heads/main", "refs/tags/v2"]


@pytest.fixture
def repo(scene: Scene) -> Repository:
    """Branches and tags that stock git made, beside ours; some of it packed, and logged."""
    scene.both(4)
    path = scene.path
    git(path, "branch", "side/old", "main")
    scene.both(5, branch="side/old")
    git(path, "tag", "v1", "main")
    git(path, "pack-refs")
    git(path, "tag", "v2", "main")
    git(path, "repack", "-q")
    scene.repo.protect()
    scene.both(6)
    return scene.repo


def directories(root: Path, linked: str) -> list[Path]:
    if linked == "objects/every":  # whichever a new object would go to
        return [root / f"objects/{number:02x}" for number in range(256)]
    return [root / linked]


@contextmanager
def linked(root: Path, outside: Path, which: str) -> Iterator[None]:
    """Directories of a repository are elsewhere, and links lead there."""
    found = directories(root, which)
    outside.mkdir()
    (outside / "empty").mkdir()  # who tidies would take it for a directory that nobody needs
    for each in found:
        there = outside / each.name
        shutil.move(each, there) if each.exists() else there.mkdir()
        each.symlink_to(there)
    try:
        yield
    finally:
        for each in found:
            each.unlink()
            shutil.move(outside / each.name, each)


def contents(outside: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(outside.rglob("*")):
        about = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[os.fspath(path)] = about.st_ino, about.st_mtime_ns, data
    return found


@pytest.mark.sliced(2)
@pytest.mark.filterwarnings("ignore:not tagged:lancewood.repo.outcome.NotLandedWarning")
@pytest.mark.parametrize("which", [*LINKED, *LINKED_FILES])
def test_no_verb_changes_anything_where_a_link_leads(
    repo: Repository, tmp_path: Path, which: str
) -> None:
    outside = tmp_path / "outside"
    with linked(repo.path, outside, which):
        before = contents(outside)
        told = []
        for name, verb in VERBS.items():
            for handle in (repo, None):  # one that was open before, and one that is opened now
                try:
                    verb(handle or Repository.open(repo.path))
                except LancewoodError as refused:
                    told.append(str(refused))
                assert contents(outside) == before, name
        assert any("is a symbolic link" in each for each in told)


@pytest.mark.filterwarnings("ignore:not tagged:lancewood.repo.outcome.NotLandedWarning")
@pytest.mark.parametrize("which", LINKED_FILES)
def test_no_verb_tells_what_a_file_holds_that_a_link_leads_to(
    repo: Repository, tmp_path: Path, which: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("[password]\nhunter2 hunter2\n")
    with linked(repo.path, tmp_path / "outside", which):
        (repo.path / which).unlink()
        (repo.path / which).symlink_to(secret)
        for verb in VERBS.values():
            for handle in (repo, None):
                try:
                    told = str(verb(handle or Repository.open(repo.path)))
                except LancewoodError as refused:
                    told = f"{refused} {refused.__cause__}"
                assert "hunter2" not in told
    assert secret.read_text() == "[password]\nhunter2 hunter2\n"


@pytest.mark.parametrize(
    "which",
    ["logs/refs/heads", "logs", "refs/heads", "objects", "HEAD", "config", "packed-refs"],
)
def test_the_refusal_names_the_link_where_it_leads_and_the_way_out(
    repo: Repository, tmp_path: Path, which: str
) -> None:
    outside = tmp_path / "outside"
    with linked(repo.path, outside, which):
        with pytest.raises(InvalidInputError) as refused:
            Repository.open(repo.path)
        told = str(refused.value)
        assert f"{repo.path / which} is a symbolic link to {outside / Path(which).name}" in told
        assert "open what the link points at" in told


def test_a_branch_below_a_link_is_refused_and_named(repo: Repository, tmp_path: Path) -> None:
    with linked(repo.path, tmp_path / "outside", "refs/heads/side"):
        opened = Repository.open(repo.path)
        for verb in (opened.branches.delete, opened.branches.create):
            with pytest.raises(InvalidInputError, match=r"refs/heads/side is a symbolic link to"):
                verb("side/old")
        with pytest.raises(InvalidInputError, match="refs/heads/side"):
            opened.branches.list()  # what is not read would count as unneeded


def test_a_repository_is_not_made_around_links(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "new/refs").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidInputError, match="new/refs is a symbolic link"):
        GitRepository.init(tmp_path / "new")
    assert contents(tmp_path / "outside") == {}


def test_a_repository_that_is_reached_through_a_link_is_as_good_as_any(
    repo: Repository, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(repo.path)
    opened = Repository.open(tmp_path / "link")
    for name in ("branch", "tag", "commit", "branch -D", "reflog", "gc"):
        VERBS[name](opened)
    assert git(repo.path, "log", "-1", "--format=%s").strip() == "more"
