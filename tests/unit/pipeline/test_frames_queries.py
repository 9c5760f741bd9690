"""Names of frames in SQL are bound to views: exactly those that the SQL means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import frames_in
from lancewood.pipeline.definition.names import parsed_query, qualified_name, tables_in
from lancewood.pipeline.frames.functions import LINES_BEFORE, over_views, without_end

FRAMES = ("animals", "homes", "legs")


def view_of(name: str) -> str:
    return f"lancewood_0123_{name}"


def bound(sql: str) -> tuple[str, list[str]]:
    names = list(dict.fromkeys(frames_in(sql, FRAMES)))
    return over_views(sql, {each: view_of(each) for each in names}), names


@st.composite
def queries(draw: st.DrawFn, depth: int = 2, seen: tuple[str, ...] = ()) -> tuple[str, set[str]]:
    """A query, and the frames that it means; CTEs may have the names of frames."""
    ctes, meant, here = [], set[str](), seen
    if depth and draw(st.booleans()):
        for name in draw(st.lists(st.sampled_from((*FRAMES, "other")), max_size=2, unique=True)):
            body, inner = draw(queries(depth - 1, here))
            ctes.append(f"{spelt(draw, name)} AS ({body})")
            meant |= inner
            here = (*here, name)
    parts = []
    for number in range(draw(st.integers(1, 2))):
        alias = draw(st.sampled_from(["", f" t{number}", f" AS {draw(st.sampled_from(FRAMES))}"]))
        if depth and draw(st.booleans()):
            body, inner = draw(queries(depth - 1, here))
            parts.append(f"({body}){alias or f' s{number}'}")
            meant |= inner
        else:
            name = draw(st.sampled_from((*FRAMES, *here)))
            parts.append(spelt(draw, name) + alias)
            meant |= set() if name in here else {name}
    where = ""
    if depth and draw(st.booleans()):
        body, inner = draw(queries(depth - 1, here))
        where, meant = f" WHERE id IN ({body})", meant | inner
    start = f"WITH {', '.join(ctes)} " if ctes else ""
    glue = draw(st.sampled_from([" CROSS JOIN ", ", ", "\nJOIN /* legs */ "]))
    return f"{start}SELECT id, 'homes; legs' AS x FROM {glue.join(parts)}{where}", meant


def spelt(draw: st.DrawFn, name: str) -> str:
    return draw(st.sampled_from([name, name.upper(), f"`{name}`"]))


@given(queries(), st.sampled_from(["", ";", " ; -- the end; of it", "\n-- homes\n;;"]))
def test_sql_over_views_names_exactly_the_views_of_the_frames_it_means(
    query: tuple[str, set[str]], end: str
) -> None:
    sql, meant = query
    over, names = bound(sql + end)
    assert set(names) == meant
    found = {qualified_name(each) for each in tables_in(parsed_query(over))}
    assert found == {view_of(each) for each in meant}
    assert sql in over, "the SQL itself stays what it is"


def test_sql_begins_after_the_lines_that_are_put_before_it() -> None:
    over, _ = bound("SELECT *\nFROM legs")
    assert over.splitlines()[LINES_BEFORE] == "SELECT *"


def test_name_counts_as_often_as_it_stands_there() -> None:
    assert frames_in("SELECT * FROM legs a, Legs b, homes", FRAMES) == ("legs", "legs", "homes")


def test_query_without_frames_stays_as_it_is() -> None:
    sql = "SELECT id FROM range(3)"
    assert bound(sql) == (sql, [])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM other.legs",
        "SELECT * FROM parquet.`/tmp/legs`",
        "SELECT * FROM leg",
        "SELECT * FROM IDENTIFIER('legs')",
        "WITH x AS (SELECT 1) SELECT * FROM a.x",
        "DROP TABLE legs",
        "SELECT 1; SELECT 2",
    ],
)
def test_what_is_no_frame_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInputError):
        frames_in(sql, FRAMES)


def test_semicolons_behind_a_query_go_and_others_stay() -> None:
    assert without_end("SELECT ';' -- a;b\n;; ") == "SELECT ';' -- a;b"
