"""Which repositories a table belongs to, and the tags that a repository sets in its tables.

A table in ``tables/`` of a repository belongs to that by where it is. A table elsewhere has a
membership tag ``lw.repo.<id>`` for each repository that took it in, which says where that is and
what the table is called there; the tag also keeps the version at which it was taken in. The
protection tag ``lw.<digest>`` keeps a version that a ref of the repository pins. Every cleanup
honours tags, pylance's too. Opens no repository.

A tag of the same name that others made is never touched. A tag is written before its version is
checked one last time, so a concurrent cleanup either sees the tag or is seen. Protection tags are
on ordinary versions only: pylance's cleanup removes files that only detached versions name,
even if those are tagged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewood.catalog.names import TABLES_DIR, checked_table, own_table
from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.layout import manifest_key
from lancewood.format.refs import TAGS_DIR, decode_tag, encode_tag, ref_name, tag_key
from lancewood.git.names import RepositoryRoot, is_uri, parse_repository_root, real_repository_root
from lancewood.model.ids import is_detached
from lancewood.model.refs import BranchName, Tag, TagName
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store, is_there
from lancewood.store.locate import open_store
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
        take_back(main, tag_key(mark.name), data, None if before is None else before[0])
        if isinstance(error, RetryableConflictError):
            raise
        raise NotFoundError(
            f"version {mark.version} of {root.uri} is gone: it was cleaned up while it was tagged",
            version=mark.version,
        ) from error


def take_back(main: Store, key: str, data: bytes, before: bytes | None) -> None:
    """Have a tag say again what it said before, None for a new one, unless another writer has
    changed ``data`` since."""
    with contextlib.suppress(NotFoundError):
        etag = main.head(key).etag
        if main.get(key) != data:
            return
        if before is None:
            main.delete([key])
        else:
            main.replace(key, before, etag)


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


_MOST_CONFIG = 1 << 20
_BLANK = b"\0\r\n\t "
_has_section = re.compile(rb"^\s*\[\s*lancewood\s*\]", re.IGNORECASE | re.MULTILINE).search


@dataclass(frozen=True, slots=True)
class Membership:
    """One repository that a table belongs to."""

    repository: RepositoryRoot
    names: tuple[str, ...]
    """What commits may call the table."""
    id: str | None = None
    """The identity that the repository must have; None for the one that the table lies in."""
    tag: TagName | None = None
    """The tag in the table that says that it belongs to the repository."""


def repositories_of(snapshot: Snapshot) -> tuple[Membership, ...]:
    """The repositories whose commits may pin versions of this table; mostly none.

    One look at the directories above and one listing of tags where there is none. Raises
    FormatError for a tag that does not say which repository it stands for.
    """
    from lancewood.engine.snapshot import main_location

    location = main_location(snapshot)
    main = location.store
    files = sorted(file for file in main.names(TAGS_DIR) if file.startswith(MEMBER_TAG))
    names = [TagName.found(name) for file in files if (name := ref_name(file))]
    found = [_tagged(main, name) for name in names]
    own = _own_uris_of(main.uri, location.storage_options)
    return (*own, *(each for each in found if each is not None))


def join(snapshot: Snapshot, repository: RepositoryRoot, repository_id: str, name: str) -> bool:
    """Leave word at a table that a repository's commits pin it from now on; whether it was needed.

    A table in the repository's own ``tables/`` needs none. Done again, it records the path where
    the repository is now; a copy of a repository that is still there gets a tag of its own. Raises
    AlreadyExistsError if the tag is another repository's.
    """
    from lancewood.engine.snapshot import main_location
    from lancewood.engine.upkeep import new_tag
    from lancewood.engine.versions import load_tag

    checked_table(name)
    location = main_location(snapshot)
    main, options = location.store, location.storage_options
    path = real_repository_root(repository)
    real = main.uri if "://" in main.uri else os.path.realpath(main.uri)
    if any(real_repository_root(each.repository) == path for each in _own_uris_of(real, options)):
        return False
    head = snapshot.manifest
    branch = None if head.branch is None else BranchName.found(head.branch)
    tag = member_tag(repository_id)
    if _is_copy(load_tag(main, tag), path, repository_id, options):
        tag = copy_tag(repository_id, path)

    def build(known: Tag | None) -> Tag:
        names = {name, *(() if known is None else _names_in(known))}
        metadata = {
            REPOSITORY_ID: repository_id,
            REPOSITORY_PATH: path,
            TABLE_NAMES: " ".join(sorted(names)),
        }
        if known is not None:
            return replace(known, updated_at_ns=time.time_ns(), metadata=metadata)
        return new_tag(tag, branch, head.version, head.size, metadata)

    manifest = snapshot.location.store, manifest_key(head.version, snapshot.scheme)
    return set_tag(main, tag, repository_id, build, manifest)


def is_member(main: Store, repository_id: str) -> bool:
    """Whether a table elsewhere, by its main root, was taken in by a repository of that identity,
    wherever that was then."""
    from lancewood.engine.versions import load_tag

    found = load_tag(main, member_tag(repository_id))
    return found is not None and found.metadata.get(REPOSITORY_ID) == repository_id


def is_repository(
    repository: RepositoryRoot, storage_options: Mapping[str, str] | None = None
) -> bool:
    """Whether there is a repository of Lancewood's: git's files, and our section in its config.

    One that lost its HEAD, or its config, is one still: what its commits pin is not free to go.
    The options are for one in a bucket. Raises StorageError if that is not known.
    """
    if isinstance(repository, str):
        return _is_in_bucket(open_store(repository, storage_options=storage_options))
    root = os.fspath(repository)
    parts = [os.path.isdir(f"{root}/{each}") for each in ("objects", "refs")]
    if not any(parts):
        return False
    try:
        with open(f"{root}/config", "rb") as file:
            config = file.read(_MOST_CONFIG)
    except (FileNotFoundError, NotADirectoryError):
        config = b""
    except OSError as error:
        raise StorageError(
            f"{root} looks like a repository, and its config cannot be read: {error.strerror}"
        ) from error
    if not config.strip(_BLANK):
        return all(parts) and os.path.lexists(f"{root}/HEAD")
    return _has_section(config) is not None


def _is_in_bucket(store: Store) -> bool:
    try:
        config = store.get_range("config", 0, _MOST_CONFIG)
    except NotFoundError:
        config = b""
    if config.strip(_BLANK):
        return _has_section(config) is not None
    if not is_there(store, "HEAD"):
        return False
    return next(iter(store.directories("objects")), None) is not None


def _is_copy(
    known: Tag | None, path: str, repository_id: str, options: Mapping[str, str] | None
) -> bool:
    """Whether a tag stands for a repository of that identity at another path, which is there."""

    if known is None or known.metadata.get(REPOSITORY_ID) != repository_id:
        return False
    where = known.metadata.get(REPOSITORY_PATH, "")
    if not _is_location(where) or real_repository_root(parse_repository_root(where)) == path:
        return False
    return is_repository(parse_repository_root(where), options)


def _is_location(text: str) -> bool:
    """Whether a text can say where a repository is."""
    return (os.path.isabs(text) or is_uri(text)) and "\0" not in text


def _own_uris_of(root: str, options: Mapping[str, str] | None) -> Iterator[Membership]:
    """The repositories that a main root lies in: by the path that is used, and without links. Both
    count, since a link in one repository may lead into another."""
    known: set[str] = set()
    for path in [root] if "://" in root else [root, os.path.realpath(root)]:
        above, table = os.path.split(path)
        repository, directory = os.path.split(above)
        name = own_table(f"{directory}/{table}")
        if name is None or directory != TABLES_DIR or repository.endswith(":"):
            continue
        found = parse_repository_root(repository)
        if real_repository_root(found) not in known and is_repository(found, options):
            known.add(real_repository_root(found))
            yield Membership(found, (name,))


def _tagged(main: Store, name: TagName) -> Membership | None:
    from lancewood.engine.versions import load_tag

    tag = load_tag(main, name)
    if tag is None:
        return None  # removed since the listing
    path, identity = tag.metadata.get(REPOSITORY_PATH), tag.metadata.get(REPOSITORY_ID)
    names = _names_in(tag)
    if not (path and _is_location(path) and identity and names):
        raise FormatError(
            f"{main.uri}/{tag_key(name)}: does not say which repository the table belongs to; "
            f"delete it if there is none, tags.delete({str(name)!r}, force=True)",
            file=tag_key(name),
            tag=str(name),
        )
    return Membership(parse_repository_root(path), names, identity, name)


def _names_in(tag: Tag) -> tuple[str, ...]:

    return tuple(tag.metadata.get(TABLE_NAMES, "").split())
