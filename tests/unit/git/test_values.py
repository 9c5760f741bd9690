"""Signatures, trees and commits: bytes and back, and what is refused on both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import FormatError, InvalidInputError
from lancewood.git.values import (
    FILE,
    TREE,
    ZERO,
    Hash,
    Signature,
    TreeEntry,
    checked_hash,
    decode_commit,
    decode_tag,
    decode_tree,
    encode_commit,
    encode_tree,
)

ADA = Signature("Ada Lovelace", "ada@example.org", 1_700_000_000, -450)
H = Hash("ab" * 32)
NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=8)


@pytest.mark.parametrize("text", ["", "ab" * 31, "AB" * 32, "g" * 64, "ab" * 32 + "\n", ZERO])
def test_a_text_that_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        checked_hash(text)
    assert checked_hash(H) == H


def test_a_signature_is_written_as_git_does_and_read_back() -> None:
    assert ADA.encode() == b"Ada Lovelace <ada@example.org> 1700000000 -0730"
    assert Signature.decode(ADA.encode()) == ADA
    now = Signature.now("Ada", "a@b")
    assert Signature.decode(now.encode()) == now


@pytest.mark.parametrize(
    "signature",
    [
        Signature("", "a@b", 0, 0),
        Signature("a\nparent x", "a@b", 0, 0),
        Signature("a <b>", "a@b", 0, 0),
        Signature(" a", "a@b", 0, 0),
        Signature("a", "a>b", 0, 0),
        Signature("a", "a@b", -1, 0),
        Signature("a", "a@b", 2**63, 0),
        Signature("a", "a@b", 0, 1440),
        Signature("\ud800", "a@b", 0, 0),
        Signature(3, "a@b", 0, 0),  # type: ignore[arg-type]
    ],
)
def test_a_signature_that_git_would_not_read_is_refused(signature: Signature) -> None:
    with pytest.raises(InvalidInputError):
        signature.encode()


@pytest.mark.parametrize("line", [b"", b"Ada", b"Ada <a@b>", b"Ada <a@b> x +0000", b"a <b> 1 +00"])
def test_a_line_that_is_no_signature_is_a_format_error(line: bytes) -> None:
    with pytest.raises(FormatError):
        Signature.decode(line)


@given(st.dictionaries(NAMES, st.sampled_from([FILE, TREE]), max_size=6))
def test_a_tree_is_read_as_it_was_written(modes: dict[str, int]) -> None:
    entries = {name: TreeEntry(mode, H) for name, mode in modes.items()}
    try:
        data = encode_tree(entries)
    except InvalidInputError:
        assert any(name in (".", "..") or "git" in name.lower() for name in modes)
        return
    assert decode_tree(data) == entries


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\0b",
        ".git",
        ".GIT",
        "git~1",
        ".git ",
        ".git.",
        ".g\u200cit",
        ".git:x",
    ],
)
def test_a_name_that_harms_in_a_tree_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="name in a tree"):
        encode_tree({name: TreeEntry(FILE, H)})


@pytest.mark.parametrize("name", [".gitignore", "git", "a.git", "...", "a b", "grün"])
def test_a_name_that_only_looks_so_is_taken(name: str) -> None:
    assert list(decode_tree(encode_tree({name: TreeEntry(FILE, H)}))) == [name]


def test_a_mode_that_git_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="mode 100600"):
        encode_tree({"a": TreeEntry(0o100600, H)})
    with pytest.raises(FormatError, match="mode 1"):
        decode_tree(b"1 a\0" + b"\1" * 32)


RAW = b"\1" * 32


@pytest.mark.parametrize(
    "data",
    [
        b"100644 a",
        b"100644 a\0" + RAW[:31],
        b"xyz a\0" + RAW,
        b"100644 ..\0" + RAW,
        b"100644 a/b\0" + RAW,
        b"100644 \0" + RAW,
        b"100644 a\0" + RAW + b"100644 a\0" + RAW,
    ],
)
def test_bytes_that_are_no_tree_are_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_tree(data)


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")), st.integers(0, 3))
def test_a_commit_is_read_as_it_was_written(message: str, parents: int) -> None:
    over = tuple(Hash(f"{number:064x}") for number in range(1, parents + 1))
    later = Signature("Grace", "", 1_800_000_000, 60)
    found = decode_commit(H, encode_commit(H, over, ADA, later, message))
    assert (found.tree, found.parents, found.author, found.committer) == (H, over, ADA, later)
    assert found.message == message.rstrip("\n")


@pytest.mark.parametrize("message", ["a\0b", "\ud800"])
def test_a_message_that_git_refuses_is_refused(message: str) -> None:
    with pytest.raises(InvalidInputError):
        encode_commit(H, (), ADA, ADA, message)


@pytest.mark.parametrize("bad", [ZERO, Hash("short"), Hash("../" * 20 + "abcd")])
def test_a_commit_of_no_object_is_refused(bad: Hash) -> None:
    with pytest.raises(InvalidInputError):
        encode_commit(bad, (), ADA, ADA, "")
    with pytest.raises(InvalidInputError):
        encode_commit(H, (bad,), ADA, ADA, "")


@pytest.mark.parametrize("cut", [0, 4, 30, 70, 75, 100, 130])
def test_a_commit_that_is_cut_short_is_a_format_error(cut: int) -> None:
    data = encode_commit(H, (), ADA, ADA, "message")
    with pytest.raises(FormatError):
        decode_commit(H, data[:cut])


def test_a_tag_that_names_nothing_is_a_format_error() -> None:
    assert decode_tag(b"object " + H.encode() + b"\ntype commit\n") == H
    with pytest.raises(FormatError):
        decode_tag(b"object " + b"ab" * 20 + b"\ntype commit\n")
