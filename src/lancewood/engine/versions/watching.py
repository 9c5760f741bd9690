"""The newest version of a root, for code that asks repeatedly because it watches many tables.

A directory that nobody writes to costs one look at its modification stamp. Stamps are coarse: two
changes in quick succession may leave the same one. So a stamp counts only if, when the directory
was listed, it was already older than any clock tick: a later change then has another. A busy
directory is listed each time, and a long one is checked as in ``finding``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lancewood.engine.versions.finding import (
    WORTH_IT,
    Newest,
    Sighting,
    is_still_newest,
    names_to_newest,
    newest_of,
    no_table,
    require_newest,
)
from lancewood.format.layout import VERSIONS_DIR
from lancewood.store.base import DirectoryStamp, Store

_SECOND = 1_000_000_000
_COARSE, _FINE = 3 * _SECOND, _SECOND // 10
"""How old a stamp has to be. The kernel's clock ticks every ten milliseconds or faster; a stamp in
whole seconds may come from a file system that records no more."""
_FEW = 200


@dataclass(frozen=True, slots=True)
class _Seen:
    stamp: DirectoryStamp
    newest: Newest
    is_settled: bool
    """Whether the stamp was old enough when the versions were listed."""
    names: list[str] | None
    """The names, where they are few and will be listed again: the same names give the same
    answer."""


class Watch:
    """The watch over one root. Thread-safe."""

    def __init__(self, store: Store, clock: Callable[[], int] = time.time_ns) -> None:
        self.store = store
        self._clock = clock
        self._seen: _Seen | None = None

    def newest(self) -> Newest:
        """The newest version now; raises NotFoundError where there is no table."""
        stamp = self.store.stamp(VERSIONS_DIR)
        if stamp is None:
            return require_newest(self.store)
        seen = self._seen
        if seen is not None and seen.stamp == stamp and (seen.is_settled or self._is_still(seen)):
            return seen.newest
        now = self._clock()
        names = names_to_newest(self.store)
        is_same = seen is not None and seen.names == names
        newest = seen.newest if seen and is_same else newest_of(self.store, names)
        if newest is None:
            raise no_table(self.store)
        least = _FINE if stamp.changed_ns % _SECOND else _COARSE
        is_settled = now - stamp.changed_ns >= least
        kept = names if not is_settled and len(names) <= _FEW else None
        self._seen = _Seen(stamp, newest, is_settled, kept)
        return newest

    def _is_still(self, seen: _Seen) -> bool:
        newest = seen.newest
        return newest.listed >= WORTH_IT and is_still_newest(
            self.store, Sighting(newest.version, seen.stamp), newest.scheme
        )
