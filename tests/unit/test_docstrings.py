"""A docstring stands alone: who opens a file from a search result knows what it speaks of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "lancewood"

LEANS = re.compile(
    r"(The same|Same|See|As|It|Its|So many|Such|Those|They|Their|Likewise|Also|And)\b"
)
"""First words of a sentence whose noun stands in another text."""


def leaning(text: str) -> Iterator[tuple[int, str]]:
    """Line and first line of the docstrings in a source text that lean on another text: those of
    modules, classes and functions, and texts after a field or a constant."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            match each:
                case ast.Expr(value=ast.Constant(value=str(words))) if LEANS.match(words.lstrip()):
                    yield each.lineno, words.strip().partition("\n")[0]


def leaning_in(folder: Path) -> list[str]:
    return [
        f"{file.relative_to(SRC).as_posix()}:{line}: {words}"
        for file in sorted(folder.rglob("*.py"))
        for line, words in leaning(file.read_text())
    ]


def test_a_docstring_says_its_subject_first() -> None:
    assert leaning_in(SRC) == []


@pytest.mark.parametrize(
    "planted",
    [
        '"""The same for tables."""',
        'def f():\n    """See ``g``."""',
        'class A:\n    """As git has it."""',
        'class A:\n    x: int = 0\n    """So many rows at a time."""',
        'LEAST = 1\n"""Those that are less go."""',
        'class A:\n    def f(self):\n        """\n        It has rows.\n        """',
    ],
)
def test_a_planted_docstring_that_leans_is_found(planted: str) -> None:
    assert [*leaning(planted)]


@pytest.mark.parametrize(
    "planted",
    ['"""Assets of a page."""', 'def f():\n    """Items, in order."""', 'x = "The same"'],
)
def test_a_word_that_only_begins_so_is_none(planted: str) -> None:
    assert not [*leaning(planted)]
