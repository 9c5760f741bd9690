"""Which manifest store a text names, and how a table's uri and its manifest store go together."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from tests.commit_locks import free
from tests.manifests import MemoryManifests

import lancewood as lw
from lancewood.external.dynamodb import DynamoDBManifests
from lancewood.external.opening import open_manifest_store, open_table_store
from lancewood.external.postgresql import PostgreSQLManifests
from lancewood.external.sqlite import SQLiteManifests
from lancewood.external.store import ExternalStore


def test_a_text_names_a_kind_of_store() -> None:
    assert isinstance(open_manifest_store("sqlite:///a/b.db"), SQLiteManifests)
    assert isinstance(open_manifest_store("DynamoDB://table"), DynamoDBManifests)
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    assert isinstance(open_manifest_store("postgresql://me@host/db"), PostgreSQLManifests)
    named = {open_manifest_store(f"{each}://me@host/db") for each in ("postgres", "PostgreSQL")}
    assert named == {PostgreSQLManifests("postgresql://me@host/db")}
    open_manifest_store("postgresql://me@/db?host=@abstract")


def test_slashes_in_front_of_a_file_do_not_matter() -> None:
    same = ["sqlite:///a/b%20c.db", "sqlite:////a/b c.db"]
    assert len({open_manifest_store(each) for each in same}) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "file.db",
        "sqlite://file.db",
        "sqlite:///",
        "sqlite:///a?b",
        "sqlite:///a%00b",
        "mysql://me:planted-secret@host/db",
        "dynamodb://",
        "dynamodb://a/b",
        "dynamodb://table?planted-secret",
        "postgresql://me:planted@secret@host:planted-secret/db",
        "postgresql://me:secret@planted@host/db",
        "postgresql://me:secret@planted@host:5432/db?port=1",
        "postgresql://me:x@other,planted@host/db",
    ],
)
def test_a_text_that_names_none_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=r"sqlite:///|dynamodb://|postgresql://") as told:
        open_manifest_store(wrong)
    assert "planted" not in f"{told.value} {told.value.facts}"


@pytest.mark.parametrize("wrong", [7, b"sqlite:///a", Path("/a"), object()])
def test_what_is_no_store_is_refused(wrong: object) -> None:
    with pytest.raises(lw.InvalidInputError, match="the verbs of a ManifestStore"):
        open_manifest_store(wrong)  # type: ignore[arg-type]


def test_four_verbs_are_all_that_a_store_of_your_own_needs(tmp_path: Path) -> None:
    import pyarrow as pa

    own = MemoryManifests()
    table = lw.create(
        tmp_path / "t.lance", pa.table({"a": [1]}), access=lw.Access(manifest_store=own)
    )
    assert table.append(pa.table({"a": [2]})).version == 2
    assert [each.path.endswith(".manifest") for each in own.entries.values()] == [True, True]
    assert table.config == {"lancewood.manifest_store": "memory"}
    lw.drop(tmp_path / "t.lance", access=lw.Access(manifest_store=own))


def test_ways_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(lw.InvalidInputError, match="manifest_store or commit_lock, not both"):
        open_table_store("/t", manifest_store="sqlite:///a.db", commit_lock=free)
    with pytest.raises(lw.InvalidInputError, match="leave manifest_store out"):
        open_table_store("s3+ddb://b/t?ddbTableName=tab", manifest_store="sqlite:///a.db")
    with pytest.raises(lw.InvalidInputError, match="for tables in S3"):
        open_table_store("/t", manifest_store="dynamodb://tab")
    with pytest.raises(lw.UnsupportedError, match="cannot rename if absent"):
        open_table_store("/t", manifest_store="rename-if-absent")
    with pytest.raises(lw.InvalidInputError, match="a function that is called with the version"):
        open_table_store("/t", commit_lock="lock")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", ["", "?ddbTableName=", "?ddbTableName=a/b", "?a=b", "?ddbTableName=tab&a=b"]
)
def test_a_uri_with_dynamodb_names_one_table(wrong: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="names one table"):
        open_table_store(f"s3+ddb://b/t{wrong}")


def test_a_uri_with_dynamodb_is_one_of_s3_and_a_manifest_store() -> None:
    store = open_table_store("s3+ddb://b/a%20b/t?ddbTableName=tab")
    assert isinstance(store, ExternalStore)
    assert (store.uri, store.base, store.kind) == ("s3://b/a b/t", "a b/t", "dynamodb")
    assert store.at("tree/x").base == "a b/t/tree/x"
    there = pickle.loads(pickle.dumps(store))
    assert (there.uri, there.base, there.manifests) == (store.uri, store.base, store.manifests)
    hidden = {"aws_access_key_id": "A", "aws_secret_access_key": "secret"}
    assert "secret" not in repr(
        open_table_store("s3+ddb://b/t?ddbTableName=tab", storage_options=hidden)
    )


def test_a_table_with_a_manifest_store_in_its_uri_is_not_taken_into_a_repository(
    tmp_path: Path,
) -> None:
    repo = lw.Repository.init(tmp_path / "repo")
    with pytest.raises(lw.UnsupportedError, match="cannot be in a repository"):
        repo.add("t", "s3+ddb://b/t?ddbTableName=tab")


def test_a_table_that_names_a_manifest_store_is_not_taken_into_a_repository(tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "repo")
    manifests = f"sqlite://{tmp_path}/manifests.db"
    lw.create(
        tmp_path / "t.lance", pa.table({"a": [1]}), access=lw.Access(manifest_store=manifests)
    )
    with pytest.raises(lw.UnsupportedError, match=r"\(sqlite\) cannot be in a repository"):
        repo.add("t", tmp_path / "t.lance")
    copy = lw.open(tmp_path / "t.lance", access=lw.Access(manifest_store=manifests)).clone(
        tmp_path / "copy.lance"
    )
    assert repo.add("t", copy.uri).tables == ("t",)
