"""Indices are built, listed and dropped, and what does not fit is refused by name.

pylance judges the answers: through an index as without it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from tests.counted import counts_of
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.jobs.index import building
from lancewood.jobs.index.records import RECORD
from lancewood.jobs.runner import LocalRunner

ROWS, PER_FILE, WIDTH = 600, 100, 8


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for every few fragments, however small."""
    monkeypatch.setattr(building, "LEAST_BYTES", 0)


def rows(first: int = 0, stop: int = ROWS) -> pa.Table:
    numbers = range(first, stop)
    values = np.random.default_rng(first).random((stop - first) * WIDTH, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "tag": pa.array([each % 5 for each in numbers], pa.int32()),
            "words": [f"word{each % 9} and more" for each in numbers],
            "labels": [["red", "blue"] if each % 3 else ["red"] for each in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(values), WIDTH),
        }
    )


def made(
    where: Path | str, *, stable: bool = True, access: lw.Access | None = None, **options: Any
) -> lw.Table:
    return lw.create(
        where,
        rows(),
        layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=PER_FILE, **options),
        access=access,
    )


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return made(tmp_path / "t.lance")


def found(dataset: Any, condition: str, *, name: str | None = None) -> list[int]:
    """The ids that a condition finds, by an index and by a scan alike."""
    asked = dataset.scanner(columns=["id"], filter=condition)
    if name is not None:
        assert f"@{name}(" in asked.explain_plan(True)
    scanned = dataset.scanner(columns=["id"], filter=condition, use_scalar_index=False)
    answer = sorted(asked.to_table()["id"].to_pylist())
    assert answer == sorted(scanned.to_table()["id"].to_pylist())
    return answer


def directories(table: lw.Table) -> set[str]:
    """The directories below the table's root with files of segments."""
    return {each.parts[-2] for each in (Path(table.uri) / "_indices").rglob("*.*")}


def named(table: lw.Table) -> set[str]:
    return {str(each.uuid) for each in table.indices if each.base_id is None}


# Creating


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        ("id", None, "BTREE"),
        ("id", "lookup", "BTREE"),
        ("flag", "lookup", "BITMAP"),
        ("words", "lookup", "BTREE"),
        ("words", "search", "INVERTED"),
        ("words", "fts", "INVERTED"),
        ("labels", None, "LABEL_LIST"),
        ("labels", "search", "LABEL_LIST"),
        ("vector", "search", "IVF_FLAT"),
        ("vector", None, "IVF_FLAT"),
        ("id", "zonemap", "ZONEMAP"),
    ],
)
def test_a_kind_is_chosen_by_the_type_of_the_column(
    table: lw.Table, column: str, kind: str | None, expected: str
) -> None:
    table = table.add_columns({"flag": "id % 2 = 0"}).indices.create(column, kind)
    (info,) = table.indices.list()
    assert (info.name, info.column, info.kind) == (f"{column}_idx", column, expected)
    (described,) = judged(table.uri).describe_indices()
    assert described.name == info.name
    assert described.num_rows_indexed == ROWS


def test_many_vectors_are_coded(table: lw.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.jobs.index.choosing.FEW_VECTORS", 500)
    (info,) = table.indices.create("vector", "search", metric="cosine").indices.list()
    assert (info.kind, info.metric) == ("IVF_PQ", "cosine")


def test_a_listing_tells_what_an_index_covers_from_the_manifest_alone(table: lw.Table) -> None:
    before = table.version
    table = table.indices.create("id", name="by id", message="faster")
    counts = counts_of(table, lw.IndexCounts)
    (info,) = table.append(rows(600, 650)).delete("id < 20").indices.list()
    assert info == lw.IndexInfo(
        name="by id",
        column="id",
        kind="BTREE",
        metric=None,
        segments=1,
        bytes=counts.bytes,
        rows_covered=580,
        rows_uncovered=50,
        fragments_covered=6,
        fragments_uncovered=1,
        version=before,
        created=info.created,
    )
    assert counts == lw.IndexCounts(("by id",), 1, 0, 6, ROWS, counts.bytes)
    sizes = [each.stat().st_size for each in (Path(table.uri) / "_indices").rglob("*.*")]
    assert counts.bytes == sum(sizes)
    assert "faster" in {each.message for each in table.versions()}


def test_tasks_build_segments_that_become_one_and_nothing_else_is_left(table: lw.Table) -> None:
    told: list[tuple[str, int, int]] = []
    threads = LocalRunner(2, progress=lambda *each: told.append(each))
    table = table.indices.create("id", runner=threads)
    assert {what for what, _, _ in told} == {"indexing", "merging"}
    assert max(total for what, _, total in told if what == "indexing") == 2
    assert directories(table) == named(table)
    (segment,) = table.indices
    assert segment.dataset_version == table.version - 1
    assert RECORD in {each.path for each in segment.files}
    assert found(judged(table.uri), "id = 77", name="id_idx") == [77]
    assert not table.verify().problems


def test_a_dry_run_says_what_would_be_built_and_builds_nothing(table: lw.Table) -> None:
    same = table.indices.create("id", dry_run=True)
    assert same.version == table.version
    assert counts_of(same, lw.IndexCounts) == lw.IndexCounts(("id_idx",), 1, 0, 6, ROWS, 0)
    assert directories(table) == set()
    with pytest.raises(lw.InvalidInputError, match="no index"):
        table.indices.create("labels", "lookup-", dry_run=True)


def test_a_name_that_is_taken_is_refused_unless_it_is_replaced(table: lw.Table) -> None:
    table = table.indices.create("id")
    with pytest.raises(lw.AlreadyExistsError, match="index 'id_idx' already: replace=True"):
        table.indices.create("id")
    after = table.indices.create("id", "BITMAP", replace=True)
    (info,) = after.indices.list()
    assert (info.column, info.kind) == ("id", "BITMAP")
    assert counts_of(after, lw.IndexCounts).segments_removed == 1
    assert found(judged(after.uri), "id = 3", name="id_idx") == [3]


def test_an_index_of_another_column_is_not_replaced(table: lw.Table) -> None:
    table = table.indices.create("id")
    refused = "index 'id_idx' is on column 'id', not 'tag'"
    with pytest.raises(lw.AlreadyExistsError, match=refused):
        table.indices.create("tag", "BITMAP", name="id_idx", replace=True, dry_run=True)
    with pytest.raises(lw.AlreadyExistsError, match="drop it first, or name= gives"):
        table.indices.create("tag", "BITMAP", name="id_idx", replace=True)
    after = table.rename_column("id", "number")
    assert after.indices.create("number", name="id_idx", replace=True).indices.list()


def test_a_second_index_on_the_same_vectors_is_refused(table: lw.Table) -> None:
    table = table.indices.create("vector")
    with pytest.raises(lw.AlreadyExistsError, match="has the vector index 'vector_idx' already"):
        table.indices.create("vector", "IVF_PQ", name="other")
    assert table.indices.create("vector", "IVF_PQ", replace=True).indices.list()[0].kind == "IVF_PQ"


def test_an_index_is_dropped_by_its_name(table: lw.Table) -> None:
    table = table.indices.create("id").indices.create("tag")
    with pytest.raises(lw.NotFoundError, match=r"'no' not found in .*'id_idx', 'tag_idx'"):
        table.indices.drop("no")
    assert table.indices.drop("id_idx", dry_run=True).version == table.version
    after = table.indices.drop("id_idx")
    assert [each.name for each in after.indices] == ["tag_idx"]
    assert [each.name for each in judged(after.uri).describe_indices()] == ["tag_idx"]
    assert counts_of(after, lw.IndexCounts).segments_removed == 1
    assert table.indices == tuple(table.indices)
    assert table.indices != after.indices
    assert table.indices[:1] == tuple(table.indices)[:1]


# What is refused, before anything is written


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"column": "no"}, "column 'no' not found"),
        ({"column": "vector", "kind": "BTREE"}, "on which no BTREE index is built: .*IVF_FLAT"),
        ({"column": "id", "kind": "IVF_PQ"}, "no IVF_PQ index is built: .*BTREE"),
        ({"column": "id", "kind": "search"}, "no index for search is built: .*BTREE"),
        ({"column": "id", "kind": "RTREE"}, "no index of kind 'RTREE'"),
        ({"column": "id", "kind": 7}, "kind is the name"),
        ({"column": "id", "name": ""}, "cannot be called ''"),
        ({"column": "id", "name": "__lance_frag_reuse"}, "cannot be called"),
        ({"column": "id", "metric": "l2"}, "metric is for vectors"),
        ({"column": "id", "partitions": 3}, "partitions is for vectors"),
        ({"column": "vector", "kind": "IVF_FLAT", "sub_vectors": 3}, "sub_vectors is for product"),
        ({"column": "vector", "kind": "IVF_PQ", "sub_vectors": 3}, "cannot be cut into 3"),
        ({"column": "vector", "partitions": 0}, "partitions must be a whole number from 1"),
        ({"column": "vector", "partitions": 500}, "500 partitions of 600 rows"),
        ({"column": "vector", "metric": "far"}, "metric is one of l2, .*got 'far'"),
        ({"column": "vector", "metric": "hamming"}, "compared by l2, cosine or dot"),
        ({"column": "id", "options": {"speed": 1}}, "no option 'speed': it has none"),
        ({"column": "words", "kind": "INVERTED", "options": {"x": 1}}, "it has base_tokenizer"),
        ({"column": "id", "options": 3}, "options takes names"),
        ({"column": "id", "name": "a\0b"}, "cannot be called"),
        ({"column": "id", "name": "a\nb"}, "cannot be called .*name="),
        ({"column": "id", "name": " "}, "cannot be called ' '"),
        ({"column": "id", "runner": 3}, "runner must have a run"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    table: lw.Table, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=text):
        table.indices.create(**arguments)
    assert directories(table) == set()
    assert table.latest().version == table.version


@pytest.mark.parametrize(
    ("column", "kind", "options", "text"),
    [
        ("vector", "IVF_PQ", {"num_bits": 100_000}, "num_bits .* must be one of 4, 8, got 100000"),
        ("vector", "IVF_PQ", {"num_bits": True}, "must be one of 4, 8, got True"),
        ("vector", "IVF_RQ", {"num_bits": 10}, "a whole number from 1 to 9"),
        ("vector", "IVF_FLAT", {"sample_rate": -5}, "a whole number from 1 to .*, got -5"),
        ("vector", "IVF_FLAT", {"max_iterations": 1.5}, "max_iterations of IVF_FLAT must be"),
        ("vector", "IVF_HNSW_SQ", {"m": 3}, "a whole number from 4"),
        ("vector", "IVF_HNSW_SQ", {"m": 200}, r"m \(200\) must be at most ef_construction \(150\)"),
        ("vector", "IVF_HNSW_SQ", {"max_level": 1 << 16}, "to 65535"),
        ("id", "ZONEMAP", {"rows_per_zone": -1}, "a whole number from 1"),
        ("id", "ZONEMAP", {"rows_per_zone": "x"}, "a whole number from 1 .*, got 'x'"),
        ("id", "BLOOMFILTER", {"probability": float("nan")}, "a number between 0 and 1"),
        ("id", "BLOOMFILTER", {"probability": "x"}, "a number between 0 and 1"),
        ("words", "INVERTED", {"language": "english"}, "one of Arabic, .*got 'english'"),
        ("words", "INVERTED", {"base_tokenizer": 3}, "one of simple, .*lindera/<model>"),
        ("words", "INVERTED", {"stem": 1}, "true or false"),
        ("words", "INVERTED", {"custom_stop_words": "a"}, "a list of words"),
        ("words", "INVERTED", {"block_size": 100}, "one of 128, 256"),
        ("words", "INVERTED", {"max_token_length": 0}, "from 1 to .*, or none"),
        ("words", "INVERTED", {"min_ngram_length": 4}, "at most max_ngram_length"),
    ],
)
def test_values_that_an_option_does_not_take_are_refused(
    table: lw.Table, column: str, kind: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=text):
        table.indices.create(column, kind, options=options)
    assert directories(table) == set()


@pytest.mark.parametrize(
    ("column", "kind", "options"),
    [
        ("id", "ZONEMAP", {"rows_per_zone": np.int64(50)}),
        ("id", "BLOOMFILTER", {"number_of_items": 100, "probability": np.float64(0.1)}),
        ("words", "INVERTED", {"base_tokenizer": "icu/split", "max_token_length": None}),
        ("words", "INVERTED", {"custom_stop_words": ("a", "b"), "language": "German"}),
        ("words", "INVERTED", {"base_tokenizer": "code", "block_size": 256, "num_workers": 1}),
        ("vector", "IVF_PQ", {"num_bits": 4, "sample_rate": 10, "max_iterations": 3}),
        ("vector", "IVF_RQ", {"num_bits": 9}),
        ("vector", "IVF_HNSW_FLAT", {"m": 4, "ef_construction": 20, "max_level": 2}),
    ],
)
def test_values_that_an_option_takes_are_those_that_pylance_takes(
    table: lw.Table, column: str, kind: str, options: dict[str, Any]
) -> None:
    made = table.indices.create(column, kind, options=options)
    assert made.append(table.to_arrow()).indices.extend().indices.list()[0].rows_uncovered == 0


def test_codes_of_four_bits_want_an_even_number_of_parts(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="1 sub_vectors are not even"):
        table.indices.create("vector", "IVF_PQ", sub_vectors=1, options={"num_bits": 4})


@pytest.mark.parametrize("name", ["1at", "1", "1_a", "٣a", "²"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def test_a_field_of_a_struct_that_begins_with_a_digit_is_refused(
    tmp_path: Path, name: str, kind: str
) -> None:
    inner = pa.array([{name: each, "b": -each} for each in range(50)])
    table = lw.create(tmp_path / "t", pa.table({"s": inner, "1top": range(50)}))
    with pytest.raises(lw.InvalidInputError, match=f"name '{name}', which begins.*rename"):
        table.indices.create(f"s.{name}", kind)
    assert directories(table) == set()
    table = table.rename_column(f"s.{name}", "a").indices.create("s.a", kind)
    assert judged(table.uri).to_table(filter="s.a = 7")["s"].to_pylist() == [{"a": 7, "b": -7}]
    table = table.indices.create("1top", kind)
    assert judged(table.uri).to_table(filter="`1top` = 7").num_rows == 1


def test_other_names_inside_of_structs_are_understood(tmp_path: Path) -> None:
    for number, name in enumerate(["1-a", "1a.b", "_1", "end", "is null", 'a"b']):
        rows = pa.table({"s": pa.array([{name: each} for each in range(50)])})
        table = lw.create(tmp_path / str(number), rows).indices.create(f"s.{name}", "BTREE")
        (directory,) = directories(table)
        pages = Path(table.uri) / "_indices" / directory / "page_lookup.lance"
        assert LanceFileReader(str(pages)).metadata().schema.field("min").type == pa.int64()


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (pa.array([True, None, False] * 40), {"BLOOMFILTER"}),
        (pa.array([1, None, 3] * 40, pa.int8()), set()),
        (pa.array([1.5, None, float("nan")] * 40), set()),
        (pa.array([1, None, 3] * 40, pa.float16()), {"BLOOMFILTER"}),
        (pa.array(["a", None, "c"] * 40, pa.large_string()), set()),
        (pa.array([b"ab", None, b"cd"] * 40, pa.binary(2)), {"BLOOMFILTER"}),
        (pa.array([1, None, 3] * 40, pa.duration("us")), {"BLOOMFILTER"}),
        (pa.array([1, None, 3] * 40, pa.timestamp("ns", "UTC")), set()),
        (pa.array([1, None, 3] * 40, pa.decimal128(9, 2)), {"BLOOMFILTER"}),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_plain_values_of_every_type_and_nulls_among_them_are_indexed(
    tmp_path: Path, values: pa.Array, missing: set[str]
) -> None:
    table = lw.create(
        tmp_path / "t",
        pa.table({"id": range(120), "v": values}),
        layout=lw.Layout(max_rows_per_file=50),
    )
    for kind in ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"):
        if kind in missing:
            with pytest.raises(lw.InvalidInputError, match="no BLOOMFILTER index is built"):
                table.indices.create("v", kind, name="i", replace=True)
            continue
        table = table.indices.create("v", kind, name="i", replace=True)
        dataset = judged(table.uri)
        assert len(found(dataset, "v IS NULL")) == 40
        assert found(dataset, "v IS NOT NULL AND id < 9") == [0, 2, 3, 5, 6, 8]


def test_too_few_rows_for_product_codes_are_refused(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", rows(0, 200))
    with pytest.raises(lw.InvalidInputError, match="256 rows or more, and the table has 200"):
        table.indices.create("vector", "IVF_PQ")


@pytest.mark.parametrize("kind", [None, "search"])
def test_lists_of_floats_are_no_vectors_until_they_have_one_length(
    tmp_path: Path, kind: str | None
) -> None:
    table = lw.create(tmp_path / "t", pa.table({"v": [[0.5, each / 7] for each in range(300)]}))
    with pytest.raises(lw.InvalidInputError, match=r"list<.*LABEL_LIST\. .*: cast_column to a"):
        table.indices.create("v", kind)
    with pytest.raises(lw.InvalidInputError, match=r"holds vectors, .*\(cast_column makes such"):
        table.search(vector=[0.5, 0.5])
    table = table.cast_column("v", pa.list_(pa.float32(), 2)).indices.create("v", kind)
    assert [each.kind for each in table.indices.list()] == ["IVF_FLAT"]
    assert table.search(vector=[0.5, 0.5], k=3).num_rows == 3


def test_a_state_that_a_commit_pins_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "r")
    with repo.transaction("main", "rows") as changes:
        changes.create_table("t", pa.table({"id": range(9)}))
    with repo.transaction("main", "index") as changes:
        changes.table("t").indices.create("id")
    with repo.transaction("main", "more") as changes:
        changes.table("t").append(pa.table({"id": range(9, 12)}))
    indices = repo.at("main").table("t").indices
    refused = pytest.raises(lw.InvalidInputError, match=r"is detached.*repo\.transaction\(\)")
    with refused:
        indices.extend()
    with refused:
        indices.optimize()
    with refused:
        indices.create("id", name="other")


def test_a_table_without_rows_and_one_in_memory_are_refused(tmp_path: Path) -> None:
    empty = lw.create(tmp_path / "t", rows().schema)
    with pytest.raises(
        lw.InvalidInputError, match="has no rows, and index 'id_idx' is built of some"
    ):
        empty.indices.create("id")
    inside = lw.create(f"memory://{uuid4().hex}/t", rows())
    with pytest.raises(lw.UnsupportedError, match="in this process only"):
        inside.indices.create("id")


def test_deferred_remapping_of_pylance_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(rows(), uri, max_rows_per_file=PER_FILE)
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files(target_rows_per_fragment=200, defer_index_remap=True)
    table = lw.open(uri)
    before = directories(table)
    refused = pytest.raises(lw.UnsupportedError, match="__lance_frag_reuse")
    with refused:
        table.indices.create("tag")
    with refused:
        table.indices.extend()
    with refused:
        table.indices.optimize()
    assert directories(table) == before
    assert table.indices.list()[0].rows_covered is None
    with pytest.raises(lw.NotFoundError, match="it has 'id_idx'"):
        table.indices.drop("__lance_frag_reuse")


def test_kinds_that_are_not_built_here_are_left_alone(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(), uri).create_scalar_index("words", "MINHASHLSH", name="near")
    table = lw.open(uri).append(rows(600, 620))
    assert table.indices.extend().version == table.version
    with pytest.raises(lw.UnsupportedError, match="not built here"):
        table.indices.extend("near")


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    ("column", "settings"),
    [
        ("tag", {"kind": "BITMAP"}),
        ("words", {"kind": "INVERTED", "options": {"with_position": True, "stem": False}}),
        ("vector", {"kind": "IVF_HNSW_SQ", "metric": "cosine", "partitions": 2}),
        ("vector", {"kind": "IVF_PQ", "metric": "dot", "sub_vectors": 2, "partitions": 2}),
    ],
)
@pytest.mark.parametrize("is_theirs", [False, True])
def test_an_index_that_is_built_anew_without_a_kind_stays_what_it_was(
    table: lw.Table, column: str, settings: dict[str, Any], is_theirs: bool
) -> None:
    if is_theirs and column == "tag":
        lance.dataset(table.uri).create_scalar_index("tag", "BITMAP")
    else:
        table.indices.create(column, **settings)
    (before,) = judged(table.uri).describe_indices()
    after = lw.open(table.uri).indices.create(column, replace=True)
    (found,) = judged(table.uri).describe_indices()
    assert (found.index_type, found.details) == (before.index_type, before.details)
    (info,) = after.indices.list()
    assert (info.kind, info.metric) == (settings["kind"], settings.get("metric"))


def test_what_is_said_changes_an_index_that_is_built_anew(table: lw.Table) -> None:
    table = table.indices.create("words", "INVERTED", options={"stem": False, "lower_case": False})
    table = table.indices.create("words", replace=True, options={"stem": True})
    (found,) = judged(table.uri).describe_indices()
    assert (found.details["stem"], found.details["lower_case"]) == (True, False)
    table = table.indices.create("words", "BTREE", replace=True)
    assert table.indices.list()[0].kind == "BTREE"


def test_an_index_whose_files_are_gone_is_built_anew_without_a_kind(table: lw.Table) -> None:
    lance.dataset(table.uri).create_scalar_index("words", "INVERTED", with_position=True)
    shutil.rmtree(Path(table.uri) / "_indices")
    table = lw.open(table.uri).indices.create("words", replace=True)
    assert table.indices.list()[0].kind == "INVERTED"
    assert table.search(text="word3", k=100).num_rows == table.count_rows("id % 9 = 3")


def test_several_indices_are_extended_by_the_same_rows(table: lw.Table) -> None:
    for column in ("id", "tag"):
        table = table.indices.create(column)
    table = table.append(rows(600, 620)).indices.extend()
    counts = counts_of(table, lw.IndexCounts)
    assert (counts.rows, counts.fragments, counts.segments_added) == (20, 1, 2)
