"""What two sides come from: one state, or several if each was merged into the other before.

Several bases are put together before they are compared with, as git does it: two of them and what
both come from are merged, and where they do not go together, what is below counts. That may again
be several. After many such merges the same states lie below many pairs: each is there once, what
several of them add up to is found once, and the number of states is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


U = TypeVar("U")


_MOST_STATES = 128
"""Number of states from which on no more is looked for below bases."""


@dataclass(frozen=True, eq=False)
class Bases(Generic[T]):
    """The merge bases of two states; each base after the first carries the merge bases that it
    shares with the first. A state, or a group of them, that is below several others is one
    object."""

    first: T
    others: tuple[tuple[T, Bases[T]], ...] = ()
    steps: int = 0
    """Number of entries at the end of ``others`` that are no bases: each stands for the step to it
    from the state below it."""
    is_cut: bool = False
    """Whether there are others, which are left out: there were too many states already."""

    @classmethod
    def of(
        cls,
        bases: Sequence[T],
        below: Callable[[T, T], Sequence[T]],
        nothing: Callable[[T], T],
        key: Callable[[T], Hashable],
        most: int | None = None,
    ) -> Bases[T]:
        """The bases of two sides. ``below`` gives what two of them come from; where that is empty,
        ``nothing`` stands for it. States with the same ``key`` are the same state."""
        return _Finding(below, nothing, key, most or _MOST_STATES).group(bases)

    def followed_by(self, steps: Iterable[tuple[T, T]]) -> Bases[T]:
        """Add the step between two states, for each pair, as if just that had been done to the
        base."""
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
        """Everything that is below them, each state once."""
        return tuple(self)[len(self.all) :]

    def __iter__(self) -> Iterator[T]:
        """The bases, then what is below them, level by level, each state once."""
        known, groups = dict[int, T](), [self]
        while groups:
            for state in (state for group in groups for state in group.all):
                known.setdefault(id(state), state)
            groups = [*dict.fromkeys(low for group in groups for _, low in group.others)]
        return iter(known.values())

    def numbered(self) -> Bases[int]:
        """Bases of positions: each state replaced by its place in the order of iteration."""
        positions = {id(each): at for at, each in enumerate(self)}
        return self.each(lambda one: positions[id(one)])

    def each(self, read: Callable[[T], U]) -> Bases[U]:
        """Bases in which ``read`` has replaced each state; each state is read once."""
        values = {id(each): read(each) for each in self}

        def add_up(group: Bases[T], lower: Sequence[Bases[U]]) -> Bases[U]:
            others = (values[id(each)] for each, _ in group.others)
            pairs = tuple(zip(others, lower, strict=True))
            return Bases(values[id(group.first)], pairs, group.steps, group.is_cut)

        return self._folded(add_up)

    def joined(
        self,
        join: Callable[[T, T, T], T],
        add: Callable[[T, T, T], T] | None = None,
        cut: Callable[[T], T] | None = None,
    ) -> T:
        """What the bases add up to; ``join`` merges two that come from a third, which is given
        first, and ``add`` those that stand for a step, if that is something else. Where others are
        left out, ``cut`` says what the first one counts for; else it counts for all of them."""

        def add_up(group: Bases[T], lower: Sequence[T]) -> T:
            found, bases = group.first, len(group.others) - group.steps
            if group.is_cut and cut is not None:
                return cut(found)
            for at, ((other, _), low) in enumerate(zip(group.others, lower, strict=True)):
                found = (join if at < bases else add or join)(low, found, other)
            return found

        return self._folded(add_up)

    def _folded(self, add_up: Callable[[Bases[T], Sequence[U]], U]) -> U:
        """What ``add_up`` makes of a group and of its lower groups; it is called once for each."""
        known = dict[Bases[T], U]()

        def value(group: Bases[T]) -> U:
            if group not in known:
                known[group] = add_up(group, [value(low) for _, low in group.others])
            return known[group]

        return value(self)


class _Finding(Generic[T]):
    """Finds what is below bases, those near the top first."""

    def __init__(
        self,
        below: Callable[[T, T], Sequence[T]],
        nothing: Callable[[T], T],
        key: Callable[[T], Hashable],
        most: int,
    ) -> None:
        self._below, self._nothing, self._key, self._most = below, nothing, key, most
        self._states = dict[Hashable, T]()
        self._groups = dict[Hashable, list[T]]()
        """Groups of states, named by the keys of their states in any order."""
        self._lower = dict[Hashable, list[Hashable]]()
        """What the first state and each other one of a group come from, for groups looked at."""
        self._made = dict[Hashable, Bases[T]]()

    def group(self, bases: Sequence[T]) -> Bases[T]:
        """The bases with all that is below them."""
        top = self._named(bases)
        waiting = deque([top])
        while waiting and len(self._states) < self._most:
            name = waiting.popleft()
            if name not in self._lower:
                first, *others = self._groups[name]
                self._lower[name] = [self._under(first, each) for each in others]
                waiting += self._lower[name]
        return self._bases(top)

    def _named(self, states: Sequence[T]) -> Hashable:
        known = {self._key(each): each for each in states}
        name = frozenset(known)
        if name not in self._groups:
            self._groups[name] = [self._states.setdefault(*each) for each in known.items()]
        return name

    def _under(self, first: T, other: T) -> Hashable:
        found = self._below(first, other)
        if found:
            return self._named(found)
        name = ("nothing", self._key(first))
        if name not in self._groups:
            self._groups[name] = [self._nothing(first)]
        return name

    def _bases(self, name: Hashable) -> Bases[T]:
        if name not in self._made:
            first, *others = self._groups[name]
            self._made[name] = Bases(first, is_cut=bool(others))  # what a history in a circle meets
            if name in self._lower:
                lower = map(self._bases, self._lower[name])
                self._made[name] = Bases(first, tuple(zip(others, lower, strict=True)))
        return self._made[name]
