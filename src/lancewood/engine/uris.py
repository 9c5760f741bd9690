"""A uri that may carry a revision: ``photos.lance@exp``.

A uri that is itself a table wins; else it is parted at the first ``@`` before which there is a
table. So one listing more is needed, and only where there is an ``@``. A ``PathLike`` is a path and
carries nothing. What the revision means is not looked at here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from lancewood.engine.versions import newest_version
from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.revision import split_uri
from lancewood.store.base import Store

Uri: TypeAlias = str | os.PathLike[str]


class Address(NamedTuple):
    """A root where a table is, or could be, and what the uri said besides."""

    store: Store
    revision: str | None = None


def find_address(uri: Uri, opened: Callable[[Uri], Store]) -> Address:
    """What a uri means; ``opened`` makes the store of a root."""
    whole = opened(uri)
    parts = list(split_uri(uri)) if isinstance(uri, str) else []
    if not parts or is_table(whole):
        return Address(whole)
    for root, revision in parts:
        store = opened(root)
        if is_table(store):
            return Address(store, revision)
    return Address(whole)


def check_whole(verb: str, uri: Uri, revision: str | None) -> None:
    """Raise InvalidInputError where a verb on whole tables is given a revision."""
    if revision is not None:
        raise InvalidInputError(
            f"{verb} takes a whole table, and {uri!r} is revision {revision!r} of one; give the "
            "uri alone. A pathlib.Path is never taken for a revision",
            revision=revision,
        )


def is_table(store: Store) -> bool:
    """Whether there is a table, in whatever state; no manifest is opened."""
    try:
        return newest_version(store) is not None
    except FormatError:
        return True
