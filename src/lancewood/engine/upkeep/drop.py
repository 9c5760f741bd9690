"""Removing a table: the directories that the format owns, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from lancewood.engine.location import Location
from lancewood.engine.upkeep.pins import (
    CLONE_PIN,
    CLONE_PROPERTY,
    Unpinned,
    read_record,
    remove_pins,
)
from lancewood.engine.versions import (
    branch_roots,
    list_versions,
    load_version,
    newest_version,
    read_refs,
)
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.external.store import ExternalStore
from lancewood.format.layout import (
    DATA_DIR,
    OWNED_DIRS,
    VERSIONS_DIR,
    is_data_key,
    manifest_key,
)
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, ref_name
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.refs import Tag
from lancewood.store.base import Store

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Dropped:
    """A table that was deleted, or would be."""

    uri: str
    version: int
    """The newest one."""
    was_lost: bool = False
    """Whether only a manifest store knew that version any more."""
    still_pinned: tuple[Unpinned, ...] = ()
    """Tables that keep a pin of this clone, and why."""


def drop_table(location: Location, *, force: bool, dry_run: bool = False) -> Dropped:
    """Delete what the format owns below the root: manifests first, the newest of them last.

    So a reader, or the next attempt after a crash, finds the newest version or no table. Base paths
    elsewhere are never touched, but the pins that a clone left at its sources are removed where
    possible. A dry run checks, and deletes nothing.

    Raises NotFoundError if there is no table, InvalidInputError if branches, tags or clones depend
    on its versions and ``force`` is not given, if it is a branch, or if one of its directories is a
    link.
    """
    store = location.store
    lost = _forget_lost(store, dry_run=dry_run)
    newest = None if lost is not None and dry_run else newest_version(store)
    if newest is None:
        if lost is not None:
            return Dropped(store.uri, lost, was_lost=True)
        raise NotFoundError(f"no table at {store.uri}, nothing was dropped")
    dropped = Dropped(store.uri, newest.version)
    head = _newest(store)
    if head is not None:
        _check_no_branch(location, head)
    if not force:
        _check_unused(store)
    for directory in OWNED_DIRS:
        for _ in store.list(directory):
            pass  # what cannot be listed, as behind a link, stops this before anything is deleted
    if dry_run:
        return dropped
    found = list_versions(store)
    oldest_first = [manifest_key(each, found.scheme) for each in reversed(found.versions)]
    others = {each.key for each in store.list(VERSIONS_DIR)} - set(oldest_first)
    if isinstance(store, ExternalStore):
        store.forget_all(("", *branch_roots(store)))
    store.delete([*others, *oldest_first[:-1]])
    store.delete(oldest_first[-1:])
    for directory in OWNED_DIRS:
        store.delete(each.key for each in store.list(directory) if _is_ours(each.key))
        store.prune(directory)
    store.prune("")
    pins = None if head is None else read_record(head.config)
    if pins is None:
        return dropped
    return replace(dropped, still_pinned=remove_pins(location, pins, store.uri))


def _forget_lost(store: Store, *, dry_run: bool) -> Version | None:
    """The newest version, if only a manifest store knows it because its file was removed behind the
    store's back; the store is made to forget it. Raises UnsupportedError for one that cannot."""
    lost = store.lost_version() if isinstance(store, ExternalStore) else None
    if lost is not None and isinstance(store, ExternalStore):
        store.check_forgets()
        if not dry_run:
            store.forget_all()
    return lost


def _newest(store: Store) -> Manifest | None:
    """The newest version; None if it is too damaged to be read."""
    try:
        return load_version(store)[0]
    except (FormatError, UnsupportedError, NotFoundError):
        return None


def _check_no_branch(location: Location, head: Manifest) -> None:
    main = location.main(head)
    if main is not None and newest_version(main) is not None:
        raise InvalidInputError(
            f"{location.uri} is branch {head.branch} of {main.uri}, and others may need it; "
            f"branches.delete({head.branch!r}) there removes it",
            branch=head.branch,
        )


def _check_unused(store: Store) -> None:
    named = sorted([*_branches(store), *_tags(store)])
    if not named:
        nameless = islice(branch_roots(store), 1)
        named = [f"{each}, which has versions but no branch of that name" for each in nameless]
    if named:
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        raise InvalidInputError(
            f"{store.uri} still has {', '.join(named[:_SHOWN])}{more}; "
            "remove them first, or drop it all the same with force=True",
            holds=named,
        )


def _branches(store: Store) -> Iterator[str]:
    for file in store.names(BRANCHES_DIR):
        name = ref_name(file)
        if name is not None:
            yield f"branch {name}"


def _tags(store: Store) -> Iterator[str]:
    for file, tag in read_refs(store, TAGS_DIR):
        name = ref_name(file) or file
        if not name.startswith(CLONE_PIN):
            yield f"tag {name}"
            continue
        clone = tag.metadata.get(CLONE_PROPERTY) if isinstance(tag, Tag) else None
        yield f"a clone{f' at {clone}' if clone else ''} (its pin is tag {name})"


def _is_ours(key: str) -> bool:
    """Whether the format put it there: ``data/`` may be shared with other files."""
    return not key.startswith(f"{DATA_DIR}/") or is_data_key(key)
