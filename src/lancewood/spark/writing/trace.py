"""What a commit leaves in a table for those who ask later whether it began, and whether it landed.

Only proof allows deleting the files of a job; what nobody can tell is no proof. Reads names,
transactions and the version that a job was planned on, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.engine.landed import find_landed
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import load_manifest
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.format.layout import transaction_key, transaction_name
from lancewood.store.base import is_there


@dataclass(frozen=True, slots=True)
class Trace:
    """The traces of one transaction."""

    base: Snapshot
    """The version that it is built on."""
    uuid: str

    def was_tried(self) -> bool:
        """Whether a commit has begun: it first writes its transaction down.

        Raises StorageError where the store does not say.
        """
        name = transaction_name(self.base.manifest.version, self.uuid)
        return is_there(self.base.place.store, transaction_key(name))

    def has_landed(self) -> bool:
        """Whether a version is the transaction's.

        Raises CommitUnknownError or StorageError where nobody can tell.
        """
        base = self.base
        return find_landed(base.place, base.scheme, self.uuid, base.manifest.version) is not None

    def is_absent(self) -> bool:
        """Whether it is proven that no version is the transaction's.

        A table or branch that was deleted and made again proves nothing: a version of the one
        before may have been published elsewhere.
        """
        try:
            if self.has_landed():
                return False
            read_again(self.base)
        except LancewoodError:
            return False
        return True

    def has_failed(self) -> bool:
        """Whether it is proven that a commit began and that no version is its."""
        try:
            return self.was_tried() and self.is_absent()
        except LancewoodError:
            return False


def read_again(base: Snapshot) -> Snapshot:
    """The version that a job was planned on, with its fragments, as it is now.

    Raises NotFoundError if it is gone, or another one has taken its number.
    """
    then, uri = base.manifest, base.place.uri
    if not then.version:
        return base
    try:
        now = load_manifest(base.place.store, then.version, base.scheme)
    except NotFoundError as gone:
        raise NotFoundError(
            f"version {then.version} of {uri}, on which this write was planned, is gone: the "
            "table or branch was dropped or renamed, or a cleanup took the version; plan it anew",
            version=then.version,
        ) from gone
    if (now.transaction_file, now.timestamp_ns) != (then.transaction_file, then.timestamp_ns):
        raise NotFoundError(
            f"version {then.version} of {uri} is not the one that this write was planned on: the "
            "table was dropped and made again; plan it anew",
            version=then.version,
        )
    return Snapshot(base.place, now, base.scheme)
