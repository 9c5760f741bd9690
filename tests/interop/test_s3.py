"""Tables on S3, shared with pylance: one dictionary of options, one URI, the same rows."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import random
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.breadth import daily

import lancewood as lw
from lancewood.store.locate import open_store

ROWS = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})
MORE = pa.table({"a": [4, 5], "s": ["v", "w"]})
BOTH = pa.concat_tables([ROWS, MORE])
Options = dict[str, str]


def theirs(uri: str, options: Options, **version: int) -> Any:
    return lance.dataset(uri, storage_options=options, **version)


def ours(uri: str, options: Options) -> lw.Table:
    return lw.open(uri, access=lw.Access(storage_options=options))


def keys(uri: str, options: Options, directory: str = "") -> list[str]:
    return sorted(each.key for each in open_store(uri, storage_options=options).list(directory))


@pytest.mark.parametrize("name", ["t.lance", "with space/t%25 %23%3F=ü.lance", "a%20b"])
def test_what_we_write_pylance_reads_and_appends_to(
    s3_root: str, s3_options: Options, name: str
) -> None:
    uri = f"{s3_root}/{name}"
    table = lw.create(uri, ROWS, access=lw.Access(storage_options=s3_options))
    assert theirs(uri, s3_options).to_table() == ROWS
    lance.write_dataset(MORE, uri, mode="append", storage_options=s3_options)
    assert table.latest().to_arrow() == BOTH
    assert ours(table.uri, s3_options).version == 2
    dataset = table.latest().lance()
    assert dataset.version == 2
    dataset.validate()


@pytest.mark.parametrize("v2", [True, False])
@pytest.mark.parametrize("stable", [True, False])
def test_what_pylance_writes_we_read_and_append_to(
    s3_root: str, s3_options: Options, v2: bool, stable: bool
) -> None:
    lance.write_dataset(
        ROWS,
        s3_root,
        storage_options=s3_options,
        enable_v2_manifest_paths=v2,
        enable_stable_row_ids=stable,
    )
    table = ours(s3_root, s3_options)
    assert table.to_arrow() == ROWS
    after = table.append(MORE)
    assert after.version == 2
    got = after.scan(with_row_id=True).to_arrow()
    dataset = theirs(s3_root, s3_options)
    dataset.validate()
    assert got == dataset.scanner(with_row_id=True).to_table()
    dataset.delete("a = 2")
    now = ours(s3_root, s3_options)
    assert now.to_arrow()["a"].to_pylist() == [1, 3, 4, 5]
    assert now.take([1], ["a"])["a"].to_pylist() == [3]
    assert now.count_rows("a > 1") == 3
    assert keys(s3_root, s3_options, "_deletions")
    assert now.append(MORE).version == 4
    assert theirs(s3_root, s3_options).count_rows() == 6


def test_configuration_restore_and_overwrite_are_seen_by_pylance(
    s3_root: str, s3_options: Options
) -> None:
    table = lw.create(s3_root, ROWS, access=lw.Access(storage_options=s3_options))
    table = table.set_config({"k": "v"}).overwrite(pa.table({"b": [1.5]}))
    dataset = theirs(s3_root, s3_options)
    assert dataset.config() == {"k": "v"}
    assert dataset.to_table() == pa.table({"b": [1.5]})
    assert table.restore(1).to_arrow() == ROWS
    assert theirs(s3_root, s3_options).to_table() == ROWS
    assert [each.version for each in table.versions()] == [4, 3, 2, 1]
    assert table.checkout(version=3).to_arrow()["b"].to_pylist() == [1.5]
    assert theirs(s3_root, s3_options, version=3).to_table()["b"].to_pylist() == [1.5]


def test_a_table_is_dropped_with_all_that_is_its_own(s3_root: str, s3_options: Options) -> None:
    lw.create(s3_root, ROWS, access=lw.Access(storage_options=s3_options)).append(MORE)
    open_store(s3_root, storage_options=s3_options).put("notes.txt", b"mine")
    assert lw.exists(s3_root, access=lw.Access(storage_options=s3_options))
    lw.drop(s3_root, access=lw.Access(storage_options=s3_options))
    assert not lw.exists(s3_root, access=lw.Access(storage_options=s3_options))
    assert keys(s3_root, s3_options) == ["notes.txt"]
    with pytest.raises(lw.NotFoundError, match="no table at s3://"):
        ours(s3_root, s3_options)
    assert lw.create(s3_root, MORE, access=lw.Access(storage_options=s3_options)).count_rows() == 2


def test_a_second_creator_is_told_that_there_is_a_table(s3_root: str, s3_options: Options) -> None:
    lance.write_dataset(ROWS, s3_root, storage_options=s3_options)
    before = keys(s3_root, s3_options)
    with pytest.raises(lw.AlreadyExistsError):
        lw.create(s3_root, ROWS, access=lw.Access(storage_options=s3_options))
    assert keys(s3_root, s3_options) == before


def test_files_of_many_parts_have_the_size_that_the_manifest_says(
    s3_root: str, s3_options: Options
) -> None:
    dice = random.Random(1)
    noise = [dice.randbytes(80_000) for _ in range(200)]
    data = pa.table({"id": range(200), "noise": pa.array(noise, pa.binary())})
    table = lw.create(s3_root, data, access=lw.Access(storage_options=s3_options))
    (fragment,) = table.fragments
    (file,) = fragment.files
    store = open_store(s3_root, storage_options=s3_options)
    stored = store.head(f"data/{file.path}")
    assert stored.size == file.size
    assert stored.size > 15_000_000
    assert "-" in stored.etag, "it was not written in parts"
    assert table.to_arrow() == data
    assert theirs(s3_root, s3_options).to_table() == data


def test_a_write_that_fails_leaves_nothing(s3_root: str, s3_options: Options) -> None:
    def breaks() -> Iterator[pa.RecordBatch]:
        for number in range(8):
            yield pa.record_batch({"a": pa.array([number.to_bytes(8, "big") * 400_000])})
        raise RuntimeError("the source broke")

    schema = pa.schema([("a", pa.binary())])
    table = lw.create(s3_root, schema, access=lw.Access(storage_options=s3_options))
    before = keys(s3_root, s3_options)
    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(
            pa.RecordBatchReader.from_batches(schema, breaks()),
            layout=lw.Layout(max_rows_per_file=5),
        )
    assert keys(s3_root, s3_options) == before
    assert table.latest().version == 1
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    with urllib.request.urlopen(f"{s3_options['aws_endpoint']}/{bucket}?uploads") as answer:
        unfinished = answer.read().decode()
    assert "ListMultipartUploadsResult" in unfinished
    assert prefix not in unfinished


def test_a_missing_data_file_is_not_found(s3_root: str, s3_options: Options) -> None:
    table = lw.create(s3_root, ROWS, access=lw.Access(storage_options=s3_options))
    store = open_store(s3_root, storage_options=s3_options)
    store.delete(keys(s3_root, s3_options, "data"))
    with pytest.raises(lw.NotFoundError, match=r"data file s3://.*not found"):
        table.to_arrow()


def test_a_clone_of_pylance_s_is_read_through_its_base_path(
    s3_root: str, s3_options: Options
) -> None:
    source = lw.create(
        f"{s3_root}/source", ROWS, access=lw.Access(storage_options=s3_options)
    ).lance()
    source.shallow_clone(f"{s3_root}/clone", source.version, storage_options=s3_options)
    clone = ours(f"{s3_root}/clone", s3_options)
    assert [each.path for each in clone.base_paths] == [f"{s3_root}/source"]
    assert clone.to_arrow() == ROWS
    assert clone.append(MORE).to_arrow() == BOTH
    assert theirs(f"{s3_root}/clone", s3_options).to_table() == BOTH
    with pytest.raises(lw.InvalidInputError, match="allowed bases"):
        lw.open(
            f"{s3_root}/clone",
            access=lw.Access(storage_options=s3_options, allowed_bases=["s3://elsewhere/other"]),
        ).to_arrow()


def test_what_a_crashed_probe_leaves_disturbs_nobody(s3_root: str, s3_options: Options) -> None:
    table = lw.create(s3_root, ROWS, access=lw.Access(storage_options=s3_options))
    left = "_transactions/probe-1b4e28ba-2fa1-11d2-883f-0016d3cca427.txn"
    open_store(s3_root, storage_options=s3_options).put(left, b"first")
    lance.write_dataset(MORE, s3_root, mode="append", storage_options=s3_options)
    dataset = theirs(s3_root, s3_options)
    dataset.validate()
    assert len(dataset.get_transactions()) == 2
    assert table.latest().append(MORE).count_rows() == 7
    lw.drop(s3_root, access=lw.Access(storage_options=s3_options))
    assert keys(s3_root, s3_options) == []


def _count(table: bytes) -> int:
    return pickle.loads(table).count_rows("a > 1")  # type: ignore[no-any-return]


def test_a_pickled_table_reads_in_another_process(s3_root: str, s3_options: Options) -> None:
    table = lw.create(s3_root, ROWS, access=lw.Access(storage_options=s3_options))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_count, (pickle.dumps(table),)) == 2


THEIRS = """
import json, sys, time, lance, pyarrow as pa
uri, who, times, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
for n in range(times):
    rows = pa.table({"who": [who] * 2, "n": pa.array([n] * 2, pa.int64())})
    while True:
        try:
            lance.write_dataset(rows, uri, mode="append", storage_options=options)
            break
        except OSError:
            time.sleep(0.01)
"""

OURS = """
import json, sys, pyarrow as pa, lancewood as lw
uri, who, times, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
table = lw.open(uri, access=lw.Access(storage_options=options))
for n in range(times):
    table = table.append(pa.table({"who": [who] * 2, "n": pa.array([n] * 2, pa.int64())}))
"""


def test_line_42_on_s3_processes_of_both_lose_nothing(s3_root: str, s3_options: Options) -> None:

    times, scripts = daily(4, of=8), {"p1": THEIRS, "p2": THEIRS, "u1": OURS, "u2": OURS}
    schema = pa.schema([("who", pa.string()), ("n", pa.int64())])
    lw.create(s3_root, schema, access=lw.Access(storage_options=s3_options))
    told = json.dumps(s3_options)
    running = {
        who: subprocess.Popen(
            [sys.executable, "-c", script, s3_root, who, str(times), told],
            stderr=subprocess.PIPE,
            text=True,
        )
        for who, script in scripts.items()
    }
    for who, each in running.items():
        _, errors = each.communicate(timeout=120)
        assert each.returncode == 0, f"{who}: {errors}"
    dataset = theirs(s3_root, s3_options)
    dataset.validate()
    table = ours(s3_root, s3_options)
    assert table.version == dataset.version == 1 + len(scripts) * times
    got = table.scan(with_row_id=True).to_arrow()
    assert got.to_pylist() == dataset.scanner(with_row_id=True).to_table().to_pylist()
    counted = Counter(zip(got["who"].to_pylist(), got["n"].to_pylist(), strict=True))
    assert counted == {(who, n): 2 for who in scripts for n in range(times)}
    assert len(set(got["_rowid"].to_pylist())) == got.num_rows


@pytest.mark.parametrize("v2", [True, False])
def test_blame_follows_rows_to_the_branch_and_the_writer(
    s3_root: str, s3_options: Options, v2: bool
) -> None:
    lance.write_dataset(
        ROWS,
        s3_root,
        storage_options=s3_options,
        enable_v2_manifest_paths=v2,
        enable_stable_row_ids=True,
    )
    theirs(s3_root, s3_options).update({"s": "'new'"}, "a = 2")
    branch = ours(s3_root, s3_options).branches.create("exp").update({"s": "'on exp'"}, "a = 3")
    found = branch.append(MORE).compact().blame(show=["a"]).to_arrow().to_pylist()
    told = {each["a"]: (each["_changed"]["branch"], each["_changed"]["version"]) for each in found}
    expected = {1: ("main", 1), 2: ("main", 2), 3: ("exp", 3), 4: ("exp", 4), 5: ("exp", 4)}
    assert told == expected
    assert all(each["_changed"]["exact"] for each in found)
