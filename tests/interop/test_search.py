"""Search by vectors: numpy compares all of them, pylance gives the rows, and both judge."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.data import index_search
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError

ROWS, PER_FILE, WIDTH, K = 3_000, 500, 16, 10
KINDS = {
    "IVF_FLAT": 0.95,
    "IVF_PQ": 0.9,
    "IVF_SQ": 0.95,
    "IVF_RQ": 0.9,
    "IVF_HNSW_FLAT": 0.9,
    "IVF_HNSW_PQ": 0.9,
    "IVF_HNSW_SQ": 0.9,
}
"""The part of the true neighbours that is found at least."""


def vectors(count: int, seed: int) -> Any:
    """Around a few dozen places, as embeddings are."""
    random = np.random.default_rng(seed)
    places = np.random.default_rng(1).normal(size=(40, WIDTH))
    spread = random.normal(size=(count, WIDTH)) * 0.4
    return (places[random.integers(0, len(places), count)] + spread).astype(np.float32)


def rows(first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    values = vectors(len(ids), first)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "kind": pa.array([each % 10 for each in ids], pa.int32()),
            "name": [f"row {each}" for each in ids],
            "near": pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), WIDTH),
        }
    )


QUERIES = vectors(20, seed=77)


@pytest.fixture(scope="module", params=[True, False], ids=["stable ids", "addresses"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """A table without an index."""
    uri = tmp_path_factory.mktemp("plain") / "t.lance"
    return lw.create(
        uri,
        rows(0, ROWS),
        layout=lw.Layout(max_rows_per_file=PER_FILE, stable_row_ids=request.param),
        access=lw.Access(fsync=False),
    )


@pytest.fixture
def table(plain: lw.Table, tmp_path: Path) -> lw.Table:
    """The same, to be changed."""
    shutil.copytree(plain.uri, tmp_path / "t.lance")
    return lw.open(tmp_path / "t.lance")


def indexed(table: lw.Table, kind: str = "IVF_PQ", metric: str = "l2") -> lw.Table:
    settings = {"num_sub_vectors": 8} if "PQ" in kind else {}
    dataset = lance.dataset(table.uri)
    dataset.create_index("near", kind, metric=metric, num_partitions=4, name="near", **settings)
    return lw.open(table.uri)


Distances = Callable[[Any, Any], Any]
METRICS: dict[str, Distances] = {
    "l2": lambda stored, query: ((stored - query) ** 2).sum(1),
    "dot": lambda stored, query: 1 - stored @ query,
    "cosine": lambda stored, query: (
        1 - stored @ query / np.linalg.norm(stored, axis=1) / np.linalg.norm(query)
    ),
}


def truth(
    dataset: Any, query: Any, metric: str = "l2", k: int = K, where: str | None = None
) -> tuple[list[int], list[float]]:
    """The nearest ids and their distances, by numpy over the rows that pylance gives."""
    there = dataset.to_table(columns=["id", "near"], filter=where)
    stored = np.stack(there["near"].to_numpy()).astype(np.float64)
    distances = METRICS[metric](stored, query.astype(np.float64))
    order = np.argsort(distances, kind="stable")[:k]
    ids = there["id"].to_numpy()[order]
    return ids.tolist(), distances[order].tolist()


def recall(table: lw.Table, metric: str = "l2", where: str | None = None, **how: Any) -> float:
    """The part of the true neighbours that a search finds."""
    dataset = table.lance()
    hits = 0
    for query in QUERIES:
        found = table.search(vector=query, columns=["id"], where=where, **how)
        hits += len(set(found["id"].to_pylist()) & set(truth(dataset, query, metric, K, where)[0]))
    return hits / len(QUERIES) / K


def check_exact(table: lw.Table, metric: str | None = None, where: str | None = None) -> None:
    """A search that uses no index gives what numpy gives, in its order."""
    dataset = judged(table.uri) if table.branch is None else table.lance()
    for query in QUERIES[:5]:
        found = table.search(
            vector=query, columns=["id"], metric=metric, where=where, use_index=False
        )
        ids, distances = truth(dataset, query, metric or "l2", where=where)
        assert found["id"].to_pylist() == ids
        np.testing.assert_allclose(found["_distance"], distances, rtol=1e-4, atol=1e-5)


# What is exact


@pytest.mark.parametrize("metric", METRICS)
def test_without_an_index_a_search_is_brute_force(plain: lw.Table, metric: str) -> None:
    check_exact(plain, metric)


def test_the_answer_has_the_columns_asked_for_and_a_distance(plain: lw.Table) -> None:
    query = QUERIES[0]
    found = plain.search(vector=query, k=3)
    assert found.schema.names == [*plain.schema.names, "_distance"]
    assert found.schema.field("_distance").type == pa.float32()
    ids = truth(plain.lance(), query, k=3)[0]
    assert found.drop_columns("_distance") == plain.lance().to_table(
        filter=f"id in ({', '.join(map(str, ids))})"
    ).take([sorted(ids).index(each) for each in ids])
    asked = plain.search(vector=query, k=3, columns=["name", "_rowid"])
    assert asked.schema.names == ["name", "_rowid", "_distance"]
    assert plain.take(row_ids=asked["_rowid"], columns=["name"])["name"] == asked["name"]
    computed = plain.search(vector=query, k=3, columns={"double": "id * 2"})
    assert computed["double"].to_pylist() == [2 * each for each in ids]
    assert plain.search(vector=query, k=3, columns=[]).schema.names == ["_distance"]


def test_more_rows_than_there_are_gives_all(plain: lw.Table) -> None:
    found = plain.search(vector=QUERIES[0], k=2 * ROWS, columns=["id"])
    assert sorted(found["id"].to_pylist()) == list(range(ROWS))
    assert (np.diff(found["_distance"].to_numpy()) >= 0).all()


def test_vectors_may_come_as_lists_and_as_arrow_arrays(plain: lw.Table) -> None:
    query = QUERIES[0]
    expected = plain.search(vector=query, columns=["id"])
    stored = pa.FixedSizeListArray.from_arrays(pa.array(query), WIDTH)
    for given in (query.tolist(), tuple(query.tolist()), pa.array(query), stored[0]):
        assert plain.search(vector=given, columns=["id"]) == expected


@pytest.mark.parametrize("use_index", [True, False])
def test_several_vectors_at_once_give_what_each_gives(table: lw.Table, use_index: bool) -> None:
    table = indexed(table, "IVF_FLAT")
    how: dict[str, Any] = {"columns": ["id"], "k": 4, "use_index": use_index}
    alone = [table.search(vector=each, **how) for each in QUERIES[:6]]
    stored = pa.FixedSizeListArray.from_arrays(pa.array(QUERIES[:6].reshape(-1)), WIDTH)
    for given in (QUERIES[:6], QUERIES[:6].tolist(), stored, pa.chunked_array([stored])):
        found = table.search(vector=given, **how)
        assert found.schema.names == ["query_index", "id", "_distance"]
        assert found["query_index"].to_pylist() == [each for each in range(6) for _ in range(4)]
        assert found.drop_columns("query_index") == pa.concat_tables(alone).combine_chunks()


def test_equal_distances_are_in_the_order_of_the_table(tmp_path: Path) -> None:
    same = [[0.5] * 4] * 3_000
    data = pa.table({"id": range(3_000), "v": pa.array(same, pa.list_(pa.float32(), 4))})
    table = lw.create(
        tmp_path / "t.lance",
        data,
        layout=lw.Layout(max_rows_per_file=400),
        access=lw.Access(fsync=False),
    )
    table = table.append(pa.table({"id": [9_999], "v": pa.array([[0.4] * 4], data["v"].type)}))
    found = table.search(vector=[0.4] * 4, k=7, columns=["id"])
    assert found["id"].to_pylist() == [9_999, 0, 1, 2, 3, 4, 5]
    both = table.search(vector=[[0.4] * 4, [0.0] * 4], k=2, columns=["id"])
    assert both["id"].to_pylist()[:2] == [9_999, 0]


def test_rows_without_a_vector_are_never_found(tmp_path: Path) -> None:
    kind = pa.list_(pa.float32(), 2)
    values = pa.array([[0, 0], None, [1, 1], [float("nan"), 0]], kind)
    table = lw.create(tmp_path / "t.lance", pa.table({"id": [0, 1, 2, 3], "v": values}))
    assert table.search(vector=[0, 0], columns=["id"])["id"].to_pylist() == [0, 2]
    empty = lw.create(tmp_path / "e.lance", pa.schema([("v", kind)]))
    assert empty.search(vector=[0, 0]).num_rows == 0


@pytest.mark.parametrize("is_indexed", [False, True], ids=["compared", "indexed"])
@pytest.mark.parametrize("name", ["y z", "y`z", "ü", "y.z"])
def test_columns_inside_of_structs_and_with_odd_names_are_searched(
    tmp_path: Path, name: str, is_indexed: bool
) -> None:
    values = pa.array([[0, 0], [3, 3], [1, 1]], pa.list_(pa.float32(), 2))
    texts = pa.array(["hen", "owl", "owl"])
    inside = pa.StructArray.from_arrays(
        [values, texts, pa.array([1, 2, 3])], [name, f"{name} text", "n"]
    )
    table = lw.create(
        tmp_path / "t.lance",
        pa.table({"s": inside, "odd name": values}),
        access=lw.Access(fsync=False),
    )
    if is_indexed:
        table = table.indices.create(f"s.{name}", "search").indices.create("odd name", "search")
        table = table.indices.create(f"s.{name} text", "search")
    (second,) = table.scan(where="s.n = 2", columns=["_rowid"]).to_arrow()["_rowid"].to_pylist()
    asked: list[dict[str, Any]] = [
        {"vector": [2, 2], "column": f"s.{name}"},
        {"vector": [2, 2], "column": f"s.{name}", "where": "s.n > 1"},
        {"vector": [2, 2], "column": "odd name"},
        {"like": second, "column": f"s.{name}"},
        {"text": "owl", "column": f"s.{name} text"},
    ]
    for each in asked:
        found = table.search(**each, k=2, columns=["s.n"])
        assert sorted(row["n"] for row in found["s"].to_pylist()) == [2, 3]
        if "vector" in each:
            assert found["_distance"].to_pylist() == [2.0, 2.0]


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_few_rows_are_as_far_as_among_all(tmp_path: Path, kind: pa.DataType, metric: str) -> None:
    numbers = np.random.default_rng(1).integers(0, 120, (300, 64)).astype(kind.to_pandas_dtype())
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), 64)
    table = lw.create(tmp_path / "t.lance", pa.table({"id": range(300), "v": vectors}))
    asked: Any = {"vector": numbers[7], "metric": metric, "k": 9, "columns": ["id"]}
    alone, few = table.search(**asked), table.search(**asked, where="id < 299")
    truth = numbers[:299].astype(np.float64)
    products = truth @ truth[7]
    lengths = np.linalg.norm(truth, axis=1) * np.linalg.norm(truth[7])
    exact = {
        "l2": ((truth - truth[7]) ** 2).sum(1),
        "cosine": 1 - products / lengths,
        "dot": 1 - products,
    }[metric]
    assert few["id"].to_pylist() == np.argsort(exact, kind="stable")[:9].tolist()
    assert np.allclose(few["_distance"], np.sort(exact)[:9], rtol=1e-6, atol=1e-6)
    assert np.allclose(alone["_distance"][:4], few["_distance"][:4], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", [pa.uint8(), pa.float32()])
def test_a_null_inside_of_a_vector_counts_as_0(tmp_path: Path, kind: pa.DataType) -> None:
    vectors = pa.array([[1, 2], [None, 2], [9, 9]], pa.list_(kind, 2))
    table = lw.create(tmp_path / "t.lance", pa.table({"id": range(3), "v": vectors}))
    alone = table.search(vector=[0, 2], columns=["id"])
    assert alone["id"].to_pylist() == [1, 0, 2]
    assert table.search(vector=[0, 2], columns=["id"], where="id < 2") == alone.slice(0, 2)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float64()])
def test_vectors_of_other_floats_are_searched(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array(QUERIES.reshape(-1).astype(kind.to_pandas_dtype()))
    data = pa.table({"v": pa.FixedSizeListArray.from_arrays(values, WIDTH)})
    table = lw.create(tmp_path / "t.lance", data, access=lw.Access(fsync=False))
    for given in (QUERIES[3], QUERIES[3:5]):
        found = table.search(vector=given, k=1, columns=["_rowid"])
        assert found["_rowid"].to_pylist()[0] == 3


# With an index


@pytest.mark.sliced(3)
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_finds_most_of_the_true_neighbours(table: lw.Table, kind: str) -> None:
    table = indexed(table, kind)
    assert recall(table) >= KINDS[kind]
    check_exact(table)


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_those_of_the_index_with_and_without_it(table: lw.Table, metric: str) -> None:
    table = indexed(table, "IVF_FLAT", metric)
    dataset = table.lance()
    ids, distances = truth(dataset, QUERIES[0], metric)
    for use_index in (True, False):
        found = table.search(vector=QUERIES[0], columns=["id"], nprobes=4, use_index=use_index)
        assert found["id"].to_pylist() == ids
        np.testing.assert_allclose(found["_distance"], distances, rtol=1e-4, atol=1e-5)
    other = "l2" if metric == "dot" else "dot"
    with pytest.raises(InvalidInputError, match=f"finds by {metric}, not by {other}.*use_index="):
        table.search(vector=QUERIES[0], metric=other)
    check_exact(table, other)


def test_refining_makes_the_answer_of_codes_better(table: lw.Table) -> None:
    dataset = lance.dataset(table.uri)
    dataset.create_index("near", "IVF_PQ", num_partitions=4, num_sub_vectors=2)
    table = lw.open(table.uri)
    rough, fine = recall(table, refine=1), recall(table, refine=30)
    assert rough < recall(table) <= fine
    assert fine > 0.9


@pytest.mark.sliced(4)
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ"])
def test_changed_rows_are_found_where_they_are_now(table: lw.Table, kind: str) -> None:
    table = indexed(table, kind)
    table = table.update({"near": [9.0] * WIDTH}, "id in (3, 1700)")
    table = table.delete("kind = 4 or id < 3").append(rows(ROWS, ROWS + 300))
    for each in (table, table.compact()):
        found = each.search(vector=[9.0] * WIDTH, k=2, columns=["id"])
        assert sorted(found["id"].to_pylist()) == [3, 1700]
        assert found["_distance"].to_pylist() == [0.0, 0.0]
        assert recall(each) >= KINDS[kind]
        check_exact(each)
        new = rows(ROWS, ROWS + 300)["near"][7]
        assert each.search(vector=new, k=1, columns=["id"])["id"].to_pylist() == [ROWS + 7]


@pytest.mark.sliced(2)
@pytest.mark.parametrize("kind", [None, "IVF_FLAT", "IVF_PQ"])
def test_a_condition_says_which_rows_are_searched(table: lw.Table, kind: str | None) -> None:
    if kind is not None:
        table = indexed(table, kind)
    table = table.delete("id % 7 = 3").append(rows(ROWS, ROWS + 100))
    for where in ("kind = 3", "id between 40 and 70", "kind <> 3", "id >= 0"):
        assert recall(table, where=where) >= 0.9
        check_exact(table, where=where)
    asked: Any = {"vector": QUERIES[0], "columns": ["id"], "k": 5}
    narrow = table.search(**asked, where="name like $pattern", parameters={"pattern": "row 30%"})
    assert narrow.num_rows == 5
    again = table.search(**asked, where="name like 'row 30%'")
    assert again == narrow == table.search(**asked, where="name like 'row 30%'")
    none = table.search(**asked, where="id < 0")
    assert none.num_rows == 0
    assert none.schema == narrow.schema


def test_few_rows_that_meet_a_condition_are_all_found(table: lw.Table) -> None:
    for metric in METRICS:
        made = indexed(table, "IVF_PQ", metric).append(rows(ROWS, ROWS + 100))
        where = "id % 100 = 7 and kind = 7"
        query = QUERIES[0]
        found = made.search(vector=query, columns=["id"], where=where)
        ids, distances = truth(made.lance(), query, metric, where=where)
        assert found["id"].to_pylist() == ids
        np.testing.assert_allclose(found["_distance"], distances, rtol=1e-4, atol=1e-5)
        several = made.search(vector=QUERIES[:3], k=4, columns=["id"], where=where)
        alone = [made.search(vector=each, k=4, columns=["id"], where=where) for each in QUERIES[:3]]
        assert several.drop_columns("query_index") == pa.concat_tables(alone).combine_chunks()
        table = made.restore(1)


def test_bytes_are_compared_by_their_bits(tmp_path: Path) -> None:
    stored = np.random.default_rng(3).integers(0, 256, (600, 8)).astype(np.uint8)
    values = pa.FixedSizeListArray.from_arrays(pa.array(stored.reshape(-1)), 8)
    table = lw.create(tmp_path / "t.lance", pa.table({"id": range(600), "v": values}))
    bits = np.unpackbits(stored ^ stored[5], axis=1).sum(1)
    for where, allowed in ((None, range(600)), ("id < 300", range(300))):
        ids = sorted(allowed, key=lambda each: (bits[each], each))[:4]
        for given in (stored[5], stored[5:6]):
            found = table.search(vector=given, k=4, columns=["id"], where=where)
            assert found["id"].to_pylist() == ids
            assert found["_distance"].to_pylist() == [float(bits[each]) for each in ids]
    with pytest.raises(InvalidInputError, match="of uint8 are compared by hamming, not by l2"):
        table.search(vector=stored[5], metric="l2")


def test_a_row_is_searched_for_by_its_id(table: lw.Table) -> None:
    table = table.delete("id < 100")
    row = table.scan(["id"], "id = 1234", with_row_id=True).to_arrow().to_pylist()[0]
    found = table.search(like=row["_rowid"], k=3, columns=["id"])
    expected = rows(0, ROWS)["near"][1234]
    assert found == table.search(vector=expected, k=3, columns=["id"])
    assert found["id"].to_pylist()[0] == 1234
    with pytest.raises(NotFoundError, match="row id 99999999 not found"):
        table.search(like=99999999)


def test_branches_and_clones_are_searched_as_they_are(table: lw.Table, tmp_path: Path) -> None:
    table = indexed(table)
    branch = table.branches.create("exp").append(rows(ROWS, ROWS + 50)).delete("id < 500")
    inner = lw.open(table.uri, branch="exp").branches.create("inner").delete("id > 2800")
    clone = branch.clone(tmp_path / "clone.lance").append(rows(9_000, 9_050))
    for each in (table, branch, inner, clone):
        assert recall(each) >= KINDS["IVF_PQ"]
        check_exact(each)
        check_exact(each, where="kind = 2")


def test_a_table_that_was_made_anew_in_the_same_place_is_searched(tmp_path: Path) -> None:
    kind = pa.list_(pa.float32(), 2)
    for number in (1, 2):
        data = pa.table({"id": [number], "v": pa.array([[number, 0]], kind)})
        table = lw.create(tmp_path / "t.lance", data)
        assert table.search(vector=[0, 0])["id"].to_pylist() == [number]
        lw.drop(tmp_path / "t.lance")


@pytest.mark.parametrize("stable", [True, False])
def test_a_branch_that_was_made_anew_under_its_name_is_searched(
    tmp_path: Path, stable: bool
) -> None:
    data = pa.table({"id": range(40), "text": ["owl"] * 40})
    table = lw.create(tmp_path / "t.lance", data, layout=lw.Layout(stable_row_ids=stable))
    table = table.indices.create("text", "INVERTED")
    for where in ("id % 3 = 0", "id % 7 = 0"):
        branch = table.branches.create("run").delete(where)
        found = branch.search(text="owl", k=100, columns=["id"])
        assert found["id"].to_pylist() == branch.scan(["id"]).to_arrow()["id"].to_pylist()
        table.branches.delete("run", force=True)


def test_a_repository_searches_its_tables_and_no_state_of_a_transaction(tmp_path: Path) -> None:
    repository = lw.Repository.init(tmp_path / "r")
    with repository.transaction("main", "rows") as changes:
        made = changes.create_table("t", rows(0, 600))
        with pytest.raises(UnsupportedError, match="state of a transaction"):
            made.search(vector=QUERIES[0])
    table = repository.at().table("t")
    ids = truth(table.lance(), QUERIES[0])[0]
    assert table.search(vector=QUERIES[0])["id"].to_pylist() == ids
    with repository.transaction("main", "none") as changes:
        before = changes.table("t")
        assert before.search(vector=QUERIES[0])["id"].to_pylist() == ids


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_begins_with_no_dataset_of_its_parent(table: lw.Table) -> None:
    """It does not search here: beside threads of pylance that were at work it may hang."""
    table.search(vector=QUERIES[0])
    assert index_search._DATASETS._kept
    child = os.fork()
    if not child:
        kept = index_search._DATASETS
        os._exit(1 if kept._kept or kept._session is not None else 0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_an_index_whose_files_are_gone_is_an_error_that_says_so(table: lw.Table) -> None:
    table = indexed(table)
    shutil.rmtree(Path(table.uri) / "_indices")
    with pytest.raises(NotFoundError, match=r"cannot search version \d of .*is gone"):
        table.search(vector=QUERIES[0])


@pytest.mark.parametrize("kind", [None, "IVF_FLAT", "IVF_PQ"])
def test_no_more_rows_are_asked_for_than_there_are(tmp_path: Path, kind: str | None) -> None:
    """pylance makes room for all of them first, and the process ends where there is none."""
    vectors = pa.array([[float(each), 1.0] for each in range(300)], pa.list_(pa.float32(), 2))
    texts = [f"word {each}" for each in range(300)]
    table = lw.create(tmp_path / "t", pa.table({"v": vectors, "s": texts})).delete("s = 'word 7'")
    if kind is not None:
        table = table.indices.create("v", kind).indices.create("s", "INVERTED")
    for asked in (10**12, 2**70):
        assert table.search(vector=[0.0, 1.0], k=asked).num_rows == 299
        assert table.search(text="word", k=asked).num_rows == 299
    if kind is not None:
        assert table.search(vector=[0.0, 1.0], k=3, refine=10**12).num_rows == 3
    assert table.delete("true").search(vector=[0.0, 1.0], k=3).num_rows == 0
