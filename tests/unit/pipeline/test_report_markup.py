"""Markup, figures and drawings: the parts of which a page is made."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.report_pages import Parsed

from lancewood.pipeline.report.layout import (
    amount_bar,
    commit_graph,
    line_plot,
    parts_bar,
    span_bar,
)
from lancewood.pipeline.report.markup import (
    UNKNOWN,
    Html,
    count,
    day,
    duration,
    element,
    joined,
    moment,
    several_lines,
    shown,
    size,
    total,
    visible,
)

numbers = st.integers(0, 10**12)


def rects(drawing: str) -> list[tuple[str, float, float]]:
    """Class, left edge and width of every part of a bar but its ground."""
    found: list[dict[str, str]] = []
    for tag, name, value in Parsed(drawing).attributes:
        if tag == "rect":
            if name == "class":
                found.append({})
            found[-1][name] = value
    return [(each["class"], float(each.get("x", 0)), float(each["width"])) for each in found[1:]]


def test_what_is_not_markup_is_escaped() -> None:
    made = element("b", "<i>", Html("<i>x</i>"), None, title="\"'<")
    assert made == '<b title="&quot;&#x27;&lt;">&lt;i&gt;<i>x</i></b>'
    assert joined("a&b", Html("&amp;")) == "a&amp;b&amp;"


def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("a\x1b[31m\u202eb\n\U000e0041") == "a\\x1b[31m\\u202eb\\n\\U000e0041"
    assert visible("naïve 猫 👩\u200d🚀 \u05d0") == "naïve 猫 👩\u200d🚀 \u05d0"
    assert several_lines("a\r\nb\x07", 100) == "a\nb\\x07"


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_can_always_be_written_and_is_one_line(text: str) -> None:
    made = shown(text)
    made.encode("utf-8")
    assert made.isprintable() or all(
        each.isprintable() or each.isspace() or ord(each) > 0x9F for each in made
    )
    assert len(made.splitlines()) <= 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (86_400, "1 d 0 h"),
        (math.nan, UNKNOWN),
        (math.inf, UNKNOWN),
        (-1, UNKNOWN),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_figures_are_told_as_people_read_them() -> None:
    assert (count(1_234_567), count(None)) == ("1,234,567", UNKNOWN)
    assert [size(each) for each in (0, 1023, 1024, 5 << 30, 1 << 60)] == [
        "0 B",
        "1,023 B",
        "1.0 KiB",
        "5.0 GiB",
        "1,024.0 PiB",
    ]
    assert (total([1, None, 2]), total([None]), total([])) == (3, None, None)


def test_moments_are_told_in_utc_and_what_is_none_as_it_is() -> None:
    assert moment("2026-11-15T21:15:02+01:00") == "2026-11-15 20:15:02 UTC"
    assert moment("2026-11-15T21:15:02") == "2026-11-15 21:15:02 UTC"
    assert moment("0001-01-01T00:00:00+14:00") == "0001-01-01T00:00:00+14:00"
    assert moment("yesterday") == "yesterday"
    assert (day(0), day(10**18)) == ("1970-01-01", f"@{10**18}")


@given(st.lists(numbers, min_size=1, max_size=5))
def test_the_parts_of_a_bar_fill_it_and_none_is_too_small_to_be_seen(parts: list[int]) -> None:
    found = rects(parts_bar([(f"k{at}", each) for at, each in enumerate(parts)]))
    assert [kind for kind, _, _ in found] == [f"k{at}" for at, each in enumerate(parts) if each]
    if found:
        assert sum(width for _, _, width in found) == pytest.approx(1000, abs=1)
        assert min(width for _, _, width in found) > 10


@given(numbers, numbers)
def test_a_bar_is_never_longer_than_its_box(number: int, more: int) -> None:
    for _, left, width in rects(amount_bar("k", number, number + more)):
        assert left == 0
        assert 0 < width <= 1000


@given(*[st.floats(0, 1e9)] * 3)
def test_a_span_stays_in_its_box(begin: float, long: float, whole: float) -> None:
    for _, left, width in rects(span_bar("k", begin, begin + long, whole)):
        assert left >= 0
        assert left + width <= 1000.2


def test_a_line_goes_from_left_to_right_and_up_where_there_are_more() -> None:
    made = Parsed(line_plot([10, 30, 20], "rows <b>"))
    (points,) = [
        value for tag, name, value in made.attributes if (tag, name) == ("polyline", "points")
    ]
    at = [tuple(map(float, each.split(","))) for each in points.split()]
    assert [x for x, _ in at] == sorted(x for x, _ in at)
    assert at[1][1] < at[2][1] < at[0][1]
    assert ("svg", "aria-label", "rows <b>") in made.attributes


@pytest.mark.parametrize("values", [[5], [5, 5], [0, 0, 10**15]])
def test_a_plot_of_few_or_equal_values_can_be_drawn(values: list[int]) -> None:
    assert "nan" not in line_plot(values, "rows")


GRAPH = [
    "*   aaaaaaaaaaaa (HEAD -> main, tag: v1) Merge owls",
    "|\\",
    "| * bbbbbbbbbbbb Owls",
    "|/",
    "* cccccccccccc The first",
]


def test_a_graph_is_drawn_and_its_texts_stand_beside_it() -> None:
    made = Parsed(commit_graph(GRAPH, "a" * 64))
    assert made.text == "".join(
        (
            "aaaaaaaaaaaa HEAD -> main tag: v1 Merge owls",
            "bbbbbbbbbbbb Owls",
            "cccccccccccc The first",
        )
    )
    dots = [value for tag, name, value in made.attributes if (tag, name) == ("circle", "cx")]
    assert dots == ["8", "24", "8"]
    classes = [value for tag, name, value in made.attributes if (tag, name) == ("li", "class")]
    assert classes == ["this", "thin", "thin"]


def test_lines_of_a_graph_meet_the_commits_that_they_lead_to() -> None:
    made = Parsed(commit_graph(GRAPH, None))
    (path,) = [value for tag, name, value in made.attributes if (tag, name) == ("path", "d")]
    ends = {tuple(each.replace("L", " ").replace("V", " ").split()) for each in path.split("M")}
    assert ("8", "28", "24", "42") in ends, "the merge leads right to the second parent"
    assert ("24", "56", "42") in ends, "whose commit has a line up"
    assert ("24", "70", "8", "84") in ends, "and one that comes back"


@given(st.lists(st.text("*|/\\ <&ab01()->,\n", max_size=20), max_size=8))
def test_any_lines_make_a_graph(lines: list[str]) -> None:
    Parsed(commit_graph(lines, "ab"))
