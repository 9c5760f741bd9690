"""Random tables through Spark into other tables: pylance reads what was there before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lancewood as lw
import lancewood.spark as lws
from lancewood.spark.abilities import TIMES, release_here
from lancewood.spark.tasks import arrow_of
from lancewood.testing.arrow_rows import LEAVES, bare_values, batches, schemas

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

VERSION = "2.2"
HAS_TIMES = TIMES.is_in(release_here())
CASTABLE = [
    each for each in LEAVES if each != pa.null() and (HAS_TIMES or not pa.types.is_time(each))
]
"""toArrow() casts, and Arrow's cast of lists of nulls goes wrong."""


def test_spark_writes_what_pylance_reads_and_spark_reads_again(spark: Any, tmp_path: Path) -> None:
    seen: set[str] = set()

    @settings(
        max_examples=5,
        derandomize=True,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def law(data: Any) -> None:
        drawn = [data.draw(schemas(VERSION, leaves=CASTABLE, max_columns=4)) for _ in range(12)]
        fields = [each for schema in drawn for each in schema]
        schema = pa.schema([each.with_name(f"c{n}") for n, each in enumerate(fields)])
        rows = [data.draw(batches(schema, VERSION, min_rows=3)) for _ in range(2)]
        seen.update(str(each.type) for each in schema)
        check(spark, tmp_path / f"{len(list(tmp_path.iterdir()))}", pa.Table.from_batches(rows))

    law()
    assert len(seen) > 50, "too few kinds of columns were drawn"


def check(spark: Any, here: Path, rows: pa.Table) -> None:
    here.mkdir()
    first, second = here / "first.lance", here / "second.lance"
    lw.create(first, rows, layout=lw.Layout(file_version=VERSION))
    expected = by_pylance(first)  # JSON is not stored letter by letter
    frame = lws.read(spark, first)
    made = lws.write(frame, second, schema=rows.schema, layout=lw.Layout(file_version=VERSION))
    assert (made.version, made.counts) == (1, lw.RowCounts(inserted=rows.num_rows))
    assert by_pylance(second) == expected
    assert arrow_of(lws.read(spark, second)) == arrow_of(frame)

    lws.write(lws.read(spark, second), second, "append")
    assert by_pylance(second) == [*expected, *expected]
    assert lw.open(second).schema.equals(lw.open(first).schema)


def by_pylance(path: Path) -> list[Any]:
    import lance

    dataset: Any = lance.dataset(str(path))
    dataset.validate()
    return bare_values(dataset.to_table())
