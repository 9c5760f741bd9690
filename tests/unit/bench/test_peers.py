"""The pieces of ``python -m bench peers`` that need neither a network nor Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from bench.peers.command import main
from bench.peers.course import last_words
from bench.peers.outcome import LANCEWOOD, PARQUET, Entrant, render_json, render_markdown
from bench.peers.packages import (
    COMMON_SPARK,
    DELTA,
    ICEBERG,
    LANCE_SPARK,
    OLDER_SPARK,
    PACKAGES,
    choose,
    minor,
    refusal,
)
from bench.peers.provision import environment, fetch_jars, own_spark
from bench.peers.worker import sizes
from bench.peers.works import (
    ADD,
    BRANCH,
    FLOATS,
    KINDS,
    MIX,
    SCAN,
    TRAVEL,
    WORKS,
    WRITING,
    Kind,
    make_source,
)
from bench.report import TIMES

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "org.example:thing_2.13:1.0"


def _measured(seconds: float, written: int = 0) -> dict[str, object]:
    return {"seconds": seconds, "cpu": 2 * seconds, "bytes": written}


@pytest.mark.parametrize(
    ("spark", "peers"), [(COMMON_SPARK, (DELTA, ICEBERG)), (OLDER_SPARK, tuple(PACKAGES))]
)
def test_there_are_packages_for_the_sparks_that_are_named(
    spark: str, peers: tuple[str, ...]
) -> None:
    for peer in peers:
        choice = choose(peer, spark)
        assert choice.made_for == minor(spark)
        assert not choice.is_foreign


def test_a_package_for_another_scala_is_not_tried() -> None:
    with pytest.raises(ValueError, match=r"lance-spark has no package for .* it has one for 3\.5"):
        choose(LANCE_SPARK, COMMON_SPARK)


def test_newer_spark_gets_the_newest_older_package_and_says_so() -> None:
    choice = choose(ICEBERG, "4.3.0")
    assert choice.made_for == (4, 1)
    assert choice.is_foreign
    assert choose(DELTA, "4.3.0").made_for == (4, 2)


def test_spark_before_all_packages_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Delta has no package for Spark 3.4.1"):
        choose(DELTA, "3.4.1")


def test_package_that_nobody_has_is_refused_by_its_name_and_without_a_host() -> None:
    said = (
        "\tHost registry.example not found. url=https://registry.example/thing.pom\n"
        "Exception in thread java.lang.RuntimeException: "
        "[unresolved dependency: org.example#thing_2.13;1.0: not found]"
    )
    text = refusal(PACKAGE, said)
    assert text == f"{PACKAGE} cannot be fetched: Spark's client finds no registry that has it"


def test_refusal_names_what_a_package_needs_and_is_not_there() -> None:
    said = "[unresolved dependency: org.example#part;2.0: not found]"
    assert refusal(PACKAGE, said).endswith("has org.example:part:2.0, which it needs")


def test_refusal_without_a_reason_says_that_there_is_none() -> None:
    assert refusal(PACKAGE, "killed").endswith("Spark's client ended without a reason")


def test_source_has_all_rows_once_and_every_category(tmp_path: Path) -> None:
    make_source(MIX, tmp_path / "source", 2_003)
    found = pq.read_table(tmp_path / "source").sort_by("id")
    assert found["id"].to_pylist() == list(range(2_003))
    assert found.schema.field("vector").type.list_size == FLOATS
    assert pc.count_distinct(found["category"]).as_py() == 100
    assert found.schema.equals(MIX.schema)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_source_of_the_same_size_is_the_same_and_has_what_is_asked_of_it(
    kind: Kind, tmp_path: Path
) -> None:
    make_source(kind, tmp_path / "one", 1_100)
    make_source(kind, tmp_path / "two", 1_100)
    found = pq.read_table(tmp_path / "one")
    assert found.equals(pq.read_table(tmp_path / "two"))
    assert {kind.summed, *kind.filtered} <= {*found.column_names}
    assert found["id"].to_pylist() == list(range(1_100))
    few = duckdb.connect().execute(f"SELECT count(*) FROM found WHERE {kind.filter}").fetchall()
    assert 0 < few[0][0] < 40


def test_works_that_write_are_works() -> None:
    assert set(WRITING) < set(WORKS)
    assert all(set(each.works) <= set(WORKS) for each in KINDS.values())


def test_times_and_ratios_are_medians_against_parquet() -> None:
    parquet, ours = Entrant(PARQUET), Entrant(LANCEWOOD)
    for seconds in (2.0, 4.0, 9.0):
        parquet.result(SCAN).take(_measured(seconds), counts=True)
        ours.result(SCAN).take(_measured(seconds / 2), counts=True)
    text = render_markdown({"cores": "2"}, "a note", [parquet, ours])
    assert f"| scan    |  4.00 s | 2.00 s (2.00{TIMES}) |" in text
    assert f"| scan        |  8.00 s | 4.00 s (2.00{TIMES}) |" in text


def test_small_times_and_sizes_have_small_units() -> None:
    ours = Entrant(LANCEWOOD)
    ours.result(BRANCH).take(_measured(0.004, 2_500), counts=True)
    text = render_markdown({"cores": "2"}, "a note", [ours])
    assert "4.00 ms" in text
    assert "2.50 KB" in text


def test_warm_up_is_not_counted() -> None:
    ours = Entrant(LANCEWOOD)
    ours.result(SCAN).take(_measured(100.0), counts=False)
    ours.result(SCAN).take(_measured(1.0), counts=True)
    assert ours.result(SCAN).median == 1.0


def test_wrong_answer_takes_the_time_away() -> None:
    entrant = Entrant(DELTA)
    answer = _measured(0.1) | {"answer": [["3"]], "expected": [["4"]]}
    entrant.result(SCAN).take(answer, counts=True)
    assert entrant.result(SCAN).median is None
    assert entrant.result(SCAN).failed == "wrong answer: [['3']] instead of [['4']]"


def test_what_a_format_cannot_do_is_in_the_table_and_told_once_with_its_reason() -> None:
    parquet = Entrant(PARQUET)
    parquet.result(ADD).take(_measured(1.0, 5_000_000), counts=True)
    for work in (TRAVEL, BRANCH):
        parquet.result(work).take({"cannot": "there are no names"}, counts=False)
    text = render_markdown({"cores": "2"}, "a note", [parquet])
    # Two works among the times and the CPU times, one among the bytes, the reason.
    assert text.count("cannot") == 6
    assert f"- Parquet cannot {TRAVEL}, {BRANCH}: there are no names" in text
    assert "| add a column  | 5.00 MB |" in text


def test_failure_is_told_with_its_words() -> None:
    delta = Entrant(DELTA, package=PACKAGE)
    delta.result(SCAN).take({"failed": "NoSuchMethodError: LogicalRDD"}, counts=False)
    text = render_markdown({"cores": "2"}, "a note", [delta])
    assert "- Delta failed to scan: NoSuchMethodError: LogicalRDD" in text


def test_refused_peer_is_listed_but_has_no_column() -> None:
    parquet, delta = Entrant(PARQUET), Entrant(DELTA, refusal="it cannot be fetched")
    parquet.result(SCAN).take(_measured(1.0), counts=True)
    text = render_markdown({"cores": "2"}, "a note", [parquet, delta])
    assert "- Delta: it cannot be fetched" in text
    assert "| seconds | Parquet |" in text


def test_json_has_every_sample_and_every_reason() -> None:
    delta = Entrant(DELTA, package=PACKAGE)
    delta.result(SCAN).take(_measured(1.5, 7), counts=True)
    delta.result(BRANCH).take({"cannot": "none"}, counts=False)
    found = json.loads(json.dumps(render_json({"cores": "2"}, {"rows": 5}, [delta])))
    assert found["rows"] == 5
    assert found["contenders"][0]["works"] == {
        SCAN: {"seconds": [1.5], "cpu": [3.0], "bytes": [7], "cannot": None, "failed": None},
        BRANCH: {"seconds": [], "cpu": [], "bytes": [], "cannot": "none", "failed": None},
    }


def test_checksums_that_hadoop_lays_beside_files_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "part.parquet").write_bytes(b"12345")
    (tmp_path / "folder" / ".part.parquet.crc").write_bytes(b"123")
    assert sizes(tmp_path) == {str(tmp_path / "folder" / "part.parquet"): 5}


def test_last_words_are_the_last_error_of_a_log() -> None:
    log = "starting\njava.lang.IllegalStateException: no such class\n\tat line 1\n"
    assert last_words(log) == "java.lang.IllegalStateException: no such class"
    assert last_words("") == "it said nothing"


def test_jars_that_are_here_are_taken_without_asking_anybody(tmp_path: Path) -> None:
    jar = tmp_path / "thing.jar"
    jar.write_bytes(b"")
    known = tmp_path / "jars" / "org.example_thing_2.13_1.0.json"
    known.parent.mkdir()
    known.write_text(json.dumps([str(jar)]))
    assert fetch_jars(PACKAGE, {}, tmp_path) == (str(jar),)


def test_own_spark_needs_nothing_and_another_one_comes_first(tmp_path: Path) -> None:
    (tmp_path / "pyspark-4.1.4").mkdir()
    assert environment(own_spark(), tmp_path).get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    first = environment("4.1.4", tmp_path)["PYTHONPATH"].split(os.pathsep)[0]
    assert first == str(tmp_path / "pyspark-4.1.4")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rows", "10"), "--rows 10 is too few"),
        (("--passes", "0"), "--passes 0 measures nothing"),
        (("--spark", "newest"), "'newest' is not a version of Spark; one looks like 4.1.4"),
    ],
)
def test_bad_argument_is_refused_before_anything_is_fetched(
    arguments: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_peers_is_a_command_of_its_own_with_its_own_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "peers", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "--spark VERSION" in done.stdout
