"""What a session asks of Spark; no Spark is started here."""

from __future__ import annotations

import socket
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.spark.session import (
    advised_settings,
    changed_settings,
    check_python,
    checked_settings,
    connect_endpoint,
    python_for_spark,
    reason_of,
    session,
)


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


def test_python_of_a_running_session_that_lacks_lancewood_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "bare", symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python3")
    with pytest.raises(UnsupportedError, match=r"No module named .*set PYSPARK_PYTHON to") as told:
        check_python("local[2]", bare)
    assert told.value.facts["python"] == bare
    with pytest.raises(UnsupportedError, match="No such file"):
        check_python("local[2]", str(tmp_path / "none"))
    check_python("spark://host:7077", bare)  # of the executors' machines nothing is known here
    check_python("local[2]", sys.executable)


def test_missing_pyspark_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[spark\]'"):
        session()


class RunningSession:
    """As much of a session as settings are asked of."""

    def __init__(self, **started: str) -> None:
        self.sparkContext = self
        self.conf = self
        self.started = {name.replace("_", "."): value for name, value in started.items()}

    def getConf(self) -> dict[str, str]:
        return self.started

    def isModifiable(self, name: str) -> bool:
        return name == "spark.sql.shuffle.partitions"

    def set(self, name: str, value: str) -> None:
        from pyspark.errors import AnalysisException

        if name == "spark.sql.static":
            raise AnalysisException("cannot modify")


def test_sql_settings_of_a_running_session_are_changed() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    asked = {"spark.sql.shuffle.partitions": "3", "spark.sql.catalog.theirs": "x"}
    changed = changed_settings(RunningSession(spark_sql_shuffle_partitions="2"), asked)
    assert asked.items() <= changed.items()
    assert changed["spark.sql.session.timeZone"] == "UTC"
    assert "spark.ui.enabled" not in changed, "it would be shown and not used"


@pytest.mark.parametrize("name", ["spark.executor.memory", "spark.sql.static"])
def test_setting_that_a_running_session_would_show_and_not_use_is_refused(name: str) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    for running in (RunningSession(), RunningSession(**{name: "14g"})):
        with pytest.raises(InvalidInputError, match=rf"{name} cannot .* stop\(\)") as refused:
            changed_settings(running, {name: "4g"})
        assert "4g" not in str(refused.value), "a value may be a secret"


@pytest.mark.parametrize("there", ["-Xss8m", "--add-opens=spark -Xss8m"])
def test_setting_that_a_running_session_was_started_with_may_be_said_again(there: str) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    asked = {"spark.driver.extraJavaOptions": "-Xss8m"}
    running = RunningSession(spark_driver_extraJavaOptions=there)
    assert "spark.driver.extraJavaOptions" not in changed_settings(running, asked)


def test_import_of_the_room_does_not_load_pyspark() -> None:
    code = "import sys, lancewood.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_settings_come_by_mapping_and_by_keyword_and_are_spelled_as_spark_does() -> None:
    found = checked_settings({"spark.a": 1, "spark.b": True}, {"spark.c": "x", "spark.a": "1"})
    assert found == {"spark.a": "1", "spark.b": "true", "spark.c": "x"}


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"spark_executor_memory": "4g"}, "names begin with 'spark.' and keep their dots"),
        ({"spark.master": "local"}, "spark.master is said by master="),
        ({"spark.app.name": "x"}, "spark.app.name is said by app_name="),
        ({"spark.secret": b"planted-secret"}, "the value of spark.secret is a bytes"),
        ({"spark.none": None}, "the value of spark.none is a NoneType"),
    ],
)
def test_what_is_no_setting_is_refused_before_spark_is_loaded(
    conf: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(InvalidInputError) as by_mapping:
        session(conf=conf)
    with pytest.raises(InvalidInputError) as by_keyword:
        session(**conf)
    assert words in str(by_mapping.value)
    assert str(by_mapping.value) == str(by_keyword.value)
    assert "planted" not in str(by_mapping.value)


def test_setting_with_two_values_is_refused_without_showing_them() -> None:
    with pytest.raises(InvalidInputError, match=r"spark\.k is given twice") as refused:
        session(conf={"spark.k": "planted-one"}, **{"spark.k": "planted-two"})
    assert "planted" not in str(refused.value)


def test_address_of_a_connect_server_has_a_port_of_its_own_or_the_usual_one() -> None:
    assert connect_endpoint("sc://host") == "host:15002"
    assert connect_endpoint("sc://host:7/;token=planted") == "host:7"
    assert connect_endpoint("local[2]") is None
    with pytest.raises(InvalidInputError, match="write sc://host or sc://host:port") as refused:
        connect_endpoint("sc://host:port/;token=planted")
    assert "planted" not in str(refused.value)


def test_connect_server_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotFoundError, match=f"no Spark Connect server at 127.0.0.1:{port}") as told:
        session(f"sc://127.0.0.1:{port}/;token=planted")
    assert "planted" not in str(told.value)


def test_names_of_the_room_are_functions_whatever_module_was_loaded_first() -> None:
    code = (
        "import sys, lancewood.spark.runner, lancewood.spark.session; "
        "from lancewood.spark import runner, session; "
        "sys.exit(not (callable(runner) and callable(session)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("master", [4, "", " ", "foo", "Local[2]", "mesos://host"])
def test_what_is_no_master_is_refused(master: Any) -> None:
    with pytest.raises(InvalidInputError, match="a master is 'yarn' or a text"):
        session(master)


def test_settings_that_are_no_mapping_are_refused_without_showing_them() -> None:
    pairs: Any = [("spark.key", "hush")]
    with pytest.raises(InvalidInputError, match=r"conf takes a mapping .* got a list$"):
        session(conf=pairs)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: Could not parse Master URL: 'foo'\n\tat x.y(Z:1)",
            "Could not parse Master URL: 'foo'",
        ),
        ("a size is needed: one with a unit", "a size is needed: one with a unit"),
        ("", ""),
    ],
)
def test_reason_of_java_is_told_without_its_stack(text: str, reason: str) -> None:
    assert reason_of(text) == reason


def test_address_that_connect_does_not_take_is_refused_without_showing_a_token() -> None:
    pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"sc://127.0.0.1:{server.getsockname()[1]}/;hush"
        with pytest.raises(InvalidInputError, match="only /;key=value") as raised:
            session(address)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None
