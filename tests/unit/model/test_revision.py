"""What a text says about the version that is meant, and where a uri may be parted."""

from __future__ import annotations

import pytest

from lancewood.errors import InvalidInputError
from lancewood.model.ids import Version
from lancewood.model.refs import (
    AtTag,
    BranchName,
    ByName,
    OnBranch,
    Revision,
    TagName,
    branch_name,
    parse_revision,
    split_uri,
)

EXP = BranchName("exp")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("exp", ByName(EXP, TagName("exp"))),
        ("a/b", ByName(BranchName("a/b"), None)),
        ("main", ByName(None, TagName("main"))),
        ("12", ByName(BranchName("12"), TagName("12"))),
        ("exp:", OnBranch(EXP)),
        ("exp:12", OnBranch(EXP, Version(12))),
        ("a/b:12", OnBranch(BranchName("a/b"), Version(12))),
        (":12", OnBranch(None, Version(12))),
        (":", OnBranch(None)),
        ("main:", OnBranch(None)),
        ("main:12", OnBranch(None, Version(12))),
        ("tag:v1", AtTag(TagName("v1"))),
        ("tag:12", AtTag(TagName("12"))),
        ("tag", ByName(BranchName("tag"), TagName("tag"))),
        ("tag:", OnBranch(BranchName("tag"))),
    ],
)
def test_a_text_means_one_revision(text: str, meant: Revision) -> None:
    assert parse_revision(text) == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("a b", "contains ' '"),
        ("a..b", "contains '..'"),
        ("exp:v1", "the number of a version"),
        ("exp:0", "the number of a version"),
        ("exp:-1", "the number of a version"),
        ("exp:1:2", "the number of a version"),
        ("exp:٣", "the number of a version"),
        (f"exp:{'9' * 5000}", "the number of a version"),
        ("tag:a/b", "contains '/'"),
        ("tag:1:2", "contains ':'"),
        ("/x:1", "starts with '/'"),
        ("exp@2", "contains '@'"),
    ],
)
def test_a_text_that_means_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        parse_revision(text)


def test_only_a_text_is_a_revision_or_a_name() -> None:
    with pytest.raises(InvalidInputError, match="a revision is a text"):
        parse_revision(12)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a branch name is a text"):
        branch_name(12)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["exp:", "exp:12", "main:", "main:12", "tag:v1"])
def test_what_a_revision_is_called_means_it_again(text: str) -> None:
    assert str(parse_revision(text)) == text


def test_names_that_others_made_can_be_asked_for_although_we_would_not_make_them() -> None:
    assert branch_name("p/data") == "p/data"
    assert parse_revision("tag:größe") == AtTag(TagName.found("größe"))


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("t.lance", []),
        ("t.lance@exp", [("t.lance", "exp")]),
        ("t.lance/@exp", [("t.lance/", "exp")]),
        ("a@b/t@exp:12", [("a", "b/t@exp:12"), ("a@b/t", "exp:12")]),
        ("@x", []),
        ("s3://bucket/t@x", [("s3://bucket/t", "x")]),
        ("s3://key:secret@bucket/t", []),
        (
            "abfss://box@account.dfs.core.windows.net/t@x",
            [("abfss://box@account.dfs.core.windows.net/t", "x")],
        ),
        ("file:///d/t@:12", [("file:///d/t", ":12")]),
        ("memory://t@x", [("memory://t", "x")]),
        ("memory://@x", []),
    ],
)
def test_a_uri_is_parted_at_each_at_sign_of_its_path(
    uri: str, parts: list[tuple[str, str]]
) -> None:
    assert list(split_uri(uri)) == parts
