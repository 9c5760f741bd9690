"""What two sides come from: one state, or several if each was merged into the other before.

Several bases are put together before they are compared with, as git does it: two of them and what
both come from are merged, and where they do not go together, what is below counts. That may again
be several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")
_DEEPEST = 8
"""So many times what is below is looked for; below that the first of several counts."""


@dataclass(frozen=True, eq=False)
class Bases(Generic[T]):
    """A first base, and further ones, each with what it and the first come from."""

    first: T
    others: tuple[tuple[T, Bases[T]], ...] = ()
    steps: int = 0
    """So many of the last ones are no bases: each stands for what lies between what is below it and
    itself."""

    @classmethod
    def of(
        cls,
        found: Sequence[T],
        below: Callable[[T, T], Sequence[T]],
        nothing: Callable[[T], T],
        depth: int = _DEEPEST,
    ) -> Bases[T]:
        """Those that were found; ``below`` gives what two of them come from, and ``nothing`` stands
        for that where there is none."""
        first, *others = found if depth else found[:1]

        def under(other: T) -> Bases[T]:
            lower = below(first, other) or [nothing(first)]
            return cls.of(lower, below, nothing, depth - 1)

        return cls(first, tuple((each, under(each)) for each in others))

    def followed_by(self, steps: Iterable[tuple[T, T]]) -> Bases[T]:
        """The same with what lies between two states, for each pair: as if that had been done to
        the base, and nothing else."""
        added = tuple((after, Bases(before)) for before, after in steps)
        return Bases(self.first, (*self.others, *added), len(added))

    @property
    def all(self) -> tuple[T, ...]:
        """The bases, without what is below them."""
        return self.first, *(each for each, _ in self.others)

    @property
    def is_crossed_once(self) -> bool:
        """Whether these are two bases that both come from a single one."""
        return len(self.others) == 1 and not self.steps and not self.others[0][1].others

    @property
    def below(self) -> tuple[T, ...]:
        """Everything that is below them."""
        return tuple(each for _, low in self.others for each in low)

    def __iter__(self) -> Iterator[T]:
        yield from self.all
        yield from self.below

    def numbered(self, start: int = 0) -> Bases[int]:
        """The same with the position of each in the order of all of them."""
        others, at = list[tuple[int, Bases[int]]](), start + len(self.all)
        for number, (_, low) in enumerate(self.others, start + 1):
            others.append((number, low.numbered(at)))
            at += len([*low])
        return Bases(start, tuple(others), self.steps)

    def each(self, read: Callable[[T], U]) -> Bases[U]:
        """The same with what is read of each."""
        others = tuple((read(one), low.each(read)) for one, low in self.others)
        return Bases(read(self.first), others, self.steps)

    def joined(self, join: Callable[[T, T, T], T], add: Callable[[T, T, T], T] | None = None) -> T:
        """What they add up to; ``join`` merges two that come from a third, which is given first,
        and ``add`` those that stand for a step, if that is something else."""
        found, bases = self.first, len(self.others) - self.steps
        for at, (other, low) in enumerate(self.others):
            found = (join if at < bases else add or join)(low.joined(join), found, other)
        return found
