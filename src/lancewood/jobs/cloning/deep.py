"""A deep clone: a table of its own with bytes of its own, copied in tasks.

Data files, deletion files, indices and bytes of blobs keep their names. The manifest comes last:
before it there is no table. What a failure leaves behind stays, since another who clones to the
same place writes the same names; the next attempt writes over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from lancewood.data.names import new_data_file_name
from lancewood.engine.cloning import check_clonable, write_deep_clone
from lancewood.engine.fanout import in_order
from lancewood.engine.manifest_stores import manifest_store_mark
from lancewood.engine.pins import without_record
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.vectors import deletion_key
from lancewood.format.deep_clone import copied_name
from lancewood.format.layout import INDICES_DIR, blob_directory, data_key
from lancewood.jobs.packing import AT_ONCE, pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId
from lancewood.model.index import Index
from lancewood.store.base import Store
from lancewood.store.transfer import copy_object


@dataclass(frozen=True, slots=True)
class DeepClone:
    """What was copied."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Task:
    """Fragments or indices whose files are to be copied."""

    source: Snapshot
    """Without its fragments."""
    target: Store
    fragments: tuple[Fragment, ...] = ()
    indices: tuple[Index, ...] = ()
    renamed: Mapping[str, str] | None = None


def clone_deep(
    source: Snapshot,
    target: Place,
    runner: Runner,
    *,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, DeepClone]:
    """The first version of a deep clone at the target, and what was copied for it.

    Blobs that are files of somebody else stay where they are. Raises AlreadyExistsError if the
    target holds a table, NotFoundError or FormatError for a file that is missing or has another
    size than the manifest says.
    """
    check_clonable(source, target)
    source.place.settle(source.manifest)
    renamed = _renamed(source)
    tasks = [*_tasks(source, target, runner, renamed)]
    files = size = 0
    for each in runner.run(_copy, tasks, what="copying files"):
        files, size = files + each.files, size + each.bytes
    made = write_deep_clone(
        source,
        target,
        renamed=renamed,
        config=without_record(source.manifest.config) | manifest_store_mark(target.store),
        properties=properties,
    )
    return made, DeepClone(files, size)


def _tasks(
    source: Snapshot, target: Place, runner: Runner, renamed: Mapping[str, str]
) -> Iterator[_Task]:
    bare = source.bare()
    for some in pack_fragments(source.manifest.fragments, runner.slots):
        mine = {
            key: renamed[key]
            for each in some
            for file in each.message.files
            if renamed and (key := copied_name(file)) in renamed
        }
        yield _Task(bare, target.store, fragments=some, renamed=mine)
    for index in source.manifest.indices:
        yield _Task(bare, target.store, indices=(index,))


def _renamed(source: Snapshot) -> dict[str, str]:
    """New names for data files of which another home has one of the same name."""
    place, manifest = source.place, source.manifest
    if not manifest.base_paths:
        return {}
    roots = {BaseId(each.id): place.base_store(each).uri for each in manifest.base_paths}
    seen: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for fragment in manifest.fragments:
        for file in fragment.message.files:
            root = roots.get(BaseId(file.base_id)) if file.HasField("base_id") else place.uri
            if root is not None and seen.setdefault(file.path, root) != root:
                renamed[copied_name(file)] = new_data_file_name()
    return renamed


def _copy(task: _Task) -> DeepClone:
    work: list[Callable[[], Iterator[int]]] = [
        partial(_copy_fragment, task, each) for each in task.fragments
    ]
    work += [partial(_copy_index, task, each) for each in task.indices]
    sizes = [*in_order(work, workers=AT_ONCE)]
    return DeepClone(len(sizes), sum(sizes))


def _copy_fragment(task: _Task, fragment: Fragment) -> Iterator[int]:
    place, head = task.source.place, task.source.manifest
    has_blobs = any(each.is_blob_v2 for each in task.source.schema.walk())
    for file in fragment.files:
        store, key = place.data_file(head, file)
        goal = data_key(_name(task, file))
        yield copy_object(store, key, task.target, goal, size=file.size)
        if has_blobs:
            yield from copy_directory(store, blob_directory(key), task.target, blob_directory(goal))
    deletion, found = fragment.deletion_file, place.deletion_file(head, fragment)
    if deletion is not None and found is not None:
        yield copy_object(*found, task.target, deletion_key(fragment.id, deletion))


def _copy_index(task: _Task, index: Index) -> Iterator[int]:
    store, directory = task.source.place.index_directory(task.source.manifest, index)
    yield from copy_directory(store, directory, task.target, f"{INDICES_DIR}/{index.uuid}")


def copy_directory(source: Store, directory: str, target: Store, goal: str) -> Iterator[int]:
    """Copy everything below a directory; the sizes of the files."""
    for each in source.list(directory):
        name = each.key.removeprefix(directory)
        yield copy_object(source, each.key, target, f"{goal}{name}", size=each.size)


def _name(task: _Task, file: DataFile) -> str:
    return (task.renamed or {}).get(copied_name(file.message), file.path)
