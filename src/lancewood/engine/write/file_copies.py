"""Bringing data files to another root: copies under fresh names, for one commit that switches.

A copy has the bytes of its file, and those of the blobs beside it. It never has its name: cleanup
knows files by their bare names, wherever they are. ``rules.moves`` says what the commit means.
Nothing here removes old files; cleanup does, once no version needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from lancewood.data.file_root import FileRoot, new_data_file_name
from lancewood.data.open_files import read_container
from lancewood.engine.base import in_order
from lancewood.engine.location import NewFile, new_data_file
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError
from lancewood.format.layout import blob_directory
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId
from lancewood.rules.moves import same_elsewhere
from lancewood.store.base import Store
from lancewood.store.transfer import copy_object

_AT_ONCE = 4
"""Fragments whose files are copied at once: most of the time of a small one is spent waiting."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """The copy of one data file."""

    name: str
    files: tuple[NewFile, ...]
    """The copy itself, and the files with bytes of blobs beside it."""
    bytes: int
    """Bytes of all of these files."""


@dataclass(frozen=True, slots=True)
class CopiedFragment:
    """A fragment with copies in the place of files that were elsewhere."""

    image: Fragment
    copies: tuple[CopiedFile, ...]

    @property
    def files(self) -> tuple[NewFile, ...]:
        """Files that were written for the fragment."""
        return tuple(file for each in self.copies for file in each.files)


@dataclass(frozen=True)
class Residents:
    """Which data files of a version are in a root already, whatever base path leads there."""

    snapshot: Snapshot
    file_root: FileRoot
    _known: dict[BaseId | None, bool] = field(default_factory=dict, compare=False, repr=False)

    def has(self, file: DataFile) -> bool:
        """Asks once for each base path; opens no file."""
        if file.base_id not in self._known:
            store, key = self.snapshot.location.data_file(self.snapshot.manifest, file)
            there = store.uri, key.removesuffix(file.path).rstrip("/")
            self._known[file.base_id] = there == (
                self.file_root.store.uri,
                self.file_root.directory,
            )
        return self._known[file.base_id]

    def outside(self, fragment: Fragment) -> list[DataFile]:
        """The data files of a fragment that are elsewhere."""
        known = self._known
        return [
            DataFile(each)
            for each in fragment.message.files
            if not known.get(BaseId(each.base_id) if each.HasField("base_id") else None)
            and not self.has(DataFile(each))
        ]


def copy_fragments(
    snapshot: Snapshot, fragments: Iterable[Fragment], file_root: FileRoot
) -> tuple[CopiedFragment, ...]:
    """Some fragments with copies of all data files that are not in the root yet, checked and
    durable; for ``rules.moves.moved_files``.

    The snapshot may be bare. May run twice: every copy has a name of its own. When it fails, what
    it wrote is removed.
    """
    written: list[NewFile] = []
    residents = Residents(snapshot, file_root)
    try:
        work = (partial(_copy_fragment, residents, each, written) for each in fragments)
        return tuple(in_order(work, workers=_AT_ONCE))
    except BaseException:
        snapshot.discard(written)
        raise


def _copy_fragment(
    residents: Residents, fragment: Fragment, written: list[NewFile]
) -> Iterator[CopiedFragment]:
    files, copies = [], []
    for each in fragment.files:
        if not residents.has(each):
            copy = _copy_file(residents, fragment, each, written)
            copies.append(copy)
            each = same_elsewhere(each, copy.name, residents.file_root.base_id)
        files.append(each)
    yield CopiedFragment(fragment.with_files(files), tuple(copies))


def _copy_file(
    residents: Residents, fragment: Fragment, file: DataFile, written: list[NewFile]
) -> CopiedFile:
    """One file's copy, and those of the blobs beside it; what is written is noted before it is."""
    snapshot, file_root = residents.snapshot, residents.file_root
    store, key = snapshot.location.data_file(snapshot.manifest, file)
    name = new_data_file_name()

    def bring(source: str, target: str, expected: int | None) -> int:
        new.append(new_data_file(same_elsewhere(file, target, file_root.base_id)))
        written.append(new[-1])
        return copy_object(store, source, file_root.store, file_root.key(target), size=expected)

    new: list[NewFile] = []
    size = bring(key, name, file.size)
    _check_opens(file_root.store, file_root.key(name), size, fragment)
    if any(each.is_blob_v2 for each in snapshot.schema.walk()):
        beside = blob_directory(key)
        for each in store.list(beside):
            blob = f"{blob_directory(name)}{each.key.removeprefix(beside)}"
            size += bring(each.key, blob, each.size)
    return CopiedFile(name, tuple(new), size)


def _check_opens(store: Store, key: str, size: int, fragment: Fragment) -> None:
    """Raises FormatError unless the copy is a data file with as many rows as the fragment has."""
    name = f"{store.uri}/{key}"
    rows = read_container(name, size, partial(store.get_range, key)).num_rows
    if fragment.physical_rows and rows != fragment.physical_rows:
        raise FormatError(
            f"{name} has {rows} rows, fragment {fragment.id} has {fragment.physical_rows}; what it "
            "was copied from is damaged",
            file=name,
            fragment=fragment.id,
        )
