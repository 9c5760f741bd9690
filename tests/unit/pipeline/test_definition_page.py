"""docs/pipeline-file.md names every key of the file and no other, and all its examples load."""

from __future__ import annotations

import re
import tempfile
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.manifests import page_tables
from tests.unit.pipeline.definition_files import loaded

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import KEYS, SECTIONS
from lancewood.pipeline.definition.model import Pipeline, Quarantine, Target

PATH = Path(__file__).parents[3] / "docs" / "pipeline-file.md"
PAGE = {name.strip("`"): rows for name, rows in page_tables(PATH).items() if name[1] == "["}
TEXT = PATH.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def cells(section: str) -> dict[str, tuple[str, ...]]:
    return {row[0]: row for row in PAGE[section]}


def test_the_page_has_every_section_and_no_other() -> None:
    assert PAGE.keys() == KEYS.keys()
    assert {re.split(r"[.\]]", name.strip("["))[0] for name in KEYS} == set(SECTIONS)


@pytest.mark.parametrize("section", KEYS)
def test_the_page_has_every_key_of_a_section_and_no_other(section: str) -> None:
    assert {row[0] for row in PAGE[section]} == set(KEYS[section])
    assert len(PAGE[section]) == len(KEYS[section])
    assert all(len(row) == 4 and all(row) for row in PAGE[section])


@pytest.mark.parametrize(
    ("section", "model", "names"),
    [
        ("[pipeline]", Pipeline, ("branch", "attempts", "kept_rows")),
        ("[[targets]]", Target, ("matched", "not_matched", "not_matched_by_source")),
        ("[quarantine]", Quarantine, ("table",)),
    ],
)
def test_the_defaults_are_those_of_the_code(
    section: str, model: type, names: tuple[str, ...]
) -> None:
    defaults = {each.name: each.default for each in fields(model)}
    for name in names:
        assert cells(section)[name][2] == str(defaults[name])


def completed(example: str) -> str:
    """An example with what it takes for granted: a name, two sources and a target."""
    said = tomllib.loads(example)
    more = example
    if "pipeline" not in said:
        more += '[pipeline]\nname = "zoo"\n'
    for name in ("photos", "labels"):
        if name not in said.get("sources", {}):
            more += f'[sources.{name}]\nformat = "parquet"\npath = "{name}"\n'
    if "targets" not in said:
        more += '[[targets]]\ntable = "photos"\nfrom = "photos"\nmode = "append"\n'
    return more


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page_loads(tmp_path: Path, example: str) -> None:
    environment = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", example), "secret")
    declared = tomllib.loads(example).get("params", {})
    needed = {name for name, value in declared.items() if isinstance(value, dict)}
    found = loaded(tmp_path, completed(example), dict.fromkeys(needed, "2026-01-31"), environment)
    assert found.targets


def test_there_is_an_example_for_every_section() -> None:
    said = {key for example in EXAMPLES for key in tomllib.loads(example)}
    assert said == set(SECTIONS)
    assert TEXT.count("```toml") == len(EXAMPLES)


def test_the_error_that_the_page_shows_is_the_one_that_is_raised(tmp_path: Path) -> None:
    text = "\n" * 8 + '[[targets]]\ntable = "t"\nfrom = "a"\nmode = "apend"\n'
    text += '[pipeline]\nname = "zoo"\n[sources.a]\ntable = "t"\n'
    with pytest.raises(InvalidInputError) as caught:
        loaded(tmp_path, text)
    assert caught.value.message.replace("zoo.toml", "photos.toml") in TEXT


VALUES = [
    *("1", "-1", "0.5", "nan", "0xffffffffffffffff", "true", "2026-01-31", "07:32:00"),
    *('""', '"x"', '"a b"', '"a.b"', '"${x}"', '"${env:A}"', '"$${"', '"\\u0000"', '"SELECT 1"'),
    *("[]", '["a", "a"]', "[1]", "[[]]", "[{}]", "{}", "{ a = 1 }", '{ "a b" = "c" }', "'''\n'''"),
]
PAIR = re.compile(r"(?m)^([\w.\"]+ = )(.*)$")


def refusal(text: str) -> str | None:
    """What is said of a file that is refused."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            loaded(Path(folder), text, {}, {"A": "b"})
        except InvalidInputError as error:
            return error.message
    return None


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(EXAMPLES), st.integers(0, 50), st.sampled_from(VALUES))
def test_whatever_a_file_says_it_is_a_pipeline_or_refused(
    example: str, which: int, value: str
) -> None:
    text = completed(example)
    pairs = list(PAIR.finditer(text))
    pair = pairs[which % len(pairs)]
    told = refusal(f"{text[: pair.start()]}{pair[1]}{value}{text[pair.end() :]}")
    assert told is None or told.startswith("zoo.toml")
