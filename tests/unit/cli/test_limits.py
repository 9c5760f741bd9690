"""What a limit cuts off is counted, for people alone."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.unit.cli.conftest import Lw

import lancewood as lw
from lancewood.cli.output import MOST_COUNTED, Output
from lancewood.cli.showing import Limited

ROWS = pa.table({"id": [*range(1, 8)], "label": [*"abcdefg"]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Seven rows in four fragments; three of them were changed on both branches."""
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    monkeypatch.chdir(made.path)
    lw.create("tables/birds.lance", ROWS, layout=lw.Layout(max_rows_per_file=2))
    made.add("birds", "tables/birds.lance")
    made.branches.create("exp")
    for branch, text in (("exp", "theirs"), ("main", "ours")):
        with made.transaction(branch, f"{text} is written") as changes:
            changes.table("birds").update({"label": f"'{text}'"}, where="id <= 3")
    return made


@pytest.mark.parametrize(
    ("command", "shown", "more"),
    [
        (["table", "cat", "birds", "-n", "2"], 2, "5 more; --limit shows more"),
        (["table", "cat", "birds", "-n", "2", "--offset", "4"], 2, "1 more; --limit shows more"),
        (["table", "cat", "birds", "-n", "2", "-w", "id > 4"], 2, "1 more; --limit shows more"),
        (["table", "head", "birds", "-n", "3"], 3, "4 more; --rows shows more"),
        (["table", "files", "birds", "-n", "1"], 2, "3 more; --all shows more"),
        (["table", "versions", "birds", "-n", "1"], 1, "1 more; --all shows more"),
        (["table", "diff", "birds", "exp", "-n", "2"], 2, "1 more; --limit shows more"),
        (["table", "blame", "birds", "-n", "2"], 2, "5 more; --limit shows more"),
        (["diff", "main", "exp", "--rows", "-n", "1"], 1, "birds: … and 2 more; --limit"),
        (["diff", "main", "exp", "--rows", "--cells", "-n", "1"], 1, "and 2 more; --limit"),
        (["conflicts", "exp", "-n", "1"], 1, "birds: … and 2 more; --limit shows more"),
        (["blame", "birds", "-n", "4"], 4, "3 more; --limit shows more"),
        (["blame", "birds", "--cells", "-n", "4"], 4, "10 more; --limit shows more"),
        (["sql", "SELECT id FROM birds", "-n", "3"], 3, "4 more; --limit shows more"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_people_are_told_how_many_a_limit_cut_off(
    lw_ok: Lw, repo: lw.Repository, command: list[str], shown: int, more: str
) -> None:
    told = lw_ok(*command)
    assert more in told.err.splitlines()[-1]
    assert more not in told.out
    assert len(lw_ok(*command, "--json").lines) == shown
    assert lw_ok(*command, "--json").err == ""


@pytest.mark.parametrize(
    "command",
    [
        ["table", "cat", "birds", "-n", "7"],
        ["table", "cat", "birds", "-w", "id > 5", "-n", "2"],
        ["table", "head", "birds"],
        ["table", "files", "birds"],
        ["table", "versions", "birds"],
        ["table", "diff", "birds", "exp", "-n", "3"],
        ["table", "blame", "birds", "-n", "7"],
        ["diff", "main", "exp", "--rows", "-n", "3"],
        ["conflicts", "exp", "-n", "3"],
        ["log", "-n", "1"],
        ["reflog", "-n", "1"],
        ["sql", "SELECT id FROM birds", "-n", "7"],
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_nothing_is_said_where_a_limit_cut_nothing_off(
    lw_ok: Lw, repo: lw.Repository, command: list[str]
) -> None:
    assert lw_ok(*command).err == ""


def test_very_many_rows_are_not_counted_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    many = pa.record_batch({"id": pa.nulls(MOST_COUNTED // 2)})
    batches = iter([many] * 5)
    limited = Limited(batches, 3)
    assert [each.num_rows for each in limited] == [3]
    rest = limited.count_rest()
    assert rest > MOST_COUNTED
    assert len([*batches]) == 2
    Output(as_json=False).more(rest)
    assert capsys.readouterr().err == "… and more than 1,000,000 more; --limit shows more\n"


def test_numbers_of_pylance_are_those_that_are_told(lw_ok: Lw, repo: lw.Repository) -> None:
    there = lance.dataset("tables/birds.lance")
    told = lw_ok("table", "files", "birds", "-n", "1").err
    assert told == f"… and {len(there.get_fragments()) - 1} more; --all shows more\n"
