"""The summary of a run in a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.report_facts import broken, failed_checks, published
from tests.unit.pipeline.report_pages import with_texts

from lancewood.pipeline.report.facts import CheckFacts, Ending, RunFacts, SourceFacts, TargetFacts
from lancewood.pipeline.report.lines import lines
from lancewood.pipeline.report.page import page


def test_a_published_run_is_told_from_its_verdict_to_what_comes_next() -> None:
    found = lines(published())
    assert found[0] == "photos: published into main in 48.4 s"
    assert found[1] == (
        "  run       20261115T201502Z-4be1a7, commit 3f9c1d7ae52b, tag photos-2026-11-15"
    )
    assert "  read      images   binaryFile   2,418 rows  2,418 files  1.1 GiB" in found
    assert (
        "  wrote     photos  merge        18,204 -> 20,508 rows  2,304 inserted, 97 updated"
        in found
    )
    assert "  checks    All 7 checks passed" in found
    assert "  bad rows  17 rows in quarantine; allowed: at most 50 rows" in found
    assert found[-1].endswith("show photos-2026-11-15 -- tables/photos.json")


def test_failing_checks_are_named_with_the_place_of_their_rows() -> None:
    found = lines(failed_checks())
    assert found[0] == "photos: 1 check failed in 45.6 s"
    at = found.index("            failed  labels belong to photos: 214 of 80,870 rows")
    assert found[at - 1] == "  checks    5 of 7 checks passed, 1 failed, 1 warned"
    assert found[at + 1].endswith("rows kept at " + str(failed_checks().checks[2].kept_at))
    assert not any(each.startswith("  wrote") for each in found)


def test_an_error_keeps_its_lines() -> None:
    found = lines(broken())
    assert found[2].endswith("labels.csv is not there")
    assert found[3].strip() == "What there is: labels-1.csv, labels-2.csv"


@pytest.mark.parametrize("ending", [Ending.NOTHING_NEW, Ending.DRY_RUN])
def test_a_run_that_left_no_branch_names_its_target(ending: Ending) -> None:
    facts = replace(published(), ending=ending, commit=None, tag=None)
    assert lines(facts)[1].endswith("4be1a7, branch main")
    assert facts.run_branch not in page(facts)


def test_a_branch_keeps_its_capital_letters() -> None:
    facts = replace(published(), branch="Main")
    assert lines(facts)[0].startswith("photos: published into Main in ")


@given(text=st.text(st.characters(exclude_categories=())), ending=st.sampled_from(Ending))
def test_no_text_of_the_facts_can_make_a_terminal_do_things(text: str, ending: Ending) -> None:
    told = "".join(lines(with_texts(lambda location: text + location, ending)))
    told.encode("utf-8")
    assert not [each for each in told if ord(each) < 32 or 127 <= ord(each) < 160]


def test_a_large_run_is_told_in_few_lines() -> None:
    facts = RunFacts("p", "r", "repo", "main", "run/r", "", error="x" * 100_000)
    facts.sources = [SourceFacts(f"s{at}", "csv", "/") for at in range(500)]
    facts.targets = [TargetFacts(f"t{at}", "append") for at in range(500)]
    facts.checks = [CheckFacts(f"c{at}", "sql", None, False, kept_at="/k") for at in range(1_000)]
    facts.what_next = ["lw"] * 500
    found = lines(facts)
    assert len(found) < 100
    assert sum(map(len, found)) < 10_000
    assert "            and 488 more, in report.json" in found
    assert "            and 988 more, in report.json" in found
