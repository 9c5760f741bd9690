"""What every manifest store must do, once for each; and the store contract for those around others.

The server behind DynamoDB is moto's, PostgreSQL is a real one.
"""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from tests.commit_locks import free

from lancewood.errors import FormatError, StorageError
from lancewood.external import sqlite
from lancewood.external.base import Forgetting, ManifestEntry, ManifestStore
from lancewood.external.lock import LockedStore
from lancewood.external.opening import open_manifest_store, through
from lancewood.external.postgresql import PostgreSQLManifests
from lancewood.model.ids import MAX_U64, Version
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.store_contract import StoreContract

TOP = Version(MAX_U64 // 2)


def entry(version: int, path: str = "a", size: int | None = 7) -> ManifestEntry:
    return ManifestEntry(Version(version), path, size)


class ManifestStoreContract:
    """Subclass it as ``Test…`` with a fixture ``manifests``."""

    @pytest.fixture
    def base(self) -> str:
        """A table that no other test has."""
        return f"some where/ü%41#?/{uuid4()}.lance"

    def test_nothing_is_known_of_a_new_table(self, manifests: ManifestStore, base: str) -> None:
        assert manifests.get(base, Version(1)) is None
        assert manifests.latest(base) is None

    @pytest.mark.parametrize("version", [1, 2**62, TOP])
    @pytest.mark.parametrize("size", [7, None])
    def test_what_was_put_is_got(
        self, manifests: ManifestStore, base: str, version: int, size: int | None
    ) -> None:
        assert manifests.put_if_not_exists(base, entry(version, "p/q-r", size))
        assert manifests.get(base, Version(version)) == entry(version, "p/q-r", size)
        assert manifests.get(base, Version(version + 1)) is None
        assert manifests.get(f"{base}/tree/x", Version(version)) is None

    def test_a_version_is_put_once(self, manifests: ManifestStore, base: str) -> None:
        assert manifests.put_if_not_exists(base, entry(1, "first"))
        assert not manifests.put_if_not_exists(base, entry(1, "second"))
        assert not manifests.put_if_not_exists(base, entry(1, "first"))
        assert manifests.get(base, Version(1)) == entry(1, "first")

    def test_only_what_is_there_is_replaced(self, manifests: ManifestStore, base: str) -> None:
        assert not manifests.put_if_exists(base, entry(1))
        assert manifests.get(base, Version(1)) is None
        manifests.put_if_not_exists(base, entry(1, "staged"))
        assert manifests.put_if_exists(base, entry(1, "final", 8))
        assert manifests.get(base, Version(1)) == entry(1, "final", 8)

    def test_the_latest_is_the_highest_by_number(self, manifests: ManifestStore, base: str) -> None:
        for version in (9, 10, 2):
            manifests.put_if_not_exists(base, entry(version))
        assert manifests.latest(base) == entry(10)
        manifests.put_if_not_exists(base, entry(TOP))
        assert manifests.latest(base) == entry(TOP)

    def test_what_has_another_path_is_not_forgotten(
        self, manifests: ManifestStore, base: str
    ) -> None:
        assert isinstance(manifests, Forgetting)
        for version in (1, 2, 3):
            manifests.put_if_not_exists(base, entry(version, f"path-{version}"))
        manifests.forget(base, {Version(1): "path-1", Version(2): "other", Version(7): "path-7"})
        assert manifests.get(base, Version(1)) is None
        assert manifests.get(base, Version(2)) == entry(2, "path-2")
        manifests.forget(base)
        assert manifests.latest(base) is None
        assert manifests.put_if_not_exists(base, entry(1))

    def test_more_versions_than_one_request_takes_are_forgotten(
        self, manifests: ManifestStore, base: str
    ) -> None:
        assert isinstance(manifests, Forgetting)
        for version in range(1, 40):
            manifests.put_if_not_exists(base, entry(version))
        manifests.put_if_not_exists(f"{base}/tree/x", entry(1))
        manifests.forget(base)
        assert manifests.latest(base) is None
        assert manifests.latest(f"{base}/tree/x") == entry(1)

    def test_of_many_threads_one_puts(self, manifests: ManifestStore, base: str) -> None:
        def put(me: int) -> bool:
            return manifests.put_if_not_exists(base, entry(me // 6 + 1, str(me)))

        with ThreadPoolExecutor(6) as pool:
            won = [*pool.map(put, range(60))]
        assert [sum(won[start : start + 6]) for start in range(0, 60, 6)] == [1] * 10

    def test_it_travels(self, manifests: ManifestStore, base: str) -> None:
        manifests.put_if_not_exists(base, entry(1))
        there = pickle.loads(pickle.dumps(manifests))
        assert there == manifests
        assert hash(there) == hash(manifests)
        assert there.get(base, Version(1)) == entry(1)


class TestSQLite(ManifestStoreContract):
    @pytest.fixture
    def manifests(self, tmp_path: Path) -> ManifestStore:
        return open_manifest_store(f"sqlite://{tmp_path}/manifests.db")

    def test_asking_makes_no_file(self, manifests: ManifestStore, tmp_path: Path) -> None:
        manifests.latest("b")
        assert [*tmp_path.iterdir()] == []

    def test_a_file_that_is_something_else_is_refused(
        self, manifests: ManifestStore, tmp_path: Path
    ) -> None:
        (tmp_path / "manifests.db").write_bytes(b"not a database" * 100)
        with pytest.raises(StorageError, match=r"not a database; bring it back from a copy"):
            manifests.latest("b")
        with pytest.raises(StorageError, match="not a database"):
            manifests.put_if_not_exists("b", entry(1))

    def test_what_is_wrong_with_a_file_is_told_with_a_way_out(
        self, manifests: ManifestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite, "_PATIENCE", 0.01)
        with closing(sqlite3.connect(tmp_path / "manifests.db", isolation_level=None)) as file:
            file.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StorageError, match="is locked; somebody has been writing"):
                manifests.put_if_not_exists("b", entry(1))
            file.execute("ROLLBACK")
            file.execute("CREATE TABLE lancewood_manifests (x INTEGER)")
        with pytest.raises(StorageError, match="is somebody else's: choose another file"):
            manifests.latest("b")

    @pytest.mark.parametrize(
        "column", ["version = 'new'", "version = '-1'", "path = X'00'", "size = 'large'"]
    )
    def test_a_row_that_is_no_entry_is_refused(
        self, manifests: ManifestStore, base: str, tmp_path: Path, column: str
    ) -> None:
        manifests.put_if_not_exists(base, entry(1))
        with closing(sqlite3.connect(tmp_path / "manifests.db")) as file:
            file.execute(f"UPDATE lancewood_manifests SET {column}")
            file.commit()
        with pytest.raises(FormatError, match=r"is no entry of a manifest store.*correct that row"):
            manifests.latest(base)

    def test_a_directory_that_is_not_there_is_told(self, tmp_path: Path) -> None:
        manifests = open_manifest_store(f"sqlite://{tmp_path}/nowhere/manifests.db")
        assert manifests.latest("b") is None
        with pytest.raises(StorageError, match="check that its directory is there") as told:
            manifests.put_if_not_exists("b", entry(1))
        assert told.value.facts["landed"] is False


class TestPostgreSQL(ManifestStoreContract):
    @pytest.fixture
    def manifests(self, postgresql: str) -> ManifestStore:
        return open_manifest_store(postgresql)

    def test_a_broken_connection_is_made_anew(
        self, manifests: ManifestStore, base: str, postgresql: str
    ) -> None:
        import psycopg

        manifests.put_if_not_exists(base, entry(1))
        ending = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        )
        with psycopg.connect(postgresql, autocommit=True) as connection:

            def end_all() -> None:
                assert connection.execute(ending, ("lancewood",)).fetchall()

            end_all()
            assert manifests.put_if_not_exists(base, entry(2))
            end_all()
            assert manifests.latest(base) == entry(2)
            end_all()
            assert manifests.put_if_exists(base, entry(2, "other"))

    def test_nothing_is_prepared_that_a_pool_would_not_find_again(
        self, postgresql: str, base: str
    ) -> None:
        manifests = open_manifest_store(postgresql)
        assert isinstance(manifests, PostgreSQLManifests)
        for _ in range(10):
            manifests.latest(base)
        count = "SELECT count(*) FROM pg_prepared_statements"
        found = manifests._session().do("ask", lambda each: each.execute(count).fetchone())
        assert found == (0,)

    def test_a_forked_process_has_a_connection_of_its_own(self, postgresql: str, base: str) -> None:
        code = f"""
import os
from lancewood.external.base import ManifestEntry as Entry
from lancewood.external.opening import open_manifest_store

manifests = open_manifest_store({postgresql!r})
put = lambda number: manifests.put_if_not_exists({base!r}, Entry(number, str(os.getpid()), 1))
assert put(1)
children = [os.fork() for _ in range(2)]
assert sum(put(number) for number in range(2, 40)) >= 0
if all(children):
    assert [os.waitpid(each, 0)[1] for each in children if each] == [0, 0]
    assert manifests.latest({base!r}).version == 39
"""
        done = subprocess.run([sys.executable, "-c", code], timeout=100, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")

    def test_a_password_is_in_no_text(self, postgresql: str) -> None:
        host = postgresql.partition("host=")[2]
        for uri in (
            "postgresql://me:planted-secret@127.0.0.1:1/db",
            f"postgresql://me:planted-secret@/nowhere?host={host}",
        ):
            manifests = open_manifest_store(uri)
            with pytest.raises(StorageError) as failure:
                manifests.latest("b")
            assert "planted-secret" not in repr(manifests)
            carried: BaseException | None = failure.value
            while carried is not None:
                assert isinstance(carried, StorageError)
                assert "planted-secret" not in f"{carried!s} {carried!r} {carried.facts}"
                carried = carried.__context__


class TestDynamoDB(ManifestStoreContract):
    @pytest.fixture
    def manifests(
        self, dynamodb_table: str, s3_endpoint: str, s3_options: dict[str, str]
    ) -> ManifestStore:
        options = {**s3_options, "dynamodb_endpoint": s3_endpoint}
        return open_manifest_store(f"dynamodb://{dynamodb_table}", options)

    def test_a_table_that_is_not_there_is_told(
        self, s3_endpoint: str, s3_options: dict[str, str], dynamodb_table: str
    ) -> None:
        options = {**s3_options, "dynamodb_endpoint": s3_endpoint}
        manifests = open_manifest_store("dynamodb://nowhere", options)
        with pytest.raises(StorageError, match=r"make it with hash key base_uri \(S\)") as failure:
            manifests.put_if_not_exists("b", entry(1))
        assert failure.value.facts["landed"] is False

    def test_endpoint_and_region_may_be_in_the_environment(
        self,
        dynamodb_table: str,
        s3_endpoint: str,
        s3_options: dict[str, str],
        base: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("DYNAMODB_ENDPOINT", s3_endpoint)
        monkeypatch.setenv("AWS_REGION", s3_options.pop("aws_region"))
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
        manifests = open_manifest_store(f"dynamodb://{dynamodb_table}", s3_options)
        assert manifests.put_if_not_exists(base, entry(1))

    def test_no_secret_is_in_a_text(self, s3_options: dict[str, str]) -> None:
        options = {**s3_options, "dynamodb_endpoint": "http://127.0.0.1:1"}
        manifests = open_manifest_store("dynamodb://table", options)
        with pytest.raises(StorageError) as failure:
            manifests.put_if_not_exists("b", entry(1))
        told = f"{failure.value!s} {failure.value!r} {failure.value.facts} {manifests!r}"
        assert "planted-secret" not in told
        assert "landed" not in failure.value.facts


class TestExternalStore(StoreContract):
    def make(self, place: Path) -> Store:
        manifests = open_manifest_store(f"sqlite://{place}/manifests.db")
        return through(MemoryStore(), manifests)


class TestLockedStore(StoreContract):
    def make(self, place: Path) -> Store:
        return LockedStore(MemoryStore(), free)
