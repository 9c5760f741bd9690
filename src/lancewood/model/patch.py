"""What a transaction changes in a manifest, as data.

``rules.apply`` makes a patch, ``format.manifest`` splices it into the manifest's bytes, so that
untouched fragments are never decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import Index
from lancewood.proto import schema_pb2, table_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadChanges:
    """New values for parts of the head; None leaves a part as it is."""

    fields: tuple[schema_pb2.Field, ...] | None = None
    schema_metadata: Mapping[str, bytes] | None = None
    config: Mapping[str, str] | None = None
    table_metadata: Mapping[str, str] | None = None
    base_paths: tuple[table_pb2.BasePath, ...] | None = None
    indices: tuple[Index, ...] | None = None
    file_version: str | None = None
    max_fragment_id: int | None = None
    """At least this: the mark never falls."""
    next_row_id: int | None = None
    """At least this: the mark never falls."""
    max_allocated_field_id: int | None = None
    """At least this: the mark never falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPatch:
    """Changes to the head, and fragments to add, to replace by id, to remove by id."""

    head: HeadChanges = field(default_factory=HeadChanges)
    flags: tuple[int, int]
    """Reader and writer feature flags of the result."""
    keep: bool = True
    """False: start without any fragments."""
    add: tuple[Fragment, ...] = ()
    replace: Mapping[FragmentId, Fragment] = field(default_factory=dict)
    remove: frozenset[FragmentId] = frozenset()
    live_fields: frozenset[FieldId] | None = None
    """Drop data files that hold none of these; None drops nothing."""
