"""New columns by Spark expressions, written by executors and committed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.columns_suite import CHECKS

import lancewood as lw
from lancewood.spark import add_columns

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.__name__)
def test_columns_by_expressions(
    spark: Any, tmp_path: Path, check: Callable[[Any, Path], None]
) -> None:
    check(spark, tmp_path)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (["x"], "takes a mapping"),
        ({"n": 3}, "takes an expression"),
        ({"": "x"}, "is called by a text"),
        ({}, "no column to add"),
    ],
)
def test_what_is_no_expression_is_refused(
    spark: Any, tmp_path: Path, columns: Any, why: str
) -> None:
    import pyarrow as pa

    lw.create(tmp_path / "t.lance", pa.table({"x": [1]}))
    with pytest.raises(lw.InvalidInputError, match=why):
        add_columns(spark, tmp_path / "t.lance", columns)
