"""Did a commit land? Asked by whoever may delete its files if, and only if, it did not."""

from __future__ import annotations

from lancewood.engine.place import Place
from lancewood.engine.transactions import load_transaction_of
from lancewood.engine.versions import versions_since
from lancewood.errors import CommitUnknownError, NotFoundError
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version


def find_landed(place: Place, scheme: NamingScheme, uuid: str, after: Version) -> Version | None:
    """The version above ``after`` that a transaction became; None proves that there is none so far.

    Nobody may be about to commit the same transaction meanwhile. Raises CommitUnknownError where
    nobody can tell, because the table or a version in between is gone or does not say what made
    it, and StorageError if the store does not answer.
    """
    store = place.store
    try:
        newer = versions_since(store, after, scheme).versions
    except NotFoundError as gone:
        raise CommitUnknownError(
            f"nobody can tell whether transaction {uuid} landed: {gone.message}", uuid=uuid
        ) from gone
    expected, doubt = after, ""
    for version in reversed(newer):
        expected = Version(expected + 1)
        if version != expected:
            doubt, expected = doubt or f"version {expected} is gone", version
        found = load_transaction_of(store, version, scheme)
        if found.uuid == uuid:
            return version
        if not found.uuid:
            doubt = doubt or f"version {version} does not say what made it"
    if doubt:
        raise CommitUnknownError(
            f"nobody can tell whether transaction {uuid} landed on {store.uri}: {doubt}",
            uuid=uuid,
        )
    return None
