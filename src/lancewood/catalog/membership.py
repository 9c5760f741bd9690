"""Which repositories a table belongs to: those whose commits may pin its versions.

A table in ``tables/`` of a repository belongs to that by where it is. A table elsewhere has a tag
``lw.repo.…`` for each repository that took it in, which says where that is and what the table is
called there; the tag also keeps the version at which it was taken in. Opens no repository.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancewood.catalog.names import TABLES_DIR, checked_table, own_table
from lancewood.errors import FormatError, NotFoundError, StorageError
from lancewood.format.layout import manifest_key
from lancewood.format.refs import TAGS_DIR, ref_name, tag_key
from lancewood.git.names import RepositoryRoot, is_uri, parse_repository_root, real_repository_root
from lancewood.model.refs import BranchName, Tag, TagName
from lancewood.store.base import Store, is_there
from lancewood.store.locate import open_store

if TYPE_CHECKING:
    from lancewood.engine.snapshot import Snapshot

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
    found = [_tagged(main, each) for each in _member_tags(main)]
    own = _own_uris_of(main.uri, location.storage_options)
    return (*own, *(each for each in found if each is not None))


def join(snapshot: Snapshot, repository: RepositoryRoot, repository_id: str, name: str) -> bool:
    """Leave word at a table that a repository's commits pin it from now on; whether it was needed.

    A table in the repository's own ``tables/`` needs none. Done again, it records the path where
    the repository is now; a copy of a repository that is still there gets a tag of its own. Raises
    AlreadyExistsError if the tag is another repository's.
    """
    from lancewood.catalog.repository_tags import (
        REPOSITORY_ID,
        REPOSITORY_PATH,
        TABLE_NAMES,
        copy_tag,
        member_tag,
        set_tag,
    )
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
    from lancewood.catalog.repository_tags import REPOSITORY_ID, member_tag
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
    from lancewood.catalog.repository_tags import REPOSITORY_ID, REPOSITORY_PATH

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


def _member_tags(main: Store) -> list[TagName]:
    from lancewood.catalog.repository_tags import MEMBER_TAG

    files = [each for each in main.names(TAGS_DIR) if each.startswith(MEMBER_TAG)]
    return [TagName.found(name) for each in sorted(files) if (name := ref_name(each))]


def _tagged(main: Store, name: TagName) -> Membership | None:
    from lancewood.catalog.repository_tags import REPOSITORY_ID, REPOSITORY_PATH
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
    from lancewood.catalog.repository_tags import TABLE_NAMES

    return tuple(tag.metadata.get(TABLE_NAMES, "").split())
