"""``a..b`` and ``a...b`` in ``Repository.diff``, beside what stock git says of them."""

from __future__ import annotations

import subprocess

import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.jobs.counts import RowCounts


def git(repo: lw.Repository, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", repo.path, *args], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def written(repo: lw.Repository, branch: str, *values: int) -> str:
    with repo.transaction(branch, branch) as changes:
        changes.table("photos").append(rows(*values))
    return str(changes.result.hash)


@pytest.fixture
def repo(repo: lw.Repository) -> lw.Repository:
    """Main and exp both went on, main by two commits."""
    written(repo, "exp", 10)
    written(repo, "main", 20, 21)
    written(repo, "main", 22)
    return repo


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("main..exp", RowCounts(inserted=1, deleted=3)),
        ("..exp", RowCounts(inserted=1, deleted=3)),
        ("exp..", RowCounts(inserted=3, deleted=1)),
        ("main...exp", RowCounts(inserted=1)),
        ("...exp", RowCounts(inserted=1)),
        ("exp...main", RowCounts(inserted=3)),
        ("exp...", RowCounts(inserted=3)),
        ("main~1...main", RowCounts(inserted=1)),
        ("main...main~1", None),
    ],
)
def test_a_range_is_read_as_git_reads_it(
    repo: lw.Repository, text: str, counts: RowCounts | None
) -> None:
    assert [each.counts for each in repo.diff(text)] == ([] if counts is None else [counts])
    found = repo.diff(text, rows=True)
    assert [each.counts for each in found.values()] == ([] if counts is None else [counts])
    pins = git(repo, "diff", "--name-only", text).splitlines()
    assert pins == ([] if counts is None else ["tables/photos.json"])


def test_the_base_is_the_one_that_git_names(repo: lw.Repository) -> None:
    repo.merge("exp")
    repo.merge("main", branch="exp")
    written(repo, "exp", 11)
    written(repo, "main", 23)
    base = git(repo, "merge-base", "main", "exp")
    assert repo.merge_base("main", "exp") == base
    assert repo.diff("main...exp") == repo.diff(base, "exp")
    assert repo.diff("main...exp")[0].counts == RowCounts(inserted=1)


def test_several_bases_are_named_and_none_is_guessed(repo: lw.Repository) -> None:
    main, exp = repo.at("main"), repo.at("exp")
    crossed = {"one": (main, exp), "two": (exp, main)}
    for name, (first, second) in crossed.items():
        tree = git(repo, "rev-parse", f"{first.hash}^{{tree}}")
        parents = ["-p", first.hash, "-p", second.hash]
        made = git(repo, "commit-tree", tree, *parents, "-m", name)
        git(repo, "update-ref", f"refs/heads/{name}", made)
    bases = git(repo, "merge-base", "--all", "one", "two").splitlines()
    assert len(bases) == 2
    with pytest.raises(lw.InvalidInputError, match="have 2 merge bases") as error:
        repo.diff("one...two")
    assert sorted(error.value.facts["bases"]) == sorted(bases)
    assert all(each[:12] in str(error.value) for each in bases)
    assert repo.diff("one..two") == repo.diff("one", "two")


def test_two_histories_have_no_base(repo: lw.Repository) -> None:
    tree = git(repo, "rev-parse", "main^{tree}")
    git(repo, "update-ref", "refs/heads/alone", git(repo, "commit-tree", tree, "-m", "alone"))
    with pytest.raises(lw.NotFoundError, match=r"no commit in common.*exp\.\.alone compares"):
        repo.diff("exp...alone")
    assert repo.diff("exp..alone")[0].counts == RowCounts(inserted=3, deleted=1)


@pytest.mark.parametrize(
    ("sides", "error", "said"),
    [
        (("main..exp", "exp"), lw.InvalidInputError, "names both sides, and there is 'exp'"),
        (("main..exp", None), lw.InvalidInputError, "leave that out"),
        (("main", "main..exp"), lw.InvalidInputError, "is a range, and a single commit"),
        (("main...exp...main",), lw.InvalidInputError, "is a range"),
        (("main...nope",), lw.NotFoundError, "revision 'nope' not found"),
        (("nope..",), lw.NotFoundError, "revision 'nope' not found"),
    ],
)
def test_what_is_no_range_is_told(
    repo: lw.Repository, sides: tuple[str, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        repo.diff(*sides)
