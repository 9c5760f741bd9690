"""Diagnosis of a table, or of the location where one is to be created.

First the store and its guarantees (``store.checkup``), then the table in it, if there is one. Reads
manifests, no data file. Repairs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lancewood.engine.commit import check_manifest_store
from lancewood.engine.location import Location
from lancewood.engine.versions import list_versions, load_version
from lancewood.errors import FormatError, LancewoodError, NotFoundError, UnsupportedError
from lancewood.external.store import ExternalStore
from lancewood.format.layout import HINT_KEY, NamingScheme
from lancewood.model.manifest import Manifest
from lancewood.rules.features import check_writable
from lancewood.store.base import Store, bare
from lancewood.store.checkup import Answer, CheckStatus, StoreCheck, check_store, run_check


def examine(store: Store, *, read_only: bool = False) -> Iterator[StoreCheck]:
    """Run every check and yield its result; ``read_only`` leaves out those that write."""
    failed = False
    for check in check_store(bare(store), read_only=read_only):
        check = _excused(store, check)
        failed = failed or (check.name == "reachable" and check.status is CheckStatus.FAIL)
        yield check
    if isinstance(store, ExternalStore):
        yield run_check(
            "manifest store", lambda: _manifest_store(store), "check its address and its rights"
        )
    if not failed:
        yield from check_table(store)


def _excused(store: Store, check: StoreCheck) -> StoreCheck:
    """The result of a check, excused if the store cannot put if absent but manifests are committed
    in another way."""
    if (
        check.name != "put-if-absent"
        or check.status is not CheckStatus.FAIL
        or store is bare(store)
    ):
        return check
    advice = "two writers that create the same branch or tag at once may both succeed"
    return StoreCheck(
        check.name, CheckStatus.WARN, f"{check.figure}; commits do not need it here", advice
    )


def _manifest_store(store: ExternalStore) -> Answer:
    """Check whether the manifest store answers, and agrees with the object store."""
    latest = store.manifests.latest(store.base)
    if latest is None:
        return CheckStatus.OK, f"{store.kind}, knows no version of this table", None
    lost = store.lost_version()
    if lost is not None:
        return CheckStatus.FAIL, f"{store.kind}, version {lost} is lost", "run lw table repair"
    return CheckStatus.OK, f"{store.kind}, the newest is {latest.version}", None


def check_table(store: Store) -> Iterator[StoreCheck]:
    """The checks of an existing table; one line if there is none."""
    try:
        found = list_versions(store)
    except FormatError as error:
        yield StoreCheck("table", CheckStatus.FAIL, str(error), "run lw table migrate-names")
        return
    except LancewoodError as error:
        yield StoreCheck("table", CheckStatus.FAIL, str(error), "check the credentials")
        return
    newest = found.newest
    if newest is None:
        yield StoreCheck("table", CheckStatus.SKIP, "there is none here")
        return
    yield StoreCheck(
        "table", CheckStatus.OK, f"{len(found.versions)} versions, the newest is {newest}"
    )
    if found.scheme is NamingScheme.V1:
        yield StoreCheck(
            "manifest names",
            CheckStatus.WARN,
            "scheme V1",
            "the newest version is found by listing all of them: run lw table migrate-names",
        )
    else:
        yield StoreCheck("manifest names", CheckStatus.OK, "scheme V2")
    yield run_check("hint", lambda: _hint(store, newest), "it can be deleted, nothing needs it")
    try:
        manifest, _ = load_version(store)
    except LancewoodError as error:
        yield StoreCheck(
            "newest version", CheckStatus.FAIL, str(error), "open an older version, restore it"
        )
        return
    figure = f"{manifest.fragment_count} fragments, {manifest.size} bytes of manifest"
    yield StoreCheck("newest version", CheckStatus.OK, figure)
    yield _writable(store, manifest)


def _hint(store: Store, newest: int) -> Answer:
    """Check whether the version hint is right."""
    try:
        data = store.get(HINT_KEY)
    except NotFoundError:
        return CheckStatus.OK, "none, and none is needed", None
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError):
        version = None
    if version == newest:
        return CheckStatus.OK, f"version {version}", None
    if isinstance(version, int) and version < newest:
        return CheckStatus.OK, f"version {version}, {newest - version} behind", None
    return (
        CheckStatus.WARN,
        "it is no version" if version is None else f"version {version!r}, which is not there",
        "delete it: readers that start there search in vain first",
    )


def _writable(store: Store, manifest: Manifest) -> StoreCheck:
    try:
        check_writable(manifest)
        check_manifest_store(Location(store), manifest)
    except UnsupportedError as error:
        return StoreCheck(
            "writable", CheckStatus.WARN, str(error), "read it here, write it with its writer"
        )
    return StoreCheck("writable", CheckStatus.OK, "no flag forbids it")
