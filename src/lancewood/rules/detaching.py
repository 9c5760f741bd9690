"""What changes in the head of a manifest when moving files makes a table independent. Pure.

Copied index files lie in the own root from then on, and base paths that nothing refers to any more
are no longer declared. What another writer added to one meanwhile keeps its base path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId, FragmentId
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest
from lancewood.model.operations import Update
from lancewood.model.patch import HeadChanges


def head_after(
    manifest: Manifest, operation: Update, changed: Mapping[FragmentId, Fragment]
) -> HeadChanges:
    """What changes in the head of the newest version, whose fragments ``changed`` replaces."""
    if not operation.indices_in_own_root and not operation.bases_left:
        return HeadChanges()
    indices = tuple(_moved(each, operation.indices_in_own_root) for each in manifest.indices)
    used = set(_used(changed.get(each.id, each) for each in manifest.fragments))
    used.update(each.base_id for each in indices if each.base_id is not None)
    left = operation.bases_left - used
    return HeadChanges(
        indices=None if indices == manifest.indices else indices,
        base_paths=tuple(each for each in manifest.base_paths if each.id not in left),
    )


def _moved(index: Index, at_home: frozenset[bytes]) -> Index:
    if index.base_id is None or index.message.uuid.uuid not in at_home:
        return index
    return index.under(None)


def _used(fragments: Iterable[Fragment]) -> Iterator[BaseId]:
    for each in fragments:
        for file in each.message.files:
            if file.HasField("base_id"):
                yield BaseId(file.base_id)
        if each.message.deletion_file.HasField("base_id"):
            yield BaseId(each.message.deletion_file.base_id)
