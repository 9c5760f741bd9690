"""Opening the data files of a fragment, wherever a snapshot says they are."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.data.local_copy import readable_location
from lancewood.data.reader import FragmentReader
from lancewood.data.wanted import WantedColumns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import found_in
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Schema


def open_fragment(
    snapshot: Snapshot, fragment: Fragment, wanted: Schema | WantedColumns
) -> FragmentReader:
    """A reader of the wanted columns; opens no file yet."""

    def locate(file: DataFile) -> tuple[str, Mapping[str, str] | None]:
        store, key = snapshot.place.data_file(snapshot.manifest, file)
        return readable_location(store, key), snapshot.place.storage_options

    with found_in(snapshot.manifest.name):
        return FragmentReader(fragment, wanted, locate)
