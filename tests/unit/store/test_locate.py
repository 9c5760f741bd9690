"""From URIs to stores."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store
from lancewood.store.memory import MemoryStore
from lancewood.store.objects import ObjectStore


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/data/t.lance", "/data/t.lance"),
        ("/data/t.lance/", "/data/t.lance"),
        ("//data//x/./t/", "/data/x/t"),
        ("/data/x/../t", "/data/t"),
        ("file:///data/t", "/data/t"),
        ("file:/data/t/", "/data/t"),
        ("FILE://localhost/data/t", "/data/t"),
        ("file:///data/a%20b%25", "/data/a b%"),
        ("/data/a%20b#c?d", "/data/a%20b#c?d"),
        ("/", "/"),
    ],
)
def test_a_local_uri_is_an_absolute_path(uri: str, path: str) -> None:
    store = open_store(uri)
    assert isinstance(store, DiskStore)
    assert store.uri == path
    assert store.location("a/k") == f"{path.rstrip('/')}/a/k"


@pytest.mark.parametrize("name", ["t.lance", "a~", "a:b", "x/../s3:"])
def test_a_relative_path_starts_at_the_current_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(name).uri == str(tmp_path / name.replace("x/../", ""))


def test_a_path_object_is_never_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(Path("s3://bucket")).uri == str(tmp_path / "s3:" / "bucket")


def test_opening_makes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "t")
    assert [*store.list()] == []
    assert not (tmp_path / "t").exists()


def test_memory_is_found_by_name() -> None:
    name = uuid4().hex
    store = open_store(f"memory://{name}/a/b/", fsync=True, storage_options={"x": "y"})
    store.put("k", b"1")
    assert isinstance(store, MemoryStore)
    assert store.uri == f"memory://{name}/a/b"
    assert open_store(f"memory://{name}").get("a/b/k") == b"1"


@pytest.mark.parametrize("uri", ["", "memory://", "memory:///a", "memory://x/../y", "a\0b"])
def test_a_uri_that_names_nothing_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        open_store(uri)


@pytest.mark.parametrize("uri", ["file://host/data", "file:data", "file:", "file://"])
def test_a_file_uri_is_of_this_machine(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="absolute path"):
        open_store(uri)


@pytest.mark.parametrize("scheme", ["hdfs", "gcs", "s3+other", "https"])
def test_another_scheme_is_named_in_the_error(scheme: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{scheme.replace('+', '.')}'.*s3://, gs://"):
        open_store(f"{scheme}://bucket/t.lance")


def test_of_a_uri_with_dynamodb_the_store_is_the_one_of_s3() -> None:
    store = open_store("s3+ddb://bucket/a%20b/t.lance?ddbTableName=table")
    assert store.uri == "s3://bucket/a b/t.lance"
    with pytest.raises(InvalidInputError, match="names one table"):
        open_store("s3+ddb://bucket/t.lance")


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("s3://bucket/a/t.lance", "s3://bucket/a/t.lance"),
        ("S3://bucket/t/", "s3://bucket/t"),
        ("s3a://bucket/t", "s3://bucket/t"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a%20b/%25%23%3f", "s3://bucket/a b/%25%23%3F"),
        ("s3://bucket/100%/t", "s3://bucket/100%25/t"),
        ("gs://bucket/t", "gs://bucket/t"),
        ("az://container/t", "az://container/t"),
        (
            "abfs://box@account.dfs.core.windows.net/t",
            "abfss://box@account.dfs.core.windows.net/t",
        ),
    ],
)
def test_a_bucket_has_one_normal_uri_which_pylance_reads_alike(uri: str, normal: str) -> None:
    options = {"account_name": "account", "account_key": "c2VjcmV0"} if "://c" in uri else {}
    store = open_store(uri, storage_options=options)
    assert isinstance(store, ObjectStore)
    assert store.uri == normal
    assert open_store(store.uri, storage_options=options).uri == normal
    assert store.location("d/100%#?") == f"{normal}/d/100%25%23%3F"


@pytest.mark.parametrize(
    "uri",
    [
        "s3://",
        "s3:///t",
        "s3://bucket/a/../t",
        "s3://bucket/a//t",
        "s3://bucket/t?versionId=1",
        "s3://bucket/t#part",
        "s3://bucket/a%00b",
        "s3://bucket/per%cent",
        "s3://bucket/a%0Ab",
        "abfss://container/t",
        "az://container@account/t",
    ],
)
def test_a_bucket_uri_that_names_nothing_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError):
        open_store(uri)


def test_a_password_in_a_uri_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInputError, match="storage_options") as refused:
        open_store("s3://name:hunter2@bucket/t")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in str(refused.value.facts)


def test_fsync_is_passed_on(tmp_path: Path) -> None:
    for fsync in (True, False):
        store = open_store(tmp_path, fsync=fsync)
        assert isinstance(store, DiskStore)
        assert store.fsync is fsync
