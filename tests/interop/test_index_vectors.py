"""Vectors that our indices find, against brute force in numpy; models are learned once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.index_scene import OneThread
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.data import index_engine
from lancewood.jobs.index import building
from lancewood.model.index import KINDS

ROWS, PER_FILE, WIDTH, NEAREST = 3_000, 500, 16, 10
VECTORS = [each for each in KINDS if KINDS[each].is_vector]
REFINED = {"IVF_FLAT": 0.95, "IVF_HNSW_FLAT": 0.9}
LEAST = 0.8
"""Of the ten nearest, with half of the partitions looked at and fifty candidates compared."""


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "LEAST_BYTES", 0)


def vectors(first: int, stop: int) -> NDArray[np.float32]:
    """Some groups, each around a point, and each fragment with its own mixture."""
    random = np.random.default_rng(first)
    centers = np.random.default_rng(1).normal(size=(20, WIDTH)) * 2
    group = (np.arange(first, stop) // 37) % 20
    noise = random.normal(size=(stop - first, WIDTH))
    return (centers[group] + noise).astype(np.float32)


def rows(first: int, stop: int) -> pa.Table:
    flat = pa.array(vectors(first, stop).reshape(-1))
    return pa.table(
        {
            "id": pa.array(range(first, stop), pa.int64()),
            "v": pa.FixedSizeListArray.from_arrays(flat, WIDTH),
        }
    )


def made(where: Path, *, stable: bool = True) -> lw.Table:
    return lw.create(
        where, rows(0, ROWS), layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=PER_FILE)
    )


def recall(table: lw.Table, metric: str = "l2") -> float:
    """The share of the truly nearest rows that a search through the index finds."""
    held = table.to_arrow()
    ids = held["id"].to_numpy()
    all_vectors = np.stack(held["v"].to_numpy(zero_copy_only=False))
    dataset = judged(table.uri)
    hits = 0
    for wanted in vectors(90_000, 90_030):
        distances = _distances(all_vectors, wanted, metric)
        best = set(ids[np.argsort(distances)[:NEAREST]].tolist())
        query = {
            "column": "v",
            "q": wanted,
            "k": NEAREST,
            "metric": metric,
            "nprobes": 4,
            "refine_factor": 5,
        }
        scanner = dataset.scanner(columns=["id"], nearest=query)
        assert "ANNSubIndex" in scanner.explain_plan(True)
        hits += len(best & set(scanner.to_table()["id"].to_pylist()))
    return hits / (30 * NEAREST)


def _distances(many: NDArray[Any], one: NDArray[Any], metric: str) -> NDArray[Any]:
    if metric == "l2":
        return np.asarray(((many - one) ** 2).sum(axis=1))
    if metric == "dot":
        return np.asarray(-(many @ one))
    return np.asarray(1 - (many @ one) / np.linalg.norm(many, axis=1) / np.linalg.norm(one))


@pytest.mark.sliced(3)
@pytest.mark.parametrize("kind", VECTORS)
def test_vectors_are_found_after_building_extending_and_optimizing(
    tmp_path: Path, kind: str
) -> None:
    table = made(tmp_path / "t").indices.create("v", kind, partitions=8, runner=OneThread())
    least = REFINED.get(kind, LEAST)
    assert recall(table) >= least
    table = table.append(rows(ROWS, ROWS + 400)).delete("id % 7 = 3")
    table = table.update({"v": [0.5] * WIDTH}, "id % 97 = 5", rewrite="rows").indices.extend()
    assert table.indices.list()[0].rows_uncovered == 0
    assert recall(table) >= least
    near = {"column": "v", "q": [0.5] * WIDTH, "k": 12, "nprobes": 8, "refine_factor": 20}
    got = judged(table.uri).to_table(columns=["id"], nearest=near)
    assert np.allclose(got["_distance"].to_numpy()[:12], 0, atol=1e-3)
    assert {each % 97 for each in got["id"].to_pylist()} == {5}
    table = table.indices.optimize()
    (info,) = table.indices.list()
    assert (info.segments, info.rows_uncovered, info.kind) == (1, 0, kind)
    assert recall(table) >= least
    got = judged(table.uri).to_table(columns=["id"], nearest=near)
    assert np.allclose(got["_distance"].to_numpy()[:12], 0, atol=1e-3)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_other_metrics_are_kept(tmp_path: Path, kind: str, metric: str) -> None:
    table = made(tmp_path / "t").indices.create("v", kind, partitions=8, metric=metric)
    assert recall(table, metric) >= LEAST
    table = table.append(rows(ROWS, ROWS + 400)).indices.extend().indices.optimize()
    assert recall(table, metric) >= LEAST
    assert table.indices.list()[0].metric == metric


@pytest.mark.sliced(3, at=1)
@pytest.mark.parametrize("kind", VECTORS)
def test_what_pylance_built_is_extended_with_its_own_model(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(rows(0, ROWS), uri, max_rows_per_file=PER_FILE)
    more = {"num_sub_vectors": 8} if "PQ" in kind else {}
    dataset.create_index("v", kind, num_partitions=8, **more)
    monkeypatch.setattr(index_engine, "train_model", None)
    monkeypatch.setattr(building, "train_model", None)
    table = lw.open(uri).append(rows(ROWS, ROWS + 30)).indices.extend()
    assert len(table.indices) == (1 if kind.endswith("SQ") else 2)
    assert recall(table) >= LEAST
    old, new = (each.lance().get_ivf_model("v_idx").centroids for each in (lw.open(uri), table))
    assert old == new
    assert recall(table.indices.optimize()) >= LEAST


def test_a_model_that_cannot_be_read_is_told_and_learned_anew(tmp_path: Path) -> None:
    table = made(tmp_path / "t").indices.create("v", "IVF_PQ", partitions=4)
    directory = Path(table.uri) / "_indices" / str(table.indices[0].uuid)
    (directory / "auxiliary.idx").write_bytes(b"")
    table = table.append(rows(ROWS, ROWS + 300))
    with pytest.warns(UserWarning, match="the model of index 'v_idx' cannot be read"):
        table = table.indices.extend()
    assert table.indices.list()[0].rows_uncovered == 0
    with pytest.warns(UserWarning, match="the model of index 'v_idx' cannot be read"):
        table = table.indices.optimize()
    (info,) = table.indices.list()
    assert (info.segments, info.rows_uncovered) == (1, 0)
    assert recall(table) >= LEAST


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_FLAT"])
def test_segments_with_models_of_their_own_are_built_anew_as_one(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path / "t").indices.create("v", kind, partitions=4)
    kept = Path(table.uri) / "_indices" / str(table.indices[0].uuid) / "index.idx"
    data = kept.read_bytes()
    kept.write_bytes(b"")
    with pytest.warns(UserWarning, match="cannot be read"):
        table = table.append(rows(ROWS, ROWS + 300)).indices.extend()
    kept.write_bytes(data)
    table = table.append(rows(ROWS + 300, ROWS + 400)).indices.optimize()
    (info,) = table.indices.list()
    assert (info.segments, info.rows_uncovered) == (1, 0)
    assert recall(table) >= LEAST


@pytest.mark.sliced(3, at=2)
@pytest.mark.parametrize("kind", VECTORS)
def test_vectors_inside_of_structs_keep_their_model(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lw.create(tmp_path / "t", nested(0, ROWS), layout=lw.Layout(max_rows_per_file=PER_FILE))
    table = table.indices.create("s.v", kind, partitions=8)
    monkeypatch.setattr(building, "train_model", None)
    table = table.append(nested(ROWS, ROWS + 30)).indices.extend()
    assert (table.indices.list()[0].rows_uncovered, found_inside(table)) == (0, [ROWS + 7])
    table = table.indices.optimize()
    assert (table.indices.list()[0].segments, found_inside(table)) == (1, [ROWS + 7])


def nested(first: int, stop: int) -> pa.Table:
    flat = rows(first, stop)
    inner = pa.StructArray.from_arrays([flat["v"].combine_chunks()], ["v"])
    return pa.table({"id": flat["id"], "s": inner})


def found_inside(table: lw.Table) -> list[int]:
    """The row that is nearest to the eighth of those that were added."""
    query = vectors(ROWS, ROWS + 30)[7]
    near = {"column": "s.v", "q": query, "k": 1, "nprobes": 8, "refine_factor": 50}
    got: list[int] = judged(table.uri).to_table(columns=["id"], nearest=near)["id"].to_pylist()
    return got


def test_vectors_that_are_all_null_cannot_be_learned_from(tmp_path: Path) -> None:
    empty = pa.nulls(300, pa.list_(pa.float32(), WIDTH))
    table = lw.create(tmp_path / "t", pa.table({"id": range(300), "v": empty}))
    with pytest.raises(lw.UnsupportedError, match=r"learns from vectors, and .* all are null"):
        table.indices.create("v")


def test_bytes_are_compared_bit_by_bit(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 256, 400 * 8).astype(np.uint8)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), 8)
    table = lw.create(tmp_path / "t", pa.table({"id": range(400), "v": column}))
    table = table.indices.create("v")
    (info,) = table.indices.list()
    assert (info.kind, info.metric) == ("IVF_FLAT", "hamming")
    wanted = {"column": "v", "q": values[:8], "k": 5, "metric": "hamming", "nprobes": 4}
    got = judged(table.uri).to_table(columns=["id"], nearest=wanted)
    brute = np.unpackbits(values.reshape(400, 8) ^ values[:8], axis=1).sum(axis=1)
    assert sorted(got["_distance"].to_pylist()) == sorted(brute)[:5]
