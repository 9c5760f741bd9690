"""Base paths of a version that takes over files of another root: where base ids lead, and which the
next version declares.

Base ids of two roots are unrelated, so places are compared by their uris; those unknown to the
target are added. A blob of the second layout that was left where it was is found by the id of a
base path and a path below it, both inside the data file. A table that takes the file over reads the
same bytes only if its manifest gives that id to the same place. Where it gives the id to nothing,
it gets the base path under the very id. Where it gives it to another place, the file cannot be
taken over as it is. Descriptors are read only if the base paths of both sides leave a doubt.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.location import Location, load_deletions, uri_of_base
from lancewood.engine.rows import external_blobs, open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.format.layout import find_base
from lancewood.jobs.compose.files import FilesToCopy
from lancewood.model.bitmap import numbers_in
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.schema import Field, Schema
from lancewood.proto import table_pb2
from lancewood.rules.moves import same_elsewhere


class OwnRoot(Enum):
    """Places that need no base path."""

    TARGET = "target"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A place that is neither the target's root nor the branch's."""

    base: table_pb2.BasePath
    """With an absolute uri as its path."""
    is_own: bool = False
    """Whether it is the branch's own root after all, which is to stay where it is."""


BasePathTarget: TypeAlias = OwnRoot | Elsewhere


@dataclass(frozen=True)
class BasePathTargets:
    """Where the base paths of a branch lead, as seen from its target."""

    head: Snapshot
    target: Location
    passed: frozenset[str] = frozenset()
    """Roots of other branches in between, which are treated like the branch's own."""
    own: BasePathTarget = OwnRoot.BRANCH
    """Where the branch's own root leads."""

    @classmethod
    def referring(
        cls, head: Snapshot, target: Location, passed: frozenset[str] = frozenset()
    ) -> BasePathTargets:
        """Targets that leave files in the branch's own root where they are."""
        base = table_pb2.BasePath(path=head.location.uri, is_dataset_root=True)
        if head.manifest.branch is not None:
            base.name = head.manifest.branch
        return cls(head, target, passed, Elsewhere(base, is_own=True))

    @cached_property
    def _known(self) -> dict[BaseId, BasePathTarget]:
        self.head.location.settle(self.head.manifest)
        return {}

    def of(self, base_id: BaseId | None) -> BasePathTarget:
        """The place of a base id of the branch; None is the branch's root."""
        if base_id is None:
            return self.own
        if base_id not in self._known:
            base = table_pb2.BasePath()
            base.CopyFrom(find_base(self.head.manifest.base_paths, base_id))
            base.path = uri = self.head.location.base_store(base).uri
            if base.is_dataset_root and uri == self.target.uri:
                self._known[base_id] = OwnRoot.TARGET
            elif base.is_dataset_root and (uri == self.head.location.uri or uri in self.passed):
                self._known[base_id] = self.own
            else:
                self._known[base_id] = Elsewhere(base)
        return self._known[base_id]


class TargetBases:
    """The base paths of the target's next version."""

    def __init__(self, target: Location, newest: ManifestHead) -> None:
        self._target = target
        self._bases = list(newest.base_paths)
        self._old = len(self._bases)
        self._ids: dict[tuple[str, bool], BaseId] = {}
        self.is_referring = False
        """Whether another root of the same table is referred to."""
        target.settle(newest)

    @property
    def target_uri(self) -> str:
        return self._target.uri

    @property
    def added(self) -> tuple[table_pb2.BasePath, ...]:
        return tuple(self._bases[self._old :])

    @property
    def changed(self) -> tuple[table_pb2.BasePath, ...] | None:
        """All base paths; None if none was added."""
        return tuple(self._bases) if self.added else None

    def id_of(self, place: BasePathTarget) -> BaseId | None:
        """The id of a place, which is declared if necessary; None for a root that needs none."""
        if not isinstance(place, Elsewhere):
            return None
        self.is_referring |= place.is_own
        key = uri, is_root = place.base.path, place.base.is_dataset_root
        if key not in self._ids:
            alike = (base for base in self._bases if base.is_dataset_root == is_root)
            known = (base.id for base in alike if self._target.base_store(base).uri == uri)
            number = next(known, None)
            if number is None:
                number = max((base.id for base in self._bases), default=0) + 1
                self._add(place.base, BaseId(number))
            self._ids[key] = BaseId(number)
        return self._ids[key]

    def file(self, file: DataFile, targets: BasePathTargets, copies: FilesToCopy) -> DataFile:
        """A file of the branch as the target sees it: copied if it is in the branch's own root."""
        place = targets.of(file.base_id)
        if place is OwnRoot.BRANCH:
            return copies.data_file(file)
        return same_elsewhere(file, file.path, self.id_of(place))

    def uri_of(self, base_id: BaseId) -> str | None:
        """Where a base id leads; None if the target does not declare it."""
        for each in self._bases:
            if each.id == base_id:
                return uri_of_base(self._target, each)
        return None

    def declare_as(self, base_id: BaseId, uri: str, base: table_pb2.BasePath) -> bool:
        """Give a place this very id, even if it has another one too; False if the id leads to
        another place."""
        there = self.uri_of(base_id)
        if there is None:
            self._add(base, base_id, uri)
        return there is None or there == uri

    def _add(self, base: table_pb2.BasePath, base_id: BaseId, uri: str | None = None) -> None:
        new = table_pb2.BasePath()
        new.CopyFrom(base)
        new.id, new.path = base_id, uri or base.path
        if base.HasField("name") and base.name in {known.name for known in self._bases}:
            new.ClearField("name")
        self._bases.append(new)


_BasesByColumn: TypeAlias = Mapping[str, Set[BaseId]]
"""The base paths that external blobs name, by column."""


_FIRST_VERSION = (2, 2)
"""The first version of data files that holds blobs of the second layout."""


@dataclass(frozen=True)
class ExternalBlobs:
    """The external blobs of one version; the descriptors of a fragment are read at most once."""

    source: Snapshot
    _known: dict[tuple[FragmentId, tuple[str, ...]], _BasesByColumn] = field(
        default_factory=dict, compare=False, repr=False
    )

    def declare(
        self,
        bases: TargetBases,
        newest: Manifest,
        fragments: Iterable[Fragment],
        live: Container[FieldId],
    ) -> None:
        """Declare under their ids the base paths that files of ``fragments`` name and ``newest``
        does not have. To be called before any other base path is declared, which could get one of
        the ids.

        ``live`` are the ids of columns that are taken over. Raises UnsupportedError for a blob
        below a base path whose id means another place in ``newest``.
        """
        columns = [
            each
            for each in self.source.schema.fields
            if each.id in live and any(part.is_blob_v2 for part in each.walk())
        ]
        if not columns:
            return
        location, declared = self.source.location, self.source.manifest.base_paths
        location.settle(self.source.manifest)
        doubtful = {
            BaseId(each.id): each
            for each in declared
            if each.id and bases.uri_of(BaseId(each.id)) != uri_of_base(location, each)
        }
        if not doubtful:
            return
        known = {file.path for fragment in newest.fragments for file in fragment.message.files}
        new = (
            fragment
            for fragment in fragments  # what ``newest`` has means the same as before
            if any(file.path not in known for file in fragment.message.files)
        )
        work = (partial(self._bases_of, fragment, columns) for fragment in new)
        for fragment, named in in_order(work, workers=WORKERS):
            for column, base_ids in named.items():
                for base_id in sorted(base_ids & doubtful.keys()):
                    base = doubtful[base_id]
                    uri = uri_of_base(location, base)
                    if not bases.declare_as(base_id, uri, base):
                        raise self._refused(bases, fragment, column, base_id, uri)

    def _bases_of(
        self, fragment: Fragment, columns: Sequence[Field]
    ) -> Iterator[tuple[Fragment, _BasesByColumn]]:
        held = {
            number
            for file in fragment.files
            if file.version >= _FIRST_VERSION
            for number in file.fields
        }
        here = tuple(each for each in columns if each.id in held)
        key = fragment.id, tuple(each.name for each in here)
        if key not in self._known:
            self._known[key] = self._read(fragment, here)
        yield fragment, self._known[key]

    def _read(self, fragment: Fragment, columns: Sequence[Field]) -> _BasesByColumn:
        """What blobs of rows that are not deleted name."""
        if not columns:
            return {}
        gone = load_deletions(self.source.location, self.source.manifest, fragment)
        deleted = np.empty(0, np.int64) if gone is None else numbers_in(gone)
        named: dict[str, set[BaseId]] = {each.name: set() for each in columns}
        begin = 0
        for batch in open_fragment(self.source, fragment, Schema(tuple(columns))).batches():
            end = begin + batch.num_rows
            is_live = np.ones(batch.num_rows, np.bool_)
            is_live[deleted[(deleted >= begin) & (deleted < end)] - begin] = False
            for each in columns:
                blobs = external_blobs(batch.column(each.name).filter(pa.array(is_live)))
                named[each.name].update(map(BaseId, blobs.field("blob_id").unique().to_pylist()))
            begin = end
        return named

    def _refused(
        self, bases: TargetBases, fragment: Fragment, column: str, base_id: BaseId, uri: str
    ) -> UnsupportedError:
        source = self.source.location.uri
        return UnsupportedError(
            f"rows of {source} cannot be taken over as they are: blobs of column {column!r} in its "
            f"fragment {fragment.id} are files below base path {base_id}, which is {uri} there and "
            f"{bases.uri_of(base_id)} in {bases.target_uri}, where the same rows would give other "
            "files' bytes. Write these rows again with copies of the bytes (pylance: "
            "external_blob_mode='ingest') or delete them there, and do this again",
            fragment=fragment.id,
            base_id=base_id,
            column=column,
        )
