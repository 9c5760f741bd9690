"""Pins that keep the versions a shallow clone reads, and announcements of what a cleanup removes.

A pin is a tag ``lw.clone.<uuid>`` on the version that was cloned: the only form that the cleanup of
either implementation honours. Its metadata names the clone's location. The clone records its pins
in its configuration, to remove them when it is dropped. Such a record is copied with the
configuration, as into a clone of the clone; so a pin is removed only for the clone that the pin
itself names, or for one that was moved from there.

A cleanup keeps a version that has a ref. A ref made while it is running may come too late, and a
clone elsewhere would lose its files. So the cleanup announces what it removes before it reads the
refs for the last time, and a writer that has made a ref then reads the announcements: one of the
two sees the other. The announcement of a cleanup that died or failed expires after an hour.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

from lancewood.engine.location import Location, find_trace, is_table_root, real_path
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import (
    list_versions,
    load_tag,
    load_transaction_of,
    load_version,
    newest_version,
)
from lancewood.errors import (
    FormatError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.json_object import decode_object
from lancewood.format.layout import REFS_DIR, TRANSACTIONS_DIR, TREE_DIR
from lancewood.format.refs import encode_tag, tag_key
from lancewood.model.ids import BaseId, Version
from lancewood.model.lines import LINE_KEY, MERGED_KEY
from lancewood.model.refs import BranchName, Tag, TagName
from lancewood.model.table_config import EXCLUSIVE_KEY, MANIFEST_STORE_KEY
from lancewood.model.transaction import Clone
from lancewood.proto import table_pb2
from lancewood.store.base import Store
from lancewood.store.clock import is_older

CLEANUPS_DIR = f"{REFS_DIR}/cleanups"
_HOLDS = timedelta(hours=1)
_MOST_BYTES = 64 << 20


@contextmanager
def announced(main: Store, branch: str | None, versions: Iterable[Version]) -> Iterator[None]:
    """Announce that these versions of a branch (None: of main) are being removed, for as long as
    the context is open."""
    removed = sorted(versions)
    if not removed:
        yield
        return
    key = f"{CLEANUPS_DIR}/{uuid4().hex}.json"
    main.put(key, json.dumps({"branch": branch, "versions": removed}).encode())
    _remove_expired(main, main.head(key).modified)
    yield
    with contextlib.suppress(StorageError):
        main.delete([key])
        main.prune(CLEANUPS_DIR)


def check_not_being_removed(main: Store, branch: str | None, version: Version) -> None:
    """Raise RetryableConflictError if a cleanup is removing the version right now.

    To be called after a ref was made and before the version is read for the last time: a cleanup
    that begins later sees the ref, and one that has finished has removed the version. Raises
    FormatError for a damaged announcement.
    """
    for name in main.names(CLEANUPS_DIR):
        key = f"{CLEANUPS_DIR}/{name}"
        try:
            if is_older(main, main.head(key).modified, _HOLDS, TRANSACTIONS_DIR):
                continue
            announced_branch, removed = _decode(main.get(key), f"{main.uri}/{key}")
        except NotFoundError:
            continue
        if announced_branch == branch and version in removed:
            raise RetryableConflictError(
                f"version {version} of {branch or 'main'} of {main.uri} is being removed by a "
                "cleanup; take a newer one, or try again when the cleanup is done",
                version=version,
            )


def _decode(data: bytes, name: str) -> tuple[object, list[object]]:
    """The branch of an announcement, and its versions."""
    found = decode_object(data, name=name, most=_MOST_BYTES)
    versions = found.get("versions")
    if "branch" not in found or not isinstance(versions, list):
        raise FormatError(
            f"{name}: does not say which versions a cleanup removes; remove the file if no cleanup "
            "is at work",
            file=name,
        )
    return found["branch"], versions


def _remove_expired(main: Store, now: datetime) -> None:
    """Remove expired announcements; their age is measured by the store's own clock."""
    old = []
    for name in main.names(CLEANUPS_DIR):
        key = f"{CLEANUPS_DIR}/{name}"
        with contextlib.suppress(NotFoundError):
            if now - main.head(key).modified > _HOLDS:
                old.append(key)
    if old:
        main.delete(old)


CLONE_PIN = "lw.clone."
"""The prefix of tags that say that a clone elsewhere reads this table's files."""
CLONE_PROPERTY = "lancewood.clone"
"""The key of the clone's uri in the tag's metadata."""
PINS_CONFIG = "lancewood.pins"
"""The key of the pin record in a clone's configuration."""


class ClonePin(NamedTuple):
    """One pin: a tag at a source of a clone."""

    root: str
    """The main root of the table that has the tag."""
    tag: str


class Unpinned(NamedTuple):
    """A table whose files a clone needs, and that has no pin for it."""

    root: str
    why: str


@dataclass(frozen=True, slots=True)
class PinRecord:
    """A clone's record of its pins."""

    clone: str
    """The uri of the clone when it was made."""
    pins: tuple[ClonePin, ...]

    def encode(self) -> str:
        pins = [each._asdict() for each in self.pins]
        return json.dumps({"clone": self.clone, "pins": pins}, separators=(",", ":"))

    def with_moved(self, old: str, new: str) -> PinRecord:
        """The record after a root moved: pins are looked up at both locations, since a root that
        was copied rather than moved has the pin at both."""
        pins = []
        for pin in self.pins:
            pins.append(pin)
            below = old.removeprefix(pin.root)
            if _is_covered(old, {pin.root}) and new.endswith(below):
                pins.append(pin._replace(root=new.removesuffix(below)))
        return PinRecord(self.clone, tuple(dict.fromkeys(pins)))


def read_record(config: Mapping[str, str]) -> PinRecord | None:
    """The record in a configuration; None where there is no valid one."""
    try:
        found = json.loads(config[PINS_CONFIG])
        pins = tuple(ClonePin(str(each["root"]), str(each["tag"])) for each in found["pins"])
        return PinRecord(str(found["clone"]), pins)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def without_record(config: Mapping[str, str]) -> dict[str, str]:
    """A configuration for another table than the clone that the record is about: without the
    record, the repository that owns the source, the manifest store of the source, and its lines."""
    own = (PINS_CONFIG, EXCLUSIVE_KEY, MANIFEST_STORE_KEY, LINE_KEY, MERGED_KEY)
    return {key: value for key, value in config.items() if key not in own}


def place_pins(source: Snapshot, clone: str) -> tuple[PinRecord, tuple[Unpinned, ...]]:
    """Pin everything that a clone of the source needs, and report what cannot be pinned.

    No pin is left where the caller may not write. Any other failure is raised,
    RetryableConflictError for a version that a cleanup is removing, and the pins placed before it
    are removed.
    """
    wanted = _Wanted(source)
    name = TagName(f"{CLONE_PIN}{uuid.uuid4().hex}")
    done: list[ClonePin] = []
    unpinned = []
    try:
        for main, held in wanted.found():
            try:
                main.put(tag_key(name), encode_tag(_pin(name, held, clone)))
            except StorageError as error:
                if not error.facts.get("final"):
                    done.append(ClonePin(main.uri, name))  # it may have landed
                    raise
                unpinned.append(Unpinned(main.uri, error.message))
            else:
                done.append(ClonePin(main.uri, name))
                check_not_being_removed(main, held.branch, held.version)
    except (Exception, KeyboardInterrupt):
        remove_pins(source.location, PinRecord(clone, tuple(done)), clone)
        raise
    return PinRecord(clone, tuple(done)), (*wanted.unknown, *unpinned)


def find_pins(
    location: Location, record: PinRecord, clone: str
) -> tuple[list[tuple[Store, ClonePin]], tuple[Unpinned, ...]]:
    """The pins of this clone that still exist; and tables whose pin may belong to another clone or
    cannot be read, with the reason."""
    found, stay = [], []
    for pin in record.pins:
        if not pin.tag.startswith(CLONE_PIN):
            continue
        try:
            main = location.base_store(_root_path(pin.root))
            tag = load_tag(main, TagName.found(pin.tag))
            if tag is None or tag.metadata.get(CLONE_PROPERTY) != record.clone:
                continue
            doubt = _doubt(location, record.clone, clone, pin)
        except LancewoodError as error:
            doubt = error.message
        if doubt is None:
            found.append((main, pin))
        else:
            stay.append(Unpinned(pin.root, f"tag {pin.tag} stays: {doubt}"))
    return found, tuple(stay)


def remove_pins(location: Location, record: PinRecord, clone: str) -> tuple[Unpinned, ...]:
    """Remove the pins of a clone that no longer needs them; returns which stay, and why.

    Best effort: a pin too many keeps files, one too few loses them.
    """
    found, doubtful = find_pins(location, record, clone)
    stay = [*doubtful]
    for main, pin in found:
        try:
            main.delete([tag_key(TagName.found(pin.tag))])
        except LancewoodError as error:
            stay.append(Unpinned(pin.root, f"tag {pin.tag} stays: {error.message}"))
    return tuple(stay)


def _doubt(location: Location, recorded: str, clone: str, pin: ClonePin) -> str | None:
    """Why a pin that names the recorded uri may not be this clone's; None if it is.

    A clone was moved if there is no table any more at its old location. A disk is not visible from
    everywhere, so there the source must be on a disk too, and the parent directory must exist.
    """
    if recorded == clone or real_path(recorded) == real_path(clone):
        return None
    names = f"it names the clone at {recorded}"
    is_seen = "://" not in pin.root and os.path.isdir(os.path.dirname(recorded))
    if "://" not in recorded and not is_seen:
        return f"{names}, and whether that was moved to {clone} cannot be seen from here"
    try:
        is_gone = newest_version(location.store_at(recorded)) is None
    except LancewoodError as error:
        return f"{names}, and whether that is still there is not known: {error.message}"
    return None if is_gone else f"{names}, where there still is a table"


def new_tag(
    name: TagName,
    branch: BranchName | None,
    version: Version,
    manifest_size: int,
    metadata: Mapping[str, str],
) -> Tag:
    """A tag made at this moment."""
    now = time.time_ns()
    return Tag(
        name=name,
        branch=branch,
        version=version,
        manifest_size=manifest_size,
        created_at_ns=now,
        updated_at_ns=now,
        metadata=dict(metadata),
    )


def _pin(name: TagName, held: Tag, clone: str) -> Tag:
    metadata = {CLONE_PROPERTY: clone}
    return new_tag(name, held.branch, held.version, held.manifest_size, metadata)


class _Wanted:
    """Which versions of which tables must be kept for a clone of the source.

    The source itself; and if that is a clone too, the tables that it reads from: its own pins are
    removed when it is dropped or detached, while those of its clone must stay.
    """

    def __init__(self, source: Snapshot) -> None:
        self._source = source
        self.unknown: list[Unpinned] = []

    def found(self) -> Iterator[tuple[Store, Tag]]:
        """The main root of each table, and the version as a tag that names it."""
        source, head = self._source, self._source.manifest
        main = source.location.store if head.branch is None else source.location.main(head)
        pinned = set()
        if main is None:
            self.unknown.append(Unpinned(source.location.uri, f"the main root of {head.branch}"))
        else:
            pinned.add(main.uri)
            branch = None if head.branch is None else BranchName.found(head.branch)
            yield main, _named(branch, head.version, head.size)
        roots = [each for each in self._roots() if not _is_covered(each.uri, pinned)]
        if not roots:
            return
        for root, tag in (*self._recorded(), *self._origin(main or source.location.store)):
            if root.uri not in pinned and any(_is_covered(each.uri, {root.uri}) for each in roots):
                pinned.add(root.uri)
                yield root, tag
        for each in roots:
            if not _is_covered(each.uri, pinned):
                why = "which of its versions is needed is not known"
                self.unknown.append(Unpinned(each.uri, why))

    def _roots(self) -> Iterator[Store]:
        """Other tables whose files the source reads."""
        location, manifest = self._source.location, self._source.manifest
        location.settle(manifest)
        for base in manifest.base_paths:
            if base.is_dataset_root and find_trace(manifest, BaseId(base.id)) is not None:
                root = location.base_store(base)
                if is_table_root(root):
                    yield root

    def _recorded(self) -> Iterator[tuple[Store, Tag]]:
        """Stores and tags of the pins that the source itself has recorded."""
        location = self._source.location
        record = read_record(self._source.manifest.config)
        for pin in record.pins if record is not None else ():
            try:
                main = location.base_store(_root_path(pin.root))
                tag = load_tag(main, TagName.found(pin.tag))
            except LancewoodError:
                continue
            if tag is not None:
                yield main, tag

    def _origin(self, main: Store) -> Iterator[tuple[Store, Tag]]:
        """The version that the source was cloned from, by a writer that leaves no pins."""
        location = self._source.location
        listed = list_versions(main)
        first = load_transaction_of(main, listed.versions[-1], listed.scheme).operations[0]
        if not isinstance(first, Clone):
            return
        base = _root_path(first.ref_path)
        try:
            root = location.base_store(base)
            head, _ = load_version(root, first.ref_version)
        except LancewoodError:
            return
        if head.branch is None:
            yield root, _named(None, head.version, head.size)
            return
        above = Location(root, location.options_of(base)).main(head)
        if above is not None:
            yield above, _named(BranchName.found(head.branch), head.version, head.size)


def _named(branch: BranchName | None, version: Version, size: int | None) -> Tag:
    return Tag(
        name=TagName(f"{CLONE_PIN}0"), branch=branch, version=version, manifest_size=size or 0
    )


def _root_path(path: str) -> table_pb2.BasePath:
    return table_pb2.BasePath(path=path, is_dataset_root=True)


def _is_covered(uri: str, pinned: set[str]) -> bool:
    """Whether a root belongs to a table that has a pin."""
    return any(uri == each or uri.startswith(f"{each}/{TREE_DIR}/") for each in pinned)
