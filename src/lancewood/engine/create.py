"""The first version of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lancewood.engine.base_paths import NewBase, new_base_paths
from lancewood.engine.chosen_homes import Bases, homes_to_write
from lancewood.engine.commit import CommitPolicy
from lancewood.engine.homes import own_home
from lancewood.engine.limits import FileLimits, check_file_version
from lancewood.engine.manifest_stores import manifest_store_mark
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import newest_version
from lancewood.engine.write import commit_written, write_anew
from lancewood.errors import AlreadyExistsError, ConflictError
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.file_version import DEFAULT_FILE_VERSION
from lancewood.model.ids import Version
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS, Manifest
from lancewood.model.transaction import Transaction, commit_properties


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """How a table is to be made, besides its data."""

    schema: pa.Schema | None = None
    """The columns that it gets, where that is not the data's own schema."""
    stable_row_ids: bool = True
    file_version: str = DEFAULT_FILE_VERSION
    limits: FileLimits = field(default_factory=FileLimits)
    bases: Iterable[NewBase] = ()
    """Other homes for its files, that are declared with it."""
    into: Bases = None
    """To which of them the data goes."""
    message: str | None = None
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """What the first version of a table is made of; nothing names it yet."""

    before: Snapshot
    """Version 0, which has nothing."""
    transaction: Transaction
    homes: Manifest
    """Declares the base paths that the files are in."""


def create_table(place: Place, data: Any, new: NewTable) -> Snapshot:
    """Version 1 of a new table; raises AlreadyExistsError, also if another creator was faster."""
    first = write_first(place, data, new)
    try:
        return commit_written(
            first.before, first.transaction, CommitPolicy(serializable=True), homes=first.homes
        )
    except ConflictError as lost:
        raise _exists(place) from lost


def write_first(place: Place, data: Any, new: NewTable) -> FirstWrite:
    """Write the files of a new table, and commit nothing. Raises AlreadyExistsError."""
    check_file_version(new.file_version)
    facts = commit_properties(new.message, new.properties)
    if newest_version(place.store) is not None:
        raise _exists(place)
    declared = new_base_paths(place, (), new.bases)
    flags = FLAG_STABLE_ROW_IDS if new.stable_row_ids else 0
    nothing = empty_manifest(new.file_version, flags=flags)
    nothing.message.config.update(manifest_store_mark(place.store))
    with_bases = empty_manifest(new.file_version)
    with_bases.message.base_paths.extend(declared)
    homes = [own_home(place)]
    if new.into is not None:
        homes = homes_to_write(place, with_bases, new.into)
    written = write_anew(place, homes, data, new.schema, new.file_version, new.limits)
    overwrite = replace(written, initial_bases=declared)
    transaction = Transaction.new(Version(0), overwrite, properties=facts)
    return FirstWrite(Snapshot(place, nothing, NamingScheme.V2), transaction, with_bases)


def _exists(place: Place) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {place.uri} already: open it and append or overwrite, "
        "or drop it first",
        uri=place.uri,
    )
