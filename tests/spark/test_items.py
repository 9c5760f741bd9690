"""Items on Spark: hundreds of repositories written, tagged and read, each snapshot once, and stock
git content with them. Ten thousand of them with ``LANCEWOOD_EVERY_CASE=1``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.breadth import EVERY_CASE
from tests.interop.git_judge import check, git
from tests.spark.needs import COLLATIONS, needs

from lancewood import items
from lancewood.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.items.folder import find_items

pytestmark = pytest.mark.spark
ITEMS = 10_000 if EVERY_CASE else 200
SAMPLE = 100 if EVERY_CASE else 5
LARGE = (101 if EVERY_CASE else 9) << 20
FILES = "item string, path string, content binary"
MESSAGES = f"{FILES}, message string"


def frame(spark: Any, rows: Sequence[tuple[Any, ...]], schema: str = FILES) -> Any:
    return spark.createDataFrame(list(rows), schema)


def numbered(spark: Any, count: int, content: str) -> Any:
    """Two files for each item, in fan-out folders."""
    return spark.range(count).selectExpr(
        "concat(lpad(hex(id % 16), 2, '0'), '/', lpad(hex(id % 7), 2, '0'), '/img-', id) AS item",
        "explode(array('edit.xmp', 'meta/info.json')) AS path",
        f"encode(concat('{content} ', id), 'UTF-8') AS content",
    )


def test_items_are_written_tagged_and_read_and_a_second_run_writes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    df = numbered(spark, ITEMS, "first")
    done = items.write(df, folder, message="load", run="load-1", author="Ada <ada@example.org>")
    assert (done.run, done.items, done.written) == ("load-1", ITEMS, ITEMS)
    again = items.write(numbered(spark, ITEMS, "other"), folder, run="load-1", details=True)
    assert (again.items, again.already) == (ITEMS, ITEMS)
    assert again.details is not None
    assert again.details.where("done = 'already' AND length(hash) = 64").count() == ITEMS
    again.details.unpersist()

    tagged = items.tag(spark, folder, "v1")
    assert (tagged.items, tagged.written) == (ITEMS, ITEMS)
    second = items.write(numbered(spark, ITEMS // 2, "second"), folder, run="load-2", check=False)
    assert second.written == ITEMS // 2

    found = items.read(spark, folder)
    refs = found.refs(columns=["ref", "is_head", "kind", "commit", "hash"])
    counts = {
        (row.kind, row.is_head): row["count"]
        for row in refs.groupBy("kind", "is_head").count().collect()
    }
    assert counts == {("head", True): ITEMS, ("branch", True): ITEMS, ("tag", False): ITEMS}
    runs = found.history(columns=["run", "position"]).groupBy("run").count().collect()
    assert {row.run: row["count"] for row in runs} == {"load-1": ITEMS, "load-2": ITEMS // 2}
    old = found.contents("v1", columns=["item", "path", "content"])
    assert old.exceptAll(df).count() == 0
    assert old.count() == 2 * ITEMS

    names = [*find_items(str(folder))]
    assert len(names) == ITEMS
    for item in random.Random(8).sample(names, SAMPLE):
        check(folder / item)
        number = int(item.rpartition("-")[2])
        wanted = "2" if number < ITEMS // 2 else "1"
        assert git(folder / item, "rev-list", "--count", "main") == wanted
        assert git(folder / item, "show", "v1:meta/info.json") == f"first {number}"


def test_odd_names_and_contents_come_back_as_they_were(spark: Any, tmp_path: Path) -> None:
    rows = [
        ("ä/ö 1", "ü/日本.txt", b"\xff\0"),
        ("new\nline", "a b\tc", b""),
        (".hidden", "x", bytes(range(256))),
    ]
    # Of a column, or Spark would fold it into the plan.
    text = f"repeat('x', cast({LARGE} + id AS int))"
    large = spark.range(1).selectExpr(
        "'big' AS item", "'large.bin' AS path", f"encode({text}, 'UTF-8') AS content"
    )
    df = frame(spark, rows).unionByName(large)
    done = items.write(df, tmp_path, run="r")
    assert done.written == 4
    contents = items.read(spark, tmp_path, partitions=2).contents(
        columns=["item", "path", "content", "size"]
    )
    small = contents.where("size < 1000").collect()
    assert {(row.item, row.path, bytes(row.content)) for row in small} == set(rows)
    assert contents.where("size > 1000").selectExpr("item", "size").collect() == [("big", LARGE)]
    assert git(tmp_path / "big", "cat-file", "-s", "HEAD:large.bin") == str(LARGE)
    only = (
        items.read(spark, tmp_path, partitions=2).contents(columns=["path"], paths=["x"]).collect()
    )
    assert [row.path for row in only] == ["x"]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([("../up", "x", b"")], "leads elsewhere"),
        ([("a", "x", None), (None, "x", b""), ("b", None, b"")], "content: it is null"),
        ([("a", "x", b"1"), ("a", "x", b"2")], "more than one row for 'x'"),
        ([("a", "x", b""), ("a/b", "x", b"")], "'a'"),
    ],
)
def test_names_that_cannot_be_are_refused_before_anything_is_written(
    spark: Any, tmp_path: Path, rows: list[tuple[Any, ...]], why: str
) -> None:
    folder = tmp_path / "photos"
    df = frame(spark, [("fine", "x", b"1"), *rows])
    with pytest.raises(InvalidInputError, match=why):
        items.write(df, folder)
    assert not folder.exists()


def test_without_the_check_bad_items_are_left_out_and_counted(spark: Any, tmp_path: Path) -> None:
    rows = [("fine", "x", b"1", "mine"), ("a/../b", "x", b"", None), ("two", "x", b"", "1")]
    df = frame(spark, [*rows, ("two", "y", b"", "2")], MESSAGES)
    done = items.write(df, tmp_path, check=False, on_error="report", message="all")
    assert (done.items, done.written, done.refused) == (3, 1, 2)
    assert {each.item for each in done.refusals} == {"a/../b", "two"}
    assert git(tmp_path / "fine", "log", "--format=%s") == "mine"
    with pytest.raises(InvalidInputError, match="2 of 3 items"):
        items.write(df, tmp_path, check=False)


@needs(COLLATIONS)
def test_names_that_a_collation_takes_for_one_are_two_items(spark: Any, tmp_path: Path) -> None:
    rows = [("A", "x", b"1"), ("a", "y", b"2"), ("A", "z", b"3"), ("a", "Y", b"4")]
    df = frame(spark, rows).selectExpr(
        "item COLLATE UTF8_LCASE AS item", "path COLLATE UTF8_LCASE AS path", "content"
    )
    done = items.write(df, tmp_path, partitions=1)
    assert (done.items, done.written) == (2, 2)
    contents = items.read(spark, tmp_path, partitions=1).contents(
        columns=["item", "path", "content"]
    )
    assert {(row.item, row.path, bytes(row.content)) for row in contents.collect()} == set(rows)


def test_update_keeps_other_files_and_null_removes(spark: Any, tmp_path: Path) -> None:
    items.write(frame(spark, [("a", "x", b"1"), ("a", "y", b"2")]), tmp_path)
    df = frame(spark, [("a", "y", None), ("a", "z", b"3"), ("new", "x", b"")])
    done = items.write(df, tmp_path, mode="update", branch="exp")
    assert done.written == 2
    assert git(tmp_path / "a", "ls-tree", "--name-only", "exp").split() == ["x", "z"]
    assert git(tmp_path / "a", "ls-tree", "--name-only", "main").split() == ["x", "y"]
    assert items.write(frame(spark, []), tmp_path).items == 0


def test_tags_that_are_elsewhere_are_refused_by_item_unless_forced(
    spark: Any, tmp_path: Path
) -> None:
    df = frame(spark, [("a", "x", b"1"), ("b", "x", b"1")])
    items.write(df, tmp_path)
    items.tag(spark, tmp_path, "v1")
    items.write(frame(spark, [("a", "x", b"2")]), tmp_path)
    with pytest.raises(AlreadyExistsError, match="1 of 2 items: 'a'"):
        items.tag(spark, tmp_path, "v1")
    done = items.tag(spark, tmp_path, "v1", on_error="report", force=True)
    assert (done.moved, done.unchanged) == (1, 1)
    chosen = frame(spark, [("b",), ("b",), ("nope",)], "item string")
    some = items.tag(spark, tmp_path, "v2", items=chosen, on_error="report")
    assert (some.items, some.written, some.refused) == (2, 1, 1)
    with pytest.raises(InvalidInputError, match="tag name"):
        items.tag(spark, tmp_path, "a..b")


@pytest.mark.campaign
def test_a_broken_item_fails_or_has_a_row(spark: Any, tmp_path: Path) -> None:
    items.write(frame(spark, [("a", "x", b"1"), ("b", "x", b"1")]), tmp_path)
    (tmp_path / "a" / "refs" / "heads" / "main").write_text("nonsense")
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", "--object-format=sha256", "unborn")
    git(tmp_path, "init", "--quiet", "--bare", "--object-format=sha1", "sha1")
    with pytest.raises(Exception, match=r"item '(a|sha1|unborn)'"):
        items.read(spark, tmp_path).contents().collect()
    reported = items.read(spark, tmp_path, on_error="report", partitions=2)
    contents = {row.item: row for row in reported.contents(columns=["item", "path"]).collect()}
    assert contents["b"].error is None
    assert "nonsense" in contents["a"].error
    assert "sha1" in contents["sha1"].error
    assert "no commit yet" in contents["unborn"].error
    refs = [row for row in reported.refs().collect() if row.item == "unborn"]
    assert [(row.ref, row.hash, row.target, row.error) for row in refs] == [
        ("HEAD", None, "refs/heads/main", None)
    ]


def test_what_is_wrong_with_a_call_is_told_before_spark_runs(spark: Any, tmp_path: Path) -> None:
    df = frame(spark, [("a", "x", b"1")])
    calls: list[tuple[Any, type[LancewoodError], str]] = [
        (lambda: items.write(df.drop("path"), tmp_path), InvalidInputError, "no column 'path'"),
        (lambda: items.write(df.withColumn("y", df.path), tmp_path), InvalidInputError, "'y'"),
        (
            lambda: items.write(df.withColumn("content", df.path), tmp_path),
            InvalidInputError,
            "encode it",
        ),
        (lambda: items.write(df, tmp_path, run="a b"), InvalidInputError, "run id"),
        (lambda: items.write(df, tmp_path, branch="a..b"), InvalidInputError, "branch name"),
        (lambda: items.write(df, tmp_path, author="Ada"), InvalidInputError, "author"),
        (lambda: items.write(df, tmp_path, author="A\rda <a@b>"), InvalidInputError, "author"),
        (lambda: items.tag(spark, tmp_path, "v", revision=""), InvalidInputError, "'' is not a"),
        (lambda: items.write(df, tmp_path, message=""), InvalidInputError, "message"),
        (lambda: items.write(df, tmp_path, mode="x"), InvalidInputError, "mode"),  # type: ignore[arg-type]
        (lambda: items.write(df, "s3://b/x"), UnsupportedError, "s3://"),
        (lambda: items.read(spark, tmp_path).refs(columns=["x"]), InvalidInputError, "'x'"),
        (lambda: items.tag(spark, tmp_path / "no", "v"), NotFoundError, "there is no folder"),
        (lambda: items.tag(spark, tmp_path, "v", revision=""), InvalidInputError, "not a revision"),
    ]
    for call, kind, why in calls:
        with pytest.raises(kind, match=why):
            call()
    assert [*tmp_path.iterdir()] == []


def test_plain_repositories_of_a_folder_are_imported_once(spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "plain", tmp_path / "items"
    for number in range(6):
        data, root = f"<xmp {number}/>".encode(), source / f"{number % 2}/img-{number}"
        digest = sha256(data).hexdigest()
        for each in ("objects", "refs/heads", "refs/tags"):
            (root / each).mkdir(parents=True)
        (root / "objects" / digest).write_bytes(data if number else b"damaged")
        (root / "refs/heads/main").write_text(digest)
        (root / "HEAD").write_text("ref: refs/heads/main\n")
    done = items.import_plain(spark, source, target, name="edit.xmp", on_error="report")
    assert (done.items, done.written, done.refused) == (6, 5, 1)
    assert "other bytes" in str(done.refusals[0].why)
    again = items.import_plain(spark, source, target, name="edit.xmp", on_error="report")
    assert (again.unchanged, again.refused) == (5, 1)
    assert git(target / "1/img-3", "show", "main:edit.xmp") == "<xmp 3/>"
    check(target / "1/img-3")
