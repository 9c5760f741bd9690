"""Looking after a table behind a manifest store: what is renamed, moved, repaired, cloned and
dropped is so in both, and writers who do not know the manifest store are refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.commit_locks import free
from tests.manifests import MemoryManifests

import lancewood as lw
from lancewood.external.base import ManifestEntry, base_by_uri, path_of, staged_name
from lancewood.external.opening import open_manifest_store
from lancewood.external.store import ExternalStore
from lancewood.format.layout import NamingScheme, manifest_name
from lancewood.model.ids import Version
from lancewood.model.table_config import MANIFEST_STORE_KEY

ROWS = pa.table({"a": [1]})


class RepositoryRoot:
    """A table on a disk, and its manifest store."""

    def __init__(self, directory: Path) -> None:
        self.uri = str(directory / "t.lance")
        self.manifests = f"sqlite://{directory}/manifests.db"

    def create(self) -> lw.Table:
        return lw.create(self.uri, ROWS, access=lw.Access(manifest_store=self.manifests))

    def open(self, **at: object) -> lw.Table:
        return lw.open(self.uri, access=lw.Access(manifest_store=self.manifests), **at)  # type: ignore[arg-type]

    def entry(self, version: int, root: str = "") -> ManifestEntry | None:
        base = base_by_uri(self.uri) + root
        return open_manifest_store(self.manifests).get(base, Version(version))

    def path(self, version: int, scheme: NamingScheme = NamingScheme.V2) -> str:
        return path_of(base_by_uri(self.uri), manifest_name(Version(version), scheme))


@pytest.fixture
def home(tmp_path: Path) -> RepositoryRoot:
    return RepositoryRoot(tmp_path)


def test_a_writer_without_the_manifest_store_is_refused_before_it_writes(
    home: RepositoryRoot,
) -> None:
    home.create()
    table = lw.open(home.uri)
    before = sorted(os.listdir(f"{home.uri}/data"))
    other = "sqlite:///elsewhere.db"
    writes: list[Callable[[], object]] = [
        lambda: table.append(ROWS),
        lambda: table.delete("a = 1"),
        lambda: table.set_config({"a": "b"}),
        lambda: table.restore(1),
        lambda: table.add_columns({"b": "a + 1"}),
        lambda: lw.open(home.uri, access=lw.Access(commit_lock=free)).append(ROWS),
    ]
    for write in writes:
        with pytest.raises(lw.UnsupportedError, match="through a manifest store of kind 'sqlite'"):
            write()
    assert lw.open(home.uri, access=lw.Access(manifest_store=other)).count_rows() == 1
    assert sorted(os.listdir(f"{home.uri}/data")) == before


def test_a_copy_of_the_directory_is_freed_by_one_commit(
    home: RepositoryRoot, tmp_path: Path
) -> None:
    home.create()
    shutil.copytree(home.uri, tmp_path / "copy")
    freed = lw.open(tmp_path / "copy").set_config({MANIFEST_STORE_KEY: None})
    assert freed.append(ROWS).count_rows() == 2
    assert home.open().count_rows() == 1


def test_a_table_gets_a_manifest_store_later_and_keeps_it_when_an_old_version_comes_back(
    home: RepositoryRoot,
) -> None:
    lw.create(home.uri, ROWS)
    table = home.open().set_config({MANIFEST_STORE_KEY: "sqlite"})
    assert home.entry(1) is not None
    assert table.restore(1).config == {MANIFEST_STORE_KEY: "sqlite"}
    with pytest.raises(lw.UnsupportedError, match="was opened without one"):
        lw.open(home.uri).append(ROWS)


def test_what_was_committed_without_the_manifest_store_is_read_and_registered(
    home: RepositoryRoot,
) -> None:
    home.create().set_config({MANIFEST_STORE_KEY: None})
    lance.write_dataset(ROWS, home.uri, mode="append")
    lance.write_dataset(ROWS, home.uri, mode="append")
    assert home.entry(4) is None
    assert home.open().count_rows() == 3
    assert home.entry(4) == ManifestEntry(Version(4), home.path(4), os.path.getsize(home.path(4)))
    assert home.open().append(ROWS).version == 5


def test_an_entry_that_leads_to_nothing_stops_readers_until_it_is_repaired(
    home: RepositoryRoot,
) -> None:
    home.create().append(ROWS)
    staged = path_of(base_by_uri(home.uri), staged_name(manifest_name(Version(3), NamingScheme.V2)))
    manifests = open_manifest_store(home.manifests)
    manifests.put_if_not_exists(base_by_uri(home.uri), ManifestEntry(Version(3), staged, 10))
    asked: list[Callable[[], object]] = [
        home.open,
        lambda: home.open(version=3),
        lambda: home.open(version=1).latest(),
    ]
    for ask in asked:
        with pytest.raises(lw.IntegrityError, match=r"version 3 of .* its manifest is gone"):
            ask()
    assert home.open(version=2).count_rows() == 2
    assert lw.exists(home.uri, access=lw.Access(manifest_store=home.manifests))
    proposed = lw.repair(home.uri, dry_run=True, access=lw.Access(manifest_store=home.manifests))
    assert [each.action for each in proposed.proposals] == ["forget what is lost"]
    assert manifests.latest(base_by_uri(home.uri)) == ManifestEntry(Version(3), staged, 10)
    lw.repair(home.uri, dry_run=False, access=lw.Access(manifest_store=home.manifests))
    assert home.open().append(ROWS).version == 3


def test_a_newest_manifest_that_somebody_removed_is_not_passed_over(home: RepositoryRoot) -> None:
    home.create().append(ROWS)
    os.remove(home.path(2))
    with pytest.raises(lw.IntegrityError, match="knows version 2 of"):
        home.open()
    assert not home.open(version=1).verify().ok
    lw.repair(home.uri, dry_run=False, access=lw.Access(manifest_store=home.manifests))
    assert home.open().version == 1
    assert home.open().append(ROWS).version == 2


@pytest.mark.parametrize("verb", [partial(lw.repair, dry_run=False), lw.drop])
def test_a_manifest_store_that_cannot_forget_says_so_where_it_has_to(
    home: RepositoryRoot, verb: Callable[..., object]
) -> None:
    manifests = MemoryManifests()
    lw.create(home.uri, ROWS, access=lw.Access(manifest_store=manifests)).append(ROWS)
    os.remove(home.path(2))
    with pytest.raises(lw.UnsupportedError, match=r"cannot forget a version: .* of kind 'memory'"):
        verb(home.uri, access=lw.Access(manifest_store=manifests))
    assert manifests.get(base_by_uri(home.uri), Version(2)) is not None


def test_a_damaged_manifest_that_is_set_aside_frees_its_version(home: RepositoryRoot) -> None:
    home.create().append(ROWS)
    Path(home.path(2)).write_bytes(b"")
    lw.repair(home.uri, dry_run=False, access=lw.Access(manifest_store=home.manifests))
    assert home.entry(2) is None
    assert home.open().append(ROWS).version == 2


def test_a_staged_manifest_that_nobody_committed_goes_with_a_repair(home: RepositoryRoot) -> None:
    table = home.create()
    store = table._snapshot.location.store
    key = f"_versions/{staged_name(manifest_name(Version(2), NamingScheme.V2))}"
    store.put(key, b"of a writer that died")
    told = lw.repair(home.uri, dry_run=True, access=lw.Access(manifest_store=home.manifests))
    assert told.ok  # it may still be in his hands
    os.utime(f"{home.uri}/{key}", (0, 0))
    lw.repair(home.uri, dry_run=False, access=lw.Access(manifest_store=home.manifests))
    assert not os.path.exists(f"{home.uri}/{key}")
    assert table.append(ROWS).version == 2


def test_names_are_migrated_in_both(home: RepositoryRoot) -> None:
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, home.uri, mode=mode, enable_v2_manifest_paths=False)
    table = home.open().append(ROWS)
    assert home.entry(4) == ManifestEntry(
        Version(4), home.path(4, NamingScheme.V1), os.path.getsize(home.path(4, NamingScheme.V1))
    )
    done = lw.migrate_names(home.uri, access=lw.Access(manifest_store=home.manifests))
    assert done.renamed == 4
    entry = home.entry(4)
    assert entry is not None
    assert entry.path == home.path(4)
    assert home.open().append(ROWS).version == 5
    assert [each.version for each in table.latest().versions()] == [5, 4, 3, 2, 1]


def test_a_table_that_was_moved_is_another_one_to_the_manifest_store(
    home: RepositoryRoot, tmp_path: Path
) -> None:
    home.create().branches.create("exp")
    home.open(branch="exp").append(ROWS)
    moved = RepositoryRoot(tmp_path / "moved")
    moved.manifests = home.manifests
    shutil.copytree(home.uri, moved.uri)
    report = lw.relocate(
        moved.uri, in_flight=timedelta(0), access=lw.Access(manifest_store=home.manifests)
    )
    assert report.manifests == 2
    entry = moved.entry(2, "/tree/exp")
    assert entry is not None
    assert entry.size == os.path.getsize(entry.path)
    assert moved.open(branch="exp").append(ROWS).count_rows() == 3
    assert home.open(branch="exp").count_rows() == 2


def test_branches_are_renamed_and_deleted_in_both(home: RepositoryRoot) -> None:
    table = home.create()
    table.branches.create("old")
    home.open(branch="old").append(ROWS)
    table.branches.rename("old", "new")
    assert home.open(branch="new").append(ROWS).version == 3
    assert home.entry(2, "/tree/old") is None
    table.branches.delete("new")
    assert home.entry(3, "/tree/new") is None
    table.branches.create("new")
    assert home.open(branch="new").append(ROWS).version == 2


def test_a_branch_that_is_opened_by_its_own_uri_finds_main_through_the_manifest_store(
    home: RepositoryRoot,
) -> None:
    home.create().branches.create("exp")
    table = lw.open(f"{home.uri}/tree/exp", access=lw.Access(manifest_store=home.manifests))
    main = table._snapshot.location.main(table._snapshot.manifest)
    assert isinstance(main, ExternalStore)
    assert main.base == base_by_uri(home.uri)
    assert table.checkout(branch="main").append(ROWS).version == 2


def test_a_clone_has_a_door_of_its_own(home: RepositoryRoot, tmp_path: Path) -> None:
    table = home.create()
    for deep in (False, True):
        plain = table.clone(tmp_path / f"plain-{deep}", deep=deep)
        assert plain.append(ROWS).count_rows() == 2
        assert MANIFEST_STORE_KEY not in plain.config
        other = RepositoryRoot(tmp_path / f"other-{deep}")
        (tmp_path / f"other-{deep}").mkdir()
        made = table.clone(other.uri, deep=deep, access=lw.Access(manifest_store=other.manifests))
        assert made.append(ROWS).count_rows() == 2
        assert other.entry(2) is not None
        assert made.config[MANIFEST_STORE_KEY] == "sqlite"


def test_a_table_that_was_dropped_is_made_again(home: RepositoryRoot) -> None:
    table = home.create().append(ROWS)
    table.branches.create("exp")
    lw.drop(home.uri, force=True, access=lw.Access(manifest_store=home.manifests))
    assert [home.entry(1), home.entry(2), home.entry(2, "/tree/exp")] == [None] * 3
    assert not lw.exists(home.uri, access=lw.Access(manifest_store=home.manifests))
    with pytest.raises(lw.NotFoundError, match="nothing was dropped"):
        lw.drop(home.uri, access=lw.Access(manifest_store=home.manifests))
    assert home.create().append(ROWS).version == 2


def test_a_table_that_was_removed_by_hand_is_dropped_from_the_manifest_store(
    home: RepositoryRoot,
) -> None:
    home.create().append(ROWS)
    shutil.rmtree(home.uri)
    with pytest.raises(lw.IntegrityError, match=r"drop\(\) \(where no table is left\)"):
        home.create()
    lw.drop(home.uri, access=lw.Access(manifest_store=home.manifests))
    assert home.create().version == 1
