"""Checklist lines 17 to 20, 22, 38, 43 and 63 for columns that Lancewood adds and changes.

pylance is the judge: its scan, its ``validate``, its filters through its own indices, and what it
reads out of our transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw

pytestmark = pytest.mark.sliced(4)

VERSIONS = ["2.0", "2.1", "2.2"]
STRUCT = pa.struct([("x", pa.int64()), ("z", pa.string())])


def rows(first: int, count: int, *, with_nulls: bool = True) -> pa.Table:
    numbers = range(first, first + count)
    structs = [
        {"x": each, "z": f"z{each}"} if each % 3 or not with_nulls else None for each in numbers
    ]
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": [f"s{each % 4}" for each in numbers],
            "p": pa.array(structs, STRUCT),
            "l": pa.array(
                [[{"q": each}] * (each % 3) for each in numbers],
                pa.list_(pa.struct([("q", pa.int64())])),
            ),
            "v": pa.array([[float(each), 1.0] for each in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def create(uri: str, file_version: str = "2.2", *, stable_row_ids: bool = True) -> lw.Table:
    """Three fragments, some rows of two of them deleted."""
    with_nulls = file_version != "2.0"
    table = lw.create(
        uri,
        rows(0, 10, with_nulls=with_nulls),
        layout=lw.Layout(file_version=file_version, stable_row_ids=stable_row_ids),
    )
    table = table.append(rows(10, 10, with_nulls=with_nulls))
    return table.append(rows(20, 5, with_nulls=with_nulls)).delete("k in (0, 5, 24)")


def agreed(table: lw.Table) -> pa.Table:
    """What both read, after pylance has validated it."""
    dataset = lance.dataset(table.uri)
    assert dataset.version == table.version
    dataset.validate()
    got = table.scan(with_row_id=True).to_arrow()
    assert got == dataset.to_table(with_row_id=True)
    assert table.schema == dataset.schema
    return got


def updated_at(table: lw.Table) -> list[int]:
    name = "_row_last_updated_at_version"
    got: list[int] = table.scan([name]).to_arrow()[name].to_pylist()
    assert got == lance.dataset(table.uri).to_table(columns=[name])[name].to_pylist()
    return got


def half(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"h": pa.array([each / 2 for each in batch.column("k").to_pylist()])})


ADDITIONS: dict[str, Callable[[lw.Table], lw.Table]] = {
    "sql": lambda table: table.add_columns({"n": "k * 2", "t": "s || '!'"}),
    "function": lambda table: table.add_columns(half, columns_read=["k"]),
    "position": lambda table: table.add_columns(
        pa.table({"i": pa.array(range(22), pa.int32()), "j": pa.array([[1.0, 2.0]] * 22)})
    ),
    "key": lambda table: table.add_columns(
        pa.table({"k": [9, 1, 77], "j": ["a", "b", "c"]}), on="k"
    ),
    "not null": lambda table: table.add_columns(
        pa.table({"i": range(22)}, schema=pa.schema([pa.field("i", pa.int64(), nullable=False)]))
    ),
    "struct": lambda table: table.add_columns(
        pa.table({"i": pa.array([{"a": each, "b": [each]} for each in range(22)])})
    ),
}


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("file_version", VERSIONS)
@pytest.mark.parametrize("how", ADDITIONS)
def test_pylance_reads_columns_that_were_added(
    uri: str, how: str, file_version: str, stable_row_ids: bool
) -> None:
    table = create(uri, file_version, stable_row_ids=stable_row_ids)
    before = agreed(table)
    after = ADDITIONS[how](table)
    got = agreed(after)
    assert got.select(before.column_names) == before, "rows, ids and other columns stay"
    if stable_row_ids:
        assert updated_at(after) == [after.version] * 22
    for old, new in zip(table.fragments, after.fragments, strict=True):
        assert new.files[0].message == old.files[0].message
        assert new.deletion_file == old.deletion_file
    lance.write_dataset(got.drop_columns(["_rowid"]), uri, mode="append")
    assert agreed(after.latest()).num_rows == 44


@pytest.mark.parametrize("file_version", VERSIONS)
def test_line_17_pylance_reads_columns_that_were_renamed(uri: str, file_version: str) -> None:
    table = create(uri, file_version)
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    after = table.latest().rename_column("k", "key").rename_column("p.z", "name")
    got = agreed(after.rename_column("l.item.q", "qq"))
    assert got.column("p").to_pylist()[0] == {"x": 1, "name": "z1"}
    dataset = lance.dataset(uri)
    assert dataset.to_table(filter="key = 7").num_rows == 1
    assert "ScalarIndexQuery" in dataset.scanner(filter="key = 7").explain_plan()


@pytest.mark.parametrize("file_version", VERSIONS)
def test_line_18_pylance_reads_structs_without_the_fields_that_were_dropped(
    uri: str, file_version: str
) -> None:
    table = create(uri, file_version).drop_columns(["p.x", "s"])
    got = agreed(table)
    assert got.column("p").to_pylist()[0] == {"z": "z1"}
    assert "l" not in agreed(table.drop_columns(["l.item.q"])).column_names


@pytest.mark.parametrize("file_version", VERSIONS)
def test_line_19_pylance_reads_nulls_where_no_file_holds_the_column(
    uri: str, file_version: str
) -> None:
    table = create(uri, file_version)
    before = updated_at(table)
    after = table.add_columns([pa.field("n", pa.string()), pa.field("p.y", pa.int8())])
    got = agreed(after)
    assert got.column("n").null_count == 22
    assert updated_at(after) == before
    lance.dataset(uri).update({"n": "'set'"}, where="k = 7")
    assert agreed(after.latest()).column("n").null_count == 21


@pytest.mark.parametrize("file_version", VERSIONS)
def test_pylance_reads_rows_whose_last_stored_column_was_dropped(
    uri: str, file_version: str
) -> None:
    table = create(uri, file_version)
    table = table.add_columns([pa.field("n", pa.string()), pa.field("p.y", pa.int8())])
    table = table.drop_columns(["p.x", "p.z", "k", "s", "l"])
    assert agreed(table).num_rows == 22
    table = table.drop_columns(["v"])
    assert set(agreed(table).column("p").to_pylist()[0]) == {"y"}
    table = table.drop_columns(["p"])
    assert agreed(table).num_rows == 22
    assert lance.dataset(uri).count_rows("n is null") == 22


@pytest.mark.parametrize("file_version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("k", pa.int32()),
        ("k", pa.float64()),
        ("k", pa.string()),
        ("s", pa.large_string()),
        ("s", pa.binary()),
        ("p.x", pa.int16()),
        ("p", pa.struct([("x", pa.int32()), ("z", pa.large_string())])),
        ("l.item.q", pa.int8()),
        ("l", pa.large_list(pa.struct([("q", pa.int64())]))),
        ("v", pa.list_(pa.float16(), 2)),
        ("v", pa.list_(pa.float64())),
    ],
)
def test_line_20_pylance_reads_columns_that_were_cast(
    uri: str, file_version: str, name: str, kind: pa.DataType
) -> None:
    table = create(uri, file_version)
    before = agreed(table)
    after = table.cast_column(name, kind)
    got = agreed(after)
    other = [each for each in before.column_names if each != name.partition(".")[0]]
    assert got.select(other) == before.select(other)
    top = name.partition(".")[0]
    assert got.column(top) == before.column(top).cast(got.schema.field(top).type)
    assert agreed(after.append(table.to_arrow().cast(after.schema))).num_rows == 44


def test_line_20_we_read_what_pylance_cast_after_us_and_the_reverse(uri: str) -> None:
    table = create(uri).cast_column("k", pa.int32()).add_columns({"n": "k + 1"})
    lance.dataset(uri).alter_columns({"path": "n", "data_type": pa.int16()})
    after = table.latest()
    assert after.schema.field("n").type == pa.int16()
    assert agreed(after.cast_column("n", pa.int64())).column("n").to_pylist()[:3] == [2, 3, 4]


@pytest.mark.parametrize("file_version", ["2.1", "2.2"])
def test_line_22_pylance_reads_a_struct_whose_fields_lie_in_several_files(
    uri: str, file_version: str
) -> None:
    table = create(uri, file_version)
    table = table.add_columns({"p.w": "k + 1"}).add_columns({"p.u": "s", "n": "k"})
    table = table.cast_column("p.x", pa.int32())
    got = agreed(table).column("p").to_pylist()
    assert got[:3] == [
        {"x": 1, "z": "z1", "w": 2, "u": "s1"},
        {"x": 2, "z": "z2", "w": 3, "u": "s2"},
        None,
    ]
    assert len(table.fragments[0].files) == 4


@pytest.mark.parametrize("nullable", [True, False])
def test_line_38_an_append_of_pylance_follows_a_new_column_that_may_be_null(
    uri: str, nullable: bool
) -> None:
    table = create(uri)
    stale = lance.dataset(uri)
    append = lance.LanceOperation.Append(lance.fragment.write_fragments(rows(100, 2), uri))
    field = pa.field("n", pa.int64(), nullable=nullable)
    table.add_columns(pa.table({"n": range(22)}, schema=pa.schema([field])))
    if nullable:
        lance.LanceDataset.commit(uri, append, read_version=stale.version)
        assert agreed(table.latest()).column("n").null_count == 2
    else:
        with pytest.raises(OSError, match=r"[Rr]etry"):
            lance.LanceDataset.commit(uri, append, read_version=stale.version, max_retries=1)


def test_line_38_our_append_follows_a_new_column_of_nulls(uri: str) -> None:
    table = create(uri)
    table.add_columns(pa.field("n", pa.int8()))
    assert agreed(table.append(rows(100, 2))).column("n").null_count == 24


def test_line_43_pylance_decodes_the_operations(uri: str) -> None:
    def last() -> Any:
        dataset = lance.dataset(uri)
        return dataset.read_transaction(dataset.version).operation

    table = create(uri).add_columns({"n": "k"}, message="more")
    assert isinstance(last(), lance.LanceOperation.Merge)
    assert [len(each.files) for each in last().fragments] == [2, 2, 2]
    assert last().schema.to_pyarrow().names == table.schema.names
    table = table.add_columns(pa.field("m", pa.int8()))
    assert isinstance(last(), lance.LanceOperation.Project)
    assert last().schema.to_pyarrow().names == table.schema.names
    table = table.rename_column("m", "mm").drop_columns(["mm"])
    assert isinstance(last(), lance.LanceOperation.Project)
    table = table.cast_column("n", pa.int32())
    assert isinstance(last(), lance.LanceOperation.Merge)
    table.replace_columns([1], pa.table({"n": pa.array(range(10), pa.int32())}))
    assert isinstance(last(), lance.LanceOperation.DataReplacement)
    assert [each.fragment_id for each in last().replacements] == [1]


def test_a_replacement_is_what_pylance_reads(uri: str) -> None:
    table = create(uri)
    ids = [2, 0]
    new = table.scan(["v", "p"], fragment_ids=ids).to_arrow()
    new = new.set_column(0, new.field("v"), pa.array([[7.0, 7.0]] * 12, pa.list_(pa.float32(), 2)))
    after = table.replace_columns(ids, new)
    assert agreed(after).num_rows == 22
    assert after.scan(["v", "p"], fragment_ids=ids).to_arrow() == new
    assert updated_at(after) == [after.version] * 8 + [2] * 10 + [after.version] * 4


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_line_63_a_filter_through_an_index_finds_replaced_values(
    uri: str, kind: str, stable_row_ids: bool
) -> None:
    table = create(uri, stable_row_ids=stable_row_ids)
    lance.dataset(uri).create_scalar_index("s", kind)
    lance.dataset(uri).create_scalar_index("k", kind)
    after = table.latest().replace_columns([1], pa.table({"s": ["s1", "new"] * 5}))
    covered = {each.name: set(each.fragments) for each in after.indices}
    assert covered == {"s_idx": {0, 2}, "k_idx": {0, 1, 2}}
    dataset = lance.dataset(uri)
    for condition in ("s = 's1'", "s = 'new'", "s = 's3'", "k = 12"):
        indexed = dataset.to_table(filter=condition)
        whole = dataset.scanner(filter=condition, use_scalar_index=False).to_table()
        assert indexed.sort_by("k") == whole.sort_by("k")
        assert indexed.num_rows == after.count_rows(condition)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_an_index_of_a_cast_or_dropped_column_goes_and_others_stay(uri: str, kind: str) -> None:
    table = create(uri)
    for name in ("s", "k"):
        lance.dataset(uri).create_scalar_index(name, kind)
    after = table.latest().add_columns({"n": "k"})
    assert {each.name for each in after.indices} == {"s_idx", "k_idx"}
    dataset = lance.dataset(uri)
    assert dataset.to_table(filter="k = 7 and s = 's3'").num_rows == 1
    after = after.cast_column("k", pa.int32())
    assert [each.name for each in after.indices] == ["s_idx"]
    assert set(after.indices[0].fragments) == {0, 1, 2}
    dataset = lance.dataset(uri)
    assert dataset.to_table(filter="s = 's3'").num_rows == after.count_rows("s = 's3'")
    assert after.drop_columns(["s"]).indices == ()
