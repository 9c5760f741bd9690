"""The table's own settings: which keys may be set, and the change that sets them."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.errors import InvalidInputError
from lancewood.model.operations import MapUpdate
from lancewood.model.transaction import check_text

RESERVED_PREFIX = "lance."
KNOWN_KEYS = frozenset(
    {
        "lance.auto_cleanup.interval",
        "lance.auto_cleanup.older_than",
        "lance.auto_cleanup.retain_versions",
        "lance.auto_cleanup.referenced_branch",
        "lance.auto_cleanup.delete_rate_limit",
        "lance.auto_cleanup.delete_concurrency",
    }
)
"""The keys under the reserved prefix that people may set."""


def config_update(values: Mapping[str, str | None], *, replace: bool = False) -> MapUpdate:
    """The change to the configuration; raises InvalidInputError for a reserved key."""
    update = text_update(values, replace=replace)
    for key in values:
        if key.startswith(RESERVED_PREFIX) and key not in KNOWN_KEYS:
            raise InvalidInputError(
                f"configuration key {key!r} is not known: the prefix {RESERVED_PREFIX!r} is "
                f"reserved for {', '.join(sorted(KNOWN_KEYS))}"
            )
    return update


def text_update(values: Mapping[str, str | None], *, replace: bool = False) -> MapUpdate:
    """A change to a map of strings; raises InvalidInputError for anything else."""
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"a map of texts was expected, got {values!r}")
    for key, value in values.items():
        check_text("a key", key)
        if not key:
            raise InvalidInputError("a key must not be empty")
        if value is not None:
            check_text(f"the value of {key!r}", value)
    if not values and not replace:
        raise InvalidInputError("nothing to change was given")
    return MapUpdate(dict(values), replace)
