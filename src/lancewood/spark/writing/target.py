"""The table that a write goes to, or the place where it will be.

Opens what is there, at the newest version of its branch, and refuses what nobody can write to.
Changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lancewood.engine.base_paths import base_options
from lancewood.engine.place import Place
from lancewood.engine.revisions import TAG, open_revision
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.uris import find_address, is_table
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.external.base import ManifestStore
from lancewood.external.opening import open_table_store
from lancewood.model.refs import MAIN
from lancewood.model.revision import AtTag, OnBranch, parse_revision
from lancewood.store.options import StorageOptions


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write goes."""

    place: Place
    snapshot: Snapshot | None
    """The version that is there; None where there is no table."""


def find_target(
    uri: str | os.PathLike[str],
    branch: str | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    base_storage_options: Mapping[str, Mapping[str, str]] | None = None,
    manifest_store: str | ManifestStore | None = None,
    unsafe: bool = False,
    fsync: bool | None = None,
) -> Target:
    """What a uri and a branch mean to somebody who writes.

    The uri may carry the name of a branch. Raises NotFoundError for a branch that is not there,
    InvalidInputError for a uri that means a tag or a single version, and
    IncompatibleConflictError for a branch that was published and closed.
    """
    options = None if storage_options is None else StorageOptions(storage_options)
    opened = partial(
        open_table_store,
        storage_options=options,
        fsync=fsync,
        unsafe=unsafe,
        manifest_store=manifest_store,
    )
    store, revision = find_address(uri, opened)
    place = Place(store, options, None, base_options(base_storage_options))
    if revision is None and not is_table(store):
        if branch is not None and branch != MAIN:
            raise NotFoundError(
                f"no table at {store.uri}, so it has no branch {branch!r}: write to main first, "
                "then create the branch",
                table=store.uri,
                branch=branch,
            )
        return Target(place, None)
    snapshot = open_revision(place, branch=branch, in_uri=revision)
    if revision is not None:
        _check_branch(revision, snapshot)
    snapshot.check_writable()
    snapshot.check_open()
    return Target(snapshot.place, snapshot)


def _check_branch(revision: str, snapshot: Snapshot) -> None:
    meant = parse_revision(revision)
    is_version = isinstance(meant, OnBranch) and meant.version is not None
    if is_version or isinstance(meant, AtTag) or TAG in snapshot.derived:
        raise InvalidInputError(
            f"the uri carries {revision!r}, which is one version of {snapshot.place.uri}, and "
            "versions do not change; write to a branch: give its name there, or as branch=",
            revision=revision,
        )
