"""Indices built on Spark, and every row of a frame that finds its neighbours.

pylance builds with all processors in one call, and searches for some hundred queries in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancewood as lw
import lancewood.spark as lws
from bench import OURS, PYLANCE
from bench.measure import interleave
from bench.places import Places, scratch, twin
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale

_FRAGMENTS = 10
_LENGTH, _QUERIES, _NEAREST = 64, 10_000, 10
_PARTITIONS, _SUB_VECTORS, _SAMPLE = 64, 16, 64
_PROBED, _REFINED = 8, 2
_ROWS_PER_TEXT, _ROWS_PER_VECTOR, _ROWS_PER_COMPARED = 4, 20, 200
_BUILDS, _PASSES = 5, 2
_JUDGED = 200
"""Queries whose answers are compared with those of all vectors."""
_AT_ONCE = 500
"""Queries of a call of pylance, which opens more files than it may for all of them."""


def run(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "4g"})
    try:
        with scratch(places.fast) as here:
            rows = [*_built(spark, here, scale), *_searched(spark, here, scale)]
    finally:
        spark.stop()
    return Section(
        name="indexing",
        title="Indices built, and searched for many rows, on Spark",
        note=f"On {places.fast_name}; `local[2]`; {scale.rows:,} rows in {_FRAGMENTS} fragments of "
        "int64 in a random order and int32 of a thousand values, "
        f"{scale.rows // _ROWS_PER_TEXT:,} texts of six words, and "
        f"{scale.rows // _ROWS_PER_VECTOR:,} vectors of {_LENGTH} floats. Every pass builds anew. "
        f"The model of IVF_PQ has {_PARTITIONS} partitions and {_SUB_VECTORS} sub-vectors. Each "
        f"of {_QUERIES:,} vectors then finds its {_NEAREST} nearest, with {_PROBED} probes and "
        f"{_REFINED} times as many compared exactly; without an index among "
        f"{scale.rows // _ROWS_PER_COMPARED:,}. pylance is one process with two threads.",
        rows=tuple(rows),
    )


def _built(spark: Any, here: Path, scale: Scale) -> Iterator[Row]:
    path = here / "values.lance"
    _make_values(path, scale.rows)
    pair = _Pair(spark, path)
    target = LeastRatio(1.0) if scale.is_budgeted else None
    for column, kind in (("id", "BTREE"), ("kind", "BITMAP"), ("id", "ZONEMAP")):
        yield _row(f"{kind} of {column}", pair.builds(column, kind), _BUILDS, target)
    texts = here / "texts.lance"
    _make_texts(texts, scale.rows // _ROWS_PER_TEXT)
    builds = _Pair(spark, texts).builds("text", "INVERTED")
    yield _row("INVERTED of text", builds, _BUILDS, target)


def _searched(spark: Any, here: Path, scale: Scale) -> Iterator[Row]:
    path = here / "vectors.lance"
    _make_vectors(path, scale.rows // _ROWS_PER_VECTOR)
    pair = _Pair(spark, path)
    target = LeastRatio(1.0) if scale.is_budgeted else None
    yield _row("IVF_PQ", pair.builds_vectors(), _PASSES, target)
    queries = _vectors(np.random.default_rng(5), _QUERIES)
    yield _row(f"{_QUERIES:,} by the index", pair.finds(queries, by_index=True), _PASSES)
    ours, theirs = pair.recall(queries[:_JUDGED])
    yield Row(
        work="of the nearest, found",
        unit="%",
        ours=(ours,),
        pylance=(theirs,),
        more_is_better=True,
    )
    compared = here / "compared.lance"
    _make_vectors(compared, scale.rows // _ROWS_PER_COMPARED)
    finds = _Pair(spark, compared).finds(queries, by_index=False)
    yield _row(f"{_QUERIES:,}, all vectors compared", finds, _PASSES)


class _Pair:
    """A table twice: one for us, one for pylance."""

    def __init__(self, spark: Any, path: Path) -> None:
        self._spark = spark
        self._runner = lws.runner(spark)
        self._theirs = twin(path)
        self._ours = path

    def builds(self, column: str, kind: str) -> dict[str, Callable[[], object]]:
        theirs: Any = lance.dataset(self._theirs)
        name = f"{column}_{kind}"
        return {
            OURS: lambda: lw.open(self._ours, access=lw.Access(fsync=False)).indices.create(
                column, kind, name=name, replace=True, runner=self._runner
            ),
            PYLANCE: lambda: theirs.create_scalar_index(column, kind, name=name, replace=True),
        }

    def builds_vectors(self) -> dict[str, Callable[[], object]]:
        theirs: Any = lance.dataset(self._theirs)
        return {
            OURS: lambda: lw.open(self._ours, access=lw.Access(fsync=False)).indices.create(
                "near",
                "IVF_PQ",
                partitions=_PARTITIONS,
                sub_vectors=_SUB_VECTORS,
                options={"sample_rate": _SAMPLE},
                replace=True,
                runner=self._runner,
            ),
            PYLANCE: lambda: theirs.create_index(
                "near",
                "IVF_PQ",
                num_partitions=_PARTITIONS,
                num_sub_vectors=_SUB_VECTORS,
                sample_rate=_SAMPLE,
                replace=True,
            ),
        }

    def finds(self, queries: Any, *, by_index: bool) -> dict[str, Callable[[], object]]:
        frame = self._frame(queries).repartition(2).cache()
        assert frame.count() == len(queries)

        def search_with_spark() -> None:
            found = self._found_by_spark(frame, by_index=by_index)
            found.write.format("noop").mode("overwrite").save()

        def search_with_pylance() -> None:
            for at in range(0, len(queries), _AT_ONCE):
                self._found_by_pylance(queries[at : at + _AT_ONCE], by_index=by_index)

        return {OURS: search_with_spark, PYLANCE: search_with_pylance}

    def recall(self, queries: Any) -> tuple[float, float]:
        """How many of a hundred of the nearest are found by the index: by us, and by pylance."""
        ours = self._found_by_spark(self._frame(queries), by_index=True).toArrow()
        theirs = self._found_by_pylance(queries, by_index=True)
        exact = _pairs(self._found_by_pylance(queries, by_index=False), "query_index")
        found = _pairs(ours, "query"), _pairs(theirs, "query_index")
        ours_right, theirs_right = (100 * len(each & exact) / len(exact) for each in found)
        return ours_right, theirs_right

    def _frame(self, queries: Any) -> Any:
        given = pa.table({"query": range(len(queries)), "v": _as_arrow(queries)})
        return self._spark.createDataFrame(given)

    def _found_by_spark(self, frame: Any, *, by_index: bool) -> Any:
        return lws.search(
            self._spark,
            self._ours,
            frame,
            vector="v",
            columns=["id"],
            k=_NEAREST,
            nprobes=_PROBED if by_index else None,
            refine=_REFINED if by_index else None,
            use_index=by_index,
        )

    def _found_by_pylance(self, queries: Any, *, by_index: bool) -> pa.Table:
        asked = {"column": "near", "q": queries, "k": _NEAREST, "use_index": by_index}
        if by_index:
            asked |= {"nprobes": _PROBED, "refine_factor": _REFINED}
        found: pa.Table = self._searched.to_table(columns=["id"], nearest=asked)
        return found

    @cached_property
    def _searched(self) -> Any:
        """What pylance keeps open while it searches."""
        return lance.dataset(self._theirs)


def _pairs(found: pa.Table, query: str) -> set[tuple[int, int]]:
    return {*zip(found[query].to_pylist(), found["id"].to_pylist(), strict=True)}


def _row(
    work: str,
    contenders: Mapping[str, Callable[[], object]],
    passes: int,
    target: LeastRatio | None = None,
) -> Row:
    found = interleave(contenders, passes)
    return Row(work=work, unit="ms", ours=found[OURS], pylance=found[PYLANCE], target=target)


def _make(path: Path, rows: int, part: Callable[[Any], pa.RecordBatch]) -> None:
    """A table of all numbers below ``rows``, in a random order."""
    order, share = np.random.default_rng(1).permutation(rows), rows // _FRAGMENTS
    batches = (part(order[at : at + share]) for at in range(0, rows, share))
    data = pa.RecordBatchReader.from_batches(part(order[:1]).schema, batches)
    lw.create(path, data, layout=lw.Layout(max_rows_per_file=share), access=lw.Access(fsync=False))


def _make_values(path: Path, rows: int) -> None:
    _make(path, rows, lambda ids: pa.record_batch({"id": ids, "kind": pa.array(ids % 1_000, "i4")}))


def _make_texts(path: Path, rows: int) -> None:
    words = np.array([f"word{each}" for each in range(20_000)])
    generator = np.random.default_rng(2)

    def part(ids: Any) -> pa.RecordBatch:
        chosen = words[generator.zipf(1.3, (len(ids), 6)) % len(words)]
        return pa.record_batch({"id": ids, "text": [" ".join(each) for each in chosen.tolist()]})

    _make(path, rows, part)


def _make_vectors(path: Path, rows: int) -> None:
    generator = np.random.default_rng(3)
    _make(
        path,
        rows,
        lambda ids: pa.record_batch({"id": ids, "near": _as_arrow(_vectors(generator, len(ids)))}),
    )


def _vectors(generator: np.random.Generator, count: int) -> Any:
    return generator.random((count, _LENGTH), dtype=np.float32)


def _as_arrow(vectors: Any) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), _LENGTH)
