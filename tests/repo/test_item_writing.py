"""Snapshots of items: exactly once for a run, whole or not at all, and stock git reads them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.interop.git_judge import check, git

import lancewood as lw
from lancewood.errors import InvalidInputError, StorageError
from lancewood.git.refs import Refs
from lancewood.git.repository import GitRepository
from lancewood.git.values import Signature
from lancewood.items import writing
from lancewood.items.folder import checked_item, find_items, first_folders
from lancewood.items.outcome import ItemDone, ItemOutcome, Tally, checked_run, run_of, with_run
from lancewood.items.writing import FileRow, ItemWriter, Snapshots, item_files

ADA = Signature("Ada", "ada@example.org", 1_800_000_000, 0)


def wrote(
    folder: Path,
    files: Mapping[str, Mapping[str, bytes | None]],
    run: str = "r1",
    **choices: Any,
) -> dict[str, ItemOutcome]:
    """What became of items, by their names."""
    mode = choices.get("mode", "replace")
    writer = ItemWriter(str(folder), Snapshots(run, ADA, **choices))
    found = {}
    for item, each in files.items():
        rows = [FileRow(path, content) for path, content in each.items()]
        found[item] = writer.write(item_files(item, rows, mode, "edit"))
    writer.settle()
    return found


def done(found: Mapping[str, ItemOutcome]) -> dict[str, str]:
    return {item: each.done.value for item, each in found.items()}


def test_a_new_item_is_a_repository_that_git_and_lancewood_read(tmp_path: Path) -> None:
    files = {"edit.xmp": b"<x/>", "a/b/c.bin": bytes(range(256)), "empty": b""}
    found = wrote(tmp_path, {"ab/cd/img 1": files})
    path = tmp_path / "ab/cd/img 1"
    assert done(found) == {"ab/cd/img 1": "written"}
    check(path)
    assert git(path, "rev-parse", "main") == found["ab/cd/img 1"].hash
    assert git(path, "log", "--format=%s|%(trailers:key=Lancewood-Run,valueonly)") == "edit|r1"
    view = lw.Repository.open(path).at()
    assert {each: view.read(each) for each in view.files} == files
    assert not (tmp_path / ".lancewood").exists()


def test_a_new_item_costs_ten_files_and_directories(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"one": b"1", "two": b"2", "three": b"3"}})
    assert len([*(tmp_path / "a").rglob("*")]) + 1 == 10


def test_the_same_run_makes_no_second_snapshot_whatever_its_content(tmp_path: Path) -> None:
    first = wrote(tmp_path, {"a": {"x": b"1"}})
    assert done(wrote(tmp_path, {"a": {"x": b"1"}})) == {"a": "already"}
    again = wrote(tmp_path, {"a": {"x": b"2"}})
    assert done(again) == {"a": "already"}
    assert again["a"].hash == first["a"].hash
    assert git(tmp_path / "a", "rev-list", "--count", "main") == "1"


def test_a_run_is_found_below_what_others_committed_since(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}})
    wrote(tmp_path, {"a": {"x": b"2"}}, "r2")
    path = tmp_path / "a"
    tree = git(path, "rev-parse", "main^{tree}")
    old = git(path, "commit-tree", tree, "-p", "main", "-m", "by hand, with a clock that is wrong")
    git(path, "update-ref", "refs/heads/main", old)
    assert done(wrote(tmp_path, {"a": {"x": b"3"}})) == {"a": "already"}
    assert git(path, "rev-parse", "main") == old


def test_same_files_are_no_snapshot_and_the_same_tree_everywhere(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1", "y/z": b"2"}, "b": {"y/z": b"2", "x": b"1"}})
    assert done(wrote(tmp_path, {"a": {"x": b"1", "y/z": b"2"}}, "r2")) == {"a": "unchanged"}
    trees = {git(tmp_path / each, "rev-parse", "main^{tree}") for each in ("a", "b")}
    assert len(trees) == 1


def test_replace_leaves_out_and_update_keeps_and_removes(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1", "d/y": b"2", "d/z": b"3"}})
    wrote(
        tmp_path, {"a": {"d/y": None, "d/z": None, "new": b"4", "gone": None}}, "r2", mode="update"
    )
    listed = git(tmp_path / "a", "ls-tree", "-r", "--name-only", "main")
    assert listed.split() == ["new", "x"]
    wrote(tmp_path, {"a": {"only": b"5"}}, "r3")
    assert git(tmp_path / "a", "ls-tree", "-r", "--name-only", "main") == "only"
    check(tmp_path / "a")


def test_update_of_what_is_not_there_makes_the_item_unless_it_only_removes(tmp_path: Path) -> None:
    found = wrote(tmp_path, {"a": {"x": b"1"}, "b": {"x": None}}, mode="update")
    assert done(found) == {"a": "written", "b": "unchanged"}
    assert [*find_items(str(tmp_path))] == ["a"]


def test_a_branch_that_is_not_there_begins_at_head(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}})
    wrote(tmp_path, {"a": {"x": b"2"}, "b": {"x": b"2"}}, "r2", branch="exp")
    path = tmp_path / "a"
    assert git(path, "rev-list", "--count", "exp") == "2"
    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(tmp_path / "b", "symbolic-ref", "HEAD") == "refs/heads/exp"
    same = wrote(tmp_path, {"a": {"x": b"1"}}, "r3", branch="same")
    assert done(same) == {"a": "unchanged"}
    assert git(path, "rev-parse", "same") == git(path, "rev-parse", "main")


def test_a_branch_is_not_made_for_what_is_refused(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}})
    found = wrote(tmp_path, {"a": {"x/y": b"2"}}, "r2", branch="exp", mode="update")
    assert done(found) == {"a": "refused"}
    assert git(tmp_path / "a", "branch", "--format=%(refname)") == "refs/heads/main"


def test_a_detached_head_needs_a_branch(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}})
    git(
        tmp_path / "a", "update-ref", "--no-deref", "HEAD", git(tmp_path / "a", "rev-parse", "HEAD")
    )
    found = wrote(tmp_path, {"a": {"x": b"2"}}, "r2")
    assert done(found) == {"a": "refused"}
    assert "detached" in str(found["a"].why)
    assert done(wrote(tmp_path, {"a": {"x": b"2"}}, "r2", branch="main")) == {"a": "written"}


@pytest.mark.parametrize("left", [(), ("objects", "refs"), ("objects", "refs/heads", "config")])
def test_an_item_whose_making_was_cut_off_is_gone_on_from(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    path = tmp_path / "a"
    path.mkdir()
    for each in left:
        if each == "config":
            GitRepository.init(tmp_path / "other")
            (path / "config").write_bytes((tmp_path / "other/config").read_bytes())
        else:
            (path / each).mkdir(parents=True)
    assert done(wrote(tmp_path, {"a": {"x": b"1"}})) == {"a": "written"}
    check(path)


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_item_that_lost_its_head_is_not_begun_anew(tmp_path: Path, is_packed: bool) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}}, branch="exp")
    if is_packed:
        git(tmp_path / "a", "pack-refs", "--all")
    (tmp_path / "a" / "HEAD").unlink()
    found = wrote(tmp_path, {"a": {"x": b"2"}}, "r2")
    assert done(found) == {"a": "refused"}
    assert "lost its HEAD" in str(found["a"].why)
    assert not (tmp_path / "a" / "HEAD").exists()


def test_an_update_writes_each_directory_once(tmp_path: Path) -> None:
    files: dict[str, bytes | None] = {f"d/e/{number}": b"%d" % number for number in range(20)}
    wrote(tmp_path, {"a": files})
    path = tmp_path / "a"
    more: dict[str, bytes | None] = {f"d/e/{number}": b"%d!" % number for number in range(10)}
    wrote(tmp_path, {"a": more}, "r2", mode="update")
    assert git(path, "count-objects").split()[0] == str(10 + 3 + 1)
    wrote(tmp_path, {"a": dict.fromkeys(files)}, "r3", mode="update")
    assert git(path, "ls-tree", "HEAD") == ""
    # The tree without files, and the commit.
    assert git(path, "count-objects").split()[0] == str(10 + 3 + 1 + 2)
    check(path)


def test_a_death_before_the_name_leaves_nothing_that_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Death(BaseException):
        pass

    def die(*_: object) -> None:
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr("lancewood.items.writing.os.rename", die)
        patch.setattr("lancewood.items.writing.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(Death):
            writing.ItemWriter(str(tmp_path), Snapshots("r1", ADA)).write(
                item_files("a", [FileRow("x", b"1")], "replace", "edit")
            )
    assert [*find_items(str(tmp_path))] == []
    left = [*(tmp_path / ".lancewood").iterdir()]
    assert left
    os.utime(left[0], (0, 0))
    assert done(wrote(tmp_path, {"a": {"x": b"1"}})) == {"a": "written"}
    assert not (tmp_path / ".lancewood").exists()


def test_what_others_keep_where_new_items_are_made_is_not_removed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for each in (mine / "old", mine / ("0" * 16), tmp_path / "photos/.lancewood/notes"):
        each.mkdir(parents=True)
        os.utime(each, (0, 0))
    assert done(wrote(tmp_path / "photos", {"a": {"x": b"1"}})) == {"a": "written"}
    assert (tmp_path / "photos/.lancewood/notes").exists()

    (tmp_path / "other").mkdir()
    (tmp_path / "other/.lancewood").symlink_to(mine)
    found = wrote(tmp_path / "other", {"a": {"x": b"1"}})
    assert done(found) == {"a": "refused"}
    assert "is a link" in str(found["a"].why)
    assert {each.name for each in mine.iterdir()} == {"old", "0" * 16}


def test_attempts_at_the_same_moment_make_one_snapshot(tmp_path: Path) -> None:
    wrote(tmp_path, {f"old{number}": {"x": b"0"} for number in range(5)}, "r0")
    names = [f"{kind}{number}" for kind in ("old", "new") for number in range(5)]
    files = {each: {"x": b"1"} for each in names}
    found: list[dict[str, ItemOutcome]] = []
    gate = threading.Barrier(3)

    def attempt() -> None:
        gate.wait()
        found.append(wrote(tmp_path, files))

    threads = [threading.Thread(target=attempt) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for name in names:
        assert sorted(one[name].done for one in found) == ["already", "already", "written"]
        assert len({one[name].hash for one in found}) == 1
        wanted = "2" if name.startswith("old") else "1"
        assert git(tmp_path / name, "rev-list", "--count", "main") == wanted


def test_a_ref_that_git_moves_meanwhile_is_built_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}})
    path, real, moved = tmp_path / "a", Refs.move, list[str]()

    def move(self: Refs, *given: Any, **told: Any) -> bool:
        if not moved:
            tree = git(path, "rev-parse", "main^{tree}")
            moved.append(git(path, "commit-tree", tree, "-p", "main", "-m", "meanwhile"))
            git(path, "update-ref", "refs/heads/main", moved[0])
        return real(self, *given, **told)

    monkeypatch.setattr(Refs, "move", move)
    assert done(wrote(tmp_path, {"a": {"x": b"2"}}, "r2")) == {"a": "written"}
    assert git(path, "rev-parse", "main~1") == moved[0]


def test_items_that_git_packed_are_written_and_read(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1", "y": b"2"}})
    wrote(tmp_path, {"a": {"x": b"2", "y": b"2"}}, "r2")
    path = tmp_path / "a"
    git(path, "pack-refs", "--all")
    git(path, "gc", "--quiet")
    assert done(wrote(tmp_path, {"a": {"x": b"3"}})) == {"a": "already"}
    assert done(wrote(tmp_path, {"a": {"x": b"3"}}, "r3")) == {"a": "written"}
    check(path)
    assert git(path, "rev-list", "--count", "main") == "3"


def test_items_are_not_in_each_other_nor_beside_other_things(tmp_path: Path) -> None:
    wrote(tmp_path, {"a": {"x": b"1"}, "d/b": {"x": b"1"}})
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "notes.txt").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("mine")
    wanted = {
        "a/b": "items are not in each other",
        "a/objects/c": "items are not in each other",
        "d": "items are not in each other",
        "plain": "notes.txt",
        "link/x": "link",
        "link": "link",
        "file": "no folder",
        "file/x": "no folder",
    }
    found = wrote(tmp_path, {each: {"x": b"2"} for each in wanted}, "r2")
    for item, why in wanted.items():
        assert found[item].done is ItemDone.REFUSED, item
        assert why in str(found[item].why), (item, found[item].why)
    assert [*find_items(str(tmp_path))] == ["a", "d/b"]
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_an_item_that_is_a_link_is_not_written_even_if_it_leads_to_a_repository(
    tmp_path: Path,
) -> None:
    wrote(tmp_path / "out", {"real": {"x": b"1"}})
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "out" / "real")
    (inside / "folder").symlink_to(tmp_path / "out")
    found = [
        wrote(inside, {"link": {"x": b"2"}}, "r2"),
        wrote(inside, {"link": {"x": None}}, "r3", mode="update"),
        wrote(inside, {"folder/real": {"x": None}}, "r4", mode="update"),
    ]
    assert [each.done for one in found for each in one.values()] == [ItemDone.REFUSED] * 3
    assert all("is a link" in str(each.why) for one in found for each in one.values())
    assert git(tmp_path / "out/real", "rev-list", "--count", "main") == "1"


@pytest.mark.parametrize(("item", "other"), [("z/b", "z"), ("z", "z/b")])
def test_items_that_two_tasks_make_in_each_other_at_the_same_moment_are_not_both_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: str, other: str
) -> None:
    real = writing.make_whole

    def second(path: str, **told: Any) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(writing, "make_whole", real)
            assert done(wrote(tmp_path, {other: {"x": b"1"}})) == {other: "written"}
        return real(path, **told)

    monkeypatch.setattr(writing, "make_whole", second)
    found = wrote(tmp_path, {item: {"x": b"1"}})
    assert done(found) == {item: "refused"}
    assert "items are not in each other" in str(found[item].why)
    assert [*find_items(str(tmp_path))] == [other]
    check(tmp_path / other)
    assert {each.name for each in tmp_path.iterdir()} == {"z"}
    assert not (tmp_path / "z" / "b").exists() or other == "z/b"


REFUSED = {
    "": "empty",
    "/etc": "absolute",
    "a/../b": "leads elsewhere",
    "..": "leads elsewhere",
    "a//b": "empty",
    "a/": "empty",
    "a\0b": "NUL",
    "a\\b": "backslash",
    ".git": "git keeps",
    "a/.GIT": "git keeps",
    ".lancewood/x": "new items are made",
    "HEAD": "taken for one",
    "ab/refs/x": "taken for one",
    "\ud800": "UTF-8",
    "x" * 251: "no disk",
    "/".join(["abcd"] * 300): "1024",
    ".tmp0123456789abcdef": "not finished",
}


@pytest.mark.parametrize("item", REFUSED)
def test_names_that_lead_elsewhere_are_refused(item: str) -> None:
    with pytest.raises(InvalidInputError, match=REFUSED[item]):
        checked_item(item)


@pytest.mark.parametrize("item", ["ä/ö 1", "new\nline", "日本", ".hidden", "objects", "a.git"])
def test_names_that_a_disk_holds_are_items(tmp_path: Path, item: str) -> None:
    assert done(wrote(tmp_path, {item: {"x": b"1"}})) == {item: "written"}
    assert [*find_items(str(tmp_path))] == [item]
    check(tmp_path / item)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([FileRow(None, b"")], "path: it is null"),
        ([FileRow("x", None)], "content: it is null"),
        ([FileRow("x", b"1"), FileRow("x", b"1")], "more than one row for 'x'"),
        ([FileRow("x", b"1"), FileRow("x/y", b"1")], "cannot be a file and the directory"),
        ([FileRow("../x", b"1")], "leads elsewhere"),
        ([FileRow("tables/x", b"1")], "pins of tables"),
        ([FileRow("x", b"", "one"), FileRow("y", b"", "two")], "2 messages"),
        ([FileRow("x", b"", " ")], "needs a message"),
        ([FileRow("x", b"", "a\n\nLancewood-Run: r9")], "Lancewood-Run"),
        ([FileRow("x", b"", "\udcff")], "not UTF-8"),
    ],
)
def test_rows_that_are_no_snapshot_are_refused(rows: list[FileRow], why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        item_files("a", rows, "replace", "edit")


@pytest.mark.parametrize(
    ("message", "whole"),
    [
        ("edit", "edit\n\nLancewood-Run: r"),
        ("edit\n\nmore\n", "edit\n\nmore\n\nLancewood-Run: r"),
        ("edit\n\nSigned-off-by: Ada", "edit\n\nSigned-off-by: Ada\nLancewood-Run: r"),
        ("Fix: it", "Fix: it\n\nLancewood-Run: r"),
    ],
)
def test_the_run_is_a_trailer_beside_others(message: str, whole: str) -> None:
    assert with_run(message, "r") == whole
    assert run_of(whole) == "r"
    assert run_of(message) is None


@pytest.mark.parametrize("run", ["", "a b", "a\nb", "x" * 101, "\udcff", 1, None])
def test_run_ids_are_one_word(run: object) -> None:
    with pytest.raises(InvalidInputError, match="run id"):
        checked_run(run)


def test_what_is_no_item_is_passed_over_and_half_an_item_is_not(tmp_path: Path) -> None:
    wrote(tmp_path, {"only/one/x": {"f": b""}, "only/one/y/z": {"f": b""}})
    (tmp_path / "only/one/half/objects").mkdir(parents=True)
    (tmp_path / "only/one/half/refs").mkdir()
    (tmp_path / "only/one/empty").mkdir()
    (tmp_path / "only/one/tree/.git").mkdir(parents=True)
    (tmp_path / "only/one/link").symlink_to(tmp_path)
    names = ["only/one/half", "only/one/x", "only/one/y/z"]
    assert [*find_items(str(tmp_path))] == names
    assert {*first_folders(str(tmp_path))} >= {"only/one/half", "only/one/x", "only/one/y"}


def test_a_failing_disk_is_raised_for_another_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_pack", full)
        with pytest.raises(StorageError, match="No space left"):
            wrote(tmp_path, {"a": {"x": b"1"}})
    assert done(wrote(tmp_path, {"a": {"x": b"1"}})) == {"a": "written"}


def test_refusals_are_raised_as_what_they_are_with_figures() -> None:
    tally = Tally()
    tally.add(ItemOutcome("a", ItemDone.WRITTEN))
    for number in range(12):
        tally.add(ItemOutcome.refused(f"b{number}", InvalidInputError("it is bad")))
    again = Tally.joined([tally.encode(), Tally().encode()])
    with pytest.raises(InvalidInputError, match=r"12 of 13 items: 'b0': it is bad.* and 2 more"):
        again.check("writing refused")
