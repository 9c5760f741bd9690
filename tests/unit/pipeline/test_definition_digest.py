"""One digest for one meaning."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.pipeline.definition_files import GOOD, HEAD, SOURCE, TARGET, loaded

MORE = """
[params]
day = "1"
[steps.s]
sql = "SELECT * FROM animals WHERE day = '${day}' AND x > 1.5"
[sources.db]
format = "jdbc"
options = { url = "jdbc:${day}", password = "${env:PASSWORD}" }
[[checks]]
table = "t"
column = "c"
accepted = [2026-01-31, 1, 1.0]
"""
ENVIRONMENT = {"PASSWORD": "geheim"}


def digest(folder: Path, text: str, **parameters: str) -> str:
    return loaded(folder, text, parameters, ENVIRONMENT).digest


@pytest.mark.parametrize(
    "other",
    [
        GOOD.replace("\n", "\n# a comment\n") + MORE,
        MORE + HEAD + TARGET + SOURCE,
        (GOOD + MORE).replace('"jdbc"', "'jdbc'").replace("url = ", '"url" ='),
        GOOD + MORE + '[spark]\nmaster = "local[1]"\n',
        GOOD + MORE + "[quarantine]\n",
        (GOOD + MORE).replace('day = "1"', 'day = { default = "1", help = "which day" }'),
        (GOOD + MORE)
        .replace("options = {", "[sources.db.options]\n#")
        .replace("[[checks]]", 'url = "jdbc:${day}"\npassword = "${env:PASSWORD}"\n[[checks]]'),
    ],
)
def test_the_layout_does_not_count(tmp_path: Path, other: str) -> None:
    found = digest(tmp_path, GOOD + MORE)
    assert len(found) == 64
    assert digest(tmp_path, other) == found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"zoo"', '"zoo2"'),
        ('"append"', '"overwrite"'),
        ("x > 1.5", "x > 2.5"),
        ("${env:PASSWORD}", "$${env:PASSWORD}"),
        ("${env:PASSWORD}", "x${env:PASSWORD}"),
        ("1.0]", "1]"),
        ("2026-01-31, 1", "1, 2026-01-31"),
        ("2026-01-31", '"2026-01-31"'),
    ],
)
def test_what_is_said_counts(tmp_path: Path, before: str, after: str) -> None:
    text = GOOD + MORE
    assert before in text
    assert digest(tmp_path, text) != digest(tmp_path, text.replace(before, after))


def test_parameters_count_by_what_they_fill_in(tmp_path: Path) -> None:
    text = GOOD + MORE
    assert digest(tmp_path, text, day="1") == digest(tmp_path, text)
    assert digest(tmp_path, text, day="2") != digest(tmp_path, text)
    assert digest(tmp_path, text, day="2") == digest(tmp_path, text.replace('day = "1"', 'day="2"'))


def test_secrets_count_by_their_templates(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD + MORE, {}, {"PASSWORD": "a"}).digest
    assert found == loaded(tmp_path, GOOD + MORE, {}, {"PASSWORD": "b"}).digest


def test_the_place_of_the_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert digest(tmp_path, GOOD + MORE) == digest(tmp_path / "a", GOOD + MORE)
