"""Which repositories a table belongs to: by where it lies, or by the tags that it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.catalog.membership import (
    REPOSITORY_ID,
    REPOSITORY_PATH,
    TABLE_NAMES,
    Membership,
    is_repository,
    join,
    member_tag,
    repositories_of,
)
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.revisions import open_revision
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.errors import AlreadyExistsError, FormatError, InvalidInputError
from lancewood.format.refs import tag_key
from lancewood.store.disk import DiskStore

ID = "1234abcd-0000-4000-8000-000000000000"
SAME_TAG = "1234abcd-0000-4fff-8000-000000000000"
ROWS = pa.table({"a": [1, 2, 3]})


def repository(path: Path, *, config: str = f"[lancewood]\n\tid = {ID}\n") -> Path:
    """What a repository looks like from outside."""
    (path / "objects").mkdir(parents=True)
    (path / "refs").mkdir()
    (path / "tables").mkdir()
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    (path / "config").write_text(f"[core]\n\tbare = true\n{config}")
    return path


def made(path: Path) -> Snapshot:
    lw.create(path, ROWS)
    return load_snapshot(Location(DiskStore(path)))


def test_a_table_of_its_own_belongs_to_nobody(tmp_path: Path) -> None:
    assert repositories_of(made(tmp_path / "tables" / "t.lance")) == ()
    assert repositories_of(made(tmp_path / "t.lance")) == ()


def test_a_table_in_memory_belongs_to_nobody() -> None:
    lw.create("memory://membership/t", ROWS)
    assert repositories_of(lw.open("memory://membership/t")._snapshot) == ()


def test_a_table_below_a_repository_belongs_to_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = made(repo / "tables" / "photos.lance")
    assert repositories_of(snapshot) == (Membership(repo, ("photos",)),)
    assert not join(snapshot, repo, ID, "photos")
    assert lw.open(repo / "tables" / "photos.lance").tags.list(pins=True) == {}


def test_a_branch_belongs_where_its_table_does(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made(repo / "tables" / "photos.lance")
    lw.open(repo / "tables" / "photos.lance").branches.create("exp")
    location = Location(DiskStore(repo / "tables" / "photos.lance"))
    found = open_revision(location, branch="exp")
    assert found.manifest.branch == "exp"
    assert repositories_of(found) == (Membership(repo, ("photos",)),)


def test_it_moves_with_its_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made(repo / "tables" / "photos.lance")
    moved = tmp_path / "moved"
    shutil.move(repo, moved)
    snapshot = load_snapshot(Location(DiskStore(moved / "tables" / "photos.lance")))
    assert repositories_of(snapshot) == (Membership(moved, ("photos",)),)


def test_a_table_that_is_opened_through_a_link_belongs_to_its_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made(repo / "tables" / "photos.lance")
    link = tmp_path / "elsewhere"
    link.symlink_to(repo / "tables" / "photos.lance")
    found = repositories_of(load_snapshot(Location(DiskStore(link))))
    assert found == (Membership(repo, ("photos",)),)


def test_a_link_of_one_repository_into_another_leaves_the_table_to_both(tmp_path: Path) -> None:
    """What is cleaned up through the link spares the versions that its own repository pins."""
    own, other = repository(tmp_path / "own"), repository(tmp_path / "other")
    made(own / "tables" / "photos.lance")
    (other / "tables" / "photos.lance").symlink_to(own / "tables" / "photos.lance")
    through = load_snapshot(Location(DiskStore(other / "tables" / "photos.lance")))
    found = repositories_of(through)
    assert found == (Membership(other, ("photos",)), Membership(own, ("photos",)))


def test_tables_on_another_disk_behind_a_link_get_a_tag(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "tables").rmdir()
    (tmp_path / "big").mkdir()
    (repo / "tables").symlink_to(tmp_path / "big")
    snapshot = made(repo / "tables" / "photos.lance")
    assert join(snapshot, repo, ID, "photos")
    direct = load_snapshot(Location(DiskStore(tmp_path / "big" / "photos.lance")))
    assert repositories_of(direct) == (Membership(repo, ("photos",), ID, member_tag(ID)),)


@pytest.mark.parametrize("missing", ["HEAD", "objects", "refs", "config"])
def test_a_repository_that_lost_a_part_still_owns_its_tables(tmp_path: Path, missing: str) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = made(repo / "tables" / "photos.lance")
    path = repo / missing
    path.rmdir() if path.is_dir() else path.unlink()
    assert is_repository(repo)
    assert repositories_of(snapshot) == (Membership(repo, ("photos",)),)


@pytest.mark.parametrize("missing", [("objects", "refs"), ("config", "HEAD"), ("config", "refs")])
def test_what_is_no_repository_owns_nothing(tmp_path: Path, missing: tuple[str, str]) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = made(repo / "tables" / "photos.lance")
    for path in (repo / each for each in missing):
        path.rmdir() if path.is_dir() else path.unlink()
    assert not is_repository(repo)
    assert repositories_of(snapshot) == ()


@pytest.mark.parametrize("config", ["", "[other]\n\tid = lancewood\n", "# [lancewood]\n"])
def test_a_git_repository_of_somebody_else_owns_nothing(tmp_path: Path, config: str) -> None:
    repo = repository(tmp_path / "repo", config=config)
    assert repositories_of(made(repo / "tables" / "photos.lance")) == ()


def test_a_table_elsewhere_says_who_took_it_in(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = made(tmp_path / "photos.lance")
    assert join(snapshot, repo, ID, "pictures")
    assert repositories_of(snapshot) == (Membership(repo, ("pictures",), ID, member_tag(ID)),)
    found = lw.open(tmp_path / "photos.lance").tags.list(pins=True)["lw.repo.1234abcd0000"]
    assert found.version == 1
    assert dict(found.metadata) == {
        REPOSITORY_ID: ID,
        REPOSITORY_PATH: str(repo),
        TABLE_NAMES: "pictures",
    }


def test_joining_again_tells_the_new_place_and_the_new_name(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = made(tmp_path / "photos.lance")
    join(snapshot, repo, ID, "pictures")
    assert not join(snapshot, repo, ID, "pictures")
    moved = tmp_path / "moved"
    shutil.move(repo, moved)
    lw.open(tmp_path / "photos.lance").append(ROWS)
    newer = load_snapshot(snapshot.location)
    assert join(newer, moved, ID, "again")
    (found,) = repositories_of(newer)
    assert found == Membership(moved, ("again", "pictures"), ID, member_tag(ID))
    tag = lw.open(tmp_path / "photos.lance").tags.list(pins=True)[str(found.tag)]
    assert tag.version == 1, "the version that it was taken in at stays"


def test_a_copy_gets_a_tag_of_its_own_as_long_as_the_first_is_there(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = made(tmp_path / "photos.lance")
    join(snapshot, repo, ID, "photos")
    copy = tmp_path / "copy"
    shutil.copytree(repo, copy)
    assert join(snapshot, copy, ID, "photos")
    assert not join(snapshot, copy, ID, "photos")
    assert not join(snapshot, repo, ID, "photos")
    both = repositories_of(snapshot)
    assert {each.repository for each in both} == {repo, copy}
    assert {each.id for each in both} == {ID}


def test_a_table_may_belong_to_several(tmp_path: Path) -> None:
    home, other = repository(tmp_path / "home"), repository(tmp_path / "other")
    snapshot = made(home / "tables" / "photos.lance")
    join(snapshot, other, ID, "theirs")
    assert repositories_of(snapshot) == (
        Membership(home, ("photos",)),
        Membership(other, ("theirs",), ID, member_tag(ID)),
    )


def test_two_repositories_with_the_same_tag_are_told_apart(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "photos.lance")
    join(snapshot, repository(tmp_path / "repo"), ID, "photos")
    with pytest.raises(AlreadyExistsError, match=f"belongs to repository {ID}"):
        join(snapshot, repository(tmp_path / "other"), SAME_TAG, "photos")
    assert len(repositories_of(snapshot)) == 1


def test_a_bad_name_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "photos.lance")
    with pytest.raises(InvalidInputError, match="table name"):
        join(snapshot, repository(tmp_path / "repo"), ID, "a b")
    assert repositories_of(snapshot) == ()


def test_a_tag_that_names_no_repository_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "photos.lance")
    lw.open(tmp_path / "photos.lance").tags.create("lw.repo.0123456789ab", force=True)
    with pytest.raises(FormatError, match=r"tags\.delete\('lw\.repo\.0123456789ab', force=True\)"):
        repositories_of(snapshot)


def test_a_damaged_tag_is_named(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "photos.lance")
    join(snapshot, repository(tmp_path / "repo"), ID, "photos")
    key = tag_key(member_tag(ID))
    (tmp_path / "photos.lance" / key).write_bytes(b"{")
    with pytest.raises(FormatError, match=key):
        repositories_of(snapshot)


def test_nobody_else_is_asked_about_a_table_without_tags(tmp_path: Path) -> None:
    """One listing of tags, and no manifest is read."""
    snapshot = made(tmp_path / "photos.lance")
    for each in (tmp_path / "photos.lance" / "_versions").iterdir():
        each.unlink()
    assert repositories_of(snapshot) == ()
