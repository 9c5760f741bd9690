"""What a fuzz target is: a way to make cases, and a check that every case must pass.

The law: a typed error or a right answer. Any other exception is a failure, and so is an answer
that contradicts itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.fuzz.corpus import Corpus

from lancewood.errors import LancewoodError

T = TypeVar("T")


MAY_CRASH = frozenset({"data-file", "index-file", "planted-crash-allowed"})
"""Targets where the codec, which is not ours, may end the process or exhaust it."""


class WrongAnswer(Exception):
    """An answer that contradicts itself."""


def expect(is_right: bool, otherwise: str) -> None:
    """Raises WrongAnswer unless the answer is right."""
    if not is_right:
        raise WrongAnswer(otherwise)


class Trial:
    """One case under way: typed errors of single steps are counted and passed over."""

    def __init__(self) -> None:
        self.typed_errors = 0

    def __call__(self, step: Callable[[], T]) -> T | None:
        """The result of a step; None after a typed error."""
        try:
            return step()
        except LancewoodError:
            self.typed_errors += 1
            return None


@dataclass(frozen=True, slots=True)
class Context:
    """What targets work with: real files, and a directory that they may fill and must empty."""

    corpus: Corpus
    scratch: Path


Make = Callable[[Random], bytes]
Check = Callable[[bytes, Trial], None]


@dataclass(frozen=True, slots=True)
class Target:
    """Cases are bytes that need nothing else to be checked again."""

    name: str
    make: Make
    check: Check
