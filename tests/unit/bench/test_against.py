"""Two checkouts do the same work in turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import against

ROOT = Path(__file__).resolve().parents[3]


def test_the_same_work_is_timed_on_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(ROOT), "scan all", "sql delete", "--rows", "100", "--passes", "1"]
    assert against.main(arguments) == 0
    head, _, *lines = capsys.readouterr().out.strip().splitlines()
    assert [each.strip() for each in head.split("|")[1:-1]] == ["work", "ours", "other", "ratio"]
    assert [line.split("|")[1].strip() for line in lines] == ["scan all", "sql delete"]
    assert all(line.count("ms wall") == 2 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-checkout"], "has no src/lancewood"),
        ([str(ROOT), "fly"], "no work is named 'fly'; there are scan all"),
    ],
)
def test_what_is_not_there_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        against.main(arguments)
    assert words in capsys.readouterr().err
