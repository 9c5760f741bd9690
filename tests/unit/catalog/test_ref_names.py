"""Names of branches and tags: what git allows, and what the tables allow."""

from __future__ import annotations

import pytest

from lancewood.catalog.names import branch_ref, full_ref, lance_branch, tag_ref
from lancewood.errors import InvalidInputError


@pytest.mark.parametrize("name", ["main", "exp", "team/exp-1", "v1.0"])
def test_a_branch_that_both_allow_has_a_ref(name: str) -> None:
    assert branch_ref(name) == f"refs/heads/{name}"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "empty"),
        ("a..b", r"'\.\.'"),
        ("a b", "a space"),
        (".a", "starts with '.'"),
        ("a.lock", "'.lock'"),
        ("-a", "'-'"),
        ("HEAD", "current commit"),
        ("a@{1}", "@{"),
        ("a~1", "~"),
        ("/a", "'/'"),
    ],
)
def test_a_refusal_names_the_rule_of_git(name: str, rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        branch_ref(name)


def test_what_git_allows_and_tables_do_not_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidInputError, match="tables get a branch of the same name"):
        branch_ref("a+b")
    assert tag_ref("a+b") == "refs/tags/a+b"


def test_main_is_the_tables_own_main() -> None:
    assert lance_branch("main") is None
    assert lance_branch("exp") == "exp"


def test_a_short_name_is_a_branch_unless_only_a_tag_has_it() -> None:
    known = {"refs/heads/a", "refs/tags/a", "refs/tags/v1"}
    assert full_ref(known, "a") == "refs/heads/a"
    assert full_ref(known, "v1") == "refs/tags/v1"
    assert full_ref(known, "new") == "refs/heads/new"
    assert full_ref(known, "HEAD") == "HEAD"
    assert full_ref(known, "refs/tags/a") == "refs/tags/a"
