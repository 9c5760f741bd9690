"""docs/spark-options.md names every option, argument and metadata column, and no others; so does
docs/spark.md for the settings of a session."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import page_tables

from lancewood.errors import InvalidInputError
from lancewood.jobs.merge_into.source import Choices
from lancewood.model.fragment import DEFAULT_FILE_VERSION, WRITABLE_FILE_VERSIONS
from lancewood.spark import (
    add_columns,
    conflicts,
    count,
    diff,
    metadata,
    read,
    search,
    session,
    write,
)
from lancewood.spark.session import ADVISED, ADVISED_LOCALLY
from lancewood.spark.source import options as source
from lancewood.spark.source.metadata import METADATA_SCHEMAS
from lancewood.spark.source.options import SourceOptions, parse_options
from lancewood.spark.streaming.options import StreamOptions
from lancewood.spark.types import spark_schema

PATH = Path(__file__).parents[3] / "docs" / "spark-options.md"
PAGE = page_tables(PATH)
OPTIONS = {each[0]: each for each in PAGE["Options"]}
FAST_DOOR = {
    each.__name__: each
    for each in (add_columns, conflicts, count, diff, metadata, read, search, write)
}
PLAIN_TYPES = {"str", "int", "bool", "datetime", "SparkSession", "DataFrame"}


def words(cell: str) -> set[str]:
    """What stands between backticks; a cell of one word has lost its own."""
    return set(cell.replace("`", " ").split())


def uses(option: str) -> set[str]:
    return words(OPTIONS[option][2])


def test_every_option_has_one_row_and_every_row_an_option() -> None:
    assert len(OPTIONS) == len(PAGE["Options"])
    assert set(OPTIONS) == set(source.USES)
    assert all(meaning for *_, meaning in OPTIONS.values())


def test_every_other_name_stands_beside_its_option() -> None:
    told = {alias: name for name, row in OPTIONS.items() for alias in words(row[1])}
    assert told == source._ALSO_CALLED


def test_the_defaults_are_those_of_the_code() -> None:
    kept: dict[str, Any] = {each.name: each.default for each in fields(SourceOptions)}
    known = {name: kept[field] for name, (field, *_) in source._OPTIONS.items()}
    streams = StreamOptions.parsed({})
    known["onChange"] = streams.on_change.value
    known["maxVersionsPerTrigger"] = streams.max_versions
    for name, default in known.items():
        if isinstance(default, bool | int | str):
            assert OPTIONS[name][3] == str(default).lower(), name
    assert OPTIONS["fileVersion"][3] == DEFAULT_FILE_VERSION
    assert set(WRITABLE_FILE_VERSIONS) <= words(OPTIONS["fileVersion"][4].replace(",", " "))


@pytest.mark.parametrize("name", source.USES)
def test_an_option_is_said_to_be_for_what_it_is_for(name: str) -> None:
    assert uses(name) == {each.value for each in source.USES[name]}


def test_storage_options_are_those_that_are_taken() -> None:
    told = {each for row in PAGE["Storage options"] for each in words(row[0])}
    families = {f"{each}…" for each in (*source._STORAGE_FAMILIES, source.STORAGE_PREFIX)}
    assert told == families | source._STORAGE_NAMES


def test_what_is_taken_and_not_used_is_listed() -> None:
    told = {row[0] for row in PAGE["Taken and not used"]}
    assert {each.lower() for each in told} == source._NOT_USED
    parse_options({"path": "t.lance", **dict.fromkeys(told, "1")})


def test_what_is_refused_is_listed() -> None:
    told = {row[0] for row in PAGE["Refused with advice"]}
    assert {each.lower() for each in told} == set(source._REFUSED)
    for each in told:
        with pytest.raises(InvalidInputError, match="is not taken"):
            parse_options({"path": "t.lance", each: "1"})


@pytest.mark.parametrize("kind", METADATA_SCHEMAS)
def test_a_metadata_table_has_the_columns_of_its_page(kind: str) -> None:
    there = spark_schema(METADATA_SCHEMAS[kind])
    told = [(name, kind) for name, kind, _ in PAGE[kind]]
    assert told == [(each.name, each.dataType.simpleString()) for each in there.fields]


def test_the_page_has_no_other_metadata_table() -> None:
    _, _, below = PATH.read_text().partition("\n# Metadata tables\n")
    assert re.findall(r"^## (\w+)$", below, re.MULTILINE) == list(METADATA_SCHEMAS)


def check_argument(told: tuple[str, ...], found: inspect.Parameter) -> None:
    """A row of a page (type, default, meaning) tells what the signature says."""
    kind, default, meaning = told
    needed = str(found.annotation).removesuffix(" | None")
    assert needed not in PLAIN_TYPES or kind == needed, found.name
    if found.default is found.empty:
        expected = {"required"} if found.kind is not found.VAR_KEYWORD else {""}
        assert default in expected, found.name
    elif found.default not in (None, ()):
        assert default == repr(found.default), found.name
    assert meaning or found.name == "spark", found.name


@pytest.mark.parametrize("name", FAST_DOOR)
def test_the_arguments_of_the_fast_door_are_those_of_its_page(name: str) -> None:
    rows = [row for row in PAGE["Arguments"] if name in words(row[1])]
    told = {argument: rest for argument, _, *rest in rows}
    found = inspect.signature(FAST_DOOR[name]).parameters
    assert len(rows) == len(told)
    assert set(told) == set(found)
    for argument, rest in told.items():
        check_argument(tuple(rest), found[argument])


def test_no_argument_is_said_to_be_of_something_else() -> None:
    assert all(words(of) <= set(FAST_DOOR) for _, of, *_ in PAGE["Arguments"])


def test_defaults_of_a_merge_are_those_of_the_code() -> None:
    told = {row[0]: row[3] for row in PAGE["Arguments"] if words(row[1]) == {"write"}}
    texts = {e.name: repr(e.default) for e in fields(Choices) if isinstance(e.default, str)}
    assert texts
    assert {name: told[name] for name in texts} == texts


def test_the_arguments_of_session_are_those_of_its_page() -> None:
    told = {argument: rest for argument, *rest in PAGE["Arguments of session"]}
    found = inspect.signature(session).parameters
    assert list(told) == list(found)
    for argument, rest in told.items():
        check_argument(tuple(rest), found[argument])


def test_the_settings_of_a_session_are_those_of_its_page() -> None:
    rows = page_tables(PATH.with_name("spark.md"))["Sessions"]
    told = {name: value for name, value, _ in rows}
    found = {**ADVISED, **ADVISED_LOCALLY}
    assert set(told) == set(found)
    plain = {name for name in found if not name.endswith(("JavaOptions", ".regex"))}
    assert {name: told[name] for name in plain} == {name: found[name] for name in plain}
