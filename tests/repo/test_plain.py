"""The plain layout of ADR-019 becomes a repository, and nothing of it is lost."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.interop.git_judge import check, git

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    IntegrityError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.git.repository import GitRepository
from lancewood.items.plain import importing
from lancewood.items.plain.importing import import_plain

ADA = "Ada <ada@example.org>"


class Plain:
    """A repository in the plain layout, as the ADR draws it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for each in ("objects", "refs/heads", "refs/tags"):
            (path / each).mkdir(parents=True)
        self.write("HEAD", "ref: refs/heads/main\n")

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def put(self, data: bytes, *, fan: bool = True) -> str:
        digest = sha256(data).hexdigest()
        name = f"{digest[:2]}/{digest[2:]}" if fan else digest
        file = self.path / "objects" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        os.utime(file, (1_700_000_000, 1_700_000_000))
        return digest

    def log(self, *lines: dict[str, Any]) -> None:
        with (self.path / "log.jsonl").open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in lines)


@pytest.fixture
def plain(tmp_path: Path) -> Plain:
    made = Plain(tmp_path / "plain")
    one, two = made.put(b"<one/>"), made.put(b"<two/>", fan=False)
    made.put(b"nobody names it")
    made.write("refs/heads/main", f"{two}\n")
    made.write("refs/heads/exp/a", one)
    made.write("refs/tags/v1", one)
    return made


def test_branches_tags_head_and_every_snapshot_come_along(plain: Plain, tmp_path: Path) -> None:
    target = tmp_path / "made" / "target"
    done = import_plain(plain.path, target, author=ADA)
    assert (done.branches, done.tags, done.snapshots) == (2, 1, 3)
    assert done.head == "refs/heads/main"
    check(target)
    refs = git(target, "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/exp/a", "refs/heads/main", "refs/lancewood/plain", "refs/tags/v1"]
    assert git(target, "show", "main:snapshot") == "<two/>"
    assert git(target, "show", "v1:snapshot") == "<one/>"
    assert git(target, "rev-parse", "v1") == git(target, "rev-parse", "exp/a")
    assert git(target, "log", "--format=%an %at", "main") == "Ada 1700000000"
    lost = sha256(b"nobody names it").hexdigest()
    kept = f"refs/lancewood/plain:objects/{lost[:2]}/{lost[2:]}"
    assert git(target, "show", kept) == "nobody names it"
    assert lw.Repository.open(target).at("v1").read("snapshot") == b"<one/>"


def test_done_again_it_changes_nothing_also_from_a_copy(plain: Plain, tmp_path: Path) -> None:
    target = tmp_path / "target"
    import_plain(plain.path, target, author=ADA)
    before = git(target, "for-each-ref")
    for file in (plain.path / "objects").rglob("*"):
        os.utime(file)
    again = import_plain(plain.path, target)
    assert again.changed == ()
    assert git(target, "for-each-ref") == before


def test_an_import_that_was_cut_off_is_gone_on_from(
    plain: Plain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    monkeypatch.setattr(importing, "_MOST_PACKED", 0)
    with monkeypatch.context() as patch:
        patch.setattr(GitRepository, "open", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            import_plain(plain.path, target)
    assert len(import_plain(plain.path, target).changed) == 3
    check(target)
    assert git(target, "show", "main:snapshot") == "<two/>"
    assert import_plain(plain.path, target).changed == ()


@pytest.mark.parametrize("is_new", [True, False])
def test_a_detached_head_stays_detached(plain: Plain, tmp_path: Path, is_new: bool) -> None:
    target = tmp_path / "target"
    if not is_new:
        import_plain(plain.path, target)
    plain.write("HEAD", sha256(b"nobody names it").hexdigest())
    for _ in range(2):
        done = import_plain(plain.path, target)
        assert git(target, "rev-parse", "HEAD") == done.head
        assert git(target, "show", "HEAD:snapshot") == "nobody names it"
    check(target)


def test_what_the_source_did_since_follows(plain: Plain, tmp_path: Path) -> None:
    target = tmp_path / "target"
    import_plain(plain.path, target)
    plain.write("refs/heads/main", plain.put(b"<three/>"))
    done = import_plain(plain.path, target)
    assert done.changed == ("refs/heads/main",)
    assert git(target, "rev-list", "--count", "main") == "2"
    assert git(target, "show", "main:snapshot") == "<three/>"
    check(target)


def test_what_somebody_did_in_the_target_is_not_moved(plain: Plain, tmp_path: Path) -> None:
    target = tmp_path / "target"
    import_plain(plain.path, target)
    lw.Repository.open(target).snapshot({"mine": b"1"}, "mine")
    plain.write("refs/tags/v1", sha256(b"<two/>").hexdigest())
    plain.write("refs/heads/main", plain.put(b"<three/>"))
    before = git(target, "for-each-ref")
    with pytest.raises(AlreadyExistsError, match="refs/heads/main"):
        import_plain(plain.path, target)
    assert git(target, "for-each-ref") == before
    done = import_plain(plain.path, target, force=True)
    assert set(done.changed) == {"refs/heads/main", "refs/tags/v1"}
    assert git(target, "show", "v1:snapshot") == "<two/>"


def test_the_log_tells_which_snapshot_followed_which(plain: Plain, tmp_path: Path) -> None:
    one, two = sha256(b"<one/>").hexdigest(), sha256(b"<two/>").hexdigest()
    main, times = "refs/heads/main", ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    plain.log(
        {"op": "snapshot", "hash": one, "ref": main, "parent": None, "timestamp": times[0]},
        {"op": "snapshot", "hash": two, "ref": main, "parent": one, "timestamp": times[1]},
        {"op": "checkout", "hash": two},
        {"op": "snapshot", "hash": one, "ref": main, "parent": two, "label": "back again"},
        {"op": "snapshot", "hash": "f" * 64, "ref": main, "parent": one},
        {"op": "snapshot", "hash": two, "ref": main, "parent": one, "label": "on we go"},
    )
    with (plain.path / "log.jsonl").open("a") as file:
        file.write('{"op": "snap')
    target = tmp_path / "target"
    import_plain(plain.path, target)
    check(target)
    said = git(target, "log", "--format=%s", "main").split("\n")
    assert said == ["on we go", "back again", f"snapshot {two[:12]}", f"snapshot {one[:12]}"]
    assert git(target, "log", "-1", "--format=%at", "main~3") == "1767225600"
    assert import_plain(plain.path, target).changed == ()
    assert git(target, "cat-file", "-t", "refs/lancewood/plain:log.jsonl") == "blob"
    other = tmp_path / "other"
    import_plain(plain.path, other, log=False)
    assert git(other, "rev-list", "--count", "main") == "1"


def damage(plain: Plain, how: str) -> None:
    two = sha256(b"<two/>").hexdigest()
    if how == "bytes":
        (plain.path / "objects" / two).write_bytes(b"other bytes")
    elif how == "missing":
        (plain.path / "objects" / two).unlink()
    elif how == "stray":
        plain.write("objects/readme.txt", "hello")
    elif how == "link":
        (plain.path / "refs/heads/link").symlink_to("/etc/passwd")
    elif how == "short":
        plain.write("refs/heads/main", two[:40])
    elif how == "upper":
        plain.write("refs/heads/main", two.upper())
    elif how == "name":
        plain.write("refs/heads/a..b", two)
    elif how == "space":
        plain.write("refs/tags/a b", two)
    elif how == "dot":
        plain.write("refs/tags/.DS_Store", "")
    elif how == "head":
        plain.write("HEAD", "ref: refs/tags/v1")
    elif how == "log":
        plain.write("log.jsonl", "no json\n")
    elif how == "git":
        plain.write("config", "[core]")
    else:
        (plain.path / "HEAD").unlink()


@pytest.mark.parametrize(
    ("how", "kind", "why"),
    [
        ("bytes", IntegrityError, "other bytes than its name says"),
        ("missing", FormatError, "not among the objects"),
        ("stray", FormatError, "readme.txt is not named by a SHA-256"),
        ("link", FormatError, "no plain file"),
        ("short", FormatError, "not a hash of 64"),
        ("upper", FormatError, "not a hash of 64"),
        ("name", InvalidInputError, r"contains '\.\.'"),
        ("space", InvalidInputError, "contains a space"),
        ("dot", InvalidInputError, r"starts with '\.'"),
        ("head", FormatError, "HEAD holds"),
        ("log", FormatError, "line 1"),
        ("git", InvalidInputError, "is a git repository"),
        ("none", NotFoundError, "HEAD not found"),
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_what_is_damaged_is_refused_with_the_file_and_nothing_changes(
    plain: Plain, tmp_path: Path, how: str, kind: type[LancewoodError], why: str, is_new: bool
) -> None:
    target = tmp_path / "target"
    if not is_new:
        import_plain(plain.path, target)
        before = git(target, "for-each-ref")
    damage(plain, how)
    with pytest.raises(kind, match=why):
        import_plain(plain.path, target)
    if is_new:
        assert not target.exists()
        assert [each.name for each in tmp_path.iterdir()] == ["plain"]
    else:
        assert git(target, "for-each-ref") == before


def test_source_and_target_are_apart(plain: Plain) -> None:
    with pytest.raises(InvalidInputError, match="one is in the other"):
        import_plain(plain.path, plain.path / "repo")


@pytest.mark.parametrize("target", ["file", "file/target", "file/deeper/target"])
def test_a_target_where_no_folder_can_be_is_an_error_of_ours(
    plain: Plain, tmp_path: Path, target: str
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInputError, match=r"cannot be made: .*file"):
        import_plain(plain.path, tmp_path / target, author=ADA)
    assert (tmp_path / "file").read_text() == "mine"


def test_one_that_somebody_makes_meanwhile_is_imported_into(
    plain: Plain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = GitRepository.init

    def overtaken(*args: Any, **more: Any) -> GitRepository:
        init(*args, **more)
        return init(*args, **more)

    monkeypatch.setattr(importing, "_MOST_PACKED", 0)
    monkeypatch.setattr(GitRepository, "init", overtaken)
    assert import_plain(plain.path, tmp_path / "target", author=ADA).branches == 2
    check(tmp_path / "target")


def test_one_without_snapshots_is_an_empty_repository(tmp_path: Path) -> None:
    Plain(tmp_path / "plain")
    done = import_plain(tmp_path / "plain", tmp_path / "target")
    assert (done.branches, done.tags, done.snapshots) == (0, 0, 0)
    check(tmp_path / "target")
    assert git(tmp_path / "target", "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.parametrize("left", ["notes.txt", ".git"])
def test_a_folder_of_other_things_does_not_become_a_repository(
    plain: Plain, tmp_path: Path, left: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / left).write_text("mine")
    with pytest.raises(InvalidInputError, match=left):
        import_plain(plain.path, target)
    assert [each.name for each in target.iterdir()] == [left]


def test_a_bucket_is_not_a_folder_of_that_name(
    plain: Plain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for target in ("s3://bucket/x", Path("s3://bucket/x")):
        with pytest.raises(UnsupportedError, match="s3://"):
            import_plain(plain.path, target)
    assert [each.name for each in tmp_path.iterdir()] == ["plain"]
    assert import_plain(f"file://{plain.path}", "here").path == tmp_path / "here"


def test_a_commit_that_took_over_the_message_of_another_is_not_taken_for_it(
    plain: Plain, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    import_plain(plain.path, target)
    mine = git(target, "rev-parse", "v1^{tree}")
    message = git(target, "log", "-1", "--format=%B", "main")
    git(target, "update-ref", "refs/heads/main", git(target, "commit-tree", mine, "-m", message))
    with pytest.raises(AlreadyExistsError, match="refs/heads/main"):
        import_plain(plain.path, target)
    import_plain(plain.path, target, force=True)
    assert git(target, "show", "main:snapshot") == "<two/>"


def test_another_name_for_the_file_is_not_passed_over(plain: Plain, tmp_path: Path) -> None:
    target = tmp_path / "target"
    import_plain(plain.path, target, name="edit.xmp")
    with pytest.raises(AlreadyExistsError, match=r"as 'edit\.xmp', not as 'snapshot'"):
        import_plain(plain.path, target)
    assert import_plain(plain.path, target, name="edit.xmp").changed == ()


def test_a_head_that_moves_is_told(plain: Plain, tmp_path: Path) -> None:
    target = tmp_path / "target"
    import_plain(plain.path, target)
    plain.write("HEAD", "ref: refs/heads/exp/a")
    assert import_plain(plain.path, target).changed == ("HEAD",)
    assert git(target, "symbolic-ref", "HEAD") == "refs/heads/exp/a"
    assert import_plain(plain.path, target).changed == ()


@pytest.mark.parametrize(
    "ref", ["refs/lancewood/plain", "refs/lancewood/plain/x", "refs/lancewood"]
)
def test_refs_that_the_import_keeps_for_itself_are_refused(
    plain: Plain, tmp_path: Path, ref: str
) -> None:
    plain.write(ref, sha256(b"<one/>").hexdigest())
    with pytest.raises(InvalidInputError, match="keeps for itself"):
        import_plain(plain.path, tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("other", ["exp", "exp/a/deep"])
def test_a_ref_that_is_in_the_way_is_told_before_any_is_made(
    plain: Plain, tmp_path: Path, other: str
) -> None:
    target = tmp_path / "target"
    git(tmp_path, "init", "--quiet", "--bare", "-b", other, "--object-format=sha256", "target")
    tree = git(target, "hash-object", "-t", "tree", "-w", "/dev/null")
    git(target, "update-ref", f"refs/heads/{other}", git(target, "commit-tree", tree, "-m", "mine"))
    plain.write("refs/heads/before", sha256(b"<one/>").hexdigest())
    before = git(target, "for-each-ref")
    with pytest.raises(AlreadyExistsError, match=f"refs/heads/{other} is there"):
        import_plain(plain.path, target)
    assert git(target, "for-each-ref") == before
