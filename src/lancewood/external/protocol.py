"""The four steps of a commit through a manifest store, and their completion by a later process.

1. the manifest is put under a staged name, which nobody else has;
2. its path goes into the manifest store, if the version has no entry: that is the commit;
3. the staged manifest is copied to its final name, where a reader without the store finds it;
4. the entry gets the final path, and the staged one is deleted.

A writer may die between any two of them. A reader that finds an entry with a staged path does steps
3 and 4 before it reads, or refuses to read. Nothing is deleted on doubt.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

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
    ManifestName,
    ManifestStore,
    location_of,
    path_of,
    staged_name,
)
from lancewood.format.layout import VERSIONS_DIR
from lancewood.model.ids import Version
from lancewood.store.base import PutOutcome, Store, is_there


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
