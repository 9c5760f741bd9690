"""Writing the first version of a branch or a shallow clone: one transaction and one manifest.

No data is read or copied: the new root refers to the files of the source. Knows nothing of refs.
"""

from __future__ import annotations

import time

from lancewood.engine.place import Place
from lancewood.engine.publish import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import newest_version
from lancewood.errors import AlreadyExistsError, InvalidInputError
from lancewood.format.clone import clone_manifest
from lancewood.format.layout import NamingScheme, transaction_key, transaction_name
from lancewood.format.manifest import Stamp
from lancewood.format.transaction import encode_transaction
from lancewood.model.ids import is_detached
from lancewood.model.operations import Clone
from lancewood.model.refs import BranchName
from lancewood.model.transaction import Transaction
from lancewood.rules.features import check_writable
from lancewood.store.base import PutOutcome
from lancewood.version import LIBRARY, RELEASE


def write_clone(
    source: Snapshot,
    target: Place,
    *,
    branch: BranchName | None = None,
    base_name: str | None = None,
) -> Snapshot:
    """The first version of a clone of the source, which has the same number as the source.

    ``branch`` is what the clone is called if it is a branch, ``base_name`` what its base path for
    the source's root is called. Raises AlreadyExistsError, before anything is written or because
    another was faster, if the target holds a version.
    """
    head = source.manifest
    check_writable(head)
    if is_detached(head.version):
        raise InvalidInputError(
            f"version {head.version} of {source.place.uri} is detached, and a branch or clone of "
            "it would not open; take a version of the history"
        )
    PutIfAbsent().check_trust(target.store)
    if newest_version(target.store) is not None:
        raise _exists(target)
    operation = Clone(
        is_shallow=True,
        ref_version=head.version,
        ref_path=source.place.uri,
        ref_name=head.branch,
        branch_name=branch,
    )
    transaction = Transaction.new(head.version, operation)
    name, data = transaction_name(head.version, transaction.uuid), encode_transaction(transaction)
    stamp = Stamp(head.version, time.time_ns(), name, data, LIBRARY, RELEASE)
    manifest, written = clone_manifest(head, source.place.uri, base_name, branch, stamp)
    target.store.put(transaction_key(name), data)
    outcome = PutIfAbsent().publish(target.store, head.version, NamingScheme.V2, written)
    if outcome is PutOutcome.EXISTS:
        raise _exists(target)
    return Snapshot(target, manifest, NamingScheme.V2)


def _exists(target: Place) -> AlreadyExistsError:
    return AlreadyExistsError(f"there is a table at {target.uri} already", uri=target.uri)
