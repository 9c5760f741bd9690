"""What a query is found to name and to need. No Spark: ``tests/spark`` executes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.query.sources import Source, Sources
from lancewood.spark.dialect.names import with_names
from lancewood.spark.dialect.plan import QueryPlan, plan_query
from lancewood.spark.dialect.querying import reason
from lancewood.spark.dialect.settings import Settings

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "label": ["cat", "dog", None, "it's"],
        "score": [0.5, float("nan"), -0.0, None],
        "taken": pa.array([0, 1, 2, None], pa.date32()),
        "moment": pa.array([0, 1, 2, None], pa.timestamp("us", "UTC")),
        "clock": pa.array([0, 1, 2, None], pa.timestamp("us")),
        "f": pa.array([0.5, 0.1, None, 1.0], pa.float32()),
        "ok": [True, False, None, True],
        "user": ["a", "b", "c", "d"],
        "box": pa.array([{"x": 1}] * 4, pa.struct([("x", pa.int32())])),
    }
)


class Session:
    """Has one view, and knows one moment."""

    def moment(self, expression: str) -> datetime:
        assert expression == "current_timestamp() - INTERVAL 1 DAY"
        return datetime.now(UTC)

    def has_table(self, name: str) -> bool:
        return name == "view"


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Source]:
    photos = lw.create(tmp_path / "photos.lance", ROWS)
    photos.tags.create("v1.0")
    photos.branches.create("exp").append(ROWS)
    photos.delete("id = 1")
    labels = pa.table({"label": ["cat"], "n": [1]})
    made = lw.create(tmp_path / "labels.lance", labels)
    return {"photos": str(tmp_path / "photos.lance"), "labels": made}


def planned(query: str, tables: dict[str, Source], settings: Settings | None = None) -> QueryPlan:
    settings = settings or Settings()
    return plan_query(query, Sources(tables, None, None, None, settings), settings, Session())


def pinned(query: str, tables: dict[str, Source]) -> list[tuple[str | None, int]]:
    found = planned(query, tables).versions.values()
    return [
        (each.manifest.branch, each.manifest.version)
        for each in found
        if isinstance(each, Snapshot)
    ]


@pytest.mark.parametrize(
    ("name", "branch", "version"),
    [
        ("photos", None, 2),
        ("PHOTOS", None, 2),
        ("photos@main", None, 2),
        ("photos@exp", "exp", 2),
        ("photos@`exp`", "exp", 2),
        ("`photos@exp`", "exp", 2),
        ("`photos`@exp:", "exp", 2),
        ("photos@v1.0", None, 1),
        ("photos@tag:v1.0", None, 1),
        ("photos@:1", None, 1),
        ("photos@exp:1", "exp", 1),
        ("photos VERSION AS OF 1", None, 1),
        ("photos FOR VERSION AS OF 'v1.0'", None, 1),
        ("photos SYSTEM_VERSION AS OF 1", None, 1),
        ("photos FOR SYSTEM_VERSION AS OF 'exp:1'", "exp", 1),
        ("photos TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY", None, 2),
        ("photos FOR SYSTEM_TIME AS OF current_timestamp() - INTERVAL 1 DAY", None, 2),
        ("photos@exp FOR TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY", "exp", 2),
        ("photos@exp VERSION AS OF 1", "exp", 1),
    ],
)
def test_a_name_leads_to_its_version(
    tables: dict[str, Source], name: str, branch: str | None, version: int
) -> None:
    for text in (name, f"{name} p", f"{name} AS p", f"{name}\n-- x@y\n", f"{name}; -- x; y"):
        assert pinned(f"SELECT 1 FROM {text}", tables) == [(branch, version)]
    assert pinned(f"SELECT 1 FROM {name}, {name} q", tables) == [(branch, version)] * 2


def test_text_comments_and_quoted_names_are_left_as_they_are(tables: dict[str, Source]) -> None:
    query = "SELECT 'photos@exp', \"x@y\", `a@b` /* photos@no */ FROM photos@exp -- photos@no"
    found = planned(query, tables)
    names = dict.fromkeys(found.versions, "view")
    assert with_names(found.query, names) == query.replace(
        "FROM photos@exp", "FROM view AS `photos`"
    )


def test_an_alias_is_put_where_spark_takes_it(tables: dict[str, Source]) -> None:
    for query, wanted in {
        "SELECT 1 FROM photos@exp": "SELECT 1 FROM t AS `photos`",
        "SELECT 1 FROM photos@exp p": "SELECT 1 FROM t p",
        "SELECT 1 FROM photos VERSION AS OF 1 WHERE id = 1": (
            "SELECT 1 FROM t AS `photos` WHERE id = 1"
        ),
        "SELECT 1 FROM photos TABLESAMPLE (5 ROWS) REPEATABLE (1) JOIN view": (
            "SELECT 1 FROM t TABLESAMPLE (5 ROWS) REPEATABLE (1) AS `photos` JOIN view"
        ),
    }.items():
        found = planned(query, tables)
        assert with_names(found.query, dict.fromkeys(found.versions, "t")) == wanted


def test_a_hint_names_aliases(tables: dict[str, Source]) -> None:
    query = "SELECT /*+ BROADCAST(photos), MERGE(l, v) */ 1 FROM photos@exp, labels l, view v"
    assert [each.written for each in planned(query, tables).versions] == ["photos@exp", "labels"]


def test_what_with_defines_is_no_table(tables: dict[str, Source]) -> None:
    assert not planned("WITH photos AS (SELECT 1) SELECT * FROM Photos", tables).versions
    inner = "WITH x AS (SELECT * FROM photos), photos AS (SELECT 1) SELECT * FROM photos, x"
    assert len(planned(inner, tables).versions) == 1
    itself = "WITH photos AS (SELECT * FROM photos) SELECT * FROM photos"
    assert len(planned(itself, tables).versions) == 1
    assert len(planned("WITH photos AS (SELECT 1) SELECT * FROM photos@exp", tables).versions) == 1
    below = "WITH photos AS (SELECT 1) SELECT (SELECT max(1) FROM photos), 2 FROM labels"
    assert len(planned(below, tables).versions) == 1
    beside = "SELECT * FROM (WITH photos AS (SELECT 1) SELECT * FROM photos) a, photos b"
    assert len(planned(beside, tables).versions) == 1
    with pytest.raises(InvalidInputError, match="defined by WITH"):
        planned("WITH photos AS (SELECT 1) SELECT * FROM photos VERSION AS OF 1", tables)


@pytest.mark.parametrize(
    ("query", "error", "told"),
    [
        ("SELECT * FROM photo", NotFoundError, "did you mean 'photos'"),
        ("SELECT * FROM photos@nope", NotFoundError, "nope"),
        ("SELECT * FROM photos@exp:9", NotFoundError, "9"),
        ("SELECT * FROM photos@", InvalidInputError, "names no revision"),
        ("SELECT * FROM photos@->x", InvalidInputError, "names no revision"),
        ("SELECT * FROM photos@v1.0 VERSION AS OF 1", InvalidInputError, "and so does AT or AS OF"),
        (
            "SELECT * FROM photos@exp VERSION AS OF 'v1.0'",
            InvalidInputError,
            "and so does AT or AS OF",
        ),
        ("SELECT * FROM photos VERSION AS OF 0", InvalidInputError, "of which the first is 1"),
        ("SELECT * FROM db.photos@exp", InvalidInputError, "without a dot"),
        ("SELECT * FROM view VERSION AS OF 1", InvalidInputError, "has no versions"),
        ("INSERT INTO photos SELECT 1", InvalidInputError, "found INSERT"),
        ("WITH x AS (SELECT 1) INSERT INTO photos SELECT 1", InvalidInputError, "INSERT"),
        ("FROM photos INSERT INTO labels SELECT *", InvalidInputError, "no query"),
        ("EXPLAIN SELECT 1", InvalidInputError, "--explain"),
        ("DELETE FROM photos", InvalidInputError, "found DELETE"),
        ("TABLE photos", InvalidInputError, "SELECT"),
        ("SELECT 1; SELECT 2", InvalidInputError, "2 statements"),
        ("SELECT * FROM", InvalidInputError, "line 1, column 13: Expected table name$"),
        ("SELECT * FROM photos WHERE", InvalidInputError, "something is missing here"),
        ("SELECT 'x", InvalidInputError, "not closed"),
        ("", InvalidInputError, "empty"),
        ("SELECT " + "(" * 99 + "1" + ")" * 99, InvalidInputError, "nests too deeply"),
    ],
)
def test_what_is_wrong_is_told(
    tables: dict[str, Source], query: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        planned(query, tables)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'IS'. SQLSTATE: 42601 (line 2, pos 9)"
            "\n\n== SQL ==\nSELECT",
            "Syntax error at or near 'IS' (line 2)",
        ),
        (
            "[AMBIGUOUS_REFERENCE] Reference `k` is ambiguous. SQLSTATE: 42704; line 1 pos 58;\n'P",
            "Reference `k` is ambiguous; line 1",
        ),
        ("", ""),
    ],
)
def test_what_spark_says_is_told_in_one_line(said: str, told: str) -> None:
    assert reason(Exception(said)) == told


def test_names_that_cannot_be_tables_are_refused() -> None:
    for tables in ({"a@b": "x"}, {"": "x"}, {"a": 1}, ["a"]):
        with pytest.raises(InvalidInputError):
            Sources(tables, None, None, None, Settings())  # type: ignore[arg-type]


def test_a_name_that_is_branch_and_tag_is_refused_with_both_spellings(
    tables: dict[str, Source],
) -> None:
    lw.open(str(tables["photos"])).tags.create("exp")
    with pytest.raises(InvalidInputError, match=r"'exp:' for the branch, 'tag:exp' for the tag"):
        planned("SELECT * FROM photos@exp", tables)
    assert pinned("SELECT * FROM photos@exp:", tables) == [("exp", 2)]
    assert pinned("SELECT * FROM photos@tag:exp", tables) == [(None, 2)]


def test_names_follow_the_case_of_the_session(tables: dict[str, Source]) -> None:
    exact = Settings(case_sensitive=True)
    with pytest.raises(NotFoundError):
        planned("SELECT * FROM Photos", tables, exact)


def test_the_same_revision_is_one_version_although_a_branch_moves(
    tables: dict[str, Source], tmp_path: Path
) -> None:
    sources = Sources(tables, None, None, None, Settings())
    before = sources.version("photos", "exp")
    lw.open(str(tables["photos"]), branch="exp").append(ROWS)
    assert sources.version("photos", "exp") is before
    assert Sources(tables, None, None, None, Settings()).version("photos", "exp") is not before


def test_a_handle_stays_the_version_that_it_is(tables: dict[str, Source]) -> None:
    old = lw.open(str(tables["photos"]), version=1)
    given: dict[str, Source] = {"photos": old, "now": str(tables["photos"])}
    sources = Sources(given, None, "v1.0", None, Settings())
    assert sources.version("photos", None).manifest.version == 1
    assert sources.version("photos", "main:").manifest.version == 2
    assert sources.version("now", None).manifest.version == 1


def test_a_plan_is_told_in_words(tables: dict[str, Source]) -> None:
    told = planned("SELECT p.id FROM photos@exp p", tables).explain().splitlines()
    assert told[0] == "photos@exp as p"
    assert told[1].startswith("  version  2 of branch 'exp', ")
    assert len(told) == 2


class TestInARepository:
    @pytest.fixture
    def repo(self, tmp_path: Path) -> lw.Repository:
        made = lw.Repository.init(tmp_path / "repo")
        with made.transaction("main", message="one") as changes:
            changes.create_table("photos", ROWS)
        made.tags.create("v1")
        with made.transaction("main", message="two") as changes:
            changes.table("photos").append(ROWS)
        with made.transaction("main", message="three") as changes:
            changes.create_table("labels", pa.table({"n": [1]}))
        return made

    def rows(self, repo: Any, name: str, revision: str | None, default: str | None = None) -> Any:
        found = Sources(None, repo, default, None, Settings()).version(name, revision)
        return found.manifest.row_count

    def test_names_are_those_of_the_commit(self, repo: lw.Repository) -> None:
        assert self.rows(repo, "photos", None) == 8
        assert self.rows(str(repo.path), "photos", None) == 8
        assert self.rows(repo, "photos", None, "v1") == 4
        assert self.rows(repo, "photos", "v1") == 4
        assert self.rows(repo, "photos", "main~2") == 4
        assert self.rows(repo, "photos", repo.at("v1").hash) == 4
        assert self.rows(repo, "photos", "main:1") == 4
        early = Sources(None, repo, "v1", None, Settings())
        assert early.known_as("labels") is None
        assert early.known_as("Photos") == "photos"

    def test_only_a_branch_stands_before_as_of(self, repo: lw.Repository) -> None:
        for revision in ("main", "HEAD", "main:"):
            found = Sources(None, repo, None, None, Settings()).version("photos", revision, 1)
            assert found.manifest.row_count == 4
        for revision in ("v1", "main~2", repo.at("v1").hash, repo.at("v1").hash[:12]):
            with pytest.raises(InvalidInputError, match="and so does AT or AS OF"):
                Sources(None, repo, None, None, Settings()).version("photos", revision, 2)

    def test_tags_of_the_table_itself_come_last(self, repo: lw.Repository) -> None:
        repo.at("v1").table("photos").tags.create("mine", at=":1")
        assert self.rows(repo, "photos", "mine") == 4
        with pytest.raises(NotFoundError, match="tried refs/"):
            self.rows(repo, "photos", "nothing")

    def test_a_commit_that_is_not_there_is_no_wrong_name_of_a_branch(
        self, repo: lw.Repository
    ) -> None:
        with pytest.raises(NotFoundError, match="main has 2 commits before it"):
            self.rows(repo, "photos", "main~9")

    def test_a_given_table_wins_over_the_repository_s(
        self, repo: lw.Repository, tables: dict[str, Source]
    ) -> None:
        sources = Sources(tables, repo, "v1", None, Settings())
        assert sources.version("photos", None).manifest.row_count == 3

    def test_an_empty_repository_has_no_tables(self, tmp_path: Path) -> None:
        empty = lw.Repository.init(tmp_path / "empty")
        settings = Settings()
        sources = Sources(None, empty, None, None, settings)
        with pytest.raises(NotFoundError, match="there are no tables here"):
            plan_query("SELECT * FROM photos", sources, settings, Session())
