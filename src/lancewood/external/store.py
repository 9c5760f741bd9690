"""A store whose manifests are committed through a manifest store.

Everything else is passed on to the inner store. A manifest is put by the four steps of
``protocol``; listing or reading manifests first completes what a writer left unfinished. Detached
manifests are ordinary objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

from lancewood.errors import NotFoundError, UnsupportedError
from lancewood.external.base import (
    Forgetting,
    ManifestEntry,
    ManifestKey,
    ManifestStore,
    final_name,
    location_of,
    manifest_key_parts,
    path_of,
    versions_root,
)
from lancewood.external.lock import StoreAround
from lancewood.external.protocol import Root
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
)

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
