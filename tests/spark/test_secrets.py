"""Storage options are in no plan, no event log and no error; and what Spark shows of settings."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

import lancewood as lw
from lancewood.spark import read, runner, write

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

OPTIONS = {"aws_secret_access_key": "planted-one", "azure_storage_sas_key": "planted-two"}
AS_OPTIONS = {f"storage.{name}": value for name, value in OPTIONS.items()}


@pytest.fixture
def logged(sessions: Any, tmp_path: Path) -> Any:
    """A session whose events are written down."""
    (tmp_path / "events").mkdir()
    return sessions.use(
        "local",
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (tmp_path / "events").as_uri(),
            "spark.executorEnv.MY_PASSWORD": "planted-three",
            "spark.executorEnv.MY_SAS_KEY": "shown-by-spark",
        },
    )


def shown(frame: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(True)
        frame.explain("formatted")
    return out.getvalue()


def test_storage_options_are_in_no_plan_event_or_error(
    logged: Any, sessions: Any, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t.lance")
    write(logged.range(20), uri, storage_options=OPTIONS)
    fast = read(logged, uri, storage_options=OPTIONS)
    familiar = logged.read.format("lance").options(**AS_OPTIONS).load(uri)
    more = logged.range(20, 22).write.format("lance").mode("append").options(**AS_OPTIONS)
    more.save(uri)
    assert (fast.count(), familiar.count()) == (20, 20)
    in_sql = "`storage.aws_secret_access_key` 'planted-four', `storage.sas_key` 'shown-of-sql'"
    logged.sql(f"CREATE OR REPLACE TEMP VIEW v USING lance OPTIONS (path '{uri}', {in_sql})")
    view = logged.sql("SELECT * FROM v")
    assert view.count() == 22
    lw.open(uri, storage_options=OPTIONS).delete("id = 3", runner=runner(logged))
    told = "".join(shown(each) for each in (fast, familiar, view))
    for each in (fast, familiar):
        with pytest.raises(Exception, match="USER_RAISED") as failed:
            each.selectExpr("raise_error('x')").collect()
        told += str(failed.value)
    assert "MapInArrow" in told
    assert "planted" not in told

    sessions.use("local")
    events = "".join(
        each.read_text() for each in (tmp_path / "events").rglob("events*") if each.is_file()
    )
    assert "SparkListenerSQLExecutionStart" in events
    for each in ("shown-by-spark", "shown-of-sql"):
        assert each in events, "Spark hides what sounds like a secret, and no more"
    assert "planted" not in events
