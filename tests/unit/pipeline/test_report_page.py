"""The page of a run: its figures, its order, and that data stays data."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.report_facts import BASE, COMMIT, broken, failed_checks, large, published
from tests.unit.pipeline.report_pages import Parsed, with_texts

from lancewood.pipeline.report.facts import (
    CheckFacts,
    Ending,
    PastRun,
    RunFacts,
    SourceFacts,
    TargetFacts,
)
from lancewood.pipeline.report.lines import lines, own_branch
from lancewood.pipeline.report.markup import MOST_CHARACTERS, shortened, shown, visible
from lancewood.pipeline.report.page import page

USUAL_BYTES = 200_000
LARGE_BYTES = 600_000
SEVERAL_LINES = {"error", "asked", "held"}
HOSTILE = "<>&\"'`=/ \x00\x07\x1b\r\n\t\x85\xa0\u202e\u2066\u200b\u2028\ufeff\ud800\udfff{}\\-!"
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(HOSTILE)), max_size=60)


def seen(location: str, text: str) -> str:
    """What a page shows of a text."""
    if location in SEVERAL_LINES:
        return "\n".join(map(visible, text.replace("\r\n", "\n").split("\n")))
    return shown(text)


@given(text=TEXTS, ending=st.sampled_from(Ending))
def test_a_page_has_exactly_the_texts_of_its_facts_and_no_tag_of_theirs(
    text: str, ending: Ending
) -> None:
    locations: set[str] = set()

    def planted(location: str) -> str:
        locations.add(location)
        return f"{text}[{location}]"

    facts = with_texts(planted, ending)
    found = Parsed(page(facts))
    assert len(locations) > 30
    locations -= {"run_branch"} if own_branch(facts) is None else set()
    for location in locations:
        assert seen(location, f"{text}[{location}]") in found.text, location
    assert found.skeleton == Parsed(page(with_texts(lambda location: location, ending))).skeleton


@pytest.mark.parametrize("ending", list(Ending))
def test_a_page_can_be_written_as_utf_8_and_has_nothing_that_is_not_seen(ending: Ending) -> None:
    unseen = "".join(map(chr, [*range(32), *range(127, 160), *range(0x202A, 0x202F), 0xD800]))
    made = page(with_texts(lambda location: unseen + location, ending))
    made.encode("utf-8")
    assert not set(unseen) - {"\n"} & set(made)


def test_attributes_keep_hostile_texts_inside() -> None:
    planted = "\" onload='run()' x=\""
    found = Parsed(page(with_texts(lambda location: planted + location, Ending.CHECKS_FAILED)))
    names = {name for _, name, _ in found.attributes}
    assert not [each for each in names if each.startswith("on") or each == "style"]
    assert any(planted in value for _, name, value in found.attributes if name == "aria-label")


def test_the_same_facts_give_the_same_page() -> None:
    assert page(published()) == page(deepcopy(published()))


@pytest.mark.parametrize("facts", [published(), failed_checks(), broken()])
def test_a_page_needs_nothing_from_elsewhere(facts: RunFacts) -> None:
    found = Parsed(page(facts))
    tags = {each.split()[0] for each in found.skeleton}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "base", "video"}
    addresses = [value for _, name, value in found.attributes if name in ("href", "src")]
    assert addresses
    assert all(each.startswith(("data:image/svg+xml,", "#")) for each in addresses)
    style = re.search("<style>(.*)</style>", page(facts), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert len(page(facts).encode()) < USUAL_BYTES


def test_the_verdict_comes_first_with_where_it_is_published_and_how_long_it_took() -> None:
    text = Parsed(page(published())).text
    head = text[: text.index("What came in")]
    for each in (
        "Published into main",
        "One commit brought 2 tables to main: rows 11,325 inserted, 2,788 updated, 143 deleted.",
        "All 7 checks passed.",
        "48.4 s",
        COMMIT[:12],
        BASE[:12],
        "photos-2026-11-15",
        "2026-11-15 20:15:02 UTC",
    ):
        assert each in head, each


def test_tables_tell_rows_before_and_after_and_what_happened_to_them() -> None:
    found = Parsed(page(published())).tables["Tables"]
    assert [[each[0], each[2], *each[4:7]] for each in found] == [
        ["photos", "18,204 → 20,508", "2,304", "97", "0"],
        ["labels", "71,992 → 80,870", "9,021", "290", "143"],
        ["photosnew columns thumbnail embedding", "20,508 → 20,508", "0", "2,401", "0"],
    ]


def test_sources_tell_what_was_read_and_a_dash_what_nobody_knows() -> None:
    found = Parsed(page(published())).tables["Sources"]
    assert found[0][:6] == ["images", "binaryFile", "2,418", "2,418", "1.1 GiB", found[0][5]]
    assert found[2][2:5] == ["38", "\N{EN DASH}", "\N{EN DASH}"]


def test_rows_read_are_those_of_all_sources_and_say_if_some_are_not_known() -> None:
    sources = [
        SourceFacts("a", "csv", "a.csv", 3),
        SourceFacts("b", "jdbc", "people"),
        SourceFacts("both", "sql", "", 5, is_derived=True),
    ]
    text = Parsed(page(replace(published(), sources=sources))).text
    assert "rows read from 1 of 2 sources3" in text
    assert "3 sources, 3 rows read from 1 of 2 sources" in text
    text = Parsed(page(replace(published(), sources=sources[::2]))).text
    assert "2 sources, 3 rows read" in text


def test_an_overwrite_writes_its_rows_and_replaces_those_that_were_there() -> None:
    target = TargetFacts("t", "overwrite", 400, 400, 400, 0, 0, replaced=400)
    facts = replace(published(), targets=[target])
    found = Parsed(page(facts))
    assert found.tables["Tables"][0][4:8] == ["400", "0", "0", "400"]
    assert "rows 400 inserted, 400 replaced." in found.text
    assert "  wrote     t  overwrite  400 -> 400 rows  400 inserted, 400 replaced" in lines(facts)


def test_rows_that_were_left_out_for_another_of_their_key_are_counted() -> None:
    target = TargetFacts("t", "merge", 4, 5, 1, 0, 0, duplicates=2)
    facts = replace(published(), targets=[target])
    assert "2 duplicates left out" in Parsed(page(facts)).tables["Tables"][0][1]
    assert any("2 duplicates left out" in each for each in lines(facts))


def test_what_became_of_indices_is_said_with_their_names() -> None:
    target = TargetFacts(
        *("t", "append", 4, 5, 1, 0, 0),
        indices_created=("words", "b", "c", "d"),
        indices_extended=("id_idx",),
        indices_waiting=("near",),
        indices_left_out=("words",),
    )
    facts = replace(published(), targets=[target])
    told = Parsed(page(facts)).tables["Tables"][0][0]
    assert "index created: words b c d" in told
    assert "index extended: id_idx" in told
    assert "index waits: near" in told
    (line,) = (each for each in lines(facts) if "wrote" in each)
    assert "1 inserted, index created: words, b, c and 1 more, index extended: id_idx, " in line
    assert line.endswith("index waits: near, index not published: words")


def test_a_new_table_is_called_new() -> None:
    facts = replace(published(), targets=[TargetFacts("t", "append", None, 7, 7, 0, 0)])
    assert Parsed(page(facts)).tables["Tables"][0][2] == "new → 7"


def test_failing_checks_come_before_warnings_and_those_before_passed_ones() -> None:
    text = Parsed(page(failed_checks())).text
    checks = text[text.index("Checks5 of 7") :]
    at = [
        checks.index(each) for each in ("labels belong to photos", "taken in the past", "5 passed")
    ]
    assert at == sorted(at)


def test_a_failing_check_shows_its_rows_and_where_all_are_kept() -> None:
    facts = failed_checks()
    found = Parsed(page(facts))
    check = facts.checks[2]
    assert found.tables["5 of 214 failing rows"] == [list(each) for each in check.sample]
    assert check.kept_at is not None
    assert check.kept_at in found.text
    assert "Nothing was published: main is as it was." in found.text
    assert "What would change" in found.text


def test_a_row_of_a_sample_that_is_too_short_is_filled() -> None:
    check = CheckFacts("c", "sql", None, False, columns=("a", "b"), sample=(("1",),))
    found = Parsed(page(replace(published(), checks=[check])))
    assert found.tables["1 of 0 failing rows"] == [["1", ""]]


def test_reasons_of_bad_rows_are_told_with_the_limit() -> None:
    found = Parsed(page(published()))
    assert [each[:3] for each in found.tables["Reasons"]] == [
        [origin, reason, f"{number:,}"]
        for origin, reason, number in published().quarantine.by_reason  # type: ignore[union-attr]
    ]
    assert found.tables["2 of 17 bad rows"] == [
        [origin, reason, file, line or "\N{EN DASH}", record]
        for origin, reason, file, line, record in published().quarantine.sample  # type: ignore[union-attr]
    ]
    assert "17 rows; allowed: at most 50 rows" in found.text
    assert "They are kept in quarantine." in found.text
    failed = replace(published(), ending=Ending.CHECKS_FAILED, run_branch="run/r1")
    assert "They are kept in quarantine on the branch run/r1." in Parsed(page(failed)).text


def test_an_error_keeps_its_lines() -> None:
    assert str(broken().error) in Parsed(page(broken())).text


def test_a_long_text_is_cut_and_its_length_told() -> None:
    facts = replace(published(), parameters={"p": "x" * 5_000})
    text = Parsed(page(facts)).text
    assert "x" * MOST_CHARACTERS + "… (5,000 characters)" in text
    assert "x" * (MOST_CHARACTERS + 1) not in text


@pytest.mark.parametrize("is_passed", [True, False])
def test_a_page_stays_small_with_a_thousand_checks_and_five_hundred_tables(
    is_passed: bool,
) -> None:
    made = page(large("orders_2026", is_passed=is_passed))
    assert len(made.encode()) < LARGE_BYTES
    assert "and 400 rows more, in report.json" in made


def test_a_page_is_bounded_whatever_its_texts_are() -> None:
    made = page(large("\U000e0001" * 20_000, is_passed=False))
    assert len(made.encode()) < 20_000_000
    assert shortened("\U000e0001" * 20_000, 10).endswith("(20,000 characters)")


def test_a_run_without_anything_has_a_page() -> None:
    facts = RunFacts("p", "r", "repo", "main", "run/r", "not a time")
    found = Parsed(page(facts))
    assert "Failed" in found.text
    assert found.skeleton.count("section ") == 0


@pytest.mark.parametrize(
    ("ending", "title"),
    [
        (Ending.PUBLISHED, "Published into main"),
        (Ending.NOTHING_NEW, "Nothing new"),
        (Ending.ALREADY_PUBLISHED, "Already published"),
        (Ending.REVERTED, "Reverted"),
        (Ending.CHECKS_FAILED, "Checks failed"),
        (Ending.TOO_MANY_BAD_ROWS, "Too many bad rows"),
        (Ending.DRY_RUN, "Dry run"),
        (Ending.FAILED, "Failed"),
    ],
)
def test_every_ending_has_a_title(ending: Ending, title: str) -> None:
    made = page(replace(published(), ending=ending))
    assert f"<title>{title} · photos" in made
    assert title in Parsed(made).text


def test_headings_go_down_one_step_at_a_time_and_tables_say_what_their_heads_head() -> None:
    found = Parsed(page(failed_checks()))
    levels = [int(each[1]) for each in found.skeleton if re.match(r"h\d( |$)", each)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    heads = [each for each in found.skeleton if each.startswith("th ")]
    assert heads
    assert all("scope" in each.split() for each in heads)


def test_a_plot_ends_with_this_run_and_says_if_it_is_not_published() -> None:
    labels = [
        value
        for tag, name, value in Parsed(page(published())).attributes
        if (tag, name) == ("svg", "aria-label")
    ]
    assert labels == [
        "photos: 6,120 rows on 2026-11-02, 20,508 rows now",
        "labels: 21,004 rows on 2026-11-02, 80,870 rows now",
    ]
    assert "in this run, not published" in page(failed_checks())


def test_this_run_is_not_among_those_before_it() -> None:
    facts = published()
    again = PastRun(facts.run, COMMIT, 0, {"photos": 20_508})
    assert page(replace(facts, past=[*facts.past, again])) == page(facts)
