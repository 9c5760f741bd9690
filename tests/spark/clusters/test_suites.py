"""Reading, writing, merging and comparing on clusters and over Connect: pylance sees what was
written, a merge is that of the local runner, and rows that differ, or that both sides changed, are
those that are found here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.spark.clusters.kinds import elsewhere
from tests.spark.needs import needs

import lancewood as lw
from lancewood.errors import AlreadyExistsError, InvalidInputError
from lancewood.spark import conflicts, count, diff, metadata, read, runner, sql, write
from lancewood.spark.abilities import ARROW_FRAMES, SOURCES
from lancewood.spark.tasks import arrow_of

VECTOR = pa.list_(pa.float32(), 3)
SCHEMA = pa.schema([("id", pa.int64()), ("label", pa.string()), ("vector", VECTOR)])


def rows(spark: Any, start: int, stop: int) -> Any:
    return spark.range(start, stop, 1, 3).selectExpr(
        "id",
        "concat('n', id % 10) AS label",
        "IF(id % 5 = 0, NULL, array(1F, 2F, CAST(NULL AS FLOAT))) AS vector",
    )


def expected(*ids: range) -> list[dict[str, Any]]:
    return [
        {"id": n, "label": f"n{n % 10}", "vector": None if n % 5 == 0 else [1.0, 2.0, None]}
        for each in ids
        for n in each
    ]


def judged(uri: Path, branch: str | None = None) -> list[dict[str, Any]]:
    """What pylance reads, in the order of the ids; it is content with the table."""
    dataset: Any = lance.dataset(str(uri))
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    dataset.validate()
    assert dataset.schema.field("vector").type == VECTOR
    return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])


@needs(SOURCES)
@pytest.mark.sliced(3)
@elsewhere
def test_frames_are_written_in_every_mode_and_read_back_through_both_doors(
    any_spark: Any, tmp_path: Path
) -> None:
    uri = tmp_path / "photos.lance"
    made = write(
        rows(any_spark, 0, 100), uri, schema=SCHEMA, layout=lw.Layout(max_rows_per_file=20)
    )
    assert (made.version, made.counts, made.skipped) == (1, lw.RowCounts(inserted=100), False)
    assert judged(uri) == expected(range(100))
    old = read(any_spark, uri, columns=["id"])
    with pytest.raises(AlreadyExistsError):
        write(rows(any_spark, 0, 1), uri)
    with pytest.raises(InvalidInputError, match="wrong"):
        write(any_spark.range(1).selectExpr("id AS wrong"), uri, "append")
    assert write(rows(any_spark, 0, 1), uri, "ignore").skipped

    for skipped in (False, True):
        done = write(
            rows(any_spark, 100, 120), uri, "append", commit=lw.CommitOptions(app="load", batch=7)
        )
        assert (done.version, done.skipped) == (2, skipped)
    rows(any_spark, 120, 130).write.format("lance").mode("append").save(str(uri))
    assert judged(uri) == expected(range(130))
    assert old.count() == 100, "a frame keeps its version"

    fast = read(any_spark, uri, columns=["id", "vector"], where="label = 'n3'", with_row_id=True)
    found = fast.orderBy("id").collect()
    assert [row.id for row in found] == list(range(3, 130, 10))
    assert [row._rowid for row in found] == [row.id for row in found]
    assert found[0].vector == [1.0, 2.0, None]
    familiar = any_spark.read.format("lance").option("filter", "label = 'n3'").load(str(uri))
    assert familiar.where("id < 50").count() == 5
    assert familiar.count() == 13
    assert [count(any_spark, uri), count(any_spark, uri, where="vector IS NULL")] == [130, 26]
    assert metadata(any_spark, uri, "versions").count() == 3

    lw.open(uri).branches.create("trial")
    write(rows(any_spark, 130, 140), f"{uri}@trial", "append")
    assert judged(uri, "trial") == expected(range(140))
    write(rows(any_spark, 500, 510), uri, "overwrite")
    assert judged(uri) == expected(range(500, 510))
    assert read(any_spark, uri, version=3).count() == 130


@pytest.mark.sliced(3)
@elsewhere
def test_merge_is_that_of_the_local_runner(any_spark: Any, tmp_path: Path) -> None:
    uri, local = tmp_path / "photos.lance", tmp_path / "local.lance"
    write(rows(any_spark, 0, 60), uri, schema=SCHEMA, layout=lw.Layout(max_rows_per_file=10))
    ours = lw.create(local, lw.open(uri), layout=lw.Layout(max_rows_per_file=10))
    news = any_spark.range(55, 65).selectExpr("id", "'new' AS label")
    done = write(news, uri, "merge", on="id")
    theirs = ours.merge(arrow_of(news), on="id")
    assert done.counts == theirs.counts
    assert done.counts == lw.RowCounts(updated=5, inserted=5)
    assert judged(uri) == judged(local)


@pytest.mark.sliced(3, at=2)
@elsewhere
def test_rows_that_differ_are_those_of_a_diff_here(
    any_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.spark.diffs.diff.MOST_KEYS", 0)
    uri = tmp_path / "photos.lance"
    write(rows(any_spark, 0, 60), uri, schema=SCHEMA, layout=lw.Layout(max_rows_per_file=10))
    table = lw.open(uri).update({"label": "'new'"}, "id % 7 = 2").delete("id > 50")
    table = table.overwrite(table.scan().to_arrow().slice(5))
    for versions, on in ((1, 3), None), ((2, 4), "id"):
        found = arrow_of(diff(any_spark, uri, *versions, on=on)).to_pylist()
        expected = table.diff(*versions, on=on).to_arrow().to_pylist()
        assert expected
        assert sorted(map(str, found)) == sorted(map(str, expected))
    query = "SELECT after.id FROM diff('photos', 1, 2) WHERE _change = 'updated'"
    answer = sql(any_spark, query, tables={"photos": str(uri)})
    assert sorted(each.id for each in answer.collect()) == [*range(2, 60, 7)]


@needs(ARROW_FRAMES)
@pytest.mark.sliced(3)
@elsewhere
def test_conflicts_are_those_found_here_and_a_frame_decides_them(
    any_spark: Any, tmp_path: Path
) -> None:
    uri = tmp_path / "photos.lance"
    write(rows(any_spark, 0, 60), uri, schema=SCHEMA, layout=lw.Layout(max_rows_per_file=10))
    table = lw.open(uri)
    table.branches.create("trial").update({"label": "'there'"}, "id % 4 = 0").delete("id = 3")
    table = table.update({"label": "'here'"}, "id % 6 = 0").update({"vector": "NULL"}, "id = 3")
    found = conflicts(any_spark, uri, "trial")
    here = table.branches.conflicts("trial").to_arrow()
    assert sorted(map(str, arrow_of(found).to_pylist())) == sorted(map(str, here.to_pylist()))
    assert here.num_rows == 6

    decided = found.selectExpr(
        "_conflict",
        "IF(theirs IS NULL, 'delete', NULL) AS take",
        "IF(theirs IS NULL, NULL, concat(ours.label, '+', theirs.label)) AS label",
    )
    assert conflicts(any_spark, uri, "trial", resolve=decided).count() == 0
    merged = table.branches.merge("trial", resolve=decided, runner=runner(any_spark))
    assert isinstance(merged.counts, lw.Merged)
    assert merged.counts.resolved == 6
    labels = {row["id"]: row["label"] for row in judged(uri)}
    assert labels.keys() == {*range(60)} - {3}
    for each, label in labels.items():
        told = [word for word, by in (("here", 6), ("there", 4)) if each % by == 0]
        assert label == ("+".join(told) or f"n{each % 10}")
