"""Stock git reads what we write: the repository, its objects, its refs, its logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.interop.git_judge import ADA, check, commit, git

from lancewood.errors import AlreadyExistsError
from lancewood.git.objects import FILE, LINK, PROGRAM, TREE, TreeEntry
from lancewood.git.ref_store import LogEntry
from lancewood.git.repository import GitRepository
from lancewood.git.values import ZERO, Hash

MAIN = "refs/heads/main"


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.init(tmp_path / "repo")


def test_git_takes_a_new_repository_for_its_own(repository: GitRepository) -> None:
    path = repository.path
    assert git(path, "rev-parse", "--show-object-format") == "sha256"
    assert git(path, "rev-parse", "--is-bare-repository") == "true"
    assert git(path, "symbolic-ref", "HEAD") == MAIN
    assert git(path, "config", "--type=bool", "gc.packRefs") == "false"
    assert git(path, "config", "core.logAllRefUpdates") == "always"
    assert git(path, "config", "core.repositoryformatversion") == "1"
    check(path)


def test_git_agrees_with_every_hash_of_ours(repository: GitRepository) -> None:
    objects, path = repository.objects, repository.path
    blob = objects.put_blob(b"bytes\0 of any kind\xff\n")
    tree = objects.put_tree(
        {
            "a.b": TreeEntry(FILE, blob),
            "a": TreeEntry(TREE, objects.put_tree({"run": TreeEntry(PROGRAM, blob)})),
            "a0": TreeEntry(LINK, blob),
            "grün": TreeEntry(FILE, objects.put_blob(b"")),
        }
    )
    then = replace(ADA, seconds=1_700_000_000)
    first = objects.put_commit(tree, [], then, "one\n\nwith a body\n\n")
    second = objects.put_commit(tree, [first], ADA, "")
    objects.sync()
    assert repository.refs.move(MAIN, None, second, why="", by=ADA)
    check(path)
    assert git(path, "cat-file", "-t", blob) == "blob"
    names = git(path, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", tree)
    assert names.splitlines() == ["a.b", "a/run", "a0", "grün"]
    assert git(path, "mktree", given=git(path, "ls-tree", tree) + "\n") == tree
    assert git(path, "log", "-1", "--format=%an|%ae|%at|%ai|%B", first) == (
        "Ada Lovelace|ada@example.org|1700000000|2023-11-14 23:43:20 +0130|one\n\nwith a body"
    )


def test_a_branch_is_a_file_with_64_digits(repository: GitRepository) -> None:
    made = commit(repository, "one")
    assert (repository.path / MAIN).read_text() == f"{made}\n"
    assert len(made) == 64
    assert git(repository.path, "rev-parse", "HEAD") == made
    assert git(repository.path, "for-each-ref", "--format=%(refname) %(objectname)") == (
        f"{MAIN} {made}"
    )


def test_git_reads_the_log_of_a_branch_and_of_head(repository: GitRepository) -> None:
    hashes = [commit(repository, text) for text in ("one", "two", "three")]
    for name in ("main", "HEAD"):
        told = git(repository.path, "reflog", "show", "--format=%H %gs %gn <%ge>", name)
        assert told.splitlines() == [
            f"{each} commit: {text} Ada Lovelace <ada@example.org>"
            for each, text in zip(reversed(hashes), ("three", "two", "one"), strict=True)
        ]
    assert git(repository.path, "rev-parse", "main@{2}") == hashes[0]
    lines = (repository.path / "logs" / MAIN).read_text().splitlines()
    assert lines[0].startswith(f"{ZERO} {hashes[0]} Ada Lovelace <ada@example.org> ")
    assert (repository.path / "logs/HEAD").read_text().splitlines() == lines


def test_our_log_is_the_same_after_gits_gc(repository: GitRepository) -> None:
    for text in ("one", "two"):
        commit(repository, text)
    before = list(repository.refs.log(MAIN))
    git(repository.path, "gc", "-q", "--prune=now")
    assert list(repository.refs.log(MAIN)) == before
    assert before[-1].old == ZERO


def test_we_read_the_log_that_git_writes(repository: GitRepository) -> None:
    path = repository.path
    one, two = commit(repository, "one"), commit(repository, "two")
    git(path, "update-ref", "refs/heads/other", one)
    git(path, "update-ref", "-m", "reset: moved\tby  hand", "refs/heads/other", two)
    newest, oldest = repository.refs.log("refs/heads/other")
    assert (newest.old, newest.new, newest.why) == (one, two, "reset: moved by hand")
    assert newest.by.name == "Git"
    assert isinstance(oldest, LogEntry)
    assert (oldest.old, oldest.new, oldest.why) == (ZERO, one, "")


def test_git_follows_head_where_we_point_it(repository: GitRepository) -> None:
    refs, path = repository.refs, repository.path
    one = commit(repository, "one")
    assert refs.move("refs/heads/exp", None, one, why="branch: made", by=ADA)
    refs.switch_head("exp", why="checkout: moving from main to exp", by=ADA)
    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/exp"
    two = commit(repository, "two", branch="exp")
    assert git(path, "reflog", "show", "--format=%gs", "HEAD").splitlines() == [
        "commit: two",
        "checkout: moving from main to exp",
        "commit: one",
    ]
    refs.detach_head(one, why="checkout: moving from exp to main~1", by=ADA)
    assert git(path, "rev-parse", "HEAD") == one
    assert git(path, "rev-parse", "--symbolic-full-name", "HEAD") == "HEAD"
    assert git(path, "rev-parse", "HEAD@{1}") == two
    assert refs.move("HEAD", one, two, why="commit", by=ADA)
    assert git(path, "rev-parse", "HEAD") == two
    check(path)


def test_git_sees_a_deleted_branch_no_more(repository: GitRepository) -> None:
    one = commit(repository, "one")
    assert repository.refs.move("refs/heads/a/b", None, one, why="made", by=ADA)
    assert repository.refs.move("refs/heads/a/b", one, None, why="deleted", by=ADA)
    assert git(repository.path, "branch", "--format=%(refname)") == MAIN
    assert not (repository.path / "logs/refs/heads/a").exists()
    git(repository.path, "branch", "a")
    assert repository.refs.read("refs/heads/a") == one
    check(repository.path)


def test_we_read_settings_that_git_writes_and_it_ours(repository: GitRepository) -> None:
    path = repository.path
    git(path, "config", "user.name", 'Ada "the first" \\ ; #')
    git(path, "config", "branch.a.b.remote", "origin")
    assert repository.get("user", "name") == 'Ada "the first" \\ ; #'
    assert repository.get("branch.a.b", "remote") == "origin"
    repository.set("lancewood", "id", "some text # with a mark")
    repository.set("branch.a.b", "merge", MAIN)
    assert git(path, "config", "lancewood.id") == "some text # with a mark"
    assert git(path, "config", "branch.a.b.merge") == MAIN
    assert git(path, "config", "branch.a.b.remote") == "origin"
    assert git(path, "config", "user.name") == 'Ada "the first" \\ ; #'
    check(path)


def test_a_repository_that_git_made_is_opened(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "-b", "trunk", "made")
    repository = GitRepository.open(tmp_path / "made")
    assert repository.refs.head().branch == "trunk"
    made = commit(repository, "one", branch="trunk")
    assert git(tmp_path / "made", "rev-parse", "HEAD") == made
    check(tmp_path / "made")
    with pytest.raises(AlreadyExistsError):
        GitRepository.init(tmp_path / "made")


def test_a_merge_and_a_nested_tag_made_by_git_are_read(repository: GitRepository) -> None:
    path = repository.path
    one = commit(repository, "one")
    side = commit(repository, "side", branch="side", parents=(one,))
    tree = git(path, "rev-parse", "main^{tree}")
    text = "Fix grün\n\n-----\n"
    merged = git(path, "commit-tree", tree, "-p", one, "-p", side, "-F", "-", given=text)
    git(path, "update-ref", MAIN, merged)
    git(path, "tag", "-a", "-m", "a release", "v1", "main")
    git(path, "tag", "-a", "-m", "of a tag", "v1-again", "v1")
    git(path, "tag", "of-a-tree", tree)
    found = repository.objects.commit(Hash(merged))
    assert found.parents == (one, side)
    assert found.author.name == "Git"
    assert found.message == text.strip()
    for tag in ("v1", "v1-again"):
        named = repository.refs.read(f"refs/tags/{tag}")
        assert named is not None
        assert named != merged
        assert repository.objects.peel(named) == merged
    named = repository.refs.read("refs/tags/of-a-tree")
    assert named is not None
    with pytest.raises(LookupError, match="leads to a tree"):
        repository.objects.peel(named)


def test_a_signed_commit_in_another_encoding_is_read(repository: GitRepository) -> None:
    path = repository.path
    one = commit(repository, "one")
    tree = git(path, "rev-parse", "main^{tree}")
    raw = (
        f"tree {tree}\nparent {one}\nauthor J\xf6rg <j@example.org> 1700000000 -0730\n"
        "committer J\xf6rg <j@example.org> 1700000001 +0000\nencoding ISO-8859-1\n"
        "gpgsig -----BEGIN-----\n \n abc\n -----END-----\n\ngr\xfcn\n"
    )
    file = path / "raw"
    file.write_bytes(raw.encode("latin-1"))
    made = git(path, "hash-object", "-t", "commit", "-w", str(file))
    found = repository.objects.commit(Hash(made))
    assert found.message == "grün"
    assert found.author.offset_minutes == -450
    assert found.committer.seconds == 1_700_000_001
