"""Writing the first version of a branch or a clone: one transaction and one manifest.

No data is read or copied: a shallow clone refers to the files of the source, and those of a deep
one must be in its root already. Knows nothing of refs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from lancewood.engine.commit import PutIfAbsent, PutVersion, lost_staged_file
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, vector_of
from lancewood.engine.versions import newest_version
from lancewood.engine.write.claims import OwnIds
from lancewood.errors import AlreadyExistsError, InvalidInputError, RetryableConflictError
from lancewood.format.layout import NamingScheme, transaction_key, transaction_name
from lancewood.format.manifest import VersionStamp
from lancewood.format.moved import CloneHead, clone_manifest, deep_clone_manifest
from lancewood.format.transaction import encode_transaction
from lancewood.model.ids import Version, is_detached
from lancewood.model.lines import line_config
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName
from lancewood.model.table_config import ANY_REPOSITORY, RESET_KEY
from lancewood.model.transaction import Clone, Transaction
from lancewood.rules.features import check_writable
from lancewood.store.base import PutOutcome
from lancewood.version import LIBRARY, RELEASE

_Make: TypeAlias = Callable[[VersionStamp], tuple[Manifest, bytes]]


def write_clone(
    source: Snapshot,
    target: Location,
    *,
    branch: BranchName | None = None,
    base_name: str | None = None,
    config: Mapping[str, str] | None = None,
    ids: OwnIds | None = None,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """The first version of a clone of the source, which has the same number as the source.

    ``branch`` is what the clone is called if it is a branch, ``base_name`` what its base path for
    the source's root is called, ``config`` its configuration if that is another one, ``ids`` what a
    branch has of its own. Raises AlreadyExistsError, before anything is written or because another
    was faster, if the target holds a version.
    """
    check_clonable(source, target, branch=branch)
    paths = {} if branch is not None else _present_paths(source)
    if branch is not None:
        config = _branch_config(source, ids)
    first_id = None if ids is None else ids.first_id
    head = CloneHead(source.location.uri, base_name, branch, config, paths, first_id)
    operation = _clone(source, is_shallow=True, branch=branch)
    return _write(
        source,
        target,
        operation,
        lambda stamp: clone_manifest(source.manifest, head, stamp),
        properties,
    )


def version_after(source: Snapshot, head: Snapshot) -> Version:
    """The number that a clone of the source gets after ``head``: the next one, and not below that
    of the source, whose rows tell which versions made them."""
    return Version(max(head.manifest.version + 1, source.manifest.version))


def write_clone_after(
    source: Snapshot, head: Snapshot, *, branch: BranchName, ids: OwnIds | None = None
) -> Snapshot:
    """A later version of a branch that is a clone of the source, as its first one was.

    Raises AlreadyExistsError if somebody was faster.
    """
    check_source(source)
    before = head.manifest
    version = version_after(source, head)
    config = {**_branch_config(source, ids), RESET_KEY: str(version)}
    first_id = None if ids is None else ids.first_id
    made = CloneHead(
        source.location.uri, source.manifest.branch, branch, config, next_row_id=first_id
    )
    return _write(
        source,
        head.location,
        _clone(source, is_shallow=True, branch=branch),
        lambda stamp: clone_manifest(source.manifest, made, stamp),
        version=version,
        scheme=head.scheme,
        before=before,
    )


def write_deep_clone(
    source: Snapshot,
    target: Location,
    *,
    renamed: Mapping[str, str],
    config: Mapping[str, str],
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """The first version of a clone whose files are in the target's own root already.

    ``renamed`` are data files, by base id and name, that have another name there. Raises
    RetryableConflictError if one of them is gone: another table was made there and dropped.
    """
    check_clonable(source, target)
    keeps_bases = any(each.is_blob_v2 for each in source.schema.walk())
    return _write(
        source,
        target,
        _clone(source, is_shallow=False),
        lambda stamp: deep_clone_manifest(
            source.manifest, renamed, config, stamp, keeps_bases=keeps_bases
        ),
        properties,
        has_files=True,
    )


def check_clonable(source: Snapshot, target: Location, *, branch: BranchName | None = None) -> None:
    """Raises what a clone would raise before it writes anything."""
    check_source(source, is_branch=branch is not None)
    PutIfAbsent().check_trust(target.store)
    if newest_version(target.store) is not None:
        raise _exists(target)


def check_source(source: Snapshot, *, is_branch: bool = True) -> None:
    """Raises UnsupportedError or InvalidInputError for a version that cannot be cloned.

    A table that a repository keeps for itself may be cloned by everybody, and branched by nobody
    else.
    """
    head = source.manifest
    check_writable(head, source.location.repository if is_branch else ANY_REPOSITORY)
    if is_detached(head.version):
        raise InvalidInputError(
            f"this state of {source.location.uri} is detached, and a branch or clone of it would "
            "not open; take a version of the history"
        )


def _clone(source: Snapshot, *, is_shallow: bool, branch: BranchName | None = None) -> Clone:
    return Clone(
        is_shallow=is_shallow,
        ref_version=source.manifest.version,
        ref_path=source.location.uri,
        ref_name=source.manifest.branch,
        branch_name=branch,
    )


def _write(
    source: Snapshot,
    target: Location,
    operation: Clone,
    make: _Make,
    properties: Mapping[str, str] | None = None,
    *,
    version: Version | None = None,
    scheme: NamingScheme = NamingScheme.V2,
    before: Manifest | None = None,
    has_files: bool = False,
) -> Snapshot:
    started = time.time_ns()
    read = source.manifest.version
    version = read if version is None else version
    transaction = Transaction.new(read, operation, properties=properties)
    name, data = transaction_name(read, transaction.uuid), encode_transaction(transaction)
    stamp = VersionStamp(version, started, name, data, LIBRARY, RELEASE)
    manifest, written = make(stamp)
    store = target.store
    store.put(transaction_key(name), data)
    if has_files and lost_staged_file(target, None, manifest) is not None:
        raise _disturbed(target)
    if PutIfAbsent().publish(store, version, scheme, written) is PutOutcome.EXISTS:
        raise _exists(target)
    put = PutVersion(
        location=target,
        scheme=scheme,
        manifest=manifest,
        data=written,
        before=lambda: before,
        lost=lambda: lost_staged_file(target, None, manifest) if has_files else None,
        witness=transaction_key(name),
        took_ns=time.time_ns() - started,
        is_first=before is None,
    )
    if not put.stands():
        raise _disturbed(target) if newest_version(store) is None else _exists(target)
    return Snapshot(target, manifest, scheme)


def _branch_config(source: Snapshot, ids: OwnIds | None) -> Mapping[str, str]:
    """The configuration of a branch of the source: another line, which holds what the source does.
    Tables without row ids know no lines."""
    config = source.manifest.config
    if not source.manifest.has_stable_row_ids:
        return config
    return line_config(config, None if ids is None else ids.line, vector_of(source))


def _present_paths(source: Snapshot) -> dict[str, str]:
    """Base paths that a clone elsewhere must spell in another way than its source: those that are
    relative, and those that lead elsewhere since the source was moved."""
    source.location.settle(source.manifest)
    found = {each.path: source.location.base_store(each).uri for each in source.manifest.base_paths}
    return {old: new for old, new in found.items() if old.rstrip("/") != new}


def _disturbed(target: Location) -> RetryableConflictError:
    return RetryableConflictError(
        f"nothing was made at {target.uri}: something else was made there and removed meanwhile, "
        "and files with it; do it again",
        uri=target.uri,
    )


def _exists(target: Location) -> AlreadyExistsError:
    return AlreadyExistsError(f"there is a table at {target.uri} already", uri=target.uri)
