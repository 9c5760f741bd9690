"""New columns by Spark expressions, for a session of any kind; pylance is the judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from tests.spark.job_suite import make_table
from tests.spark.needs import VARIANTS

import lancewood as lw
from lancewood.spark import RowCounts, Written, add_columns
from lancewood.spark.abilities import release_of
from lancewood.spark.columns.expressions import ColumnExpressions, check_expressions
from lancewood.spark.columns.fill import fill_columns
from lancewood.spark.writing.work import BYTES, NO_BOUND


def data_files(uri: Path) -> set[Path]:
    return {each for each in (uri / "data").iterdir() if each.is_file()}


def rows_of(uri: Path, branch: str | None = None) -> Any:
    """All rows with their ids, which pylance has to see as we do."""
    dataset: Any = lance.dataset(str(uri))
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    dataset.validate()
    seen = dataset.to_table()
    rows = lw.open(uri, branch=branch).scan(with_row_id=True).to_arrow()
    assert rows.select(seen.column_names).equals(seen)
    return rows


def values_are_those_of_the_rows_and_nothing_else_is_written(spark: Any, root: Path) -> None:
    uri = root / "t.lance"
    before = make_table(uri)
    rows, files = rows_of(uri), data_files(uri)
    told: list[tuple[str, int, int]] = []
    own, bounds = spark.conf.get(BYTES, NO_BOUND), set()

    def look(*each: Any) -> None:
        told.append(each)
        bounds.add(spark.conf.get(BYTES, NO_BOUND))

    done = add_columns(
        spark,
        uri,
        {"y": "x * 2", "u": "upper(s)"},
        message="two columns",
        commit=lw.CommitOptions(properties={"k": "v"}),
        progress=look,
    )
    assert bounds == {NO_BOUND}, "Spark measures no batch while narrow columns are computed"
    assert spark.conf.get(BYTES, NO_BOUND) == own
    after = lw.open(uri)
    found = rows_of(uri)
    assert found.drop_columns(["y", "u"]).equals(rows)
    assert found["y"].to_pylist() == [None if x is None else x * 2 for x in rows["x"].to_pylist()]
    assert found["u"].to_pylist() == [each.upper() for each in rows["s"].to_pylist()]
    new = data_files(uri) - files
    assert (done.version, done.files, done.skipped) == (before.version + 1, len(new), False)
    assert done.bytes == sum(each.stat().st_size for each in new)
    assert len(new) == len(after.fragments)
    assert [each.files[:-1] for each in after.fragments] == [e.files for e in before.fragments]
    (newest,) = after.versions(limit=1)
    assert newest.message == "two columns"
    assert newest.properties["k"] == "v"
    assert told[0] == ("computing columns", 0, told[0][2])
    assert told[-1] == ("computing columns", told[0][2], told[0][2])


def columns_structs_lists_and_functions_of_python_can_be_computed(spark: Any, root: Path) -> None:
    from pyspark.sql import functions as F

    uri = root / "t.lance"
    make_table(uri)
    rows = rows_of(uri)

    add_columns(
        spark,
        uri,
        {
            "next": F.col("id") + 1,
            "pair": F.struct("id", "s"),
            "both": "array(id, -id)",
            "first": F.col("v")[0],
            "p.b": "p.a * 10",
            "told": F.udf(lambda number: f"number {number}", "string")("id"),
            "chance": "rand()",
        },
        batch_rows=37,
    )
    found = rows_of(uri)
    ids = rows["id"].to_pylist()
    assert found["id"].to_pylist() == ids
    assert found["next"].to_pylist() == [each + 1 for each in ids]
    assert found["pair"].to_pylist() == [{"id": each, "s": f"row {each}"} for each in ids]
    assert found["both"].to_pylist() == [[each, -each] for each in ids]
    assert found["first"].to_pylist() == [float(each) for each in ids]
    assert found["p"].to_pylist() == [{"a": each, "b": each * 10} for each in ids]
    assert found["told"].to_pylist() == [f"number {each}" for each in ids]
    assert len(set(found["chance"].to_pylist())) > len(ids) // 2


def only_the_columns_of_the_expressions_are_read(spark: Any, root: Path) -> None:
    schema = make_table(root / "t.lance").schema

    def read(expression: str) -> tuple[str, ...]:
        return check_expressions(spark, ColumnExpressions({"new": expression}), schema).columns_read

    assert read("X + 1") == ("x",)
    assert read("concat(s, cast(p.a as string))") == ("s", "p")
    assert read("rand()") == ()


def what_is_not_row_by_row_is_refused_before_anything_is_written(spark: Any, root: Path) -> None:
    uri = root / "t.lance"
    before = make_table(uri)
    files = data_files(uri)
    for expression, why in {
        "sum(x)": "GROUP BY",
        "explode(v)": "Generate",
        "row_number() over (order by id)": "Window",
        "(select max(id) from range(3))": "row by row",
        "hash(*)": r"from '\*'",
        "nothing + 1": "nothing",
        "x +": "syntax|SYNTAX",
    }.items():
        with pytest.raises(lw.InvalidInputError, match=rf"(?s)column 'new' .*({why})") as raised:
            add_columns(spark, uri, {"new": expression})
        assert "__lancewood" not in str(raised.value)
    if VARIANTS.is_in(release_of(spark)):
        with pytest.raises(lw.UnsupportedError, match="column 'new' is variant"):
            add_columns(spark, uri, {"new": "parse_json('{}')"})
    with pytest.raises(lw.InvalidInputError, match="column 's' exists already"):
        add_columns(spark, uri, {"s": "id"})
    assert data_files(uri) == files
    assert lw.open(uri).version == before.version


def failing_expression_is_told_and_changes_nothing(spark: Any, root: Path) -> None:
    uri = root / "t.lance"
    before = make_table(uri)
    rows = rows_of(uri)
    with pytest.raises(lw.LancewoodError, match=r"^computing columns failed on Spark.*too odd"):
        add_columns(spark, uri, {"new": "if(id = 7, raise_error('too odd'), 1)"})
    assert lw.open(uri).version == before.version
    assert rows_of(uri).equals(rows)


def rows_that_another_writer_adds_meanwhile_get_values_too(spark: Any, root: Path) -> None:
    uri = root / "t.lance"
    table = make_table(uri)
    rows = table.to_arrow()
    calls: list[int] = []

    def append(what: str, done: int, total: int) -> None:
        if done == total and not calls:
            calls.append(lw.open(uri).append(rows.slice(0, 50)).version)

    done = add_columns(spark, uri, {"twice": "id * 2"}, progress=append)
    assert calls == [table.version + 1]
    assert done.version == table.version + 2
    found = rows_of(uri)
    assert found.num_rows == rows.num_rows + 50
    assert found["twice"].to_pylist() == [2 * each for each in found["id"].to_pylist()]


def batch_of_an_app_is_applied_once_also_on_a_branch(spark: Any, root: Path) -> None:
    uri = root / "t.lance"
    main = make_table(uri)

    def add() -> Any:
        return add_columns(
            spark, uri, {"n": "-id"}, branch="work", commit=lw.CommitOptions(app="loader", batch=3)
        )

    first, again = add(), add()
    assert (first.branch, first.skipped) == ("work", False)
    assert (again.version, again.skipped, again.files) == (first.version, True, 0)
    found = rows_of(uri, "work")
    assert found["n"].to_pylist() == [-each for each in found["id"].to_pylist()]
    assert "n" not in lw.open(uri).schema.names
    assert lw.open(uri).version == main.version


def dry_run_says_what_would_be_written_and_writes_nothing(spark: Any, root: Path) -> None:
    uri = root / "t.lance"
    before = make_table(uri)
    files, rows = data_files(uri), before.count_rows()
    place = (before.uri, None, before.version)
    many = len(before.fragments)
    added = add_columns(spark, uri, {"n": "-id"}, dry_run=True)
    assert added == Written(*place, RowCounts(), many, None, dry_run=True)
    new = fill_columns(spark, uri, {"n": "-id"}, dry_run=True)
    assert new == Written(*place, RowCounts(updated=rows), many, None, dry_run=True)
    there = fill_columns(spark, uri, {"id": "-id"}, dry_run=True)
    assert there == Written(*place, skipped=True, dry_run=True)
    with pytest.raises(lw.InvalidInputError):
        add_columns(spark, uri, {"n": "nothing + 1"}, dry_run=True)
    assert lw.open(uri).version == before.version
    assert data_files(uri) == files
    filled = fill_columns(spark, uri, {"n": "-id"})
    assert (filled.counts, filled.files) == (new.counts, new.files)


CHECKS: tuple[Callable[[Any, Path], None], ...] = (
    values_are_those_of_the_rows_and_nothing_else_is_written,
    columns_structs_lists_and_functions_of_python_can_be_computed,
    only_the_columns_of_the_expressions_are_read,
    what_is_not_row_by_row_is_refused_before_anything_is_written,
    rows_that_another_writer_adds_meanwhile_get_values_too,
    batch_of_an_app_is_applied_once_also_on_a_branch,
    dry_run_says_what_would_be_written_and_writes_nothing,
    failing_expression_is_told_and_changes_nothing,
)
"""The one that costs Spark its Python workers comes last."""
