"""Every kind of damage is told as a value, with the way out, and does not hide the rest."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.interop.git_judge import git
from tests.repo.locations import Where
from tests.repo.scene import ONE, TWO, Scene, rows

from lancewood.errors import NotFoundError, StorageError
from lancewood.git.values import Hash
from lancewood.repo.fsck import FaultKind, FsckReport
from lancewood.repo.gc.needed import TableBranch
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.repository import Repository


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    scene = Scene(Repository.init(tmp_path / "repo"), Where(tmp_path / "repo"))
    scene.begin()
    scene.both(4)
    return scene


def fsck(scene: Scene, *, deep: bool = False) -> FsckReport:
    """As a process that has read nothing yet."""
    report = scene.again().fsck(deep=deep)
    assert all(each.why and each.way_out and each.where for each in report.problems)
    for said in map(str, report.problems):
        parts = [each.strip(" .").lower() for each in re.split(r"[.;] ", said)]
        assert len(set(parts)) == len(parts), f"a sentence is said twice: {said}"
    assert report.is_ok == (not report.problems)
    return report


def kinds(report: FsckReport) -> list[FaultKind]:
    return [each.kind for each in report.problems]


def object_file(scene: Scene, hash: Hash) -> Path:
    return scene.path / "objects" / hash[:2] / hash[2:]


def test_a_whole_repository_has_no_problem(scene: Scene) -> None:
    scene.repo.branches.create("exp")
    scene.both(5, branch="exp")
    scene.repo.tags.create("v1")
    scene.repo.protect("HEAD~1")
    scene.repo.snapshot({"a/b": b"1"}, "files")
    before = {each: each.read_bytes() for each in scene.path.rglob("*") if each.is_file()}
    report = fsck(scene)
    assert report.problems == ()
    assert (report.refs, report.commits, report.pins) == (4, 4, 6)
    assert report.opened == 6
    deep = fsck(scene, deep=True)
    assert deep.is_ok
    assert deep.opened == 6
    after = {each: each.read_bytes() for each in scene.path.rglob("*") if each.is_file()}
    assert after == before, "it changes nothing"


def test_an_empty_repository_is_whole(tmp_path: Path) -> None:
    report = Repository.init(tmp_path / "empty", fsync=False).fsck(deep=True)
    assert report.is_ok
    assert (report.refs, report.commits) == (0, 0)


def test_refs_that_cannot_be_read_or_lead_nowhere_are_told_one_by_one(scene: Scene) -> None:
    (scene.path / "refs/heads/half").write_text("0123\n")
    (scene.path / "refs/heads/lost").write_text(f"{'ab' * 32}\n")
    tree = scene.repo.at().commit.tree
    (scene.path / "refs/tags/tree").write_text(f"{tree}\n")
    (scene.path / "logs/refs/heads/main").write_text("what?\n")
    report = fsck(scene)
    assert kinds(report) == [FaultKind.REF] * 4
    assert {each.where for each in report.problems} == {
        "refs/heads/half",
        "refs/heads/lost",
        "refs/tags/tree",
        "log of refs/heads/main",
    }
    assert report.commits == 2, "what can be read is read"


def test_a_head_that_names_nothing_is_told(scene: Scene) -> None:
    (scene.path / "HEAD").write_text("ref: nowhere\n")
    assert kinds(fsck(scene)) == [FaultKind.REF]


@pytest.mark.parametrize("what", ["commit", "tree", "tables", "pin"])
def test_objects_that_are_gone_are_told(scene: Scene, what: str) -> None:
    view = scene.repo.at("HEAD~1")
    objects = scene.repo._context.git.objects
    inner = objects.tree(view.commit.tree)["tables"].hash
    gone = {
        "commit": view.hash,
        "tree": view.commit.tree,
        "tables": inner,
        "pin": objects.tree(inner)[f"{ONE}.json"].hash,
    }
    object_file(scene, gone[what]).unlink()
    report = fsck(scene)
    expected = FaultKind.PIN if what == "pin" else FaultKind.HISTORY
    assert kinds(report) == [expected]
    assert view.hash[:12] in report.problems[0].where
    assert gone[what] in report.problems[0].why
    assert report.opened == 2, "the tips are whole"


def test_bytes_that_are_not_what_their_name_says_are_told(scene: Scene) -> None:
    scene.repo.snapshot({"a": b"1"}, "files")
    scene.repo.snapshot({"a": b"2"}, "files")
    blob = Hash(git(scene.path, "rev-parse", "HEAD~1:a"))
    other = Hash(git(scene.path, "rev-parse", "HEAD:a"))
    file = object_file(scene, blob)
    file.chmod(0o644)
    file.write_bytes(object_file(scene, other).read_bytes())
    assert fsck(scene).is_ok, "files are read by a deep look"
    report = fsck(scene, deep=True)
    assert kinds(report) == [FaultKind.HISTORY]
    assert "file a" in report.problems[0].where


def commit_pin(scene: Scene, change: dict[str, Any]) -> None:
    """A commit that git makes, with another text for a pin."""
    text = json.loads(git(scene.path, "show", f"HEAD:tables/{ONE}.json"))
    blob = git(scene.path, "hash-object", "-w", "--stdin", given=json.dumps({**text, **change}))
    inner = git(scene.path, "mktree", given=f"100644 blob {blob}\t{ONE}.json\n")
    tree = git(scene.path, "mktree", given=f"040000 tree {inner}\ttables\n")
    commit = git(scene.path, "commit-tree", tree, "-p", "HEAD", "-m", "odd")
    git(scene.path, "update-ref", "-m", "odd", "refs/heads/main", commit)


def test_a_pin_that_cannot_be_understood_is_told(scene: Scene) -> None:
    commit_pin(scene, {"rows": "many"})
    report = fsck(scene)
    assert FaultKind.PIN in kinds(report)
    assert any("rows is 'many'" in each.why for each in report.problems)


def test_a_pin_that_is_not_what_is_there_is_told(scene: Scene) -> None:
    commit_pin(scene, {"sha256": "0" * 64})
    report = fsck(scene)
    assert kinds(report) == [FaultKind.TABLE]
    assert "digest" in report.problems[0].why


def test_an_old_state_that_is_lost_is_found_by_a_deep_look(scene: Scene) -> None:
    pin = scene.repo.at("HEAD~1").pin(ONE)
    for each in Path(scene.uri()).glob("_versions/*.manifest"):
        if each.name == Path(pin.manifest).name or each.name == f"{(1 << 64) - 2}.manifest":
            each.unlink()
    assert fsck(scene).is_ok
    report = fsck(scene, deep=True)
    assert kinds(report) == [FaultKind.TABLE]
    assert ONE in report.problems[0].where
    with pytest.raises(NotFoundError):
        scene.again().at("HEAD~1").table(ONE)


def test_a_table_that_is_gone_is_told(scene: Scene) -> None:
    shutil.rmtree(scene.uri())
    assert FaultKind.TABLE in kinds(fsck(scene))


def without_landing(scene: Scene) -> None:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", NotLandedWarning)
        patch.setattr("lancewood.repo.commit.transaction.land", _fail)
        with scene.repo.transaction("main", message="delete") as changes:
            changes.table(ONE).delete("id = 1")


def _fail(*_: Any, **__: Any) -> None:
    raise StorageError("no answer")


def test_what_has_not_landed_is_no_problem_and_is_told(scene: Scene) -> None:
    without_landing(scene)
    report = fsck(scene)
    assert report.is_ok
    assert report.waiting == (TableBranch(ONE, "main"),)
    scene.repo.gc()
    assert fsck(scene).waiting == ()


def test_a_table_that_diverged_is_told(scene: Scene) -> None:
    without_landing(scene)
    lance.write_dataset(rows(8), scene.uri(), mode="overwrite")
    report = fsck(scene)
    assert kinds(report) == [FaultKind.DIVERGED]
    assert "commit()" in report.problems[0].way_out
    scene.repo.commit("as it stands")
    assert fsck(scene).is_ok


def test_a_tag_that_git_made_protects_nothing_until_somebody_does(scene: Scene) -> None:
    git(scene.path, "tag", "by-git")
    report = fsck(scene)
    assert kinds(report) == [FaultKind.UNPROTECTED] * 2
    assert {each.where for each in report.problems} == {f"table {ONE}", f"table {TWO}"}
    assert all("protect('refs/tags/by-git')" in each.way_out for each in report.problems)
    scene.repo.protect("refs/tags/by-git")
    assert fsck(scene).is_ok


def test_a_tag_in_a_table_that_is_gone_is_missed(scene: Scene) -> None:
    scene.repo.tags.create("v1")
    tag = next(iter(scene.pylance().tags.list()))
    scene.pylance().tags.delete(tag)
    report = fsck(scene)
    assert kinds(report) == [FaultKind.UNPROTECTED]
    assert report.problems[0].where == f"table {ONE}"


def test_protecting_keeps_a_commit_and_its_versions_until_it_is_taken_back(scene: Scene) -> None:
    lost = scene.repo.at().hash
    assert scene.repo.protect() == (TWO, ONE)
    assert scene.repo.protect() == (TWO, ONE)
    ref = f"refs/lancewood/protected/{lost}"
    assert git(scene.path, "rev-parse", ref) == lost
    git(scene.path, "fsck", "--strict")
    git(scene.path, "update-ref", "-m", "back", "refs/heads/main", "main~1")
    git(scene.path, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    git(scene.path, "gc", "--quiet", "--prune=now")
    scene.again().gc()
    assert scene.seen(lost) == [1, 2, 3, 4]
    assert len(scene.pylance().tags.list()) == 1
    scene.repo.unprotect(lost)
    assert len(scene.pylance().tags.list()) == 0
    assert git(scene.path, "for-each-ref", "refs/lancewood") == ""
    with pytest.raises(NotFoundError, match="not protected"):
        scene.repo.unprotect("main")


def test_a_branch_that_was_lost_is_told_with_where_it_was(scene: Scene) -> None:
    tip = scene.repo.at().hash
    (scene.path / "refs/heads/main").unlink()
    (found,) = fsck(scene).problems
    assert (found.kind, found.where) == (FaultKind.REF, "refs/heads/main")
    assert tip in found.why
    scene.again().branches.create("main", tip)
    assert fsck(scene).is_ok


def test_a_branch_that_was_about_to_be_made_is_no_problem(scene: Scene) -> None:
    scene.repo.branches.create("exp")
    (scene.path / "refs/heads/exp").unlink()
    assert fsck(scene).is_ok


def test_logs_of_annotated_tags_name_no_commits_and_are_no_problem(scene: Scene) -> None:
    git(scene.path, "tag", "--annotate", "--message=told", "v1")
    scene.repo.protect("v1")
    assert (scene.path / "logs/refs/tags/v1").exists()
    assert fsck(scene, deep=True).is_ok
