"""What is asked of a search is checked first, and its answers are put in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancewood as lw
from lancewood.data.index_search import Found
from lancewood.engine.searching.allowed import FEW, AllowedRows
from lancewood.engine.searching.columns import SearchedColumn, find_text_column, find_vector_column
from lancewood.engine.searching.nearest import VectorOptions, searched_metric
from lancewood.engine.searching.ranking import fused, ranked, ranks, settled
from lancewood.engine.searching.vectors import as_vectors
from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.model.index import Index
from lancewood.proto import table_pb2

VECTORS = pa.list_(pa.float32(), 3)
COLUMN = SearchedColumn(("v",), VECTORS, None)


def found(rows: list[tuple[int, int, float]]) -> Found:
    queries, addresses, values = zip(*rows, strict=True) if rows else ((), (), ())
    return Found(
        np.array(queries, np.int32), np.array(addresses, np.uint64), np.array(values, np.float32)
    )


def listed(rows: Found) -> list[tuple[int, int, float]]:
    return list(zip(*(each.tolist() for each in rows), strict=True))


# Vectors


@pytest.mark.parametrize(
    "given",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        np.array([1, 2, 3]),
        np.array([1, 2, 3], np.float16),
        pa.array([1, 2, 3]),
        pa.chunked_array([[1, 2], [3]]),
        pa.array([[1, 2, 3]], VECTORS)[0],
        pa.array([[1, 2, 3]])[0],
    ],
)
def test_one_vector_in_any_form_is_one(given: Any) -> None:
    made = as_vectors(given, COLUMN)
    assert made.dtype == np.float32
    assert made.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "given",
    [
        [[1, 2, 3], [4, 5, 6]],
        np.array([[1, 2, 3], [4, 5, 6]]),
        pa.array([[1, 2, 3], [4, 5, 6]]),
        pa.array([[0, 0, 0], [1, 2, 3], [4, 5, 6]], VECTORS)[1:],
        pa.array([[0, 0, 0], [1, 2, 3], [4, 5, 6]], pa.large_list(pa.float64()))[1:],
        pa.chunked_array([pa.array([[1, 2, 3]], VECTORS), pa.array([[4, 5, 6]], VECTORS)]),
    ],
)
def test_several_vectors_in_any_form_are_several(given: Any) -> None:
    assert as_vectors(given, COLUMN).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([1, 2], "vector has 2 numbers, and those in column 'v' have 3"),
        ([[1, 2, 3, 4]], "vector has 4 numbers"),
        ([], "got an array with the shape"),
        (7, "got an array with the shape"),
        (np.zeros((0, 3)), "got an array with the shape"),
        (np.zeros((1, 1, 3)), "got an array with the shape"),
        ([1, float("nan"), 3], "holds nan at 1, which is no finite float"),
        ([[1, 2, 3], [1, 2, float("-inf")]], "holds -inf at 2 of query 1"),
        ([1, 1e300, 3], "holds 1e.300 at 1, which is no finite float"),
        ([1, None, 3], "list of numbers"),
        ([[1, 2, 3], [1, 2]], "lists of several lengths"),
        ("abc", "list of numbers"),
        (["a", "b", "c"], "list of numbers"),
        ([True, False, True], "list of numbers"),
        ([1j, 2, 3], "list of numbers"),
        ({"a": 1}, "list of numbers"),
        (pa.array([1, None, 3]), "holds a null"),
        (pa.array([[1, 2, 3], None]), "holds a null"),
        (pa.array([[1, None, 3]]), "holds a null"),
        (pa.array([[1, 2, 3], [1, 2]]), "lists of several lengths"),
        (pa.array(["a"]), "list of numbers"),
    ],
)
def test_what_is_no_vector_of_the_column_is_refused(given: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        as_vectors(given, COLUMN)


def test_small_whole_numbers_are_taken_as_they_are_or_not_at_all() -> None:
    column = SearchedColumn(("v",), pa.list_(pa.uint8(), 2), None)
    assert as_vectors([1, 255], column).dtype == np.uint8
    for wrong in ([1, 256], [-1, 0], [0.5, 1]):
        with pytest.raises(InvalidInputError, match="no finite uint8"):
            as_vectors(wrong, column)


# Order


def test_rows_are_ranked_by_value_and_then_by_address() -> None:
    rows = [(1, 5, 0.5), (0, 9, 0.5), (0, 3, 0.5), (0, 1, 0.7), (1, 4, 0.1), (0, 2, 0.1)]
    first = listed(ranked(found(rows), 3))
    assert [each[:2] for each in first] == [(0, 2), (0, 3), (0, 9), (1, 4), (1, 5)]
    best = listed(ranked(found(rows), 1, best_is_high=True))
    assert [each[:2] for each in best] == [(0, 1), (1, 5)]
    assert listed(ranked(found([]), 3)) == []
    assert ranks(np.array([0, 0, 2, 2, 2, 5], np.int32)).tolist() == [0, 1, 0, 1, 2, 0]
    assert ranks(np.array([], np.int32)).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_are_as_good_as_the_last_are_told_apart_by_address(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 3, (4, 300)).astype(np.float32)
    asked = []

    def ask(queries: Any, k: int) -> Found:
        asked.append(k)
        rows = []
        for number, query in enumerate(queries.tolist()):
            shuffled = random.permutation(300)
            best = shuffled[np.argsort(values[query][shuffled], kind="stable")][:k]
            rows += [(number, int(each), float(values[query][each])) for each in best]
        random.shuffle(rows)
        return found(rows)

    every = [(q, a, float(values[q][a])) for q in range(4) for a in range(300)]
    assert listed(settled(ask, 4, 7)) == listed(ranked(found(every), 7))
    assert asked[0] == 8


def test_no_more_is_asked_for_if_the_last_row_is_better_than_the_next() -> None:
    asked = []

    def ask(queries: Any, k: int) -> Found:
        asked.append(k)
        return found([(0, each, each) for each in range(k)])

    assert [each[1] for each in listed(settled(ask, 1, 3))] == [0, 1, 2]
    assert asked == [4]


def test_two_rankings_are_fused_by_reciprocal_ranks() -> None:
    one, other = np.array([7, 8, 9], np.uint64), np.array([9, 5, 7], np.uint64)
    addresses, scores = fused([one, other], 3)
    assert addresses.tolist() == [7, 9, 5]
    expected = [1 / 61 + 1 / 63, 1 / 63 + 1 / 61, 1 / 62]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    none = np.array([], np.uint64)
    assert fused([none, one], 2)[0].tolist() == [7, 8]
    assert fused([none, none], 2)[0].tolist() == []


# Rows that may be found


def scanned(ids: list[int], addresses: list[int]) -> pa.RecordBatch:
    columns = {"_rowid": pa.array(ids, pa.uint64()), "_rowaddr": pa.array(addresses, pa.uint64())}
    return pa.record_batch(columns)


def test_row_ids_are_written_as_bitmaps_by_their_upper_halves() -> None:
    rows = AllowedRows()
    rows.add(scanned([5, 1 << 33, 6], [1, 2, 3]))
    other = AllowedRows()
    other.add(scanned([(1 << 33) + 9, 7], [8, 9]))
    assert rows.encode() == rows.encode()
    rows.update(other)
    assert len(rows) == 5
    assert rows.few is not None
    assert rows.few.tolist() == [1, 2, 3, 8, 9]
    data = rows.encode()
    low, high = BitMap([5, 6, 7]), BitMap([0, 9])
    for each in (low, high):
        each.run_optimize()
    expected = (2).to_bytes(4, "little")
    for number, bitmap in ((0, low.serialize()), (2, high.serialize())):
        expected += number.to_bytes(4, "little") + len(bitmap).to_bytes(4, "little") + bitmap
    assert data == expected
    many = list(range(FEW + 1))
    rows.add(scanned(many, many))
    assert rows.few is None


# Columns


def make(tmp_path: Path, **columns: pa.DataType) -> lw.Table:
    return lw.create(
        tmp_path / "t.lance", pa.schema(list(columns.items())), access=lw.Access(fsync=False)
    )


def test_the_only_column_of_vectors_is_meant(tmp_path: Path) -> None:
    table = make(tmp_path, a=pa.int64(), s=pa.struct([("v", VECTORS), ("n", pa.int64())]))
    assert find_vector_column(table._snapshot).path == ("s", "v")
    assert find_vector_column(table._snapshot, "s.v").dimension == 3
    with pytest.raises(InvalidInputError, match=r"no column of .* holds texts, which are strings"):
        find_text_column(table._snapshot)


def test_a_column_that_is_not_clear_is_refused_with_the_candidates(tmp_path: Path) -> None:
    table = make(tmp_path, v=VECTORS, w=pa.list_(pa.float64(), 2), l=pa.list_(pa.float32()))
    asked: Any = {"vector": [1, 2, 3]}
    for more, why in (
        ({}, "several columns hold vectors: v, w; column= says which"),
        ({"column": "l"}, "'l' holds no vectors, which are fixed-size .*: v, w can be searched"),
        ({"column": "x"}, "column 'x' not found: the table has v, w, l"),
        ({"column": 3}, "column takes the name of a column, got 3"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            table.search(**asked, **more)
    assert table.search(**asked, column="v").num_rows == 0


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "needs vector=, like= or text="),
        ({"vector": [1, 2, 3], "like": 1}, "vector= or like=, not both"),
        ({"vector": [1, 2, 3], "k": 0}, "k must be a whole number from 1, got 0"),
        ({"vector": [1, 2, 3], "k": 2.5}, "k must be a whole number from 1, got 2.5"),
        ({"vector": [1, 2, 3], "refine": 0}, "refine must be a whole number from 1"),
        ({"vector": [1, 2, 3], "nprobes": "x"}, "nprobes must be a whole number from 1"),
        ({"vector": [1, 2, 3], "metric": "L3"}, "metric is one of l2, cosine, dot, hamming"),
        ({"vector": [1, 2, 3], "metric": 2}, "metric is one of l2, cosine, dot, hamming, got 2"),
        ({"vector": [1, 2, 3], "where": "nope = 1"}, "nope"),
        ({"vector": [1, 2, 3], "where": 3}, "where takes SQL text"),
        ({"vector": [1, 2, 3], "parameters": {"a": 1}}, "neither where nor columns"),
        ({"vector": [1, 2, 3], "columns": ["nope"]}, "column 'nope' not found"),
        ({"vector": [1, 2, 3], "columns": "v"}, "columns takes a list"),
        ({"vector": [1, 2, 3], "columns": {"_distance": "a"}}, "one that a search adds"),
        ({"vector": [1, 2, 3], "text_column": "t"}, "text_column= is for a search by vector and"),
        ({"vector": [[1, 2, 3]] * 2, "text": "a"}, "takes one vector"),
        (
            {"vector": [1, 2, 3], "metric": "hamming"},
            "by l2, cosine or dot, not by hamming",
        ),
        ({"like": -1}, "like must be a whole number"),
        ({"text": ""}, "text takes words to search for"),
        ({"text": 3}, "text takes words to search for"),
        ({"text": "\ud800 hi"}, "text takes words to search for"),
        ({"text": "a", "metric": "l2"}, "are for a search by vector"),
        ({"text": "a", "use_index": False}, "are for a search by vector"),
        ({"text": "a", "column": "a"}, "'a' holds no texts"),
    ],
)
def test_what_a_search_cannot_do_is_said_first(
    tmp_path: Path, asked: dict[str, Any], why: str
) -> None:
    table = make(tmp_path, a=pa.int64(), v=VECTORS, t=pa.string())
    with pytest.raises(LancewoodError, match=why):
        table.search(**asked)


def test_a_table_in_memory_cannot_be_searched() -> None:
    table = lw.create("memory://search/t", pa.table({"v": pa.array([[1, 2, 3]], VECTORS)}))
    with pytest.raises(UnsupportedError, match=r"in the memory of this process.*on a disk"):
        table.search(vector=[1, 2, 3])


def test_an_index_that_does_not_say_its_metric_is_asked_with_one() -> None:
    message = table_pb2.IndexMetadata(name="old")
    message.index_details.type_url = "/lance.index.pb.VectorIndexDetails"
    column = SearchedColumn(("v",), VECTORS, Index(message))
    with pytest.raises(UnsupportedError, match=r"'old' does not say by which metric.*metric="):
        searched_metric(column, VectorOptions())
    assert searched_metric(column, VectorOptions(metric="COSINE")) == "cosine"
    assert searched_metric(column, VectorOptions(use_index=False)) == "l2"
