"""The drawing: by shape for the usual histories, by tracing its lines back for any."""

from __future__ import annotations

import random
from textwrap import dedent

import pytest
from tests.commits import MemoryCommits, random_parents

from lancewood.git.history import graph_lines as lines
from lancewood.git.history import walk
from lancewood.git.objects import Commit


@pytest.fixture
def commits() -> MemoryCommits:
    return MemoryCommits()


def subject(commit: Commit) -> str:
    return commit.message


def drawing(commits: MemoryCommits, *tips: str, first_parent: bool = False) -> list[str]:
    found = walk(commits, [commits.hash(each) for each in tips], first_parent=first_parent)
    return list(lines(found, subject, first_parent=first_parent))


def shape(text: str) -> list[str]:
    return dedent(text).strip("\n").split("\n")


def test_a_line_is_a_column_of_stars(commits: MemoryCommits) -> None:
    commits.add("a")
    commits.add("b", "a")
    assert drawing(commits, "b") == ["* b", "* a"]


def test_no_commits_draw_nothing(commits: MemoryCommits) -> None:
    assert drawing(commits) == []


def test_a_merge_opens_and_closes_a_column(commits: MemoryCommits) -> None:
    commits.add("base")
    commits.add("left", "base")
    commits.add("right", "base")
    commits.add("merge", "left", "right")
    assert drawing(commits, "merge") == shape(
        r"""
        *   merge
        |\
        | * right
        * | left
        |/
        * base
        """
    )


def test_two_branches_that_were_never_merged_stand_side_by_side(commits: MemoryCommits) -> None:
    commits.add("base")
    commits.add("one", "base")
    commits.add("two", "base")
    assert drawing(commits, "one", "two") == shape(
        r"""
        * two
        | * one
        |/
        * base
        """
    )


def test_a_criss_cross_shows_both_crossings(commits: MemoryCommits) -> None:
    commits.add("root")
    commits.add("a", "root")
    commits.add("b", "root")
    commits.add("ab", "a", "b")
    commits.add("ba", "b", "a")
    commits.add("top", "ab", "ba")
    assert drawing(commits, "top") == shape(
        r"""
        *   top
        |\
        | *   ba
        | |\
        * | | ab
        |\| |
        | |/
        |/|
        | * b
        * | a
        |/
        * root
        """
    )


def test_an_octopus_has_a_row_for_each_further_parent(commits: MemoryCommits) -> None:
    commits.add("base")
    for name in ("a", "b", "c"):
        commits.add(name, "base")
    commits.add("octopus", "a", "b", "c")
    assert drawing(commits, "octopus") == shape(
        r"""
        *     octopus
        |\
        |\ \
        | | * c
        | * | b
        | |/
        * | a
        |/
        * base
        """
    )


def test_a_root_beside_others_closes_its_gap(commits: MemoryCommits) -> None:
    commits.add("one")
    commits.add("two")
    commits.add("over", "one")
    commits.add("merge", "two", "over")
    assert drawing(commits, "merge") == shape(
        r"""
        *   merge
        |\
        | * over
        * | two
         /
        * one
        """
    )


def test_the_first_parent_alone_is_a_line(commits: MemoryCommits) -> None:
    commits.add("base")
    commits.add("left", "base")
    commits.add("right", "base")
    commits.add("merge", "left", "right")
    assert drawing(commits, "merge", first_parent=True) == ["* merge", "* left", "* base"]


def test_further_lines_of_the_text_stand_beside_the_columns(commits: MemoryCommits) -> None:
    commits.add("base")
    commits.add("left", "base")
    commits.add("right", "base")
    commits.add("merge", "left", "right")
    found = walk(commits, [commits.hash("merge")], limit=2)
    assert list(lines(found, lambda each: f"{subject(each)}\nby Ada\nlong\n")) == shape(
        r"""
        *   merge
        |\  by Ada
        | | long
        | |
        | * right
        | | by Ada
        | | long
        | |
        """
    )


def test_an_unrelated_history_below_a_root_keeps_its_distance(commits: MemoryCommits) -> None:
    commits.add("other")
    commits.add("root")
    commits.add("tip", "root")
    assert drawing(commits, "tip", "other") == ["* tip", "* root", "", "* other"]


Lines = dict[tuple[int, str], set[str]]


def traced(rows: list[str]) -> dict[str, set[str]]:
    """Who the drawing says are whose parents: a reader that knows rows only, no history.

    ``above`` holds, by place and mark of the row above, whose lines run there.
    """
    parents: dict[str, set[str]] = {}
    above: Lines = {}
    for row in rows:
        drawn, _, name = row.partition("#")
        here: Lines = {}
        for location, mark in enumerate(drawn):
            if mark == "|":
                here[location, "|"] = arriving(above, location, drawn)
            elif mark == "*":
                for child in arriving(above, location, drawn):
                    parents[child].add(name)
                parents[name] = set()
                here[location, "|"] = {name}
            elif mark != " ":
                here[location, mark] = slanting(above, location, mark, drawn)
        above = here
    return parents


def arriving(above: Lines, location: int, drawn: str) -> set[str]:
    """Whose lines come into this column: straight, or from a side where they do not go on."""
    found = set(above.get((location, "|"), ()))
    if drawn[max(location - 1, 0) : location] != "/":
        found |= above.get((location + 1, "/"), set())
    if drawn[location + 1 : location + 2] != "\\":
        found |= above.get((location - 1, "\\"), set())
    return found


def slanting(above: Lines, location: int, mark: str, drawn: str) -> set[str]:
    """Whose lines run on this slant: it goes on from the row above, or leaves a column."""
    step, back = (1, "\\") if mark == "/" else (-1, "/")
    before = above.get((location + 2 * step, mark), set())
    if before and drawn[location + step : location + step + 1] == "|":
        return set(before)
    return before | above.get((location + step, "|"), set()) | above.get((location, back), set())


@pytest.mark.parametrize("seed", range(40))
def test_the_lines_of_any_drawing_lead_to_the_parents(seed: int) -> None:
    chance = random.Random(seed)
    parents = random_parents(chance, 40)
    commits = MemoryCommits()
    for number, over in enumerate(parents):
        seconds = 1000 + 10 * number + chance.randint(-30, 30)
        commits.add(str(number), *map(str, over), seconds=seconds)
    found = walk(commits, [commits.hash(str(each)) for each in range(40)])
    rows = list(lines(found, lambda each: f"#{subject(each)}"))
    drawn = traced(rows)
    assert drawn == {str(at): set(map(str, over)) for at, over in enumerate(parents)}
    assert sum("#" in row for row in rows) == 40


@pytest.mark.parametrize("seed", range(10))
def test_the_rows_hold_the_four_marks_only(seed: int) -> None:
    commits = MemoryCommits()
    for number, over in enumerate(random_parents(random.Random(seed), 30)):
        commits.add(str(number), *map(str, over))
    for row in lines(walk(commits, [commits.hash("29")]), lambda each: "#text"):
        drawn, _, text = row.partition("#")
        assert set(drawn) <= set("*|/\\ ")
        assert row == row.rstrip()
        assert text in ("text", "")
