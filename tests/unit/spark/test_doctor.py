"""What the doctor says of machines that are made up; no Spark is started here."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lancewood.cli.main import app
from lancewood.errors import UnsupportedError
from lancewood.spark import doctor as packages
from lancewood.spark import doctor as subject
from lancewood.spark import java
from lancewood.spark.doctor import Trial, _report_in, _without_secret, examine_spark, run_trial
from lancewood.spark.trial_run import _versions
from lancewood.store.checkup import CheckStatus, StoreCheck

REPORT: dict[str, Any] = {
    "spark": "4.3.0",
    "seconds": 4.5,
    "closed": None,
    "driver": {"python": "3.11.7", "pyarrow": "26"},
    "workers": [{"python": "3.11.7", "pyarrow": "26", "executable": "/py", "host": "a"}],
    "table": "1000 rows written and read back",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with a Java of its own."""
    executable = tmp_path / "jdk" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\"' >&2\n")
    executable.chmod(0o755)
    return {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": "", "XDG_CACHE_HOME": str(tmp_path)}


def install(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Make some packages be there in a version, or not at all."""

    def answer(name: str) -> str:
        if name in versions:
            found = versions[name]
            if found is None:
                raise PackageNotFoundError(name)
            return found
        return version(name)

    monkeypatch.setattr(packages, "version", answer)


def checks(environ: dict[str, str], trial: Trial | None = None) -> dict[str, StoreCheck]:
    return {each.name: each for each in examine_spark(environ, trial)}


def test_machine_that_has_everything_has_no_failed_check(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, pyspark="4.3.1", pandas="2.2.0")
    found = checks(environ)
    assert {each.status for each in found.values()} <= {CheckStatus.OK, CheckStatus.SKIP}
    assert found["python"].figure.endswith(f"({sys.executable})")
    assert found["java"].figure.startswith("21, the machine's own")
    assert found['format("lance")'].status is CheckStatus.OK


@pytest.mark.parametrize(
    ("package", "found", "status"),
    [
        ("pyspark", None, CheckStatus.FAIL),
        ("pyspark", "3.4.4", CheckStatus.FAIL),
        ("pyspark", "5.0.0.dev1", CheckStatus.WARN),
        ("pandas", None, CheckStatus.FAIL),
        ("pandas", "2.1.4", CheckStatus.FAIL),
        ("pyarrow", "17.0", CheckStatus.FAIL),
        ("pylance", "13.9", CheckStatus.FAIL),
    ],
)
def test_package_that_will_not_do_is_named_with_the_way_out(
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    found: str | None,
    status: CheckStatus,
) -> None:
    install(monkeypatch, **{package: found, "pyspark-client": None})
    check = checks(environ)[package]
    assert check.status is status
    assert check.advice
    if status is CheckStatus.FAIL:
        assert "pip install '.[spark]' in a checkout" in check.advice


def test_what_an_older_spark_lacks_is_told_and_is_no_failure(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = {"4.3.0": 0, "4.2.1": 1, "4.1.4": 2, "4.0.5": 4, "3.5.9": 9}
    for spark, count in lacking.items():
        install(monkeypatch, pyspark=spark)
        found = checks(environ)
        told = [each for each in found.values() if "Spark has this from" in each.figure]
        assert len(told) == count
        assert all(each.status is CheckStatus.SKIP and each.advice for each in told)
        assert found["pyspark"].status is CheckStatus.OK
    assert told[0] == found['format("lance")']
    assert told[0].figure == "Spark has this from 4.0 on"


def test_what_connect_needs_may_be_missing(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, grpcio=None)
    check = checks(environ)["connect"]
    assert (check.status, check.figure) == (CheckStatus.SKIP, "not installed: grpcio")
    assert "pip install '.[connect]' in a checkout" in str(check.advice)


def test_javas_that_are_passed_over_are_told_and_none_at_all_is_a_failure(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "packaged_runtime", lambda: None)
    (Path(environ["JAVA_HOME"]) / "bin" / "java").write_text(
        "#!/bin/sh\necho 'openjdk version \"11.0.1\"' >&2\n"
    )
    found = [each for each in examine_spark(environ) if each.name == "java"]
    assert [each.status for each in found] == [CheckStatus.SKIP, CheckStatus.FAIL]
    assert found[0].figure.endswith("(JAVA_HOME) is Java 11")
    assert "JAVA_HOME" in str(found[1].advice)


def test_a_client_of_connect_needs_no_java(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "packaged_runtime", lambda: None)
    monkeypatch.setattr(subject, "run_trial", lambda *_: REPORT)
    del environ["JAVA_HOME"]
    assert checks(environ)["java"].status is CheckStatus.FAIL
    assert checks(environ, Trial())["java"].status is CheckStatus.FAIL
    remote = checks(environ, Trial("sc://host/;token=hush"))
    assert remote["java"].status is CheckStatus.SKIP
    assert remote["session"].status is CheckStatus.OK
    assert "hush" not in str(remote)
    install(monkeypatch, **{"pyspark": None, "pyspark-client": "4.3.0"})
    assert checks(environ)["java"].status is CheckStatus.SKIP
    assert checks(environ)["pyspark"].status is CheckStatus.OK


def test_workers_are_compared_by_the_release_of_python_and_by_packages_that_may_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, **{"pyspark": None, "pyspark-client": "4.3.0", "pandas": None})
    found = _versions()
    assert found["python"] == ".".join(map(str, sys.version_info[:2]))
    assert (found["pyspark"], found["pandas"]) == ("4.3.0", "missing")


def test_variables_that_mislead_spark_are_told(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, pyspark="4.3.0")
    (tmp_path / "old" / "jars").mkdir(parents=True)
    (tmp_path / "old" / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    environ |= {"PYSPARK_PYTHON": "/no/python", "SPARK_HOME": str(tmp_path / "old")}
    environ |= {"SPARK_REMOTE": "sc://host/;token=planted"}
    found = checks(environ)
    assert found["PYSPARK_PYTHON"].status is CheckStatus.WARN
    assert found["SPARK_HOME"].status is CheckStatus.FAIL
    assert "is Spark 3.5.1, and pyspark 4.3.0" in found["SPARK_HOME"].figure
    assert found["SPARK_REMOTE"].status is CheckStatus.WARN
    assert "planted" not in str(found)


def test_python_of_the_workers_that_is_there_is_fine(environ: dict[str, str]) -> None:
    environ |= {"PYSPARK_PYTHON": sys.executable}
    assert checks(environ)["PYSPARK_PYTHON"].status is CheckStatus.OK


def test_trial_is_not_begun_where_something_is_missing(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, pandas=None)
    monkeypatch.setattr(subject, "run_trial", lambda *_: pytest.fail("it was begun"))
    assert checks(environ, Trial())["trial"].status is CheckStatus.SKIP


def test_worker_that_runs_something_else_than_the_driver_is_a_failure(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"python": "3.12.1", "pyarrow": "26", "executable": "/py", "host": "b"}
    report = {**REPORT, "workers": [*REPORT["workers"], other], "table": None}
    monkeypatch.setattr(subject, "run_trial", lambda *_: report)
    found = list(examine_spark(environ, Trial()))
    workers = [each for each in found if each.name == "worker"]
    assert [each.status for each in workers] == [CheckStatus.OK, CheckStatus.FAIL]
    assert "another python" in str(workers[1].advice)
    assert found[-1].status is CheckStatus.SKIP
    assert "--place URI" in str(found[-1].advice)


def test_a_session_without_the_columnar_door_is_told_with_the_reason(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "run_trial", lambda *_: REPORT)
    assert checks(environ, Trial())["columnar door"].status is CheckStatus.OK
    monkeypatch.setattr(subject, "run_trial", lambda *_: {**REPORT, "closed": "it is forbidden"})
    found = checks(environ, Trial())["columnar door"]
    assert (found.status, found.figure) == (CheckStatus.WARN, "closed: it is forbidden")


def test_trial_that_fails_is_a_failed_check_with_the_reason(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedError("trial on local[2]: no room")

    monkeypatch.setattr(subject, "run_trial", refuse)
    check = checks(environ, Trial())["trial"]
    assert (check.status, check.advice) == (CheckStatus.FAIL, "trial on local[2]: no room")


def test_trial_hands_on_what_its_process_says_of_a_bad_setting() -> None:
    with pytest.raises(UnsupportedError, match=r"trial on local\[2\]: .*'bad' is no setting"):
        run_trial(Trial(conf={"bad": "1"}), os.environ)


def test_trial_does_not_tell_the_token_of_an_address() -> None:
    with pytest.raises(UnsupportedError, match=r"^trial on sc://127\.0\.0\.1:1: ") as raised:
        run_trial(Trial("sc://127.0.0.1:1/;token=hush"), os.environ)
    assert "hush" not in str(raised.value)


def test_what_a_process_says_is_told_without_the_token() -> None:
    words = "no answer from sc://h:1/;token=hush;user_id=me (Bearer hush)"
    assert _without_secret(words, "sc://h:1/;token=hush;user_id=me") == (
        "no answer from sc://h:1/;… (Bearer …)"
    )
    assert _without_secret("no room on local[2]", "local[2]") == "no room on local[2]"


def test_trial_whose_process_prints_something_else_says_what() -> None:
    assert _report_in('{"spark": "4.3.0"}') == {"spark": "4.3.0"}
    assert _report_in("bye") is None
    assert _report_in("7") is None


def test_command_ends_with_its_own_code_and_the_keys_that_it_promises(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(subject, "run_trial", lambda *_: REPORT)
    good = CliRunner().invoke(app, ["spark", "doctor", "--run", "--json"], prog_name="lw")
    assert good.exit_code == 0, good.output
    document = json.loads(good.stdout)
    assert list(document) == ["ok", "checks"]
    assert list(document["checks"][0]) == ["name", "status", "figure", "advice"]
    names = [each["name"] for each in document["checks"]]
    assert names[-4:] == ["session", "columnar door", "worker", "table"]

    install(monkeypatch, pandas=None)
    bad = CliRunner().invoke(app, ["spark", "doctor"], prog_name="lw")
    assert bad.exit_code == 12
    assert "pandas: mapInArrow refuses to run without it: run pip install" in bad.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--master", "local[1]"], "add --run"),
        (["--run", "--conf", "spark.x"], "--conf is not KEY=VALUE"),
    ],
)
def test_wrong_words_of_the_command_are_refused(arguments: list[str], words: str) -> None:
    ran = CliRunner().invoke(app, ["spark", "doctor", *arguments], prog_name="lw")
    assert ran.exit_code == 5
    assert words in ran.stderr
