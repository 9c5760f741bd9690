"""What a table may be called, and where in a repository it is."""

from __future__ import annotations

import pytest

from lancewood.catalog.names import (
    checked_table,
    own_table,
    own_table_uri,
    pin_entry,
    pin_file,
    pinned_table,
)
from lancewood.errors import InvalidInputError


@pytest.mark.parametrize("name", ["a", "photos", "7", "A.b-c_d", "x" * 100, "a..b", "x.lock"])
def test_a_good_name_is_itself(name: str) -> None:
    assert checked_table(name) == name
    assert own_table(own_table_uri(name)) == name
    assert pinned_table(pin_entry(name)) == name
    assert pin_file(name) == f"tables/{name}.json"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        ("x" * 101, "101 characters, 100 are allowed"),
        (".hidden", "begins with '.'"),
        ("-rf", "begins with '-'"),
        ("_x", "begins with '_'"),
        ("a/b", "contains '/'"),
        ("..", "begins with '.'"),
        ("a b", "contains ' '"),
        ("a\0", r"contains '\x00'"),
        ("a\n", r"contains '\n'"),
        ("größe", "contains 'ö'"),
    ],
)
def test_a_bad_name_is_refused_with_the_rule_that_it_breaks(name: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        checked_table(name)
    assert why in caught.value.message
    assert own_table(own_table_uri(name)) is None
    assert pinned_table(pin_entry(name)) is None


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="is a text, not int"):
        checked_table(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "uri", ["tables/a", "tables/a/b.lance", "a.lance", "/tables/a.lance", "tables/../a.lance", ""]
)
def test_other_places_are_no_home_of_a_table(uri: str) -> None:
    assert own_table(uri) is None


@pytest.mark.parametrize("entry", ["README", "a.txt", ".json", "a", "sub"])
def test_other_files_pin_no_table(entry: str) -> None:
    assert pinned_table(entry) is None
