"""Stock git as the judge of a whole repository, after whatever a test did to it.

It reads everything. After a part of the tests, and after all of them in ``make campaigns``, it also
clones the repository from a bundle, writes a tag, a branch and a merge of its own and packs all of
it; what it made and packed is then read by us, and written on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from tests.interop.git_judge import git

from lancewood.git.repository import GitRepository
from lancewood.repo.repository import Repository

MOST_BRANCHES = 3


def rows_of(repo: Repository, revision: str = "HEAD") -> dict[str, int]:
    """The rows of each table at a revision; every pin is opened and checked for it."""
    view = repo.at(revision)
    return {name: view.table(name).count_rows() for name in view}


def judge(path: Path, *, works_on: bool = True) -> None:
    """Every judgement on the repository at a path. It has a few commits more afterwards, unless git
    is only to read it."""
    repo = Repository.open(path, fsync=False)
    _check_objects(path, repo)
    if not repo.branches:
        return
    _check_names(path, repo)
    _check_history(path, repo)
    _check_pins(path, repo)
    if works_on:
        _check_bundle(path, repo)
        _check_made_by_git(path)
        _check_packed(path)


def _check_objects(path: Path, repo: Repository) -> None:
    git(path, "fsck", "--strict", "--no-progress", "--no-dangling")
    head = repo.head
    if head.branch is None:
        assert git(path, "rev-parse", "HEAD") == head.hash
    else:
        assert git(path, "symbolic-ref", "HEAD") == f"refs/heads/{head.branch}"


def _check_names(path: Path, repo: Repository) -> None:
    listed = git(path, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
    found = dict(each.split(" ") for each in listed.splitlines())
    assert found == {f"refs/heads/{name}": tip for name, tip in repo.branches.list().items()}
    tags = git(path, "for-each-ref", "--format=%(refname:short)", "refs/tags").splitlines()
    assert tags == [*repo.tags]
    for name in _some(repo):
        tip = repo.at(name).hash
        assert (path / "refs/heads" / name).read_text() == f"{tip}\n", "cat shows the hash"
        newest = next(iter(repo.reflog(name)))
        assert newest.new == tip
        assert git(path, "rev-parse", f"{name}@{{0}}") == tip


def _check_history(path: Path, repo: Repository) -> None:
    for name in _some(repo):
        ours = [each.hash for each in repo.log(name)]
        assert sorted(ours) == sorted(git(path, "rev-list", name).splitlines())
        graph = git(path, "log", "--graph", "--format=%H", name)
        assert sum("*" in each for each in graph.splitlines()) == len(ours)
        told = git(path, "show", "--no-patch", "--format=%B", name)
        assert told.strip() == repo.at(name).commit.message.strip()


def _check_pins(path: Path, repo: Repository) -> None:
    """git's diff of the pins is our summary, and names facts that people look for."""
    for name in _some(repo):
        if not repo.at(name).commit.parents:
            continue
        changes = repo.diff(f"{name}~1", name)
        listed = git(path, "diff", "--name-only", f"{name}~1", name, "--", "tables")
        files = listed.splitlines()
        tables = {each.removeprefix("tables/").removesuffix(".json") for each in files}
        assert tables == {each.name for each in changes}
        text = git(path, "diff", f"{name}~1", name, "--", "tables")
        for each in changes:
            if each.after is not None and each.kind != "moved":
                assert f'+  "content": "{each.after.content}"' in text


def _check_bundle(path: Path, repo: Repository) -> None:
    bundle, clone = path.with_suffix(".bundle"), path.with_suffix(".clone")
    git(path, "bundle", "create", "--quiet", str(bundle), "--all")
    git(path, "clone", "--quiet", "--mirror", str(bundle), str(clone))
    git(clone, "fsck", "--strict", "--no-progress")
    refs = ("for-each-ref", "--format=%(refname) %(objectname)")
    assert git(clone, *refs) == git(path, *refs)
    shutil.rmtree(clone)
    bundle.unlink()


def _check_made_by_git(path: Path) -> None:
    """A branch, tags and a merge that git made are read by us."""
    repo = Repository.open(path, fsync=False)
    tip = repo.at(next(iter(repo.branches))).hash
    git(path, "tag", "by-git", tip)
    git(path, "tag", "--annotate", "--message=told", "by-git-annotated", tip)
    git(path, "branch", "by-git", tip)
    other = git(path, "commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "beside")
    merge = git(path, "commit-tree", f"{tip}^{{tree}}", "-p", tip, "-p", other, "-m", "merged")
    git(path, "update-ref", "refs/heads/merged-by-git", merge)
    assert repo.tags.list()["by-git"] == repo.tags.list()["by-git-annotated"] == tip
    assert repo.branches.list()["by-git"] == tip
    assert repo.at("merged-by-git").commit.parents == (tip, other)
    assert [each.message for each in repo.log("merged-by-git", limit=2)] == ["merged", "beside"]
    assert rows_of(repo, "merged-by-git") == rows_of(repo, "by-git-annotated")
    # Where every move is logged, gc of git 2.39 complains of annotated tags, its own as well.
    git(path, "tag", "--delete", "by-git-annotated")


def _check_packed(path: Path) -> None:
    """git gc beside us, which has the repository open: we read and write on."""
    repo = Repository.open(path, fsync=False)
    before = {name: rows_of(repo, name) for name in [*_some(repo), "merged-by-git"]}
    GitRepository.open(path).tidy()  # git waits for nobody's lock, not even that of the dead
    git(path, "gc", "--quiet", "--prune=now")
    assert {name: rows_of(repo, name) for name in before} == before
    with repo.transaction("merged-by-git", message="after gc") as changes:
        changes.create_table("judged", pa.table({"a": [1, 2]}))
    again = Repository.open(path, fsync=False)
    assert rows_of(again, "merged-by-git") == before["merged-by-git"] | {"judged": 2}
    git(path, "fsck", "--strict", "--no-progress", "--no-dangling")


def _some(repo: Repository) -> list[str]:
    """A few of the branches, by name the first and the last ones."""
    names = [*repo.branches]
    return [*dict.fromkeys([*names[:1], *names[1 - MOST_BRANCHES :]])]
