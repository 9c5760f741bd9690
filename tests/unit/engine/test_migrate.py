"""V1 names become V2 names, whatever goes wrong on the way; pylance reads both sides."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import MODES, copied, every_call

import lancewood as lw
from lancewood.engine.upkeep.migrate import migrate_names
from lancewood.engine.versions.finding import newest_version
from lancewood.format.layout import NamingScheme, manifest_name, parse_manifest_name
from lancewood.model.ids import Version
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore, Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
ROWS = pa.table({"a": [1, 2, 3]})


def old_table(uri: str, versions: int = 4) -> None:
    """A table with V1 names, made by pylance."""
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    for _ in range(versions - 1):
        lance.write_dataset(ROWS, uri, mode="append")


def schemes(uri: str) -> set[str]:
    names = [parse_manifest_name(each.name) for each in (Path(uri) / "_versions").iterdir()]
    return {each.scheme.value for each in names if each is not None and not each.detached}


def contents(uri: str) -> list[list[dict[str, Any]]]:
    """All versions, read by both; they must agree."""
    dataset = lance.dataset(uri)
    found = []
    for each in sorted(version["version"] for version in dataset.versions()):
        theirs = lance.dataset(uri, version=each).to_table().to_pylist()
        assert lw.open(uri, version=each).to_arrow().to_pylist() == theirs
        found.append(theirs)
    assert lw.open(uri).version == dataset.version == len(found)
    return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    location = str(tmp_path / "t.lance")
    old_table(location)
    return location


def test_every_version_gets_its_new_name_and_stays_the_same(uri: str) -> None:
    before = contents(uri)
    assert schemes(uri) == {"V1"}
    told: list[int] = []
    done = migrate_names(DiskStore(uri), told.append)
    assert (done.renamed, done.roots, sum(told)) == (4, ("",), 4)
    assert schemes(uri) == {"V2"}
    assert contents(uri) == before
    assert lw.open(uri).append(ROWS).version == 5
    lance.write_dataset(ROWS, uri, mode="append")
    assert lance.dataset(uri).count_rows() == 18
    assert migrate_names(DiskStore(uri)).renamed == 0


def test_pylance_would_do_the_same(uri: str, tmp_path: Path) -> None:
    twin = str(tmp_path / "twin.lance")
    shutil.copytree(uri, twin)
    migrate_names(DiskStore(uri))
    lance.dataset(twin).migrate_manifest_paths_v2()

    def names(location: str) -> dict[str, bytes]:
        files = (Path(location) / "_versions").glob("*.manifest")
        return {each.name: each.read_bytes() for each in files}

    assert names(uri) == names(twin)


@pytest.mark.parametrize("mode", MODES)
def test_a_migration_that_is_cut_off_anywhere_is_finished_by_the_next(
    tmp_path: Path, mode: Mode
) -> None:
    pattern = str(tmp_path / "pattern.lance")
    old_table(pattern, 3)
    before = contents(pattern)
    bytes_of = {
        Version(number): (Path(pattern) / "_versions" / f"{number}.manifest").read_bytes()
        for number in (1, 2, 3)
    }
    mixed = 0
    for attempt in every_call(mode, lambda at: copied(pattern, tmp_path / f"{at}.lance")):
        uri = attempt.store.uri
        if attempt.run(migrate_names, attempt.store) == "done":
            assert schemes(uri) == {"V2"}
        check_between(uri, bytes_of)
        if schemes(uri) == {"V1", "V2"}:
            mixed += 1
            with pytest.raises(lw.FormatError, match="lw table migrate-names"):
                lw.open(uri)
        migrate_names(DiskStore(uri))
        assert schemes(uri) == {"V2"}
        assert contents(uri) == before
    assert mixed


def check_between(uri: str, bytes_of: dict[Version, bytes]) -> None:
    """Every version is there whole, and each scheme that is there has the newest one."""
    folder = Path(uri) / "_versions"
    there: dict[NamingScheme, set[int]] = {NamingScheme.V1: set(), NamingScheme.V2: set()}
    for version, data in bytes_of.items():
        for scheme in NamingScheme:
            file = folder / manifest_name(version, scheme)
            if file.exists():
                assert file.read_bytes() == data
                there[scheme].add(version)
    assert there[NamingScheme.V1] | there[NamingScheme.V2] == set(bytes_of)
    for found in there.values():
        assert not found or max(bytes_of) in found


def test_a_store_that_lists_in_order_finds_the_newest_version_in_between() -> None:
    """There a reader stops at the first V2 name: it must be that of the newest version."""

    def begin(at: int) -> MemoryStore:
        store = MemoryStore()
        for number in range(1, 10):
            store.put(f"_versions/{number}.manifest", f"version {number}".encode())
        return store

    for attempt in every_call("kill", begin):
        attempt.run(migrate_names, attempt.store)
        store = attempt.inner
        try:
            newest = newest_version(store)
        except lw.FormatError:
            continue
        assert newest is not None
        assert newest.version == 9


def test_branches_are_migrated_too(uri: str) -> None:
    """The layout of a branch, by hand: its own root below tree/, with or without a ref."""
    for name in ("exp", "team/deep"):
        shutil.copytree(Path(uri) / "_versions", Path(uri) / "tree" / name / "_versions")
    done = migrate_names(DiskStore(uri))
    assert done.renamed == 12
    assert sorted(done.roots) == ["", "tree/exp", "tree/team/deep"]
    assert schemes(uri) == schemes(f"{uri}/tree/exp") == schemes(f"{uri}/tree/team/deep") == {"V2"}
    contents(uri)


def test_a_branch_made_by_pylance_opens_before_and_after(uri: str) -> None:
    branch = lance.dataset(uri).create_branch("exp")
    lance.write_dataset(ROWS, branch, mode="append")
    rows = lance.dataset(uri).checkout_version(("exp", None)).to_table().num_rows
    migrate_names(DiskStore(uri))
    again = lance.dataset(uri).checkout_version(("exp", None))
    assert again.to_table().num_rows == rows == 15
    assert schemes(f"{uri}/tree/exp") == {"V2"}


def test_only_manifests_with_v1_names_are_touched(uri: str) -> None:
    folder = Path(uri) / "_versions"
    others = {
        "latest_version_hint.json": b'{"version":4}',
        "d9223372036854775810.manifest": b"detached",
        "junk.manifest": b"junk",
        "5.manifest#1": b"in the making",
        "note.txt": b"note",
    }
    for name, data in others.items():
        (folder / name).write_bytes(data)
    migrate_names(DiskStore(uri))
    for name, data in others.items():
        assert (folder / name).read_bytes() == data
    assert schemes(uri) == {"V2"}


def test_two_manifests_for_one_version_are_left_for_a_person(uri: str) -> None:
    folder = Path(uri) / "_versions"
    other = folder / manifest_name(Version(2), NamingScheme.V2)
    other.write_bytes(b"another version 2")
    with pytest.raises(lw.IncompatibleConflictError, match=r"version 2 of .* differ"):
        migrate_names(DiskStore(uri))
    assert all((folder / f"{number}.manifest").exists() for number in (1, 2, 3, 4))
    assert other.read_bytes() == b"another version 2"
    other.unlink()
    migrate_names(DiskStore(uri))
    assert len(contents(uri)) == 4


class Busy(FaultyStore):
    """Somebody commits a V1 version whenever manifests are listed, ``times`` times."""

    def __init__(self, inner: DiskStore, times: int) -> None:
        super().__init__(inner)
        self.left = times

    def names(self, directory: str) -> Iterator[str]:
        found = list(super().names(directory))
        if self.left and directory == "_versions" and len(self.calls) > 2:
            self.left -= 1
            number = max(parsed.version for name in found if (parsed := parse_manifest_name(name)))
            self._inner.put(f"_versions/{number + 1}.manifest", b"late")
        return iter(found)


def test_a_version_that_lands_meanwhile_is_taken_along(uri: str) -> None:
    migrate_names(Busy(DiskStore(uri), times=1))
    assert schemes(uri) == {"V2"}
    late = Path(uri) / "_versions" / manifest_name(Version(5), NamingScheme.V2)
    assert late.read_bytes() == b"late"


def test_writers_that_do_not_stop_are_told_to(uri: str) -> None:
    with pytest.raises(lw.RetryableConflictError, match="stop the writers"):
        migrate_names(Busy(DiskStore(uri), times=1000))
    found = {parse_manifest_name(each.name) for each in (Path(uri) / "_versions").iterdir()}
    assert {1, 2, 3, 4} <= {each.version for each in found if each is not None}


def test_an_old_handle_says_that_the_table_must_be_opened_anew(uri: str) -> None:
    handle = lw.open(uri)
    migrate_names(DiskStore(uri))
    with pytest.raises(lw.NotFoundError, match="open it anew"):
        handle.append(ROWS)
    assert schemes(uri) == {"V2"}
    assert lw.open(uri).version == 4


def test_nothing_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(lw.NotFoundError, match="no table"):
        migrate_names(DiskStore(tmp_path / "no.lance"))
    assert not (tmp_path / "no.lance").exists()
