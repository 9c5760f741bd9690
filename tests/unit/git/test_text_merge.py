"""Texts merged by lines: judged by stock git, on random texts."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.interop.git_judge import git

from lancewood.git.text_merge import Favor, is_text, merge_texts

NINE = b"".join(b"%d\n" % each for each in range(9))
FAVORS: tuple[Favor | None, ...] = (None, "ours", "theirs")
LINES = (3, 8, 40)
"""How many different lines there are: few make many ways to pair them."""


def drawn(chance: random.Random, lines: int) -> tuple[bytes, bytes, bytes]:
    base = some_lines(chance, lines, chance.randrange(25))
    return b"".join(base), changed(chance, lines, base), changed(chance, lines, base)


def changed(chance: random.Random, lines: int, before: Sequence[bytes]) -> bytes:
    made = [*before]
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(made) + 1)
        new = some_lines(chance, lines, chance.randrange(4))
        made[at : at + chance.randrange(3)] = new
    text = b"".join(made)
    return text[:-1] if chance.random() < 0.15 else text


def some_lines(chance: random.Random, lines: int, count: int) -> list[bytes]:
    return [b"%d\n" % chance.randrange(lines) for _ in range(count)]


@pytest.mark.parametrize("lines", LINES)
def test_texts_are_merged_as_by_git(tmp_path: Path, lines: int) -> None:
    chance = random.Random(lines)
    texts = [drawn(chance, lines) for _ in range(200)]
    git(tmp_path, "init", "-q", "-b", "base")

    def commit(side: int) -> None:
        for number, each in enumerate(texts):
            (tmp_path / str(number)).write_bytes(each[side])
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", "texts")

    commit(0)
    for side, name in ((1, "one"), (2, "two")):
        git(tmp_path, "checkout", "-q", "-B", name, "base")
        commit(side)
    for favor in FAVORS:
        git(tmp_path, "checkout", "-q", "-B", "merged", "one")
        option = () if favor is None else ("-X", favor)
        words = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c", "merge"]
        subprocess.run(
            [*words, "-q", "--no-ff", *option, "-m", "m", "two"], capture_output=True, check=False
        )
        conflicts = {*git(tmp_path, "diff", "--name-only", "--diff-filter=U").split()}
        assert (not conflicts) == (favor is not None)
        for number, each in enumerate(texts):
            merged = merge_texts(*each, favor=favor)
            assert merged.is_clean == (str(number) not in conflicts), each
            if merged.is_clean:
                assert merged.text == (tmp_path / str(number)).read_bytes(), each
        git(tmp_path, "reset", "-q", "--hard")


def test_changes_that_touch_are_a_conflict_and_equal_ones_are_not() -> None:
    apart = merge_texts(NINE, b"x\n" + NINE[2:], NINE[:4] + b"y\n" + NINE[6:])
    assert apart.is_clean
    assert apart.text == b"x\n1\ny\n" + NINE[6:]
    assert not merge_texts(NINE, b"x\n" + NINE[2:], NINE[:2] + b"y\n" + NINE[4:]).is_clean
    same = b"x\n" + NINE[2:]
    assert merge_texts(NINE, same, same + b"9\n").text == same + b"9\n"


def test_a_conflict_stands_between_markers_that_grow_with_the_depth() -> None:
    found = merge_texts(b"a\nb\n", b"a\nours", b"a\ntheirs\n", depth=1)
    assert not found.is_clean
    assert found.text == (
        b"a\n<<<<<<<<< Temporary merge branch 1\nours\n=========\ntheirs\n"
        b">>>>>>>>> Temporary merge branch 2\n"
    )


def test_line_ends_belong_to_lines_and_a_carriage_return_ends_none() -> None:
    crossed = NINE.replace(b"\n", b"\r\n")
    assert not merge_texts(NINE, crossed, NINE + b"9\n").is_clean
    text = b"a\rb\nc\nd\n"
    assert merge_texts(text, text + b"e", b"x\n" + text).text == b"x\n" + text + b"e"


def test_what_is_no_text() -> None:
    assert is_text(b"")
    assert is_text("\u00e4\n".encode())
    assert not is_text(b"a\0b")
    assert not is_text(b"\xe4\n")
    assert not is_text(b"a" * ((32 << 20) + 1))


def test_a_text_of_one_line_over_and_over_is_merged_where_it_can_be() -> None:
    text = b"a\n" * 5000
    assert merge_texts(text, text + b"b\n", b"c\n" + text).text == b"c\n" + text + b"b\n"
    assert merge_texts(text, text[2:], text).text == text[2:]


def test_texts_that_share_nothing_in_order_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.git.text_merge._MOST_WORK", 1000)
    chance = random.Random(1)
    lines = [b"%d\n" % each for each in range(2000)]
    other = [*lines]
    chance.shuffle(other)
    text = b"".join(lines)
    assert merge_texts(text, b"".join(other), text).text == b"".join(other)
