"""Where a pin leads: below the repository wherever that is now, or to a full uri."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.catalog.pins import some_pin

from lancewood.catalog.opening import TableStores, location_of, main_location_of, pinned_uri
from lancewood.errors import InvalidInputError
from lancewood.model.refs import BranchName


def test_a_table_below_the_repository_is_written_relative_to_it(tmp_path: Path) -> None:
    root = str(tmp_path / "tables" / "photos.lance")
    assert pinned_uri(root, tmp_path) == "tables/photos.lance"


def test_a_link_to_the_repository_makes_no_difference(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / "tables").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(repository)
    root = str(link / "tables" / "photos.lance")
    assert pinned_uri(root, link) == "tables/photos.lance"
    assert pinned_uri(root, repository) == "tables/photos.lance"
    assert pinned_uri(str(repository / "tables" / "a.lance"), link) == "tables/a.lance"


def test_tables_on_another_disk_behind_a_link_are_still_below_the_repository(
    tmp_path: Path,
) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "tables").symlink_to(tmp_path / "big")
    root = str(tmp_path / "repo" / "tables" / "a.lance")
    assert pinned_uri(root, tmp_path / "repo") == "tables/a.lance"


@pytest.mark.parametrize("inside", ["objects/x.lance", "tables/a/b.lance", "x.lance", "tables/a"])
def test_a_table_in_another_corner_of_the_repository_is_refused(
    tmp_path: Path, inside: str
) -> None:
    with pytest.raises(InvalidInputError, match=r"not at tables/<name>\.lance"):
        pinned_uri(str(tmp_path / inside), tmp_path)


def test_a_table_elsewhere_keeps_its_full_uri(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    beside = str(tmp_path / "repository.lance")
    assert pinned_uri(beside, repository) == beside
    assert pinned_uri("s3://bucket/x.lance", repository) == "s3://bucket/x.lance"


def test_a_uri_that_no_pin_may_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be pinned there"):
        pinned_uri("/data/a\nb", tmp_path)


def test_a_pin_leads_to_where_the_repository_is_now(tmp_path: Path) -> None:
    pin = some_pin("photos")
    for repository in (tmp_path / "here", tmp_path / "there"):
        assert location_of(pin, repository).uri == str(repository / "tables/photos.lance")


def test_a_branch_has_its_own_root_below_the_main_one(tmp_path: Path) -> None:
    pin = some_pin(branch=BranchName("team/exp"))
    main = str(tmp_path / "tables/photos.lance")
    assert location_of(pin, tmp_path).uri == f"{main}/tree/team/exp"
    assert main_location_of(pin, tmp_path).uri == main


def test_options_are_for_tables_elsewhere(tmp_path: Path) -> None:
    options = {"aws_region": "nowhere"}
    away = location_of(some_pin(uri="s3://bucket/x.lance"), tmp_path, TableStores(options))
    assert away.storage_options == options
    assert away.uri == "s3://bucket/x.lance"
    assert location_of(some_pin(), tmp_path, TableStores(options)).storage_options is None


def test_a_path_with_a_tilde_is_a_path(tmp_path: Path) -> None:
    assert location_of(some_pin(uri="/~/x.lance"), tmp_path).uri == "/~/x.lance"
