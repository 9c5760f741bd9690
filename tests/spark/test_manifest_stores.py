"""Tables behind a manifest store, seen from Spark: both doors, a change by tasks, and a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancewood as lw
from lancewood.external.base import ManifestEntry, base_by_uri
from lancewood.external.opening import open_manifest_store
from lancewood.spark import add_columns, count, read, runner, write

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import needs

from lancewood.spark.abilities import SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), needs(SOURCES)]


def latest(uri: str, manifests: str) -> ManifestEntry:
    found = open_manifest_store(manifests).latest(base_by_uri(uri))
    assert found is not None
    return found


@pytest.mark.campaign
def test_every_door_commits_through_the_manifest_store(spark: Any, tmp_path: Path) -> None:
    uri, manifests = str(tmp_path / "t.lance"), f"sqlite://{tmp_path}/manifests.db"
    write(spark.range(10), uri, access=lw.Access(manifest_store=manifests))
    assert latest(uri, manifests).version == 1
    assert lw.open(uri).config == {"lancewood.manifest_store": "sqlite"}
    familiar = spark.range(10, 12).write.format("lance").mode("append")
    with pytest.raises(Exception, match="through a manifest store of kind 'sqlite'"):
        familiar.save(uri)
    familiar.option("manifestStore", manifests).save(uri)
    assert latest(uri, manifests).version == 2
    table = lw.open(uri, access=lw.Access(manifest_store=manifests)).delete(
        "id = 3", runner=runner(spark)
    )
    assert latest(uri, manifests).version == table.version == 3
    add_columns(spark, uri, {"twice": "id * 2"}, access=lw.Access(manifest_store=manifests))
    entry = latest(uri, manifests)
    assert (entry.version, entry.path.endswith(".manifest")) == (4, True)
    assert count(spark, uri, access=lw.Access(manifest_store=manifests)) == 11
    seen = read(spark, uri, where="id > 8", access=lw.Access(manifest_store=manifests))
    assert sorted(each.twice for each in seen.collect()) == [18, 20, 22]
    frame = spark.read.format("lance").option("manifestStore", manifests).load(uri)
    assert frame.count() == 11


@pytest.mark.campaign
def test_a_stream_commits_through_the_manifest_store(spark: Any, tmp_path: Path) -> None:
    uri, manifests = str(tmp_path / "t.lance"), f"sqlite://{tmp_path}/manifests.db"
    write(spark.range(3), str(tmp_path / "source.lance"))
    source = spark.readStream.format("lance").option("startingVersion", "earliest")
    sink = source.load(str(tmp_path / "source.lance")).writeStream.format("lance")
    query = (
        sink.option("manifestStore", manifests)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(uri)
    )
    query.awaitTermination(120)
    query.stop()
    assert (
        latest(uri, manifests).version
        == lw.open(uri, access=lw.Access(manifest_store=manifests)).version
    )
    assert lw.open(uri, access=lw.Access(manifest_store=manifests)).count_rows() == 3
