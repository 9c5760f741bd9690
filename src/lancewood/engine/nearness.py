"""Which fragments lie in chosen homes, so that a job reads only what is near.

Told from the manifest alone. A fragment is near when every data file of it that holds a wanted
column is in one of the homes; where it holds none of them, when all its files are. Files that are
not read do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.schema import Schema
from lancewood.proto import table_pb2


class Nearness(Enum):
    """How much of what would be read of a fragment is in the chosen homes."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


def homes_unless_all(
    declared: Iterable[table_pb2.BasePath],
    base_ids: frozenset[BaseId | None] | None,
    wanted: Schema,
) -> Homes | None:
    """The chosen homes; None where those are all, and no fragment need be looked at."""
    if base_ids is None or base_ids >= {None, *(each.id for each in declared)}:
        return None
    return Homes(wanted, base_ids)


def told_homes(declared: Iterable[table_pb2.BasePath], base_ids: frozenset[BaseId | None]) -> str:
    """The chosen homes in words."""
    told = ["the own root"] if None in base_ids else []
    told += [each.name or each.path for each in declared if each.id in base_ids]
    return " and ".join(told)


class Homes:
    """Chosen homes, asked about the fragments of one table."""

    def __init__(self, wanted: Schema, base_ids: frozenset[BaseId | None]) -> None:
        self._wanted = frozenset(each.id for top in wanted.fields for each in top.walk())
        self._base_ids = base_ids
        self._has_own = None in base_ids

    def near(self, fragments: Iterable[Fragment]) -> Iterator[Fragment]:
        """Those that can be read from the homes alone."""
        base_ids, has_own = self._base_ids, self._has_own
        for fragment in fragments:
            files = fragment.message.files
            if len(files) == 1:  # nearly all of a million are like that
                file = files[0]
                if file.base_id in base_ids if file.HasField("base_id") else has_own:
                    yield fragment
            elif self.nearness(fragment) is Nearness.ALL:
                yield fragment

    def told_partly_near(self, fragments: Iterable[Fragment]) -> str:
        """How many are left out although a part of them is near, in words; empty for none."""
        partly = sum(
            1
            for each in fragments
            if len(each.message.files) > 1 and self.nearness(each) is Nearness.SOME
        )
        return f" ({partly} more, only partly in those homes, left out)" if partly else ""

    def nearness(self, fragment: Fragment) -> Nearness:
        """Of the files that would be read, how many are in the homes."""
        files = fragment.message.files
        read = [each for each in files if not self._wanted.isdisjoint(each.fields)] or files
        held = sum(map(self._holds, read))
        if held == len(read):
            return Nearness.ALL
        return Nearness.SOME if held else Nearness.NONE

    def _holds(self, file: table_pb2.DataFile) -> bool:
        return file.base_id in self._base_ids if file.HasField("base_id") else self._has_own
