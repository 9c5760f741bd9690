"""The first version of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lancewood.engine.base_paths import NewBase, new_base_paths
from lancewood.engine.chosen_homes import Bases, homes_to_write
from lancewood.engine.commit import CommitPolicy
from lancewood.engine.homes import own_home
from lancewood.engine.limits import FileLimits, check_file_version
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import newest_version
from lancewood.engine.write import commit_written, write_anew
from lancewood.errors import AlreadyExistsError, ConflictError
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.ids import Version
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS, Manifest
from lancewood.model.transaction import Transaction, commit_properties


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """What the first version of a table is made of; nothing names it yet."""

    before: Snapshot
    """Version 0, which has nothing."""
    transaction: Transaction
    homes: Manifest
    """Declares the base paths that the files are in."""


def create_table(
    place: Place,
    data: Any,
    *,
    schema: pa.Schema | None,
    stable_row_ids: bool,
    file_version: str,
    limits: FileLimits,
    bases: Iterable[NewBase] = (),
    into: Bases = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """Version 1 of a new table; raises AlreadyExistsError, also if another creator was faster.

    ``bases`` are declared with it, ``into`` says to which of them the data goes.
    """
    first = write_first(
        place,
        data,
        schema=schema,
        stable_row_ids=stable_row_ids,
        file_version=file_version,
        limits=limits,
        bases=bases,
        into=into,
        message=message,
        properties=properties,
    )
    try:
        return commit_written(
            first.before, first.transaction, CommitPolicy(serializable=True), homes=first.homes
        )
    except ConflictError as lost:
        raise _exists(place) from lost


def write_first(
    place: Place,
    data: Any,
    *,
    schema: pa.Schema | None,
    stable_row_ids: bool,
    file_version: str,
    limits: FileLimits,
    bases: Iterable[NewBase] = (),
    into: Bases = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> FirstWrite:
    """Write the files of a new table, and commit nothing; the arguments are ``create_table``'s."""
    check_file_version(file_version)
    facts = commit_properties(message, properties)
    if newest_version(place.store) is not None:
        raise _exists(place)
    declared = new_base_paths(place, (), bases)
    flags = FLAG_STABLE_ROW_IDS if stable_row_ids else 0
    nothing, with_bases = empty_manifest(file_version, flags=flags), empty_manifest(file_version)
    with_bases.message.base_paths.extend(declared)
    homes = [own_home(place)] if into is None else homes_to_write(place, with_bases, into)
    written = write_anew(place, homes, data, schema, file_version, limits)
    overwrite = replace(written, initial_bases=declared)
    transaction = Transaction.new(Version(0), overwrite, properties=facts)
    return FirstWrite(Snapshot(place, nothing, NamingScheme.V2), transaction, with_bases)


def _exists(place: Place) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {place.uri} already: open it and append or overwrite, "
        "or drop it first",
        uri=place.uri,
    )
