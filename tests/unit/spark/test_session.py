"""What a session asks of Spark; no Spark is started here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lancewood.errors import UnsupportedError
from lancewood.spark.session import advised_settings, python_for_spark, session


def test_settings_of_the_caller_win() -> None:
    given = {"spark.ui.enabled": "true", "spark.driver.host": "here", "spark.x": "y"}
    settings = advised_settings("local[2]", given)
    assert given.items() <= settings.items()
    assert settings["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,1024]"])
def test_local_master_listens_on_loopback_only(master: str) -> None:
    settings = advised_settings(master, {})
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"


def test_cluster_must_reach_its_driver() -> None:
    assert "spark.driver.host" not in advised_settings("spark://host:7077", {})


def test_local_workers_run_this_python_whatever_the_environment_says() -> None:
    chosen = python_for_spark("local[2]", {}, {"PYSPARK_PYTHON": "/other/python"})
    assert chosen == {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def test_cluster_workers_run_the_python_of_the_environment() -> None:
    chosen = python_for_spark("spark://host:7077", {}, {"PYSPARK_PYTHON": "/other/python"})
    assert chosen["PYSPARK_PYTHON"] == "/other/python"
    assert python_for_spark("yarn", {}, {})["PYSPARK_PYTHON"] == sys.executable


def test_python_of_the_settings_wins() -> None:
    chosen = python_for_spark("local[2]", {"spark.pyspark.python": "/my/python"}, {})
    assert chosen["PYSPARK_PYTHON"] == "/my/python"


def test_missing_pyspark_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'lancewood\[spark\]'"):
        session()


def test_import_of_the_room_does_not_load_pyspark() -> None:
    code = "import sys, lancewood.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
