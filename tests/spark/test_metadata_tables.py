"""Tables about a table, on a real Spark, through both doors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.spark import metadata
from lancewood.spark.source.metadata import METADATA_SCHEMAS

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import needs

from lancewood.spark.abilities import SOURCES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    needs(SOURCES),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

TYPES = {
    "versions": "struct<version:bigint,timestamp:timestamp,operation:string,rows:bigint,"
    "message:string,properties:map<string,string>,damage:string>",
    "transactions": "struct<version:bigint,uuid:string,read_version:bigint,operation:string,"
    "message:string,properties:map<string,string>,missing:string>",
    "fragments": "struct<fragment:bigint,rows:bigint,physical_rows:bigint,deleted_rows:bigint,"
    "data_files:bigint,bytes:bigint,deletion_file:string>",
    "files": "struct<fragment:bigint,kind:string,uri:string,path:string,base:bigint,rows:bigint,"
    "bytes:bigint,file_version:string,fields:array<int>>",
    "refs": "struct<kind:string,name:string,branch:string,version:bigint,created_at:timestamp,"
    "updated_at:timestamp,metadata:map<string,string>,damage:string>",
    "indices": "struct<name:string,kind:string,columns:array<string>,uuid:string,version:bigint,"
    "fragments:bigint,base:bigint>",
}


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    rows = pa.table({"i": pa.array(range(10), pa.int64())})
    made = lw.create(
        tmp_path / "t.lance",
        rows,
        layout=lw.Layout(max_rows_per_file=4),
        commit=lw.CommitOptions(properties={"who": "me"}),
    )
    made.tags.create("v1", metadata={"by": "me"})
    made = made.delete("i = 5")
    made.lance().create_scalar_index("i", "BTREE")
    return made.latest()


@pytest.mark.sliced(2)
@pytest.mark.parametrize("kind", list(METADATA_SCHEMAS))
def test_both_doors_give_the_same_typed_rows(spark: Any, table: lw.Table, kind: str) -> None:
    fast = metadata(spark, table.uri, kind)  # type: ignore[arg-type]
    familiar = spark.read.format("lance").option("metadata", kind).load(table.uri)
    assert fast.schema.simpleString() == familiar.schema.simpleString() == TYPES[kind]
    rows = fast.collect()
    assert len(rows) == {"versions": 3, "transactions": 3, "fragments": 3, "files": 4}.get(kind, 1)
    assert familiar.collect() == rows


def test_metadata_is_queried_with_sql_and_stays_at_its_version(spark: Any, table: lw.Table) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW about USING lance "
        f"OPTIONS (path '{table.uri}', metadata 'versions', branch 'main')"
    )
    table.append(pa.table({"i": [99]}))
    query = "SELECT version, rows FROM about WHERE operation IS NOT NULL ORDER BY version"
    assert [tuple(each) for each in spark.sql(query).collect()] == [(1, 10), (2, 9), (3, 9)]
    early = metadata(spark, table.uri, "versions", tag="v1").collect()
    assert [(each.version, each.properties) for each in early] == [(1, {"who": "me"})]
