"""Which base path of the target stands for the place where a file of the branch is.

Base ids of two roots have nothing to do with each other: places are compared by where they are.
What the target does not know yet is added to it. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.format.layout import find_base
from lancewood.model.ids import BaseId
from lancewood.model.manifest import ManifestHead
from lancewood.proto import table_pb2


class Own(Enum):
    """Places that need no base path."""

    TARGET = "target"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A place that is neither the target's root nor the branch's."""

    uri: str
    is_dataset_root: bool
    base: table_pb2.BasePath


Spot: TypeAlias = Own | Elsewhere


@dataclass(frozen=True)
class Spots:
    """Where the base paths of a branch lead, as seen from its target."""

    head: Snapshot
    target: Place
    passed: frozenset[str] = frozenset()
    """Roots of other branches that the work went through: what lies there is like the branch's."""

    @cached_property
    def _known(self) -> dict[BaseId, Spot]:
        self.head.place.settle(self.head.manifest)
        return {}

    def of(self, base_id: BaseId | None) -> Spot:
        """The place that a base id of the branch stands for; None is the branch's root."""
        if base_id is None:
            return Own.BRANCH
        if base_id not in self._known:
            base = find_base(self.head.manifest.base_paths, base_id)
            self._known[base_id] = self._look(base)
        return self._known[base_id]

    def _look(self, base: table_pb2.BasePath) -> Spot:
        uri = self.head.place.base_store(base).uri
        if base.is_dataset_root and uri == self.target.uri:
            return Own.TARGET
        if base.is_dataset_root and (uri == self.head.place.uri or uri in self.passed):
            return Own.BRANCH
        return Elsewhere(uri, base.is_dataset_root, base)


class TargetBases:
    """The base paths of the target's next version."""

    def __init__(self, target: Place, newest: ManifestHead) -> None:
        self._target = target
        self._bases = list(newest.base_paths)
        self._old = len(self._bases)
        self._ids: dict[tuple[str, bool], BaseId] = {}
        self.is_referring = False
        """Whether somebody asked for another root of the same table."""
        target.settle(newest)

    @property
    def added(self) -> tuple[table_pb2.BasePath, ...]:
        return tuple(self._bases[self._old :])

    @property
    def changed(self) -> tuple[table_pb2.BasePath, ...] | None:
        """All base paths; None where none was added."""
        return tuple(self._bases) if self.added else None

    def id_of(self, spot: Elsewhere) -> BaseId:
        """The id of a place, which is declared if it is not yet."""
        return self._declared(spot.uri, spot.is_dataset_root, spot.base)

    def id_of_root(self, uri: str, name: str) -> BaseId:
        """The id of another root of the same table."""
        self.is_referring = True
        base = table_pb2.BasePath(path=uri, is_dataset_root=True, name=name)
        return self._declared(uri, True, base)

    def declare(self, spots: Iterable[Spot]) -> None:
        for each in spots:
            if isinstance(each, Elsewhere):
                self.id_of(each)

    def _declared(self, uri: str, is_dataset_root: bool, base: table_pb2.BasePath) -> BaseId:
        key = uri, is_dataset_root
        if key not in self._ids:
            found = self._find(*key)
            self._ids[key] = self._add(uri, base) if found is None else found
        return self._ids[key]

    def _find(self, uri: str, is_dataset_root: bool) -> BaseId | None:
        for each in self._bases:
            is_alike = each.is_dataset_root == is_dataset_root
            if is_alike and self._target.base_store(each).uri == uri:
                return BaseId(each.id)
        return None

    def _add(self, uri: str, base: table_pb2.BasePath) -> BaseId:
        new = table_pb2.BasePath()
        new.CopyFrom(base)
        new.id = max((each.id for each in self._bases), default=0) + 1
        new.path = uri
        if base.HasField("name") and base.name in {each.name for each in self._bases}:
            new.ClearField("name")
        self._bases.append(new)
        return BaseId(new.id)
