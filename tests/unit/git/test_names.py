"""git's rules for names, each with its reason."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import InvalidInputError
from lancewood.git.names import checked_branch, checked_ref, checked_tag, is_ref


@pytest.mark.parametrize("name", ["main", "feature/a", "v1.0", "a-b_c", "grün", "a@b", "x" * 250])
def test_a_plain_name_is_taken_as_it_is(name: str) -> None:
    assert checked_branch(name) == name
    assert checked_tag(name) == name
    assert checked_ref(f"refs/heads/{name}") == f"refs/heads/{name}"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("a b", "a space"),
        ("a\tb", r"control character '\\t'"),
        ("a~1", "'~'"),
        ("a^", r"'\^'"),
        ("a:b", "':'"),
        ("a?", r"'\?'"),
        ("a*", r"'\*'"),
        ("a[b", r"'\['"),
        ("a\\b", r"'\\\\'"),
        ("a..b", r"'\.\.'"),
        ("../../etc/passwd", r"'\.\.'"),
        ("a@{1}", "'@{'"),
        ("a//b", "'//'"),
        ("/a", "starts or ends with '/'"),
        ("a/", "starts or ends with '/'"),
        ("a.", r"starts or ends with '\.'"),
        (".a", r"'\.a' starts with '\.'"),
        ("a/.b", r"'\.b' starts with '\.'"),
        ("a.lock", r"'a\.lock' ends with '\.lock'"),
        ("a.lock/b", r"'a\.lock' ends with '\.lock'"),
        ("a/" + "x" * 251, "251 bytes"),
        ("\ud800", "not UTF-8"),
    ],
)
def test_a_refusal_says_which_rule_is_broken(name: str, why: str) -> None:
    for check in (checked_branch, checked_tag):
        with pytest.raises(InvalidInputError, match=why):
            check(name)
    if name not in ("", "/a"):
        with pytest.raises(InvalidInputError, match=why):
            checked_ref(f"refs/heads/{name}")


@pytest.mark.parametrize("name", ["HEAD", "@", "-a"])
def test_names_with_a_meaning_of_their_own_are_refused(name: str) -> None:
    for check in (checked_branch, checked_tag):
        with pytest.raises(InvalidInputError, match=r"stands for|starts with"):
            check(name)


@pytest.mark.parametrize("name", ["main", "heads/main", "refs", "refs/", "objects/x", "/refs/x"])
def test_a_ref_has_its_full_name(name: str) -> None:
    with pytest.raises(InvalidInputError, match="not allowed"):
        checked_ref(name)
    assert not is_ref(name)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="not a text"):
        checked_branch(3)  # type: ignore[arg-type]


def test_we_never_allow_what_git_refuses() -> None:
    names: list[str] = []

    @given(st.text(st.sampled_from("ab/.@{~^:?*[\\-lock \t\x7fé"), min_size=1, max_size=12))
    def collect(name: str) -> None:
        if is_ref(f"refs/heads/{name}"):
            names.append(f"refs/heads/{name}")

    collect()
    for name in dict.fromkeys(names[:25]):
        subprocess.run(["git", "check-ref-format", name], check=True)
