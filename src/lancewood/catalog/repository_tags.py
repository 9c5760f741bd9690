"""The tags that a repository sets in its tables: membership tags and protection tags.

The membership tag ``lw.repo.<id>`` says that a table belongs to a repository elsewhere. The
protection tag ``lw.<digest>`` keeps a version that a ref of the repository pins. Every cleanup
honours tags, pylance's too.

A tag of the same name that others made is never touched. A tag is written before its version is
checked one last time, so a concurrent cleanup either sees the tag or is seen. Protection tags are
on ordinary versions only: pylance's cleanup removes files that only detached versions name,
even if those are tagged.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lancewood.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import manifest_key
from lancewood.format.refs import decode_tag, encode_tag, tag_key
from lancewood.model.ids import is_detached
from lancewood.model.refs import BranchName, Tag, TagName
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import LOST_RACES

if TYPE_CHECKING:
    from lancewood.engine.location import Location
    from lancewood.engine.snapshot import Snapshot

MEMBER_TAG = "lw.repo."
"""The prefix of tags which say that commits of a repository elsewhere pin this table."""
REPOSITORY_ID = "lancewood.repository"
"""The metadata key, of a tag or a branch, for the identity of the repository that made it."""
REPOSITORY_PATH = "lancewood.repository.path"
"""The metadata key for where the repository was when the tag was written."""
TABLE_NAMES = "lancewood.repository.tables"
"""The metadata key for the repository's names for the table, separated by spaces."""
PROTECTED_REF = "lancewood.repository.ref"
"""The metadata key for the full name of the ref whose commit a tag protects."""

_DIGITS = 12
_is_repository_tag = re.compile(rf"lw\.(?:repo\.)?[0-9a-f]{{{_DIGITS}}}").fullmatch


def member_tag(repository_id: str) -> TagName:
    """The membership tag of a repository; raises InvalidInputError if the identity is no uuid."""
    digits = repository_id.replace("-", "").lower()[:_DIGITS]
    if not re.fullmatch(rf"[0-9a-f]{{{_DIGITS}}}", digits):
        raise InvalidInputError(
            f"the identity of a repository is a uuid, got {repository_id!r}; lancewood.id in its "
            "config says it"
        )
    return TagName(MEMBER_TAG + digits)


def copy_tag(repository_id: str, path: str) -> TagName:
    """The membership tag of a copy of a repository: same identity, another path."""
    text = f"{repository_id}\n{path}".encode(errors="surrogateescape")
    return TagName(MEMBER_TAG + hashlib.sha256(text).hexdigest()[:_DIGITS])


def protection_tag(ref: str) -> TagName:
    """The tag that protects what a ref pins; ``ref`` is a full name such as refs/tags/v1."""
    return TagName(f"lw.{hashlib.sha256(ref.encode()).hexdigest()[:_DIGITS]}")


def is_repository_tag(tag: str) -> bool:
    """Whether a tag name is reserved for repositories."""
    return _is_repository_tag(tag) is not None


def set_tag(
    main: Store,
    name: TagName,
    repository_id: str,
    build: Callable[[Tag | None], Tag],
    manifest: tuple[Store, str],
) -> bool:
    """Set or move a tag; False if it was there like this already.

    ``build`` makes the tag, given the existing one; ``manifest`` is where the manifest of its
    version is. Raises AlreadyExistsError if the tag is not this repository's, NotFoundError if the
    version is gone, RetryableConflictError if a cleanup is removing it or others keep changing the
    tag.
    """
    from lancewood.engine.commit import PutIfAbsent

    key = tag_key(name)
    PutIfAbsent().check_trust(main)
    for _ in LOST_RACES:
        before, known = _read(main, key), None
        if before is None:
            mark = build(None)
            data = encode_tag(mark)
            done = put_new_settled(main, key, data) is PutOutcome.CREATED
        else:
            known = decode_tag(name, before[0])
            _check_ours(main, known, repository_id)
            mark = build(known)
            if _said(known) == _said(mark):
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
        f"tag {name} of {main.uri} was changed by others {LOST_RACES.attempts} times while it was "
        "to be set; try again",
        tag=str(name),
    )


def remove_tag(main: Store, name: TagName, repository_id: str) -> bool:
    """Remove a tag if it is the repository's; whether it was removed."""
    from lancewood.engine.versions import load_tag

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


def _said(tag: Tag) -> tuple[BranchName | None, int, dict[str, str]]:
    return tag.branch, tag.version, dict(tag.metadata)


def _check_still_there(
    main: Store,
    mark: Tag,
    manifest: tuple[Store, str],
    data: bytes,
    before: tuple[bytes, str] | None,
) -> None:
    """Check that no cleanup missed the tag; otherwise restore what was there, and raise."""
    from lancewood.engine.upkeep import check_not_being_removed

    root, key = manifest
    try:
        check_not_being_removed(main, mark.branch, mark.version)
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


def protect(snapshot: Snapshot, ref: str, repository_id: str) -> bool:
    """Keep a version for a ref, given by its full name; whether anything had to be done.

    This replaces the version that was kept for the same ref before. Raises AlreadyExistsError if
    the tag belongs to others, NotFoundError if the version is gone, RetryableConflictError
    if a cleanup is removing it.
    """
    from lancewood.engine.snapshot import main_location
    from lancewood.engine.upkeep import new_tag

    head = snapshot.manifest
    if is_detached(head.version):
        raise InvalidInputError(
            f"this state of {snapshot.location.uri} is detached, and a tag would not keep its "
            "files; protect the version that it landed as"
        )
    mark = new_tag(
        protection_tag(ref),
        None if head.branch is None else BranchName.found(head.branch),
        head.version,
        head.size,
        {REPOSITORY_ID: repository_id, PROTECTED_REF: ref},
    )
    manifest = snapshot.location.store, manifest_key(head.version, snapshot.scheme)
    return set_tag(
        main_location(snapshot).store, mark.name, repository_id, lambda _: mark, manifest
    )


def unprotect(main: Location, ref: str, repository_id: str) -> bool:
    """Stop keeping a version for a ref; whether there was one. ``main`` is the table's main root.

    A tag that is not this repository's stays.
    """
    return remove_tag(main.store, protection_tag(ref), repository_id)
