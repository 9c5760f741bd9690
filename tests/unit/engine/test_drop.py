"""What a drop refuses, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS)
    return location


def test_branches_and_tags_are_named_as_people_know_them(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.create_branch("team/exp")
    dataset.tags.create("v1.0", 1)
    with pytest.raises(lw.InvalidInputError, match=r"branch team/exp, tag v1\.0;") as refused:
        lw.drop(uri)
    assert refused.value.facts["holds"] == ["branch team/exp", "tag v1.0"]
    assert lw.open(uri).count_rows() == 3
    lw.drop(uri, force=True)
    assert not Path(uri).exists()


def test_the_pin_of_a_clone_is_called_a_clone(uri: str) -> None:
    tags = Path(uri) / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "lw.clone.0f3a.json").write_text("{}")
    with pytest.raises(lw.InvalidInputError, match=r"a clone \(its pin is tag lw\.clone\.0f3a\)"):
        lw.drop(uri)


def test_a_clone_is_named_by_its_place(uri: str, tmp_path: Path) -> None:
    lw.open(uri).clone(tmp_path / "c")
    with pytest.raises(lw.InvalidInputError, match=rf"a clone at {tmp_path}/c \(its pin is tag"):
        lw.drop(uri)


def test_many_names_are_counted(uri: str) -> None:
    tags = Path(uri) / "_refs" / "tags"
    tags.mkdir(parents=True)
    for number in range(8):
        (tags / f"v{number}.json").write_text("{}")
    with pytest.raises(lw.InvalidInputError, match="tag v4 and 3 more"):
        lw.drop(uri)


def test_a_branch_that_no_ref_names_is_a_reason_too(uri: str) -> None:
    orphan = Path(uri) / "tree" / "a" / "b" / "_versions"
    orphan.mkdir(parents=True)
    (orphan / "18446744073709551614.manifest").write_bytes(b"x")
    with pytest.raises(lw.InvalidInputError, match="tree/a/b, which has versions but no branch"):
        lw.drop(uri)
    assert lw.exists(uri)


def test_other_files_among_the_refs_and_an_empty_tree_are_no_reason(uri: str) -> None:
    tags = Path(uri) / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / ".DS_Store").write_text("")
    (Path(uri) / "tree" / "gone" / "data").mkdir(parents=True)
    (Path(uri) / "notes.txt").write_text("mine")
    lw.drop(uri)
    assert [each.name for each in Path(uri).rglob("*") if each.is_file()] == ["notes.txt"]


@pytest.mark.parametrize("directory", ["data", "_transactions", "_deletions", "_indices"])
def test_a_directory_behind_a_link_stops_it_before_anything_is_gone(
    tmp_path: Path, directory: str
) -> None:
    uri, elsewhere = tmp_path / "t.lance", tmp_path / "elsewhere"
    lw.create(uri, pa.table({"a": [1]}))
    (uri / directory).rename(elsewhere) if (uri / directory).exists() else elsewhere.mkdir()
    (uri / directory).symlink_to(elsewhere)
    before = sorted(uri.rglob("*"))
    with pytest.raises(lw.InvalidInputError, match="symbolic link"):
        lw.drop(uri)
    assert sorted(uri.rglob("*")) == before


def test_the_bytes_of_blobs_go_with_their_data_files(tmp_path: Path) -> None:
    blobs = pa.array([b"x" * 100_000, b"y" * 6_000_000], pa.large_binary())
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    uri = tmp_path / "t.lance"
    lance.write_dataset(pa.table([blobs], schema=pa.schema([field])), uri)
    assert list(uri.glob("data/*/*.blob"))
    (uri / "data" / "notes.txt").write_text("not the format's")
    lw.drop(uri)
    assert [each.name for each in uri.rglob("*") if each.is_file()] == ["notes.txt"]


def test_a_branch_is_not_dropped_by_its_path(uri: str) -> None:
    table = lw.open(uri)
    branch = table.branches.create("team/exp").append(ROWS)
    branch.branches.create("sub")
    for force in (False, True):
        with pytest.raises(lw.InvalidInputError, match=r"branches\.delete\('team/exp'\)"):
            lw.drop(branch.uri, force=force)
    assert table.checkout(branch="sub").to_arrow().num_rows == 6
    lw.drop(uri, force=True)
    assert not Path(uri).exists()


def test_a_branch_that_was_brought_elsewhere_is_dropped(uri: str, tmp_path: Path) -> None:
    branch = lw.open(uri).branches.create("exp")
    Path(branch.uri).rename(tmp_path / "alone.lance")
    lw.drop(tmp_path / "alone.lance")
    assert not (tmp_path / "alone.lance").exists()
