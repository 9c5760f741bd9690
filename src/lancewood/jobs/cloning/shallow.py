"""A shallow clone: a table of its own that reads the files of its source.

First the pins, then the clone: whoever dies in between leaves a pin too many, which names the place
of the clone that never was. The version that is cloned is looked at after each: a cleanup that
began before the pin may have removed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lancewood.engine.cloning import check_clonable, write_clone
from lancewood.engine.manifest_stores import manifest_store_mark
from lancewood.engine.pins import (
    PINS_CONFIG,
    Pin,
    Unpinned,
    place_pins,
    remove_pins,
    without_record,
)
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.transactions import is_replaced
from lancewood.errors import CommitUnknownError, NotFoundError, StorageError
from lancewood.format.layout import manifest_key
from lancewood.store.base import is_there


@dataclass(frozen=True, slots=True)
class ShallowClone:
    """What a shallow clone left at its sources."""

    pins: tuple[Pin, ...]
    unpinned: tuple[Unpinned, ...]
    """Tables that cannot know of the clone: their cleanup may remove files that it needs."""


def clone_shallow(
    source: Snapshot,
    target: Place,
    *,
    base_name: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, ShallowClone]:
    """The first version of a clone at the target, and what it left at its sources.

    Raises AlreadyExistsError if the target holds a table, NotFoundError if the version was removed
    meanwhile; nothing is there then. CommitUnknownError: the clone may be there, or may miss files.
    """
    check_clonable(source, target)
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
        remove_pins(source.place, record, target.uri)
        raise
    _check_still_there(source, target)
    return made, ShallowClone(record.pins, unpinned)


def _check_there(source: Snapshot) -> None:
    """Raises NotFoundError if the version that is cloned is gone."""
    version, store = source.manifest.version, source.place.store
    is_gone = not is_there(store, manifest_key(version, source.scheme))
    if is_gone or is_replaced(store, source.manifest, source.scheme):
        raise NotFoundError(
            f"version {version} of {source.place.uri} was removed meanwhile, by a cleanup or with "
            "its table; clone a newer one",
            version=version,
        )


def _check_still_there(source: Snapshot, target: Place) -> None:
    try:
        _check_there(source)
    except NotFoundError as cause:
        raise CommitUnknownError(
            f"{target.uri} was made of version {source.manifest.version} of {source.place.uri} "
            "while a cleanup removed that, and files of it may be gone; verify() tells, and drop() "
            "removes the clone",
            uri=target.uri,
        ) from cause
    except StorageError:
        return  # it was made, and nothing speaks against it
