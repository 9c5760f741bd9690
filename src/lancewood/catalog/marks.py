"""Tags that a repository sets at its tables: made, moved and removed, over and over if need be.

A tag of that name that somebody else made is never touched. A tag is set before the version that
it names is looked at for the last time, as for any tag: a cleanup sees the tag, or is seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from lancewood.catalog.tag_names import REPOSITORY_ID
from lancewood.engine.doomed import check_not_doomed
from lancewood.engine.publish import PutIfAbsent
from lancewood.engine.refs import load_tag
from lancewood.errors import (
    AlreadyExistsError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.refs import decode_tag, encode_tag, tag_key
from lancewood.model.refs import Tag, TagName
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.readback import put_new_settled

_ATTEMPTS = 10


def set_mark(
    main: Store,
    name: TagName,
    repository_id: str,
    build: Callable[[Tag | None], Tag],
    manifest: tuple[Store, str],
) -> bool:
    """Whether the tag was set or moved; False if it was there like this already.

    ``build`` makes it, out of the one that is there; ``manifest`` is where that of its version is.
    Raises AlreadyExistsError for a tag that is not the repository's, NotFoundError if the version
    is gone, RetryableConflictError for one that a cleanup is removing and if others keep changing
    the tag.
    """
    key = tag_key(name)
    PutIfAbsent().check_trust(main)
    for _ in range(_ATTEMPTS):
        before, known = _read(main, key), None
        if before is None:
            mark = build(None)
            data = encode_tag(mark)
            done = put_new_settled(main, key, data) is PutOutcome.CREATED
        else:
            known = decode_tag(name, before[0])
            _check_ours(main, known, repository_id)
            mark = build(known)
            if _says_the_same(known, mark):
                return False
            data = encode_tag(
                replace(mark, created_at_ns=known.created_at_ns, unknown=known.unknown)
            )
            done = main.replace(key, data, before[1]) is ReplaceOutcome.REPLACED
        if done:
            if known is None or (known.branch, known.version) != (mark.branch, mark.version):
                _check_still_there(main, mark, manifest, data, before)
            return True
    raise RetryableConflictError(
        f"tag {name} of {main.uri} was changed by others {_ATTEMPTS} times while it was to be "
        "set; try again",
        tag=str(name),
    )


def remove_mark(main: Store, name: TagName, repository_id: str) -> bool:
    """Whether a tag went; one that is not the repository's stays."""
    found = load_tag(main, name)
    if found is None or found.metadata.get(REPOSITORY_ID) != repository_id:
        return False
    main.delete([tag_key(name)])
    return True


def _read(main: Store, key: str) -> tuple[bytes, str] | None:
    try:
        etag = main.head(key).etag
        return main.get(key), etag
    except NotFoundError:
        return None


def _check_ours(main: Store, known: Tag, repository_id: str) -> None:
    theirs = known.metadata.get(REPOSITORY_ID)
    if theirs != repository_id:
        whose = f"repository {theirs}" if theirs else "somebody else"
        raise AlreadyExistsError(
            f"tag {known.name} of {main.uri} belongs to {whose}, and this repository needs one of "
            f"that name; if nobody needs it, tags.delete({str(known.name)!r}, force=True) there",
            tag=str(known.name),
        )


def _says_the_same(known: Tag, mark: Tag) -> bool:
    return (known.branch, known.version, dict(known.metadata)) == (
        mark.branch,
        mark.version,
        dict(mark.metadata),
    )


def _check_still_there(
    main: Store,
    mark: Tag,
    manifest: tuple[Store, str],
    data: bytes,
    before: tuple[bytes, str] | None,
) -> None:
    """Raise if a cleanup passed by without seeing the tag, which is then as it was before."""
    root, key = manifest
    try:
        check_not_doomed(main, mark.branch, mark.version)
        root.head(key)
    except (NotFoundError, RetryableConflictError) as error:
        _take_back(main, tag_key(mark.name), data, before)
        if isinstance(error, RetryableConflictError):
            raise
        raise NotFoundError(
            f"version {mark.version} of {root.uri} is gone: it was cleaned up while it was tagged",
            version=mark.version,
        ) from error


def _take_back(main: Store, key: str, data: bytes, before: tuple[bytes, str] | None) -> None:
    with contextlib.suppress(NotFoundError):
        etag = main.head(key).etag
        if main.get(key) != data:
            return
        if before is None:
            main.delete([key])
        else:
            main.replace(key, before[0], etag)
