"""Where a clone goes, and what its base path is called: checked before anything is written.

Knows places and options, and the tag that a caller names. Opens nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lancewood.engine.base_paths import base_options
from lancewood.engine.place import Place
from lancewood.engine.refs import load_tag
from lancewood.engine.revisions import TAG
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.external.base import ManifestStore
from lancewood.external.lock import CommitLock
from lancewood.external.opening import open_table_store
from lancewood.format.layout import OWNED_DIRS
from lancewood.model.refs import TagName
from lancewood.store.options import StorageOptions


def target_place(
    source: Snapshot,
    target: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    bases: Mapping[str, Mapping[str, str]] | None,
    *,
    fsync: bool | None = None,
    unsafe: bool = False,
    manifest_store: str | ManifestStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Place:
    """The place of a clone; files of the source are reached from there as from the source.

    Without ``storage_options`` those of the source are taken. Raises InvalidInputError for a place
    among the source's own directories, or one that has the source among its own.
    """
    place, options = source.place, source.place.storage_options
    if storage_options is not None:
        options = StorageOptions(storage_options)
    store = open_table_store(
        target,
        storage_options=options,
        fsync=fsync,
        unsafe=unsafe,
        manifest_store=manifest_store,
        commit_lock=commit_lock,
    )
    main = place.main(source.manifest) or place.store
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
    known = {each.path: place.options_of(each) or {} for each in source.manifest.base_paths}
    known[place.uri] = place.storage_options or {}
    known.update(place.base_storage_options)
    return Place(store, options, base_storage_options={**known, **base_options(bases)})


def base_name(source: Snapshot, tag: str | None) -> str | None:
    """What the base path of a clone is called: the tag or branch that was cloned.

    Raises NotFoundError for a tag that is not there, InvalidInputError for one that names another
    version than the one that is cloned.
    """
    head = source.manifest
    if tag is None:
        remembered = source.derived.get(TAG)
        return str(remembered) if remembered is not None else head.branch
    name = TagName(tag)
    main = source.place.main(head) or source.place.store
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
