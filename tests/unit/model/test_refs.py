from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime

import pytest

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.layout import OWNED_DIRS
from lancewood.model.ids import MAX_U64, Version
from lancewood.model.refs import (
    RESERVED_SEGMENTS,
    Branch,
    BranchName,
    BranchPoint,
    Tag,
    TagName,
)

BROKEN_BRANCHES = {
    "": "it is empty",
    "/a": "it starts with '/'",
    "a/": "it ends with '/'",
    "a//b": "it contains '//'",
    "a..b": "it contains '..'",
    "a\\b": r"it contains '\\'",
    "a b": "it contains ' '",
    "a\0": "it contains '\\x00'",
    "a~1": "it contains '~'",
    "a@b": "it contains '@'",
    "a%2Fb": "it contains '%'",
    "a.lock": "it ends with '.lock'",
    "a/b.lock": "it ends with '.lock'",
    "main": "'main' is the branch that every table has",
    ".": "a segment is '.'",
    "a/./b": "a segment is '.'",
}
BROKEN_TAGS = {
    "": "it is empty",
    "a/b": "it contains '/', which only branch names may",
    "a b": "it contains ' '",
    "a\\b": r"it contains '\\'",
    ".a": "it starts with '.'",
    "a.": "it ends with '.'",
    "a..b": "it contains '..'",
    "a.lock": "it ends with '.lock'",
}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "A-b_c.d",
        "bugfix/issue-123",
        "main/a",
        "a/main",
        "MAIN",
        "HEAD",
        ".a",
        "a.",
        "-x",
        "a/b.lock/c",
        "grün",
        "中文",
        "1",
    ],
)
def test_a_branch_name_that_follows_the_rules_is_itself(text: str) -> None:
    assert BranchName(text) == text == BranchName.found(text)


@pytest.mark.parametrize(("text", "why"), BROKEN_BRANCHES.items())
def test_each_rule_for_branch_names_has_its_own_words(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as new:
        BranchName(text)
    assert str(new.value).startswith(f"branch name {text!r} is not allowed: {why}")
    with pytest.raises(FormatError, match="breaks the format") as found:
        BranchName.found(text)
    assert why in str(found.value)


@pytest.mark.parametrize("text", ["v1.0.0", "production", "main", "latest", "1", "a-b_c", "lw.x"])
def test_a_tag_name_that_follows_the_rules_is_itself(text: str) -> None:
    assert TagName(text) == text == TagName.found(text)


@pytest.mark.parametrize(("text", "why"), BROKEN_TAGS.items())
def test_each_rule_for_tag_names_has_its_own_words(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as new:
        TagName(text)
    assert str(new.value).startswith(f"tag name {text!r} is not allowed: {why}")
    with pytest.raises(FormatError, match="breaks the format") as found:
        TagName.found(text)
    assert why in str(found.value)


@pytest.mark.parametrize("segment", sorted(RESERVED_SEGMENTS))
def test_a_branch_in_a_directory_of_the_table_is_read_but_not_made(segment: str) -> None:
    for text in (segment, f"p/{segment}", f"{segment}/p"):
        with pytest.raises(InvalidInputError, match=f"the segment '{segment}' is the name of"):
            BranchName(text)
        assert BranchName.found(text) == text
    assert BranchName(f"p{segment}")


def test_every_directory_of_a_table_is_reserved() -> None:
    assert set(OWNED_DIRS) == RESERVED_SEGMENTS


def test_what_only_other_writers_take_for_letters_is_read_but_not_made() -> None:
    for text in ("a/हि", "Ⓐ"):
        with pytest.raises(InvalidInputError, match="letters, digits"):
            BranchName(text)
        assert BranchName.found(text) == text
    with pytest.raises(InvalidInputError, match="stop pylance from listing"):
        TagName("grün")
    assert TagName.found("grün") == "grün"


def test_half_a_character_is_no_name() -> None:
    for kind in (BranchName, TagName):
        with pytest.raises(InvalidInputError):
            kind("a\ud800")
        with pytest.raises(FormatError):
            kind.found("a\ud800")


def test_a_name_that_no_file_system_takes_is_refused_without_being_repeated_in_full() -> None:
    with pytest.raises(InvalidInputError, match="it needs 212 bytes") as error:
        BranchName("x" * 212)
    assert len(str(error.value)) < 250
    with pytest.raises(InvalidInputError, match="it needs 216 bytes"):
        BranchName("ü" * 36)
    assert BranchName("ü" * 35)
    assert len(BranchName.found("x" * 251)) == 251


@pytest.mark.parametrize("wrong", [None, 1, b"a", ["a"]])
def test_a_name_is_a_text(wrong: object) -> None:
    for kind in (BranchName, TagName):
        with pytest.raises(InvalidInputError, match="is a text, not"):
            kind(wrong)  # type: ignore[arg-type]


def test_names_survive_pickling_even_those_that_nobody_may_make_here() -> None:
    for name in (BranchName("a/b"), BranchName.found("p/_versions"), TagName.found("grün")):
        for again in (pickle.loads(pickle.dumps(name)), copy.deepcopy(name)):
            assert again == name
            assert type(again) is type(name)


def branch(**changes: object) -> Branch:
    values: dict[str, object] = {
        "name": BranchName("b"),
        "parent_branch": None,
        "parent_version": Version(3),
        "created_at_seconds": 86_400,
        "manifest_size": 458,
    }
    return Branch(**{**values, **changes})  # type: ignore[arg-type]


def tag(**changes: object) -> Tag:
    values: dict[str, object] = {
        "name": TagName("t"),
        "branch": None,
        "version": Version(3),
        "manifest_size": 458,
    }
    return Tag(**{**values, **changes})  # type: ignore[arg-type]


def test_moments_are_utc() -> None:
    assert branch().created_at == datetime(1970, 1, 2, tzinfo=UTC)
    assert tag().created_at is None
    assert tag(updated_at_ns=1_999).updated_at == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("wrong", [-1, MAX_U64 + 1])
def test_numbers_that_do_not_fit_the_format_are_refused(wrong: int) -> None:
    for field in ("parent_version", "manifest_size", "created_at_seconds"):
        with pytest.raises(InvalidInputError, match=str(wrong)):
            branch(**{field: wrong})
    with pytest.raises(InvalidInputError, match=str(wrong)):
        branch(identifier=(BranchPoint(Version(wrong), "00"),))
    for field in ("version", "manifest_size"):
        with pytest.raises(InvalidInputError, match=str(wrong)):
            tag(**{field: wrong})


def test_moments_that_no_calendar_has_are_refused() -> None:
    for field in ("created_at_ns", "updated_at_ns"):
        for wrong in (-(10**20), 10**21):
            with pytest.raises(InvalidInputError, match="out of range"):
                tag(**{field: wrong})
