"""Cloning a table: shallow, reading the files of its source, or deep, with files of its own.

The target and the name of its base path are checked before anything is written.

A shallow clone places its pins first. After a crash in between, the pin names a clone that does not
exist. The cloned version is checked before and after the clone is written, since a cleanup that
began before the pin may have removed it.

A deep clone copies files in tasks, under the same names, and writes the manifest last: until then
there is no table. A failure leaves its copies in place, since another clone to the same target
writes the same names; the next attempt overwrites them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from lancewood.data.file_root import new_data_file_name
from lancewood.engine.base import in_order
from lancewood.engine.commit import manifest_store_mark
from lancewood.engine.location import Location, deletion_key
from lancewood.engine.snapshot import TAG, Access, Snapshot
from lancewood.engine.upkeep import (
    PINS_CONFIG,
    place_pins,
    remove_pins,
    without_record,
)
from lancewood.engine.versions import is_replaced, load_tag
from lancewood.engine.write import check_clonable, write_clone, write_deep_clone
from lancewood.errors import CommitUnknownError, InvalidInputError, NotFoundError, StorageError
from lancewood.format.layout import INDICES_DIR, OWNED_DIRS, blob_directory, data_key, manifest_key
from lancewood.format.moved import copied_name
from lancewood.jobs.counts import DeepClone, ShallowClone
from lancewood.jobs.job import AT_ONCE, pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.index import Index
from lancewood.model.refs import TagName
from lancewood.store.base import Store, is_there
from lancewood.store.transfer import copy_object


def target_location(source: Snapshot, target: Access) -> Location:
    """The place of a clone; it reaches the files of the source with the source's options.

    Its storage options default to those of the source. Raises InvalidInputError if one of the two
    tables would lie inside the other.
    """
    location = source.location
    if target.storage_options is None:
        target = replace(target, storage_options=location.storage_options)
    store = target.store()
    main = location.main(source.manifest) or location.store
    if store.uri.startswith(f"{main.uri}/"):
        raise InvalidInputError(
            f"{store.uri} lies inside the table at {main.uri}; clone it to a place outside",
            uri=store.uri,
        )
    if any(f"{main.uri}/".startswith(f"{store.uri}/{each}/") for each in OWNED_DIRS):
        raise InvalidInputError(
            f"the table at {main.uri} would lie among the directories of its clone at {store.uri}, "
            "and go with it; clone it elsewhere",
            uri=store.uri,
        )
    known = {each.path: location.options_of(each) or {} for each in source.manifest.base_paths}
    known[location.uri] = location.storage_options or {}
    known.update(location.base_storage_options)
    known.update(target.base_storage_options or {})
    return Location(store, target.storage_options, base_storage_options=known)


def base_name(source: Snapshot, tag: str | None) -> str | None:
    """The name of a clone's base path: the tag or branch that is cloned.

    Raises NotFoundError for an unknown tag, InvalidInputError for a tag of another version.
    """
    head = source.manifest
    if tag is None:
        remembered = source.derived.get(TAG)
        return str(remembered) if remembered is not None else head.branch
    name = TagName(tag)
    main = source.location.main(head) or source.location.store
    found = load_tag(main, name)
    if found is None:
        raise NotFoundError(f"tag {tag!r} of {main.uri} not found; nothing was cloned", tag=tag)
    if (found.branch, found.version) != (head.branch, head.version):
        raise InvalidInputError(
            f"tag {tag!r} names version {found.version} of {found.branch or 'main'}, this is "
            f"version {head.version} of {head.branch or 'main'}; clone checkout(tag={tag!r})",
            tag=tag,
        )
    return str(name)


def clone_shallow(
    source: Snapshot,
    target: Location,
    *,
    base_name: str | None = None,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, ShallowClone]:
    """The first version of a clone at the target, and the pins at its sources; in a dry run the
    source, and no pins.

    Raises AlreadyExistsError if the target holds a table, NotFoundError if the version was removed
    meanwhile; then there is no clone. After CommitUnknownError there may be one, or files of it may
    be missing.
    """
    check_clonable(source, target)
    if dry_run:
        return source, ShallowClone()
    record, unpinned = place_pins(source, target.uri)
    try:
        _check_there(source)
        config = without_record(source.manifest.config) | manifest_store_mark(target.store)
        if record.pins:
            config[PINS_CONFIG] = record.encode()
        made = write_clone(
            source, target, base_name=base_name, config=config, properties=properties
        )
    except CommitUnknownError:
        raise
    except (Exception, KeyboardInterrupt):
        remove_pins(source.location, record, target.uri)
        raise
    _check_still_there(source, target)
    return made, ShallowClone(record.pins, unpinned)


def _check_there(source: Snapshot) -> None:
    """Raise NotFoundError if the cloned version is gone."""
    version, store = source.manifest.version, source.location.store
    is_gone = not is_there(store, manifest_key(version, source.scheme))
    if is_gone or is_replaced(store, source.manifest, source.scheme):
        raise NotFoundError(
            f"version {version} of {source.location.uri} was removed meanwhile, by a cleanup or "
            "with its table; clone a newer one",
            version=version,
        )


def _check_still_there(source: Snapshot, target: Location) -> None:
    try:
        _check_there(source)
    except NotFoundError as cause:
        raise CommitUnknownError(
            f"{target.uri} was made of version {source.manifest.version} of {source.location.uri} "
            "while a cleanup removed that, and files of it may be gone; verify() tells, and drop() "
            "removes the clone",
            uri=target.uri,
        ) from cause
    except StorageError:
        return  # the clone exists, and there is no sign that the version is gone


@dataclass(frozen=True, slots=True)
class _Task:
    """Fragments or indices whose files are to be copied."""

    source: Snapshot
    """The version to be cloned, without its fragments."""
    target: Store | None
    """The store to copy into; None: files are counted, and not copied."""
    fragments: tuple[Fragment, ...] = ()
    indices: tuple[Index, ...] = ()
    renamed: Mapping[str, str] | None = None


def clone_deep(
    source: Snapshot,
    target: Location,
    runner: Runner,
    *,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, DeepClone]:
    """The first version of a deep clone at the target, and what was copied for it; in a dry run the
    source, and what would be.

    External blobs stay where they are. Raises AlreadyExistsError if the target holds a table,
    NotFoundError or FormatError for a file that is missing or has the wrong size.
    """
    check_clonable(source, target)
    source.location.settle(source.manifest)
    renamed = _renamed(source)
    tasks = [*_tasks(source, None if dry_run else target.store, runner, renamed)]
    files = size = 0
    what = "counting files" if dry_run else "copying files"
    for each in runner.run(_copy, tasks, what=what):
        files, size = files + each.files, size + each.bytes
    if dry_run:
        return source, DeepClone(files, size)
    made = write_deep_clone(
        source,
        target,
        renamed=renamed,
        config=without_record(source.manifest.config) | manifest_store_mark(target.store),
        properties=properties,
    )
    return made, DeepClone(files, size)


def _renamed(source: Snapshot) -> dict[str, str]:
    """New names for data files whose name also occurs in another root."""
    location, manifest = source.location, source.manifest
    if not manifest.base_paths:
        return {}
    roots = {BaseId(each.id): location.base_store(each).uri for each in manifest.base_paths}
    seen: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for fragment in manifest.fragments:
        for file in fragment.message.files:
            root = roots.get(BaseId(file.base_id)) if file.HasField("base_id") else location.uri
            if root is not None and seen.setdefault(file.path, root) != root:
                renamed[copied_name(file)] = new_data_file_name()
    return renamed


def _tasks(
    source: Snapshot, target: Store | None, runner: Runner, renamed: Mapping[str, str]
) -> Iterator[_Task]:
    bare = source.bare()
    for some in pack_fragments(source.manifest.fragments, runner.slots):
        mine = {
            key: renamed[key]
            for each in some
            for file in each.message.files
            if renamed and (key := copied_name(file)) in renamed
        }
        yield _Task(bare, target, fragments=some, renamed=mine)
    for index in source.manifest.indices:
        yield _Task(bare, target, indices=(index,))


def _copy(task: _Task) -> DeepClone:
    work: list[Callable[[], Iterator[int]]] = [
        partial(_copy_fragment, task, each) for each in task.fragments
    ]
    work += [partial(_copy_index, task, each) for each in task.indices]
    sizes = [*in_order(work, workers=AT_ONCE)]
    return DeepClone(len(sizes), sum(sizes))


def _copy_fragment(task: _Task, fragment: Fragment) -> Iterator[int]:
    location, head = task.source.location, task.source.manifest
    has_blobs = any(each.is_blob_v2 for each in task.source.schema.walk())
    for file in fragment.files:
        store, key = location.data_file(head, file)
        goal = data_key((task.renamed or {}).get(copied_name(file.message), file.path))
        yield _copied(store, key, task.target, goal, file.size)
        if has_blobs:
            yield from copy_directory(store, blob_directory(key), task.target, blob_directory(goal))
    deletion, found = fragment.deletion_file, location.deletion_file(head, fragment)
    if deletion is not None and found is not None:
        yield _copied(*found, task.target, deletion_key(fragment.id, deletion))


def _copy_index(task: _Task, index: Index) -> Iterator[int]:
    store, directory = task.source.location.index_directory(task.source.manifest, index)
    yield from copy_directory(store, directory, task.target, f"{INDICES_DIR}/{index.uuid}")


def copy_directory(source: Store, directory: str, target: Store | None, goal: str) -> Iterator[int]:
    """Copy everything below a directory, or only count it; yields the sizes of the files."""
    for each in source.list(directory):
        name = each.key.removeprefix(directory)
        yield _copied(source, each.key, target, f"{goal}{name}", each.size)


def _copied(
    source: Store, key: str, target: Store | None, goal: str, size: int | None = None
) -> int:
    if target is not None:
        return copy_object(source, key, target, goal, size=size)
    return source.head(key).size if size is None else size
