"""Tags that keep what a ref pins: set, moved and taken back, and nobody else's touched."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.manifests import manifest_path

import lancewood as lw
from lancewood.catalog.membership import (
    is_repository_tag,
    member_tag,
    protect,
    protection_tag,
    unprotect,
)
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.engine.commit.publish import Detached
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.revisions import open_revision
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.upkeep.pins import announced
from lancewood.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.refs import tag_key
from lancewood.model.ids import Version
from lancewood.model.transaction import MapUpdate, Transaction, UpdateConfig
from lancewood.store.disk import DiskStore

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

REF = "refs/tags/v1"
TAG = f"lw.{hashlib.sha256(REF.encode()).hexdigest()[:12]}"
MINE, OTHER = "1111aaaa-0000-4000-8000-000000000000", "2222bbbb-0000-4000-8000-000000000000"
ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS).append(ROWS).append(ROWS).append(ROWS)
    return location


def at(uri: str, **revision: Any) -> Snapshot:
    return open_revision(Location(DiskStore(uri)), **revision)


def tags(uri: str) -> dict[str, int]:
    return {name: each.version for name, each in lw.open(uri).tags.list(pins=True).items()}


def test_a_version_is_kept_under_a_tag_that_is_named_for_the_ref(uri: str) -> None:
    assert protect(at(uri, version=2), REF, MINE)
    assert tags(uri) == {TAG: 2}
    report = lw.open(uri).cleanup(keep_versions=1)
    assert report.versions == (1, 3)
    assert {each.version: each.why for each in report.kept} == {2: f"tag {TAG}"}


def test_doing_it_again_changes_nothing(uri: str) -> None:
    protect(at(uri, version=2), REF, MINE)
    before = (Path(uri) / tag_key(protection_tag(REF))).read_bytes()
    assert not protect(at(uri, version=2), REF, MINE)
    assert (Path(uri) / tag_key(protection_tag(REF))).read_bytes() == before


def test_a_ref_that_moved_takes_its_tag_along(uri: str) -> None:
    protect(at(uri, version=2), REF, MINE)
    assert protect(at(uri, version=3), REF, MINE)
    assert tags(uri) == {TAG: 3}


def test_a_version_of_a_branch_is_kept_in_the_main_root(uri: str) -> None:
    lw.open(uri, version=2).branches.create("exp").append(ROWS)
    protect(at(uri, branch="exp"), REF, MINE)
    found = lw.open(uri).tags.list(pins=True)[TAG]
    assert (found.branch, found.version) == ("exp", 3)
    with pytest.raises(InvalidInputError, match=f"says that repository {MINE} reads its files"):
        lw.open(uri).branches.delete("exp", force=True)


def test_taking_it_back_removes_the_tag_once(uri: str) -> None:
    protect(at(uri, version=2), REF, MINE)
    location = Location(DiskStore(uri))
    assert unprotect(location, REF, MINE)
    assert tags(uri) == {}
    assert not unprotect(location, REF, MINE)


def test_a_tag_of_that_name_that_somebody_made_is_not_touched(uri: str) -> None:
    lw.open(uri).tags.create(TAG, at=1, force=True)
    with pytest.raises(AlreadyExistsError, match="belongs to somebody else"):
        protect(at(uri, version=2), REF, MINE)
    assert not unprotect(Location(DiskStore(uri)), REF, MINE)
    assert tags(uri) == {TAG: 1}


def test_another_repositorys_tag_is_not_touched(uri: str) -> None:
    protect(at(uri, version=1), REF, OTHER)
    with pytest.raises(AlreadyExistsError, match=f"belongs to repository {OTHER}"):
        protect(at(uri, version=2), REF, MINE)
    assert not unprotect(Location(DiskStore(uri)), REF, MINE)
    assert tags(uri) == {TAG: 1}


def test_a_version_that_a_cleanup_is_removing_is_not_kept(uri: str) -> None:
    with (
        announced(DiskStore(uri), None, [Version(2)]),
        pytest.raises(RetryableConflictError, match="being removed by a cleanup"),
    ):
        protect(at(uri, version=2), REF, MINE)
    assert tags(uri) == {}


def test_a_tag_goes_back_to_where_it_was_if_the_new_version_is_being_removed(uri: str) -> None:
    protect(at(uri, version=3), REF, MINE)
    with (
        announced(DiskStore(uri), None, [Version(2)]),
        pytest.raises(RetryableConflictError),
    ):
        protect(at(uri, version=2), REF, MINE)
    assert tags(uri) == {TAG: 3}


def test_a_version_that_is_gone_is_not_kept(uri: str) -> None:
    snapshot = at(uri, version=2)
    manifest_path(uri, 2).unlink()
    with pytest.raises(NotFoundError, match="it was cleaned up while it was tagged"):
        protect(snapshot, REF, MINE)
    assert tags(uri) == {}


def test_a_detached_version_is_refused_since_a_tag_would_not_keep_it(uri: str) -> None:
    head = at(uri)
    transaction = Transaction.new(head.manifest.version, UpdateConfig(config=MapUpdate({"a": "b"})))
    detached = head.commit(transaction, CommitPolicy(publisher=Detached()))
    with pytest.raises(InvalidInputError, match="protect the version that it landed as"):
        protect(detached, REF, MINE)


def test_tags_of_repositories_are_not_made_nor_removed_by_hand(uri: str) -> None:
    table = lw.open(uri)
    for name in (TAG, str(member_tag(MINE))):
        with pytest.raises(InvalidInputError, match="those that repositories give"):
            table.tags.create(name)
        table.tags.create(name, force=True)
        assert name not in table.tags.list()
        with pytest.raises(InvalidInputError, match="cannot be deleted"):
            table.tags.delete(name)
        table.tags.delete(name, force=True)


def test_only_names_of_the_right_form_are_repositories_tags() -> None:
    assert is_repository_tag("lw.0123456789ab")
    assert is_repository_tag("lw.repo.0123456789ab")
    for other in (
        "lw.0123456789",
        "lw.0123456789abcd",
        "v1",
        "lw.release-2026x",
        "xlw.0123456789ab",
    ):
        assert not is_repository_tag(other)


def test_an_identity_that_is_no_uuid_makes_no_tag() -> None:
    with pytest.raises(InvalidInputError, match="the identity of a repository"):
        member_tag("../../x")
