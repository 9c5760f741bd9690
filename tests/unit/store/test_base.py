"""Keys, directories and ranges: what is refused, and why."""

from __future__ import annotations

import pytest

from lancewood.errors import InvalidInputError
from lancewood.store.base import check_directory, check_key, check_range, is_in_the_making


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "empty"),
        ("/a", "begins with '/'"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("a/../b", r"'\.\.'"),
        ("a\\b", "backslash"),
        ("a\0", "NUL"),
        ("d/.tmp00000000deadbeef", "reserved"),
        ("\udfff", "surrogate"),
    ],
)
def test_a_refused_key_is_told_why(key: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason) as caught:
        check_key(key)
    assert caught.value.facts["key"] == key


@pytest.mark.parametrize("key", ["a\n", "a/b\n/c", "..."])
def test_a_newline_or_three_dots_hide_nothing(key: str) -> None:
    check_key(key)


def test_a_newline_does_not_hide_dots() -> None:
    with pytest.raises(InvalidInputError):
        check_key("a\n/..")


def test_a_name_that_the_disk_could_not_decode_is_a_key() -> None:
    check_key("caf\udce9")


@pytest.mark.parametrize(("given", "found"), [("", ""), ("a", "a"), ("a/b/", "a/b")])
def test_a_directory_loses_the_slash_at_its_end(given: str, found: str) -> None:
    assert check_directory(given) == found


@pytest.mark.parametrize("given", ["/", "//", "a//", "..", "/a/", "a/../"])
def test_a_directory_is_checked_like_a_key(given: str) -> None:
    with pytest.raises(InvalidInputError):
        check_directory(given)


def test_a_range_error_names_the_key() -> None:
    check_range("k", 0, 0)
    with pytest.raises(InvalidInputError, match="'k'"):
        check_range("k", -1, 2)


def test_only_our_own_pattern_is_in_the_making() -> None:
    assert is_in_the_making(".tmp0123456789abcdef")
    assert not is_in_the_making(".tmp")
    assert not is_in_the_making(".tmp0123456789abcdef0")
    assert not is_in_the_making(".tmp_0123456789abcde")
    assert not is_in_the_making("x.tmp0123456789abcdef")
