"""Copying an object from one store to another, whatever its size.

On one disk, in one bucket or in one process the store copies by itself; else the bytes pass through
this process, a part at a time. The size is compared before and after.
"""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.errors import FormatError, StorageError
from lancewood.store.base import ObjectInfo, Store, bare

_PART = 16 << 20


def copy_object(
    source: Store, source_key: str, target: Store, target_key: str, *, size: int | None = None
) -> int:
    """Copy an object to another store, replacing an old one; returns how many bytes.

    Whole or not at all, and durable. ``size`` is what the object must have. Raises FormatError,
    before anything is written, where it has another one, NotFoundError, and StorageError.
    """
    return _bring(source, source_key, target, target_key, size, may_link=False)


def link_or_copy(
    source: Store, source_key: str, target: Store, target_key: str, *, size: int | None = None
) -> int:
    """Bring an object that is never overwritten to another store: on one disk both names share the
    bytes, and the old one gets the time of the new one; elsewhere it is copied."""
    return _bring(source, source_key, target, target_key, size, may_link=True)


def _bring(
    source: Store,
    source_key: str,
    target: Store,
    target_key: str,
    size: int | None,
    *,
    may_link: bool,
) -> int:
    found = source.head(source_key)
    if size is not None and found.size != size:
        raise FormatError(
            f"{source.uri}/{source_key} has {found.size} bytes, expected {size}; it was not copied",
            file=f"{source.uri}/{source_key}",
        )
    if not target.copy_from(bare(source), found, target_key, may_link=may_link):
        target.put_parts(target_key, _parts(source, found))
    written = target.head(target_key).size
    if written != found.size:
        raise StorageError(
            f"the copy of {source.uri}/{source_key} at {target.uri}/{target_key} has {written} "
            f"bytes, expected {found.size}",
            key=target_key,
            uri=target.uri,
        )
    return written


def _parts(source: Store, found: ObjectInfo) -> Iterator[bytes]:
    at = 0
    while at < found.size:
        part = source.get_range(found.key, at, min(_PART, found.size - at))
        if not part:
            raise StorageError(
                f"{source.uri}/{found.key} ends at byte {at}, it had {found.size} bytes",
                key=found.key,
                uri=source.uri,
            )
        yield part
        at += len(part)
