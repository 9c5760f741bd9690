"""The tables that may hold what no commit needs: those below the repository, and those elsewhere
that commits pin.

A table of which it cannot be told what is needed, by whatever repository, is left out, and that is
told. A table elsewhere that does not know where its repository is now is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lancewood.catalog.membership import Membership, is_repository, join, repositories_of
from lancewood.catalog.names import TABLES_DIR, home_uri, table_at_home
from lancewood.catalog.places import main_place_of
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.uris import is_table
from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.git.homes import real_home
from lancewood.repo.gc.needed import Needs
from lancewood.repo.gc.report import Stays
from lancewood.repo.grounds import Grounds
from lancewood.repo.writing.joining import check_member


@dataclass(frozen=True)
class Candidate:
    """One table, or a place where none came to be."""

    name: str
    uri: str
    """As pins have it."""
    main: Place
    head: Snapshot | None
    """The newest version of main; None: there is no table."""


@dataclass
class Candidates:
    """Finds them, one after the other."""

    grounds: Grounds
    dry_run: bool
    joined: list[str] = field(default_factory=list)
    """Tables that were told where the repository is."""
    stays: list[Stays] = field(default_factory=list)

    def find(self, needs: Needs) -> Iterator[Candidate]:
        """The tables; ``needs`` sees from now on what other repositories need of them, too."""
        for directory in self._below():
            name = table_at_home(f"{TABLES_DIR}/{directory}")
            if name is not None:
                store = self.grounds.store_at(home_uri(name))
                is_on_disk = isinstance(self.grounds.home, Path)
                place = Place(store, None if is_on_disk else self.grounds.storage_options)
                yield from self._candidate(needs, name, home_uri(name), place)
        for uri, known in sorted(needs.tables.items()):
            if known.pin is not None and not known.pin.is_at_home:
                options, fsync = self.grounds.storage_options, self.grounds.fsync
                try:
                    place = main_place_of(
                        known.pin, self.grounds.home, storage_options=options, fsync=fsync
                    )
                except LancewoodError as error:
                    self.stays.append(Stays(f"everything of table {known.name}", error.message))
                    continue
                yield from self._candidate(needs, known.name, uri, place)

    def _below(self) -> list[str]:
        """The directories of tables; on a disk also links to such."""
        home = self.grounds.home
        if not isinstance(home, Path):
            return self.grounds.git.directories(TABLES_DIR)
        tables = home / TABLES_DIR
        return (
            sorted(each.name for each in tables.iterdir() if each.is_dir())
            if tables.is_dir()
            else []
        )

    def _candidate(self, needs: Needs, name: str, uri: str, place: Place) -> Iterator[Candidate]:
        try:
            head = load_snapshot(place) if is_table(place.store) else None
            if head is not None:
                members = repositories_of(head)
                needs.watch(uri, members)
                if table_at_home(uri) is None and not self._join(needs, name, uri, head, members):
                    return
            yield Candidate(name, uri, place, head)
        except LancewoodError as error:
            self.stays.append(Stays(f"everything of table {name}", error.message))

    def _join(
        self, needs: Needs, name: str, uri: str, head: Snapshot, members: Iterable[Membership]
    ) -> bool:
        """Tell a table where its repository is now, unless this is a copy of that. False for one
        that does not belong to the repository: nothing is done there."""
        pin = needs.tables[uri].pin
        assert pin is not None
        try:
            check_member(self.grounds, pin, name)
        except InvalidInputError as error:
            self.stays.append(Stays(f"everything of table {name}", error.message))
            return False
        mine = [each for each in members if each.id == self.grounds.id]
        here, options = real_home(self.grounds.home), self.grounds.storage_options
        if any(real_home(each.repository) == here for each in mine):
            return True
        if any(is_repository(each.repository, options) for each in mine):
            why = f"it belongs to this repository at {mine[0].repository}, of which this is a copy"
            self.stays.append(Stays(f"the tag of table {name}", why))
            return True
        self.joined.append(name)
        if not self.dry_run:
            join(head, self.grounds.home, self.grounds.id, name)
        return True
