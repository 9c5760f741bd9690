"""Storage options of single base paths, on two S3 servers that know nothing of each other.

A bucket exists on one server only, so nothing but the right options reads or writes it.
"""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.s3 import new_bucket, running_server

import lancewood as lw
from lancewood.engine.location.base_paths import base_options
from lancewood.engine.location.location import Location
from lancewood.engine.write.cloning import write_clone
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions
from lancewood.testing.wire import FaultyWire

ROWS = pa.table({"a": pa.array(range(40), pa.int64()), "s": [f"s{n % 5}" for n in range(40)]})
SECRET = "planted-secret-of-the-cold-server"
Options = dict[str, str]


@pytest.fixture(scope="module")
def cold_endpoint() -> Iterator[str]:
    """The address of a second server."""
    with running_server() as endpoint:
        yield endpoint


@pytest.fixture
def cold_options(cold_endpoint: str) -> Options:
    return {
        "aws_access_key_id": "AKIACOLD",
        "aws_secret_access_key": SECRET,
        "aws_region": "eu-west-1",
        "aws_endpoint": cold_endpoint,
        "allow_http": "true",
        "client_max_retries": "0",
    }


@pytest.fixture
def cold_root(cold_endpoint: str) -> str:
    return new_bucket(cold_endpoint)


@pytest.fixture(params=["name", "path", "spelled otherwise"])
def by(request: pytest.FixtureRequest, cold_root: str, cold_options: Options) -> dict[str, Options]:
    """The options of the base path, found by one way of calling it."""
    keys = {"name": "cold", "path": cold_root, "spelled otherwise": f"{cold_root}/"}
    return {keys[request.param]: cold_options}


def create(s3_root: str, s3_options: Options, cold_root: str, by: Any) -> lw.Table:
    cold = lw.BasePath(cold_root, name="cold", is_dataset_root=True)
    return lw.create(
        s3_root,
        ROWS,
        layout=lw.Layout(bases=[cold], into="all", max_rows_per_file=10),
        access=lw.Access(storage_options=s3_options, base_storage_options=by),
    )


@pytest.mark.sliced(3, at=2)
def test_every_verb_reaches_a_base_path_with_its_own_options(
    s3_root: str,
    s3_options: Options,
    cold_root: str,
    cold_options: Options,
    by: dict[str, Options],
) -> None:
    table = create(s3_root, s3_options, cold_root, by)
    assert [each.files[0].base_id for each in table.fragments] == [None, 1, None, 1]
    cold = open_store(cold_root, storage_options=cold_options)
    assert len([*cold.list("data")]) == 2
    again = pickle.loads(pickle.dumps(table))
    assert again.to_arrow() == ROWS
    assert again.take([15, 5])["a"].to_pylist() == [15, 5]
    table = again.append(ROWS, layout=lw.Layout(into="cold"))
    table = table.delete("a = 15").update({"s": "'w'"}, "a = 16").add_columns({"c": "a + 1"})
    assert table.count_rows("s = 'w'") == 2
    assert table.scan(in_bases="cold", columns=["a"]).count() == 20 + 40 - 2 - 2
    assert table.verify(deep=True).ok
    table = table.compact()
    expected = sorted([*range(40), *range(40)])
    expected.remove(15)
    expected.remove(15)
    assert sorted(table.to_arrow()["a"].to_pylist()) == expected
    opened = lw.open(s3_root, access=lw.Access(storage_options=s3_options, base_storage_options=by))
    assert opened.checkout(version=1).to_arrow() == ROWS
    theirs = lance.dataset(
        s3_root, storage_options=s3_options, base_store_params={cold_root: cold_options}
    )
    assert theirs.checkout_version(1).to_table() == ROWS


def test_pylance_gets_the_options_too(
    s3_root: str,
    s3_options: Options,
    cold_root: str,
    by: dict[str, Options],
) -> None:
    table = create(s3_root, s3_options, cold_root, by)
    dataset = table.lance()
    assert dataset.to_table() == ROWS
    dataset.create_scalar_index("a", "BTREE")
    assert dataset.to_table(filter="a = 12")["a"].to_pylist() == [12]


def test_a_search_reaches_a_base_path_with_its_own_options(
    s3_root: str, s3_options: Options, cold_root: str, by: dict[str, Options]
) -> None:
    table = create(s3_root, s3_options, cold_root, by)
    vectors = pa.array([[each, 0.0] for each in range(40)], pa.list_(pa.float32(), 2))
    table = table.add_columns(pa.table({"v": vectors})).move_fragments(base="cold")
    found = table.search(vector=[17.2, 0], k=3, columns=["a", "s"])
    assert found["a"].to_pylist() == [17, 18, 16]
    assert table.search(text="s3", k=40, columns=["a"])["a"].to_pylist() == [*range(3, 40, 5)]


def test_options_with_the_number_of_a_base_path_are_taken_as_pylance_takes_them(
    s3_root: str, s3_options: Options, cold_root: str, cold_options: Options
) -> None:
    scoped = {f"base_1.{key}": value for key, value in cold_options.items()}
    both = {**s3_options, **scoped}
    table = create(s3_root, both, cold_root, None)
    assert [each.files[0].base_id for each in table.fragments] == [None, 1, None, 1]
    assert lw.open(s3_root, access=lw.Access(storage_options=both)).to_arrow() == ROWS
    assert lance.dataset(s3_root, storage_options=both).to_table() == ROWS
    assert table.lance().to_table() == ROWS
    assert table.delete("a = 15").compact().count_rows() == 39
    assert SECRET not in repr(table._snapshot.location)


def seen_by(wire: FaultyWire, uri: str) -> set[str]:
    """Who the requests for a bucket say they are from."""
    bucket = uri.removeprefix("s3://").partition("/")[0]
    found = [each for each in wire.requests if each.path.startswith(f"/{bucket}")]
    assert found, f"nobody asked for {bucket}"
    signed = (each.headers.get("authorization", "nobody") for each in found)
    return {each.partition("Credential=")[2].partition("/")[0] or each for each in signed}


def test_credentials_of_the_table_do_not_follow_its_manifest_into_another_bucket(
    s3_root: str,
    s3_options: Options,
    s3_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Both buckets are on one server, which takes everybody's word: the wire tells who asked."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    other = new_bucket(s3_endpoint)
    with FaultyWire(s3_endpoint) as wire:
        options = {**s3_options, "aws_endpoint": wire.endpoint, "headers.x-mine": "planted"}
        cold = {**options, "aws_access_key_id": "AKIACOLD"}
        table = create(s3_root, options, other, {"cold": cold}).delete("a = 15")
        assert seen_by(wire, other) == {"AKIACOLD"}

        def acts(opened: lw.Table) -> None:
            assert opened.to_arrow().num_rows == 39
            assert opened.take([12])["a"].to_pylist() == [12]
            assert opened.verify(deep=True).ok
            assert opened.lance().to_table().num_rows == 39
            assert (
                opened.append(ROWS, layout=lw.Layout(into="cold"))
                .restore(opened.version)
                .count_rows()
                == 39
            )

        wire.play()
        acts(lw.open(s3_root, access=lw.Access(storage_options=options)))
        assert seen_by(wire, other) == {"AKIAENVIRONMENT"}
        assert seen_by(wire, s3_root) == {"AKIAEXAMPLE"}
        for each in wire.requests:
            assert ("x-mine" in each.headers) == (s3_root[5:41] in each.path)

        request.getfixturevalue("pages_decoded_here")  # a process has shown that it asks alike
        ways: tuple[dict[str, Any], ...] = (
            {"allowed_bases": [other]},
            {"base_storage_options": {"cold": options}},
        )
        for named in ways:
            wire.play()
            acts(lw.open(s3_root, access=lw.Access(storage_options=options, **named)))
            assert seen_by(wire, other) == {"AKIAEXAMPLE"}, "who names the place means it"

        wire.play()
        copy = table.clone(f"{new_bucket(s3_endpoint)}/copy")
        assert copy.to_arrow().num_rows == 39
        assert seen_by(wire, s3_root) == {"AKIAEXAMPLE"}, "a clone reads as its source does"
        assert seen_by(wire, other) == {"AKIACOLD"}
        opened = lw.open(copy.uri, access=lw.Access(storage_options=cold))
        wire.play()
        assert opened.to_arrow().num_rows == 39
        assert seen_by(wire, s3_root) == {"AKIAENVIRONMENT"}


def test_a_store_that_refuses_says_where_the_credentials_of_a_base_path_come_from(
    s3_root: str, s3_options: Options, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-environment")
    other = new_bucket(s3_endpoint)
    create(s3_root, s3_options, other, {"cold": s3_options})
    bucket = other.removeprefix("s3://").partition("/")[0]
    with FaultyWire(
        s3_endpoint, lambda each: "refuse" if each.path.startswith(f"/{bucket}") else None
    ) as wire:
        options = {**s3_options, "aws_endpoint": wire.endpoint}
        opened = lw.open(s3_root, access=lw.Access(storage_options=options))
        for act in (opened.to_arrow, lambda: opened.append(ROWS, layout=lw.Layout(into="cold"))):
            with pytest.raises(lw.StorageError, match="its own in base_storage_options"):
                act()


def test_without_the_right_options_nothing_of_the_base_path_is_reached(
    s3_root: str, s3_options: Options, cold_root: str, cold_options: Options
) -> None:
    table = create(s3_root, s3_options, cold_root, {"cold": cold_options})
    impatient = {**s3_options, "client_max_retries": "0"}
    for wrong in (None, {"cold": impatient}, {"warm": cold_options}):
        poor = lw.open(
            s3_root, access=lw.Access(storage_options=impatient, base_storage_options=wrong)
        )
        assert poor.scan(in_bases=[None]).count() == 20, "the own root needs none of them"
        assert poor.scan(in_bases=[None]).to_arrow().num_rows == 20
        with pytest.raises(lw.LancewoodError):
            poor.to_arrow()
        before = [each.key for each in table._snapshot.location.store.list()]
        with pytest.raises(lw.LancewoodError):
            poor.append(ROWS, layout=lw.Layout(into="cold"))
        assert [each.key for each in table._snapshot.location.store.list()] == before


def test_a_base_path_that_is_set_gets_the_options_of_its_name(
    s3_root: str, s3_options: Options, cold_root: str, cold_options: Options, tmp_path: Path
) -> None:
    table = lw.create(
        s3_root,
        ROWS,
        layout=lw.Layout(bases=[lw.BasePath(tmp_path / "cold", name="cold")], into="cold"),
        access=lw.Access(storage_options=s3_options, base_storage_options={"cold": cold_options}),
    )
    cold = open_store(cold_root, storage_options=cold_options)
    with pytest.raises(lw.InvalidInputError, match="is missing"):
        table.set_base("cold", cold_root)
    for each in (tmp_path / "cold").iterdir():
        cold.put(each.name, each.read_bytes())
    table = table.set_base("cold", cold_root)
    assert table.to_arrow() == ROWS
    table = table.append(ROWS, layout=lw.Layout(into="cold")).add_base(
        f"{cold_root}/more", name="more"
    )
    assert len([*cold.list()]) == 2
    with pytest.raises(lw.StorageError, match="more"):
        table.append(ROWS, layout=lw.Layout(into="more"))


def test_deletions_and_blobs_in_a_base_path_are_read_with_its_options(
    s3_root: str, s3_options: Options, cold_root: str, cold_options: Options
) -> None:
    """A shallow clone refers to all files of its source, which is on the other server."""
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("a", pa.int64()), blob])
    rows = pa.table({"a": [1, 2, 3], "b": [b"one", b"two", b"three"]}, schema=schema)
    source = lw.create(
        cold_root,
        rows,
        layout=lw.Layout(file_version="2.1"),
        access=lw.Access(storage_options=cold_options),
    )
    source = source.delete("a = 2")
    own = StorageOptions(s3_options)
    location = Location(
        open_store(s3_root, storage_options=own), own, None, base_options({"cold": cold_options})
    )
    table = lw.Table(write_clone(source._snapshot, location, base_name="cold"))
    assert table.scan(["a"]).to_arrow()["a"].to_pylist() == [1, 3]
    assert [each and each.read() for each in table.take_blobs("b", [0, 1])] == [b"one", b"three"]
    assert table.delete("a = 3").count_rows() == 1
    with pytest.raises(lw.InvalidInputError, match="holds the table at"):
        table.append(rows, layout=lw.Layout(into="cold"))


def test_no_option_shows_in_a_manifest_a_text_or_a_log(
    s3_root: str,
    s3_options: Options,
    cold_root: str,
    cold_options: Options,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    table = create(s3_root, s3_options, cold_root, {"cold": cold_options})
    table = table.append(ROWS, layout=lw.Layout(into="cold")).add_base(
        f"{cold_root}/two", name="two"
    )
    texts = io.StringIO()
    print(table, table._snapshot.location, table.scan(in_bases="cold").explain(), file=texts)
    print(table.base_paths, table._snapshot, file=texts)
    cold = open_store(cold_root, storage_options=cold_options)
    cold.delete([each.key for each in cold.list("data")])
    for act in (table.to_arrow, lambda: table.take([15]), lambda: table.set_base(1, "s3://no/w")):
        with pytest.raises(lw.LancewoodError) as caught:
            act()
        print(caught.value, caught.value.facts, repr(caught.value), file=texts)
        print(repr(caught.value.__cause__), file=texts)
    for each in table._snapshot.location.store.list():
        assert SECRET.encode() not in table._snapshot.location.store.get(each.key)
    assert SECRET not in texts.getvalue() + caplog.text
