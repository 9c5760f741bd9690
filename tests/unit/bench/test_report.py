"""Tables as people read them, and the generated part of the document."""

from __future__ import annotations

import pytest
from bench.report import (
    BEGIN,
    END,
    TIMES,
    format_number,
    render_markdown,
    render_table,
    replace_generated,
    verdict,
)
from bench.result import Least, LeastRatio, Most, Row, Section


def test_table_lines_up_whatever_the_width() -> None:
    table = render_table(("work", "ours"), [("open", "1.00 ms"), ("append by uri", "2 ms")])
    assert table.splitlines() == [
        "| work          |    ours |",
        "| ------------- | ------: |",
        "| open          | 1.00 ms |",
        "| append by uri |    2 ms |",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.1234, "0.12"), (9.876, "9.88"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_numbers_keep_the_digits_that_matter(value: float, text: str) -> None:
    assert format_number(value) == text


def test_met_target_gets_a_tick_and_a_missed_one_its_share() -> None:
    target = LeastRatio(10.0)
    met = Row(work="w", unit="ms", ours=(1.0,), pylance=(12.0,), target=target)
    missed = Row(work="w", unit="ms", ours=(1.0,), pylance=(8.0,), target=target)
    assert verdict(met) == "✓"
    assert verdict(missed) == "missed: 80% of it"
    assert verdict(Row(work="lost", unit="", ours=(3.0,), target=Most(0))) == "missed"
    slow = Row(work="c", unit="/s", ours=(150.0,), more_is_better=True, target=Least(300.0))
    assert verdict(slow) == "missed: 50% of it"
    assert verdict(Row(work="w", unit="ms", ours=(1.0,))) == ""


def test_markdown_shows_machine_note_ratio_and_target() -> None:
    row = Row(work="open", unit="ms", ours=(2.0,), pylance=(30.0,), target=LeastRatio(10.0))
    section = Section(name="metadata", title="Metadata", note="On a RAM disk.", rows=(row,))
    text = render_markdown({"Python": "3.11.7"}, [section])
    assert "| Python | 3.11.7 |" in text
    assert "## Metadata\n\nOn a RAM disk.\n\n| work" in text
    assert f"| open | 2.00 ms | 30.0 ms | 15.0{TIMES} |  ≥ 10{TIMES} |   ✓ |" in text


def test_section_without_rows_has_no_empty_table() -> None:
    text = render_markdown({"Python": "3"}, [Section(name="v", title="Versions", note="Left out.")])
    assert text.endswith("## Versions\n\nLeft out.")


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    once = replace_generated(f"by hand\n{BEGIN}\nold\n{END}\nafter\n", "first")
    assert replace_generated(once, "new") == f"by hand\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


@pytest.mark.parametrize("document", ["no markers", BEGIN, END + BEGIN, BEGIN + END + END])
def test_document_without_its_markers_is_not_written_over(document: str) -> None:
    with pytest.raises(ValueError, match="bench"):
        replace_generated(document, "new")
