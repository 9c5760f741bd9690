"""Which fragments can be read from chosen roots alone, for a job that reads only nearby files.

A fragment is near when every data file of it that holds a wanted column is in one of them; where it
holds none of the columns, when all its files are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.schema import Schema
from lancewood.proto import table_pb2


class Nearness(Enum):
    """How many of the files that would be read of a fragment are in the chosen roots."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


def chosen_roots_or_none(
    declared: Iterable[table_pb2.BasePath],
    base_ids: frozenset[BaseId | None] | None,
    wanted: Schema,
) -> FileRoots | None:
    """The chosen roots; None if they are all, so that no fragment need be checked."""
    if base_ids is None or base_ids >= {None, *(each.id for each in declared)}:
        return None
    return FileRoots(wanted, base_ids)


def file_roots_text(
    declared: Iterable[table_pb2.BasePath], base_ids: frozenset[BaseId | None]
) -> str:
    """The chosen roots, as text."""
    names = ["the own root"] if None in base_ids else []
    names += [each.name or each.path for each in declared if each.id in base_ids]
    return " and ".join(names)


class FileRoots:
    """Chosen roots, matched against the fragments of one table."""

    def __init__(self, wanted: Schema, base_ids: frozenset[BaseId | None]) -> None:
        self._wanted = frozenset(each.id for top in wanted.fields for each in top.walk())
        self._base_ids = base_ids
        self._has_own = None in base_ids

    def near(self, fragments: Iterable[Fragment]) -> Iterator[Fragment]:
        """The fragments that can be read from the roots alone."""
        base_ids, has_own = self._base_ids, self._has_own
        for fragment in fragments:
            files = fragment.message.files
            if len(files) == 1:  # the common case, so it must be fast
                file = files[0]
                if file.base_id in base_ids if file.HasField("base_id") else has_own:
                    yield fragment
            elif self.nearness(fragment) is Nearness.ALL:
                yield fragment

    def partly_near_text(self, fragments: Iterable[Fragment]) -> str:
        """How many partly near fragments are left out, as text; empty for none."""
        partly = sum(
            1
            for each in fragments
            if len(each.message.files) > 1 and self.nearness(each) is Nearness.SOME
        )
        return f" ({partly} more, only partly in those roots, left out)" if partly else ""

    def nearness(self, fragment: Fragment) -> Nearness:
        """How many of the files that would be read are in the roots."""
        files = fragment.message.files
        read = [each for each in files if not self._wanted.isdisjoint(each.fields)] or files
        held = sum(map(self._holds, read))
        if held == len(read):
            return Nearness.ALL
        return Nearness.SOME if held else Nearness.NONE

    def _holds(self, file: table_pb2.DataFile) -> bool:
        return file.base_id in self._base_ids if file.HasField("base_id") else self._has_own
