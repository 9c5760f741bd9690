"""Which base paths of a version lead to a place where the table no longer is.

Lancewood does not mind (``engine.base_homes``); readers who believe what is written do.
"""

from __future__ import annotations

from lancewood.engine.base_homes import find_trace, is_relative
from lancewood.engine.place import Place
from lancewood.errors import UnsupportedError
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2
from lancewood.store.base import Store


def moved_bases(place: Place, manifest: Manifest, *, also_relative: bool = False) -> dict[str, str]:
    """The paths that are written down, and the roots of the table that they are today.

    ``also_relative``: with those that are right in this working directory, and in no other.
    """
    place.settle(manifest)
    moved = {}
    for base in manifest.base_paths:
        found = place.finding(base)
        if found is None or found.root is None:
            continue
        if found.is_moved or (
            also_relative and is_relative(base.path) and _proves(manifest, base, found.root)
        ):
            moved[base.path] = found.root.uri
    return moved


def check_not_moved(place: Place, manifest: Manifest) -> None:
    """Raise UnsupportedError where pylance would look for files at an old place."""
    moved = moved_bases(place, manifest)
    if moved:
        old, new = next(iter(moved.items()))
        raise UnsupportedError(
            f"{place.uri} was moved: pylance would look for files of {new} at {old}; relocate() "
            "writes the present place into the manifests",
            path=old,
        )


def _proves(manifest: Manifest, base: table_pb2.BasePath, root: Store) -> bool:
    trace = find_trace(manifest, BaseId(base.id))
    return trace is not None and trace.is_below(root)
