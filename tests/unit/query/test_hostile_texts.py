"""Texts that would take the process down, see what is not theirs, or change what they only read."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.expr.database import QUERIES

DEEP = 3_000
"""Levels, of which 250 are allowed."""
SMALL_STACK = 1 << 20
NESTED: dict[str, Callable[[int], str]] = {
    "subqueries": lambda n: "SELECT * FROM " + "(SELECT * FROM " * n + "t" + ")" * n,
    "values of subqueries": lambda n: "SELECT " + "(SELECT " * n + "1" + ")" * n,
    "queries of WITH": lambda n: (
        "WITH c0 AS (FROM t)"
        + "".join(f", c{at} AS (FROM c{at - 1})" for at in range(1, n))
        + f" FROM c{n - 1}"
    ),
    "types": lambda n: "SELECT NULL::INT" + "[]" * n,
    "structs": lambda n: "SELECT NULL::" + "STRUCT(a " * n + "INT" + ")" * n,
    "lists": lambda n: "SELECT " + "[" * n + "1" + "]" * n,
    "cases": lambda n: "SELECT " + "CASE WHEN true THEN " * n + "1" + " END" * n,
    "lambdas": lambda n: "SELECT " + "list_transform([1], lambda x: " * n + "1" + ")" * n,
    "texts of queries": lambda n: "FROM query('SELECT " + "(" * n + "1" + ")" * n + "')",
    "moments": lambda n: "FROM t AT (TIMESTAMP => " + "(" * n + "now()" + ")" * n + ")",
    "JSON": lambda n: f"SELECT json_structure(repeat('[', {n}) || repeat(']', {n}))",
    "a value that is set": lambda n: "UPDATE t SET a = " + "(" * n + "1" + ")" * n,
    "a condition": lambda n: "DELETE FROM t WHERE " + "NOT (" * n + "true" + ")" * n,
    "a source": lambda n: (
        "MERGE INTO t USING "
        + "(SELECT * FROM " * n
        + "t"
        + ")" * n
        + " AS s ON t.a = s.a WHEN MATCHED THEN DELETE"
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", pa.table({"a": [1, 2]}))


def outcome(sql: str, table: lw.Table) -> BaseException | list[object]:
    """The rows, or the error, of a thread with a small stack."""
    found: list[BaseException | list[object]] = []

    def ask() -> None:
        try:
            found.append(lw.sql(sql, tables={"t": table}).to_arrow().to_pylist())
        except BaseException as error:
            found.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    (answer,) = found
    return answer


@pytest.mark.parametrize("name", NESTED)
def test_what_nests_too_deeply_is_refused_in_a_thread_with_a_small_stack(
    table: lw.Table, name: str
) -> None:
    error = outcome(NESTED[name](DEEP), table)
    assert isinstance(error, lw.InvalidInputError | lw.UnsupportedError), error
    assert table.latest().version == 1


@pytest.mark.parametrize("name", ["subqueries", "queries of WITH", "cases"])
def test_what_nests_less_is_answered_there(table: lw.Table, name: str) -> None:
    assert isinstance(outcome(NESTED[name](200), table), list)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM parquet_scan('/etc/passwd')",
        "FROM read_json('/etc/passwd')",
        "FROM read_blob('/etc/passwd')",
        "FROM sniff_csv('/etc/passwd')",
        "FROM read_duckdb('/etc/passwd')",
        "FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "FROM query_table('secret')",
        "FROM query('FROM secret')",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM secret'))",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM ''/etc/passwd'''))",
        "FROM pandas_scan(12345)",
        "FROM arrow_scan(1, 2, 3)",
        "FROM python_map_function((FROM t))",
        "FROM enable_logging()",
        "FROM enable_profiling()",
        "FROM import_database('/tmp')",
        "SELECT * FROM __lancewood_1",
        "SELECT * FROM __lancewood_target",
        "SHOW TABLES",
        "FROM (SHOW DATABASES)",
        "SELECT nextval('s')",
        "FROM t, t@\0",
        'FROM "t\0"',
        "FROM t -- \ud800",
        "FROM \u202et",
        "FROM 'T\u0307'",
        "DELETE FROM t; \0",
        "DELETE FROM t; SELECT * FROM secret",
        "WITH t AS (SELECT 5 AS a) DELETE FROM secret",
        "DELETE FROM t WHERE a = (SELECT password FROM secret)",
        "DELETE FROM t WHERE getenv('HOME') <> ''",
        "UPDATE t SET a = (SELECT 1 FROM read_text('/etc/passwd'))",
        "INSERT INTO t SELECT 1 FROM glob('/*')",
        "MERGE INTO t USING read_csv('/etc/passwd') AS s ON true WHEN MATCHED THEN DELETE",
        "CREATE OR REPLACE TABLE t AS FROM '/etc/passwd'",
        "BEGIN; DELETE FROM t; COMMIT",
        "ALTER TABLE t ADD COLUMN b AS (SELECT 1)",
        "ALTER TABLE t ADD COLUMN b AS random()",
    ],
)
def test_nothing_else_is_within_reach_and_nothing_changed(table: lw.Table, sql: str) -> None:
    secret = pa.table({"password": ["hunter2"]})
    assert secret.num_rows == 1  # a variable of Python, which DuckDB would find by its name
    before = table.to_arrow()
    with pytest.raises(lw.LancewoodError) as caught:
        lw.sql(sql, tables={"t": table}).to_arrow()
    assert "hunter2" not in str(caught.value)
    assert "root:" not in str(caught.value)
    newest = table.latest()
    is_first_done = sql.startswith("DELETE FROM t; SELECT")
    assert newest.version == (2 if is_first_done else 1)
    assert is_first_done or newest.to_arrow().equals(before)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("WITH t AS (SELECT 7 AS a) FROM t", [(7,)]),
        ("WITH diff AS (SELECT 7 AS a) FROM diff", [(7,)]),
        ("SELECT a AS diff FROM t ORDER BY diff", [(1,), (2,)]),
        ("SELECT sum(a) FROM /* FROM secret; */ t -- ; DELETE FROM t", [(3,)]),
        ("SELECT ';', '--', $$'; DROP$$ FROM t LIMIT 1;", [(";", "--", "'; DROP")]),
        ('SELECT count(*) AS "a""; DROP TABLE t" FROM t', [(2,)]),
        ("SELECT e'\\'; DELETE FROM t --' FROM t LIMIT 1", [("'; DELETE FROM t --",)]),
        ("SELECT 日本, é FROM (SELECT a AS 日本, a + 1 AS é FROM t LIMIT 1)", [(1, 2)]),
        ("SELECT\u00a01\u3000+ 1 FROM t\u200b LIMIT 1", [(2,)]),
    ],
)
def test_names_comments_and_quotes_stay_duckdbs(
    table: lw.Table, sql: str, rows: list[tuple[object, ...]]
) -> None:
    found = lw.sql(sql, tables={"t": table}).to_arrow()
    assert [tuple(each.values()) for each in found.to_pylist()] == rows
    assert table.latest().version == 1


@pytest.mark.parametrize(
    "sql",
    [
        'DROP TABLE "tx',
        'FROM t SELECT "ax',
        'FROM "t""',
        "COMMIT 'message",
        "SELECT $$text",
        "SELECT $a$text$$",
        'FROM t@"v',
    ],
)
def test_a_name_or_text_without_its_end_is_refused(table: lw.Table, sql: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="does not end"):
        lw.sql(sql, tables={"t": table})
    assert lw.open(table.uri).version == table.version


def test_what_other_queries_spill_is_out_of_reach() -> None:
    """DuckDB lets every text read the directory that it spills to."""
    with QUERIES.cursor() as cursor:
        asked = cursor.execute("SELECT current_setting('temp_directory')")
        ((directory,),) = asked.fetchall()
    secret = Path(directory) / "secret.csv"
    secret.write_text("a\n1\n")
    try:
        for text in (
            f"FROM '{secret}'",
            f"FROM read_csv('{secret}')",
            f"FROM glob('{directory}/*')",
        ):
            with pytest.raises((lw.InvalidInputError, lw.NotFoundError)):
                lw.sql(text).to_arrow()
    finally:
        secret.unlink()


def test_one_query_sees_nothing_of_another(table: lw.Table) -> None:
    """Views are of a cursor: names of tables and texts of other queries do not show."""
    other = lw.sql("SELECT a FROM t", tables={"t": table}).to_batches()
    next(other)
    assert lw.sql("FROM information_schema.tables").to_arrow().num_rows == 0
    for each in (
        "duckdb_views()",
        "duckdb_logs()",
        "duckdb_temporary_files()",
        "QUERY('SELECT 1')",
    ):
        with pytest.raises(lw.InvalidInputError, match="cannot be asked"):
            lw.sql(f"SELECT count(*) FROM {each}")
        with pytest.raises(lw.InvalidInputError, match="cannot be asked"):
            lw.sql(f"PIVOT (SELECT 1 AS a FROM {each}) ON a")
    other.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT current_setting('temp_directory')",
        "SELECT a FROM t WHERE GETVARIABLE('x') = 1",
        "PIVOT (SELECT current_setting('threads') AS a FROM t) ON a",
        "DELETE FROM t WHERE current_setting('threads') = 1",
        "FROM pg_catalog.pg_settings",
        "FROM main.duckdb_views",
        "FROM t AT (TIMESTAMP => (SELECT '2026-11-15'))",
        "FROM t AT (TIMESTAMP => error((SELECT string_agg(name, '') FROM duckdb_settings())))",
        "FROM t AT (TIMESTAMP => current_setting('TimeZone'))",
        "RESTORE t TO TIMESTAMP error('x')",
        "CREATE BRANCH b ON t FROM TIMESTAMP (SELECT a FROM t)",
    ],
)
def test_settings_and_catalogs_are_out_of_reach(table: lw.Table, text: str) -> None:
    with pytest.raises((lw.InvalidInputError, lw.NotFoundError)) as caught:
        lw.sql(text, tables={"t": table}).to_arrow()
    assert "lancewood-sql-" not in str(caught.value)
    assert lw.open(table.uri).version == table.version
    assert not lw.open(table.uri).branches.list()


@pytest.mark.parametrize("time", ["now() - INTERVAL 0 DAY", "current_timestamp", "'2999-01-01'"])
def test_a_moment_may_be_computed(table: lw.Table, time: str) -> None:
    assert lw.sql(f"FROM t AT (TIMESTAMP => {time})", tables={"t": table}).to_arrow().num_rows == 2


@pytest.mark.parametrize("text", ["SELECT a{} FROM t", "UPDATE t SET a = a{}"])
def test_a_name_of_very_many_parts_is_refused(table: lw.Table, text: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="nests too deeply"):
        lw.sql(text.format(".a" * 3_000), tables={"t": table})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('WITH "__lancewood_target" AS (SELECT 1 AS a) DELETE FROM t WHERE a = 9', "are taken"),
        ("FROM __LANCEWOOD_0", "are taken"),
        ('WITH "t@main" AS (SELECT 42 AS a) SELECT a FROM t@main', "a table's state"),
    ],
)
def test_names_of_ours_cannot_be_defined(table: lw.Table, text: str, why: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=why):
        lw.sql(text, tables={"t": table}).to_arrow()


BOUNDED = """
import resource, sys
import pyarrow as pa
import lancewood as lw
from lancewood.expr import database

database.QUERIES._settings["memory_limit"] = "150MB"
table = lw.create("memory://hostile/t", pa.table({"a": [1, 2]}))

def ask(sql):
    return lw.sql(sql, tables={"t": table}).to_arrow().to_pylist()

ask("SELECT 1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for greedy in ("len(list(repeat('x', 1000) || x))", "len(string_agg(repeat('x', 1000) || x))"):
    value = f"(SELECT {greedy} FROM range(1000000) r(x))"
    for sql in (f"SELECT {value}", f"DELETE FROM t WHERE a < {value}"):
        try:
            sys.exit(f"answered {ask(sql)}")
        except lw.UnsupportedError as error:
            assert "needs more memory" in str(error), error
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 400 << 10, grown
assert ask("SELECT sum(a)::INT AS n FROM t") == [{"n": 3}]
assert table.latest().version == 1
"""


def test_memory_is_bounded() -> None:
    command = [sys.executable, "-c", BOUNDED]
    done = subprocess.run(command, timeout=120, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_query_that_is_interrupted_ends_and_leaves_the_database_whole(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = QUERIES.cursor

    @contextmanager
    def interrupted() -> Iterator[Any]:
        with opened() as own:
            timer = threading.Timer(0.5, own.interrupt)
            timer.start()
            yield own
            timer.cancel()

    answer = lw.sql("SELECT max(hash(x)) FROM range(100000000000) r(x)")
    with monkeypatch.context() as patch:
        patch.setattr(QUERIES, "cursor", interrupted)
        with pytest.raises(lw.UnsupportedError, match="Interrupted"):
            answer.to_arrow()

    assert lw.sql("SELECT sum(a) AS n FROM t", tables={"t": table}).to_arrow().num_rows == 1


STOPPED = """
import signal, sys, tempfile
import pyarrow as pa, lancewood as lw

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
table = lw.create(f"{tempfile.mkdtemp()}/t.lance", pa.table({"id": range(100_000)}))
answer = lw.sql(sys.argv[1], tables={"t": table})
print("asked", flush=True)
try:
    print(answer.to_arrow())
except KeyboardInterrupt:
    print(lw.sql("SELECT max(id) FROM t", tables={"t": table}).to_arrow()[0][0])
"""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(hash(a.id, b.id)) FROM t a, t b",
        "SELECT a.id FROM t a, t b WHERE a.id || b.id = 'x'",
        "SELECT a.id, b.id FROM t a, t b ORDER BY hash(a.id, b.id)",
    ],
)
def test_ctrl_c_ends_a_query_whatever_it_computes(query: str) -> None:
    command = [sys.executable, "-c", STOPPED, query]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == ("99999\n", "")
        finally:
            process.kill()


def test_an_answer_is_read_at_the_end_of_a_process() -> None:
    script = """
import atexit, lancewood as lw
answer = lw.sql("SELECT 1 AS a")
print(answer.to_arrow().to_pylist(), flush=True)
atexit.register(lambda: print(answer.to_arrow().to_pylist(), flush=True))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, timeout=60, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[{'a': 1}]"] * 2
