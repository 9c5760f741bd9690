"""Opening the data files of a fragment, wherever a snapshot says they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from lancewood.data.local_copy import readable_location
from lancewood.data.reader import FragmentReader
from lancewood.data.small_fragments import SmallFragments
from lancewood.data.wanted import WantedColumns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import found_in
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Schema


def open_fragment(
    snapshot: Snapshot, fragment: Fragment, wanted: Schema | WantedColumns
) -> FragmentReader:
    """A reader of the wanted columns; opens no file yet."""

    def elsewhere(file: DataFile) -> Iterator[tuple[str, Mapping[str, str] | None]]:
        place, head = snapshot.place, snapshot.manifest
        _, key = place.data_file(head, file)
        for store, options in place.elsewhere(head, file.base_id):
            yield readable_location(store, key), options

    with found_in(snapshot.manifest.name):
        return FragmentReader(fragment, wanted, partial(_locate, snapshot), elsewhere=elsewhere)


def small_fragments(snapshot: Snapshot, wanted: WantedColumns) -> SmallFragments:
    """A reader of the wanted columns of small fragments."""
    return SmallFragments(wanted, partial(_locate, snapshot), partial(open_fragment, snapshot))


def _locate(snapshot: Snapshot, file: DataFile) -> tuple[str, Mapping[str, str] | None]:
    place, head = snapshot.place, snapshot.manifest
    store, key = place.data_file(head, file)
    return readable_location(store, key), place.options_at(head, file.base_id)
