"""Whether the files of a staged state are still there, for whoever lands it after its writer.

Until it lands no version names them, and a cleanup that does not know the repository takes them for
what a failed writer left. A version without its files would make the whole table unreadable. Looks
only at what the state has of its own, below the root of its branch.
"""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.engine.place import Place
from lancewood.errors import NotFoundError
from lancewood.model.fragment import DataFile
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2
from lancewood.store.base import Store


def lost_file(place: Place, before: Manifest | None, state: Manifest) -> str | None:
    """A file that a state needs, that the version before it does not have, and that is gone."""
    for store, key in _new_files(place, before, state):
        try:
            store.head(key)
        except NotFoundError:
            return key
    return None


def _new_files(
    place: Place, before: Manifest | None, state: Manifest
) -> Iterator[tuple[Store, str]]:
    known = frozenset[bytes]() if before is None else frozenset(before.message.fragments)
    fresh = [each for each in state.message.fragments if each not in known]
    own = Manifest(table_pb2.Manifest(fragments=fresh), name=state.name)
    for fragment in own.fragments:
        message = fragment.message
        for each in (*message.files, *(overlay.data_file for overlay in message.overlays)):
            if not each.HasField("base_id"):
                yield place.data_file(state, DataFile(each))
        deletion = fragment.deletion_file
        found = place.deletion_file(state, fragment)
        if found is not None and deletion is not None and deletion.base_id is None:
            yield found
