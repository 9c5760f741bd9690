"""Tags: created if absent, moved by compare-and-swap, deleted.

A tag is one small file in the main root. The version it names is checked before the tag is written
and again afterwards: a cleanup or a deletion of the branch may have missed the tag in between.

Tags with special names are guards: they say that a clone, another branch or a repository reads the
files of a version. They are created and removed together with their reader.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lancewood.catalog.membership import is_repository_tag, take_back
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import Location
from lancewood.engine.snapshot import At, Snapshot, branch_location, main_location, resolve
from lancewood.engine.upkeep import CLONE_PIN, check_not_being_removed
from lancewood.engine.versions import is_recorded, load_tag, read_refs
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.layout import manifest_key
from lancewood.format.refs import TAGS_DIR, decode_tag, encode_tag, tag_key
from lancewood.jobs.refs.records import is_leaving
from lancewood.model.ids import Version, is_detached
from lancewood.model.refs import MAIN, BranchName, Tag, TagName, tag_name
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import LOST_RACES

PUBLISH_GUARD = "lw.publish."
"""Begins the name of a tag on a branch whose files another branch reads."""
_GUARDS = (CLONE_PIN, PUBLISH_GUARD)


def create_tag(
    snapshot: Snapshot,
    name: str,
    at: At = None,
    *,
    metadata: Mapping[str, str] | None = None,
    force: bool = False,
) -> Tag:
    """A new tag on the version at ``at``.

    Raises AlreadyExistsError, NotFoundError, and RetryableConflictError for a version that a
    cleanup is removing.
    """
    new = TagName(name)
    check_no_guard(new, "created", force=force)
    known = checked_metadata(metadata)
    location = main_location(snapshot)
    main, target = location.store, _find_target(location, snapshot, at)
    now = time.time_ns()
    tag = Tag(
        name=new,
        branch=target.branch,
        version=target.version,
        manifest_size=target.size,
        created_at_ns=now,
        updated_at_ns=now,
        metadata=known,
    )
    data = encode_tag(tag)
    PutIfAbsent().check_trust(main)
    if put_new_settled(main, tag_key(new), data) is PutOutcome.EXISTS:
        raise AlreadyExistsError(
            f"tag {name!r} of {main.uri} exists already; update moves it to another version",
            tag=name,
        )
    try:
        _check_still_there(target)
    except (NotFoundError, RetryableConflictError):
        take_back(main, tag_key(new), data, None)
        raise
    return tag


def update_tag(snapshot: Snapshot, name: str, at: At, *, force: bool = False) -> Tag:
    """The tag, moved to the version at ``at``; everything else in its file stays.

    Raises NotFoundError, RetryableConflictError if others keep changing it, CommitUnknownError if
    the store gave no answer and the tag was changed by another writer since.
    """
    asked = tag_name(name)
    check_no_guard(asked, "moved", force=force)
    location = main_location(snapshot)
    main, target = location.store, _find_target(location, snapshot, at)
    for _ in LOST_RACES:
        moved = _move(main, asked, target)
        if moved is None:
            continue
        try:
            _check_still_there(target)
        except (NotFoundError, RetryableConflictError):
            take_back(main, tag_key(asked), moved.new, moved.old)
            raise
        return moved.tag
    raise RetryableConflictError(
        f"tag {name!r} of {main.uri} was changed by others {LOST_RACES.attempts} times while it "
        "was to be moved; try again",
        tag=name,
    )


@dataclass(frozen=True, slots=True)
class _Moved:
    """A moved tag, and the bytes of its file before and after."""

    tag: Tag
    old: bytes
    new: bytes


def _move(main: Store, name: TagName, target: _Target) -> _Moved | None:
    """The moved tag; None if the move did not happen and must be tried again."""
    key = tag_key(name)
    try:
        etag = main.head(key).etag
        old = main.get(key)
    except NotFoundError:
        raise no_tag(main, name) from None
    moved = replace(
        decode_tag(name, old),
        branch=target.branch,
        version=target.version,
        manifest_size=target.size,
        updated_at_ns=time.time_ns(),
    )
    data = encode_tag(moved)
    try:
        done = main.replace(key, data, etag) is ReplaceOutcome.REPLACED
    except StorageError as failure:
        if failure.facts.get("final"):
            raise
        done = _has_landed(main, key, data, old, failure)
    return _Moved(moved, old, data) if done else None


def _has_landed(main: Store, key: str, data: bytes, old: bytes, failure: StorageError) -> bool:
    try:
        now = main.get(key)
    except (NotFoundError, StorageError):
        now = b""
    if now in (data, old):
        return now == data
    raise CommitUnknownError(
        f"whether {key!r} in {main.uri} was written is unknown: the store did not say, and now it "
        "holds something else or cannot be read; look at it before trying again",
        key=key,
    ) from failure


def delete_tag(
    snapshot: Snapshot, name: str, *, force: bool = False, dry_run: bool = False
) -> None:
    """Remove a tag, also one whose file is damaged; raises NotFoundError. A dry run only checks."""
    asked = tag_name(name)
    check_no_guard(asked, "deleted", force=force)
    main = main_location(snapshot).store
    try:
        main.head(tag_key(asked))
    except NotFoundError:
        raise no_tag(main, asked) from None
    if not dry_run:
        main.delete([tag_key(asked)])


def find_tag(snapshot: Snapshot, name: str) -> Tag:
    """The tag of this name; raises NotFoundError or FormatError."""
    main = main_location(snapshot).store
    found = load_tag(main, tag_name(name))
    if found is None:
        raise no_tag(main, name)
    return found


def list_tags(snapshot: Snapshot, *, guards: bool = False) -> dict[str, Tag]:
    """Every tag by its name, sorted; raises FormatError for a damaged one."""
    found = {}
    for _, each in read_refs(main_location(snapshot).store, TAGS_DIR):
        if isinstance(each, FormatError):
            raise each
        if isinstance(each, Tag) and (guards or not is_guard(each.name)):
            found[str(each.name)] = each
    return dict(sorted(found.items()))


def no_tag(main: Store, name: str) -> NotFoundError:
    return NotFoundError(f"tag {str(name)!r} of {main.uri} not found", tag=str(name))


def is_guard(tag: str) -> bool:
    """Whether a tag guards files for a reader, and is not a user's own."""
    return tag.startswith(_GUARDS) or is_repository_tag(tag)


def check_no_guard(tag: str, what: str, *, force: bool) -> None:
    """Raise InvalidInputError for a guard, unless ``force`` is set."""
    if is_guard(tag) and not force:
        raise InvalidInputError(
            f"tag {tag!r} cannot be {what}: names that begin with {' or '.join(_GUARDS)}, and "
            "those that repositories give, say that a clone, another branch or a repository needs "
            "the files of a version, and go when that does; force=True does it all the same",
            tag=tag,
        )


def checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Metadata of a ref; raises InvalidInputError unless it maps texts to texts."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(
        isinstance(each, str) for pair in metadata.items() for each in pair
    ):
        raise InvalidInputError(f"metadata takes a mapping of texts to texts, got {metadata!r}")
    return dict(metadata)


@dataclass(frozen=True, slots=True)
class _Target:
    """The version that a tag will name."""

    main: Store
    root: Store
    branch: BranchName | None
    version: Version
    size: int
    key: str

    def __str__(self) -> str:
        return f"version {self.version} of {self.branch or MAIN}"


def _find_target(main: Location, snapshot: Snapshot, at: At) -> _Target:
    """The version to be named. A version of the handle's own branch is not read."""
    if isinstance(at, int) and not isinstance(at, bool):
        quick = _look_up(main, snapshot, Version(at))
        if quick is not None:
            return quick
    found = resolve(snapshot, at)
    if is_detached(found.manifest.version):
        raise InvalidInputError(
            "this state is detached, and a tag would not keep its files from being cleaned up; tag "
            "a version of the history"
        )
    target = _look_up(main, found, found.manifest.version)
    if target is None:
        raise NotFoundError(
            f"version {found.manifest.version} of {found.location.uri} is gone: it was cleaned up",
            version=found.manifest.version,
        )
    return target


def _look_up(main: Location, snapshot: Snapshot, version: Version) -> _Target | None:
    branch = snapshot.manifest.branch
    known = None if branch is None else BranchName.found(branch)
    root = branch_location(main, known).store
    if not version > 0 or is_detached(version):
        return None
    key = manifest_key(version, snapshot.scheme)
    try:
        size = root.head(key).size
    except NotFoundError:
        return None
    return _Target(main.store, root, known, version, size, key)


def _check_still_there(target: _Target) -> None:
    """Raise NotFoundError if the version or its branch was removed while it was tagged, and
    RetryableConflictError if a cleanup is about to remove it."""
    check_not_being_removed(target.main, target.branch, target.version)
    try:
        target.root.head(target.key)
    except NotFoundError:
        raise NotFoundError(
            f"{target} was cleaned up while it was tagged", version=target.version
        ) from None
    if target.branch is None:
        return
    # In this order: a deletion leaves its intent, removes the record, then removes the intent.
    if is_leaving(target.main, target.branch) or not is_recorded(target.main, target.branch):
        raise NotFoundError(
            f"branch {str(target.branch)!r} was about to be deleted or renamed while it was "
            "tagged; tag it when that is done",
            branch=str(target.branch),
        )
