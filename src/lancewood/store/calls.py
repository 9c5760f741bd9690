"""The requests of an object store, as calls of obstore's functions.

Each is one call on a client, imported on first use. A condition that did not hold is a return
value; everything else that a client raises is passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

PAGE = 1_000
"""Objects in one answer to a list request, and keys in one bulk delete."""
_CHUNK = 16 << 20
"""Bytes in one request of an upload in parts: S3 takes 10,000 of them."""
_CHUNKS_AT_ONCE = 4
_NOT_THE_CONDITION = ("ConditionalRequestConflict", "NoSuchBucket")
"""Errors that a client reports as a failed condition although they are something else."""


def get_object(client: Any, path: str) -> bytes:
    import obstore

    return bytes(obstore.get(client, path).bytes())


def get_part(client: Any, path: str, start: int, length: int) -> bytes:
    import obstore

    return bytes(obstore.get_range(client, path, start=start, length=length))


def head_object(client: Any, path: str) -> Any:
    import obstore

    return obstore.head(client, path)


def list_objects(client: Any, directory: str, after: str | None) -> Any:
    import obstore

    return iter(obstore.list(client, directory or None, offset=after, chunk_size=PAGE))


def list_directories(client: Any, directory: str) -> list[str]:
    """The paths of the directories directly in one; the client fetches all pages."""
    import obstore

    found = obstore.list_with_delimiter(client, directory or None)
    return [str(each) for each in found["common_prefixes"]]


def put_object(client: Any, path: str, data: bytes, mode: Any = "overwrite") -> bool:
    """Put an object, and return whether it was written; False where a condition did not hold."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    try:
        obstore.put(client, path, data, mode=mode)
    except (AlreadyExistsError, PreconditionError) as error:
        if mode == "overwrite" or any(each in str(error) for each in _NOT_THE_CONDITION):
            raise
        return False
    return True


def put_in_parts(client: Any, path: str, parts: Iterator[bytes]) -> None:
    """One upload of several requests, aborted as a whole when one of them, or ``parts``, fails."""
    import obstore

    obstore.put(
        client, path, parts, use_multipart=True, chunk_size=_CHUNK, max_concurrency=_CHUNKS_AT_ONCE
    )


def copy_object(client: Any, source: str, target: str) -> None:
    import obstore

    obstore.copy(client, source, target)


def rename_object(client: Any, source: str, target: str) -> bool:
    """Rename an object, and return whether that was done; False where the new name is taken."""
    import obstore
    from obstore.exceptions import AlreadyExistsError

    try:
        obstore.rename(client, source, target, overwrite=False)
    except AlreadyExistsError:
        return False
    return True


def delete_objects(client: Any, paths: Sequence[str]) -> None:
    import obstore

    obstore.delete(client, paths)
