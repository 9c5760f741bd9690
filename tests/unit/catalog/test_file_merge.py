"""What becomes of a file that both sides changed: modes, kinds, directories, and who is favored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.interop.git_judge import ADA

from lancewood.catalog.files import merge_files
from lancewood.git.objects import FILE, LINK, PROGRAM, TREE, Objects, TreeEntry
from lancewood.git.text_merge import Favor

TEXT = b"".join(b"%d\n" % each for each in range(9))


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path, fsync=False)


class Sides:
    """One name, ``f``, as it is in the base, here and there."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def file(self, data: bytes, mode: int = FILE) -> TreeEntry:
        return TreeEntry(mode, self.objects.put_blob(data))

    def directory(self, inner: Mapping[str, TreeEntry]) -> TreeEntry:
        return TreeEntry(TREE, self.objects.put_tree(inner))

    def merged(
        self,
        base: TreeEntry | None,
        ours: TreeEntry | None,
        theirs: TreeEntry | None,
        favor: Favor | None = None,
    ) -> TreeEntry | str | None:
        """The result, or why there is none."""
        then, here, there = ({} if each is None else {"f": each} for each in (base, ours, theirs))
        commit = self.objects.put_commit(self.objects.put_tree(then), (), ADA, "base")
        found, conflicts = merge_files(self.objects, [commit], here, there, favor=favor)
        if conflicts:
            assert [each.path for each in conflicts] == ["f"]
            return conflicts[0].why
        return found.get("f")


@pytest.fixture
def sides(objects: Objects) -> Sides:
    return Sides(objects)


def test_a_mode_and_a_content_that_were_changed_apart_go_together(sides: Sides) -> None:
    file = sides.file
    new = TEXT + b"9\n"
    for ours, theirs in (
        (file(TEXT, PROGRAM), file(new)),
        (file(new), file(TEXT, PROGRAM)),
        (file(new, PROGRAM), file(TEXT, PROGRAM)),
    ):
        assert sides.merged(file(TEXT), ours, theirs) == file(new, PROGRAM)
    assert sides.merged(None, file(TEXT), file(TEXT, PROGRAM)) == "two modes"


def test_what_was_deleted_on_one_side_and_changed_on_the_other_is_a_conflict(sides: Sides) -> None:
    base, new = sides.file(TEXT), sides.file(b"new")
    for favor in ("ours", "theirs"):  # git's -X does not decide that either
        assert sides.merged(base, None, new, favor) == "deleted here, changed there"
    assert sides.merged(base, new, None) == "changed here, deleted there"
    assert sides.merged(base, None, None) is None
    assert sides.merged(base, base, None) is None
    assert sides.merged(base, None, base) is None


def test_what_both_added_must_be_the_same(sides: Sides) -> None:
    one, other = sides.file(b"a\nb\n"), sides.file(b"a\nc\n")
    assert sides.merged(None, one, one) == one
    assert sides.merged(None, one, other) == "the same lines were changed"
    assert sides.merged(None, one, other, "theirs") == other


def test_a_favored_side_counts_for_conflicts_only_and_for_what_is_no_text(sides: Sides) -> None:
    base = sides.file(TEXT)
    ours, theirs = sides.file(b"o\n" + TEXT[2:]), sides.file(b"t\n" + TEXT[2:] + b"9\n")
    assert sides.merged(base, ours, theirs) == "the same lines were changed"
    assert sides.merged(base, ours, theirs, "ours") == sides.file(b"o\n" + TEXT[2:] + b"9\n")
    assert sides.merged(base, ours, theirs, "theirs") == theirs
    ours, theirs = sides.file(b"\0o"), sides.file(b"\0t")
    assert sides.merged(base, ours, theirs) == "changed on both sides, and no text"
    assert sides.merged(base, ours, theirs, "ours") == ours
    assert sides.merged(base, ours, theirs, "theirs") == theirs


def test_a_link_is_never_merged_and_taken_where_one_side_changed_it(sides: Sides) -> None:
    link, other = sides.file(b"a", LINK), sides.file(b"b", LINK)
    assert sides.merged(link, link, other) == other
    assert sides.merged(link, sides.file(b"c", LINK), other) == "not a file on both sides"
    assert sides.merged(None, link, sides.file(TEXT)) == "not a file on both sides"


def test_a_file_and_a_directory_of_one_name_are_judged_apart(sides: Sides) -> None:
    base, inner = sides.file(TEXT), sides.directory({"g": sides.file(b"g")})
    assert sides.merged(base, None, inner) == inner
    assert sides.merged(None, base, inner) == "a file on one side, a directory on the other"
    more = sides.directory({"g": sides.file(b"g"), "h": sides.file(b"h")})
    assert sides.merged(inner, None, more) == sides.directory({"h": sides.file(b"h")})
