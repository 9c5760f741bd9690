"""Frames where executors are other processes, and where the session is a client of Connect: the
Python of the pipeline is on the driver alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.clusters.kinds import CONNECT, LOCAL_CLUSTER, on
from tests.spark.needs import needs
from tests.spark.pipeline.frames_scene import Scene, target

import lancewood as lw
from lancewood.spark.abilities import ARROW_FUNCTIONS

TEXT = (
    '[sources.drops]\nformat = "csv"\npath = "in"\nschema = "id LONG, name STRING"\n'
    "incremental = true\n"
    '[sources.rows]\nuri = "t.lance"\nincremental = true\n'
    '[functions.shout]\npython = "zoo_cluster:shout"\nreturns = "string"\n'
    '[functions.twice]\npython = "zoo_cluster:twice"\nreturns = "bigint"\n'
    '[steps.said]\nsql = "SELECT twice(id) AS id, shout(name) AS name FROM drops"\n'
    '[steps.joined]\npython = "zoo_cluster:joined"\ninputs = ["said", "rows"]\n'
    "[quarantine]\nmost_rows = 5\n" + target("joined")
)


@needs(ARROW_FUNCTIONS)
@pytest.mark.sliced(2)
@pytest.mark.parametrize("mode", [on(LOCAL_CLUSTER), on(CONNECT)], indirect=True)
def test_frames_are_the_same_on_executors_and_over_connect(any_spark: Any, tmp_path: Path) -> None:
    scene = Scene(any_spark, tmp_path / "zoo")
    scene.write(
        "zoo_cluster.py",
        "import pyarrow as pa, pyarrow.compute as pc\nimport zoo_end\n"
        "def shout(text): return text.upper() + zoo_end.END\n"
        "def twice(x: pa.Array) -> pa.Array: return pc.multiply(x, 2)\n"
        "def joined(said, rows): return said.join(rows, 'id', 'left')\n",
    )
    scene.write("zoo_end.py", "END = '!'\n")
    table = lw.create(scene.folder / "t.lance", pa.table({"id": [2, 4], "legs": [6, 8]}))
    scene.write("in/a.csv", "1,ant\n2,bee\nx,y\n")
    with scene.frames(TEXT) as frames:
        frames.check()
        found = sorted(map(tuple, frames.frame("joined").collect()))
        assert found == [(2, "ANT!", 6), (4, "BEE!", 8)]
        bad = frames.bad_rows()
        assert bad is not None
        ((file, line, record),) = bad.select("file", "line", "record").collect()
        assert (Path(file).name, line, record) == ("a.csv", 3, '{"text":"x,y"}')
        assert {each.name: each.rows for each in frames.counted()} == {"drops": 3, "rows": 2}
        scene.publish(frames)
    assert not any_spark.catalog.functionExists("shout")

    table.append(pa.table({"id": [6], "legs": [0]}))
    scene.write("in/b.csv", "3,cat\n")
    with scene.frames(TEXT) as frames:
        assert sorted(map(tuple, frames.frame("joined").collect())) == [(6, "CAT!", 0)]
        assert {each.name: each.files for each in frames.counted()} == {"drops": 1, "rows": None}
