"""Stock git is the judge of what a revision names: ``git rev-parse`` beside ``resolve``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lancewood.errors import LancewoodError
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve

ENVIRONMENT = {
    **os.environ,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def run(path: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(["git", "-C", str(path), *words], capture_output=True, env=ENVIRONMENT)
    return done.returncode, done.stdout.decode().strip()


def git(path: Path, *words: str) -> str:
    code, said = run(path, *words)
    assert code == 0, words
    return said


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """Made by us, filled by git: a merge, an octopus, tags of both kinds, packed refs."""
    path = tmp_path_factory.mktemp("repo")
    made = GitRepository.init(path)
    tree = git(path, "hash-object", "-t", "tree", "-w", "/dev/null")

    def commit(message: str, *parents: str) -> str:
        over = [word for each in parents for word in ("-p", each)]
        return git(path, "commit-tree", tree, "-m", message, *over)

    a = commit("a")
    b = commit("b", a)
    c = commit("c", b)
    side = commit("side", a)
    merge = commit("merge", c, side)
    octopus = commit("octopus", merge, commit("x", a), commit("y", b))
    for each in (a, b, c, merge):
        git(path, "update-ref", "-m", "test", "refs/heads/main", each)
    git(path, "update-ref", "refs/heads/wide", octopus)
    git(path, "update-ref", "refs/heads/team/ada@home", side)
    git(path, "update-ref", "refs/notes/other", c)
    git(path, "tag", "light", b)
    git(path, "tag", "-a", "-m", "first", "v1", c)
    git(path, "tag", "-a", "-m", "of a tag", "v1-again", "v1")
    git(path, "pack-refs", "--all")
    git(path, "update-ref", "-m", "test", "refs/heads/main", octopus)
    return made


NAMES = [
    *["HEAD", "@", "main", "heads/main", "refs/heads/main", "wide", "team/ada@home"],
    *[
        "light",
        "tags/light",
        "refs/tags/light",
        "v1",
        "v1-again",
        "refs/notes/other",
        "notes/other",
    ],
    *["@{0}", "@{1}", "HEAD@{1}", "main@{0}", "main@{2}", "main@{4}", "main@{5}", "HEAD@{9}"],
    *["nothing", "refs/heads/nothing", "refs/heads", "heads", "main@{x}"],
]
STEPS = ["", "~", "^", "^0", "~0", "~2", "^2", "^3", "^4", "~9", "^^", "~^2", "^2~1", "^{commit}"]
STEPS += ["^{commit}~1", "^{}", "^1^2^{commit}", "~1^2~1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_revision_names_what_git_says(repository: GitRepository, name: str) -> None:
    # Where 'main@{4}' fails git takes all of 'main@{4}~1^{commit}' for a date: no judge of that.
    steps = [each for each in STEPS if "{" not in name or not each.endswith("}")]
    check(repository, [f"{name}{each}" for each in steps])


def test_a_move_may_be_followed_by_a_kind(repository: GitRepository) -> None:
    check(repository, ["main@{1}^{commit}", "@{2}^{}", "main@{0}~1^{commit}^2"])


def test_a_hash_names_what_git_says_from_four_digits_on(repository: GitRepository) -> None:
    whole = resolve(repository, "main")
    tag = git(repository.path, "rev-parse", "v1")
    tree = git(repository.path, "rev-parse", "main^{tree}")
    for hash in (whole, tag, tree):
        digits = [hash[:count] for count in (3, 4, 5, 12, 40, 63, 64)]
        check(repository, [*digits, *(each.upper() for each in digits), f"{hash[:9]}~1"])


def check(repository: GitRepository, texts: list[str]) -> None:
    """Ask both for each text what commit it leads to, or that it leads nowhere."""
    for text in texts:
        code, object = run(repository.path, "rev-parse", "--verify", "-q", text)
        if code == 0:
            code, theirs = run(
                repository.path, "rev-parse", "--verify", "-q", f"{object}^{{commit}}"
            )
        try:
            ours = str(resolve(repository, text))
        except LancewoodError:
            assert code != 0, text
        else:
            assert (code, ours) == (0, theirs), text


def test_what_git_gc_packed_is_found_by_its_short_hash(
    repository: GitRepository, tmp_path: Path
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(repository.path, path)
    held = GitRepository.open(path)
    whole = resolve(held, "main~1")
    git(path, "gc", "-q")
    assert not (path / "objects" / whole[:2] / whole[2:]).exists()
    assert resolve(held, whole[:10]) == whole
    assert resolve(GitRepository.open(path), whole[:10]) == whole
