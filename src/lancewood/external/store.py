"""A store whose manifests are committed through a manifest store.

A commit takes four steps, which a later process may complete (``Root``):

1. the manifest is put under a staged name, which nobody else has;
2. its path goes into the manifest store, if the version has no entry: that is the commit;
3. the staged manifest is copied to its final name, where a reader without the store finds it;
4. the entry gets the final path, and the staged one is deleted.

A writer may die between any two of them. A reader that finds an entry with a staged path does steps
3 and 4 before it reads, or refuses to read. Nothing is deleted on doubt.

``ExternalStore`` passes everything but manifests on to the inner store; listing or reading
manifests first completes what a writer left unfinished. Detached manifests are ordinary objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from lancewood.errors import (
    IntegrityError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.external.base import (
    Forgetting,
    ManifestEntry,
    ManifestKey,
    ManifestName,
    ManifestStore,
    final_name,
    location_of,
    manifest_key_parts,
    path_of,
    staged_name,
    versions_root,
)
from lancewood.external.lock import StoreAround
from lancewood.format.layout import (
    VERSIONS_DIR,
    NamingScheme,
    manifest_name,
    parse_manifest_name,
)
from lancewood.model.ids import Version
from lancewood.store.base import (
    DirectoryStamp,
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    check_directory,
    is_there,
)


@dataclass(frozen=True, slots=True)
class Root:
    """One root of a table: its objects, and its name in the manifest store."""

    store: Store
    manifests: ManifestStore
    base: str

    def commit(self, version: Version, name: str, data: bytes) -> PutOutcome:
        """Commit a version; returns CREATED or EXISTS, like ``Store.put_new``.

        Raises StorageError where the outcome is unknown, or where the version is committed but
        cannot be given its final name: the next reader tries that again.
        """
        staged = staged_name(name)
        try:
            if self._is_there(name):
                self.register(version, name)
                return PutOutcome.EXISTS
            self.store.put(_key(staged), data)
        except StorageError as error:
            facts = {**error.facts, "landed": False}  # a staged manifest is not a version yet
            raise StorageError(error.message, **facts) from error
        entry = ManifestEntry(version, path_of(self.base, staged), len(data))
        if not self._put_first(entry):
            found = self.manifests.get(self.base, version)
            if found is None or found.path != entry.path:
                self._delete(staged)
                return self._lost(found, name, data)
            # A store that sent the put twice conflicted with itself: the entry is ours.
        location = ManifestName(staged, name)
        try:
            is_there = self._copy(entry, location)
        except (StorageError, UnsupportedError) as error:
            raise _unclear(error) from error
        except IntegrityError:
            # The staged manifest was removed before the entry existed, as when a table is dropped.
            if not isinstance(self.manifests, Forgetting):
                raise
            self.forget({version: staged})
            return PutOutcome.EXISTS
        if is_there:  # else it was completed and removed meanwhile, and this entry is another's
            with suppress(StorageError, UnsupportedError):  # it has its final name
                self._point_to(entry, location)
        return PutOutcome.CREATED

    def complete(self, entry: ManifestEntry) -> ManifestName:
        """Give the manifest of an entry its final name, and return its location.

        Raises StorageError where that cannot be done now, IntegrityError where it never can.
        """
        location = location_of(self.base, entry)
        if location.is_final:
            return location
        try:
            if self._copy(entry, location):
                self._point_to(entry, location)
        except (StorageError, UnsupportedError) as error:
            raise StorageError(
                f"version {entry.version} of {self.store.uri} is committed, but was not brought to "
                f"its final name, and that cannot be done now: {error.message}. An older version "
                "is not read in its place; try again, with the right to write",
                **{**error.facts, "version": entry.version},
            ) from error
        return ManifestName(location.final, location.final)

    def register(self, version: Version, name: str) -> None:
        """Record a version in the manifest store that was committed without it, best effort."""
        with suppress(LancewoodError):
            size = self.store.head(_key(name)).size
            self.manifests.put_if_not_exists(
                self.base, ManifestEntry(version, path_of(self.base, name), size)
            )

    def written(self, version: Version, name: str) -> None:
        """Record in the manifest store that a manifest was overwritten, or has another name."""
        entry = ManifestEntry(version, path_of(self.base, name), self.store.head(_key(name)).size)
        if not self.manifests.put_if_exists(self.base, entry):
            self.manifests.put_if_not_exists(self.base, entry)

    def forget(self, gone: dict[Version, str] | None = None) -> None:
        """Have the manifest store forget versions, by the names of their manifests; None for
        all."""
        if not isinstance(self.manifests, Forgetting):
            return
        if gone is None:
            self.manifests.forget(self.base)
        elif gone:
            paths = {version: path_of(self.base, name) for version, name in gone.items()}
            self.manifests.forget(self.base, paths)

    def _copy(self, entry: ManifestEntry, location: ManifestName) -> bool:
        """Step 3, which may be done twice, and by several processes at once. False if the entry is
        gone or was replaced since: then there is nothing left to do."""
        try:
            self.store.copy(_key(location.name), _key(location.final))
        except (NotFoundError, StorageError) as error:
            if isinstance(error, StorageError) and self._is_there(location.name):
                raise
            # Another process has finished it, and deleted the staged manifest.
            if not self._is_there(location.final):
                self._check_gone(entry, location)
                return False
        return True

    def _point_to(self, entry: ManifestEntry, location: ManifestName) -> None:
        """Step 4, which may likewise be done twice."""
        size = self.store.head(_key(location.final)).size if entry.size is None else entry.size
        path = path_of(self.base, location.final)
        self.manifests.put_if_exists(self.base, ManifestEntry(entry.version, path, size))
        self._delete(location.name)

    def _put_first(self, entry: ManifestEntry) -> bool:
        """Step 2. An unclear answer is settled by reading the entry: the path is unique to us."""
        try:
            return self.manifests.put_if_not_exists(self.base, entry)
        except StorageError as error:
            if error.facts.get("landed") is False:
                self._delete(location_of(self.base, entry).name)
                raise
            unclear = _unclear(error)
        try:
            found = self.manifests.get(self.base, entry.version)
        except StorageError as error:
            raise unclear from error
        if found is not None and found.path == entry.path:
            return True
        raise unclear

    def _lost(self, found: ManifestEntry | None, name: str, data: bytes) -> PutOutcome:
        """What it means that the version has an entry already."""
        if found is None:
            return PutOutcome.EXISTS  # forgotten since: the next listing shows what there is
        version, location = found.version, location_of(self.base, found)
        if not location.is_final:
            return PutOutcome.EXISTS
        if not self._is_there(location.final):
            raise self.gone(version)
        if location.final == name:
            return PutOutcome.EXISTS
        # The version has a name of the other scheme. The same bytes are the same version, being
        # renamed; other bytes are another's.
        if self.store.get(_key(location.final)) != data:
            return PutOutcome.EXISTS
        self.store.put(_key(name), data)
        self.manifests.put_if_exists(
            self.base, ManifestEntry(version, path_of(self.base, name), len(data))
        )
        return PutOutcome.CREATED

    def _check_gone(self, entry: ManifestEntry, location: ManifestName) -> None:
        """Raise IntegrityError unless the entry has changed since, or is gone."""
        now = self.manifests.get(self.base, entry.version)
        if now == entry:
            raise IntegrityError(
                f"version {entry.version} of {self.store.uri} is committed in the manifest store, "
                f"but its manifest is gone: neither {location.name} nor {location.final} is in "
                f"{VERSIONS_DIR}. Bring one of them back; if that cannot be, repair() with the "
                "manifest store forgets the version",
                version=entry.version,
            )

    def gone(self, version: Version) -> IntegrityError:
        """The error for a version that is in the manifest store but not in the object store."""
        return IntegrityError(
            f"the manifest store knows version {version} of {self.store.uri}, but its manifest is "
            "not there: the table was dropped, or the file removed, by somebody who does not know "
            "the manifest store. Bring it back; if that is not wanted, drop() (where no table is "
            "left) or repair() with the manifest store forgets it",
            version=version,
        )

    def _is_there(self, name: str) -> bool:
        return is_there(self.store, _key(name))

    def _delete(self, name: str) -> None:
        """Delete an object, best effort: a cleanup by age finds the rest."""
        with suppress(StorageError):
            self.store.delete([_key(name)])


def _unclear(error: LancewoodError) -> StorageError:
    """The failure, without a claim that the commit did not land."""
    facts = {key: value for key, value in error.facts.items() if key not in ("landed", "final")}
    return StorageError(error.message, **facts)


def _key(name: str) -> str:
    return f"{VERSIONS_DIR}/{name}"


T = TypeVar("T")
_ROUNDS = 5
_V2_LENGTH = len(manifest_name(Version(1), NamingScheme.V2))


class ExternalStore(StoreAround):
    """``inner``, with a manifest store in which this root is called ``base``."""

    probed_as = None

    def __init__(self, inner: Store, manifests: ManifestStore, base: str) -> None:
        super().__init__(inner)
        self.manifests, self.base = manifests, base
        self._seen: dict[str, Version] = {}
        """The highest version seen in the manifest store, by base: all before it have their final
        names, or had them."""

    def __repr__(self) -> str:
        return f"ExternalStore({self.inner!r}, {self.manifests!r})"

    @property
    def kind(self) -> str:
        """The kind of manifest store, in a word."""
        return str(getattr(self.manifests, "kind", "external"))

    def around(self, inner: Store, prefix: str) -> Self:
        deeper = super().around(inner, prefix)
        deeper.base = _joined(self.base, prefix)
        return deeper

    def get(self, key: str) -> bytes:
        return self._reading(key, lambda: self.inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._reading(key, lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._reading(key, lambda: self.inner.head(key))

    def names(self, directory: str) -> Iterator[str]:
        root = versions_root(check_directory(directory))
        return self.inner.names(directory) if root is None else self._names(root, directory)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        root = versions_root(check_directory(prefix))
        if root is not None:
            self._settled(self._root(root))
        return self.inner.list(prefix)

    def stamp(self, directory: str) -> DirectoryStamp | None:
        """A directory's stamp; None for manifests, as commits are in the manifest store before
        here."""
        is_plain = versions_root(check_directory(directory)) is None
        return self.inner.stamp(directory) if is_plain else None

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        found = manifest_key_parts(key)
        if found is None:
            return super().put_new(key, data)
        return self._root(found.root).commit(found.version, found.name, data)

    def put(self, key: str, data: bytes) -> None:
        self.inner.put(key, data)
        self._written(key)

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        self.inner.put_together(objects)
        for key in objects:
            self._written(key)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        self.inner.put_parts(key, parts)
        self._written(key)

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        outcome = super().replace(key, data, expected_etag)
        if outcome is ReplaceOutcome.REPLACED:
            self._written(key)
        return outcome

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)
        self._written(target)

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        done = super().copy_from(source, found, target, may_link=may_link)
        if done:
            self._written(target)
        return done

    def delete(self, keys: Iterable[str]) -> None:
        """Delete entries before their objects: an object without an entry is a version like any
        other that was committed without the manifest store."""
        targets = [*keys]
        gone: dict[str, dict[Version, str]] = defaultdict(dict)
        for key in targets:
            found = manifest_key_parts(key)
            if found is not None:
                gone[found.root][found.version] = found.name
        for root, names in gone.items():
            self._root(root).forget(names)
        self.inner.delete(targets)

    def forget_all(self, roots: Iterable[str] = ("",)) -> None:
        """Forget every version of these roots, ``""`` or for example ``tree/exp``."""
        for each in roots:
            self._root(each).forget()

    def lost_version(self) -> Version | None:
        """The newest version, if only the manifest store has it and its manifest is nowhere."""
        latest = self.manifests.latest(self.base)
        if latest is None:
            return None
        location = location_of(self.base, latest)
        for name in {location.name, location.final}:
            try:
                self.inner.head(f"{VERSIONS_DIR}/{name}")
            except NotFoundError:
                continue
            return None
        return latest.version

    def forget_lost(self) -> None:
        """Forget the newest versions for as long as they are lost; raises what ``check_forgets``
        raises."""
        self.check_forgets()
        while (version := self.lost_version()) is not None:
            found = self.manifests.get(self.base, version)
            if found is not None:
                self._root("").forget({version: location_of(self.base, found).name})

    def check_forgets(self) -> None:
        """Raise UnsupportedError for a manifest store that cannot forget."""
        if not isinstance(self.manifests, Forgetting):
            raise UnsupportedError(
                f"the manifest store of {self.uri} cannot forget a version: it is of kind "
                f"{self.kind!r}, and has no verb forget(base, gone). Give it one, or remove the "
                "entry there by its own means"
            )

    def is_abandoned(self, name: str) -> bool:
        """Whether a name in ``_versions`` is that of a staged manifest that no entry names."""
        final = final_name(name)
        parsed = None if final is None else parse_manifest_name(final)
        if parsed is None:
            return False
        found = self.manifests.get(self.base, parsed.version)
        return found is None or found.path != path_of(self.base, name)

    def _root(self, root: str) -> Root:
        if not root:
            return Root(self.inner, self.manifests, self.base)
        return Root(self.inner.at(root), self.manifests, _joined(self.base, root))

    def _reading(self, key: str, read: Callable[[], T]) -> T:
        """Read an object; a manifest without its final name gets it first."""
        found = manifest_key_parts(key)
        if found is None:
            return read()
        root = self._root(found.root)
        if found.version < self._seen.get(root.base, 0):
            try:
                return read()
            except NotFoundError:
                self._complete(root, found)
                return read()
        entry = self._complete(root, found)
        answer = read()
        if entry is None:
            root.register(found.version, found.name)
        return answer

    def _complete(self, root: Root, found: ManifestKey) -> ManifestEntry | None:
        entry = self.manifests.get(root.base, found.version)
        if entry is not None:
            root.complete(entry)
        return entry

    def _settled(self, root: Root) -> ManifestEntry | None:
        """The newest version in the manifest store, with its final name."""
        latest = self.manifests.latest(root.base)
        if latest is None:
            return None
        location = root.complete(latest)
        self._seen[root.base] = latest.version
        return ManifestEntry(latest.version, location.final, latest.size)

    def _names(self, root_key: str, directory: str) -> Iterator[str]:
        """The names in a directory of manifests. Raises IntegrityError where the newest version is
        missing among them, so that an older one is never mistaken for it."""
        root = self._root(root_key)
        latest = self._settled(root)
        if self.inner.lists_in_order:
            return self._in_order(root, directory, latest)
        for _ in range(_ROUNDS):
            names = [*self.inner.names(directory)]
            if latest is None or latest.path in names:
                self._register_newer(root, latest, names)
                return iter(names)
            again = self._settled(root)
            if again == latest:
                break
            latest = again  # dropped, or committed to, meanwhile
        if latest is None:  # dropped just now
            return iter(())
        raise root.gone(latest.version)

    def _in_order(self, root: Root, directory: str, latest: ManifestEntry | None) -> Iterator[str]:
        """The names in a directory that lists the newest versions first: the first names are
        checked before they are yielded, and all names of the first scheme."""
        names = self.inner.names(directory)
        seen = []
        for name in names:
            seen.append(name)
            parsed = parse_manifest_name(name) if len(name) == _V2_LENGTH else None
            if parsed is not None and not parsed.detached:
                break
        else:
            names = iter(())
        if latest is not None and latest.path not in seen:
            newest = [each for name in seen if (each := parse_manifest_name(name))]
            is_behind = all(each.version < latest.version for each in newest if not each.detached)
            if is_behind and self._settled(root) == latest:
                raise root.gone(latest.version)
        self._register_newer(root, latest, seen)
        yield from seen
        yield from names

    def _register_newer(
        self, root: Root, latest: ManifestEntry | None, names: Sequence[str]
    ) -> None:
        """Record a newer version in the manifest store that was committed without it."""
        if latest is not None and not _is_followed(latest, names):
            return
        parsed = [(name, parse_manifest_name(name)) for name in names]
        found = [(each.version, name) for name, each in parsed if each and not each.detached]
        if found:
            root.register(*max(found))

    def _written(self, key: str) -> None:
        found = manifest_key_parts(key)
        if found is not None:
            self._root(found.root).written(found.version, found.name)


def _is_followed(latest: ManifestEntry, names: Sequence[str]) -> bool:
    """Whether the version after the newest known one is among the names."""
    after = Version(latest.version + 1)
    return any(manifest_name(after, scheme) in names for scheme in NamingScheme)


def _joined(base: str, prefix: str) -> str:
    return f"{base}/{prefix}" if base and prefix else base or prefix
