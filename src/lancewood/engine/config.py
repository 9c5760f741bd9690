"""The table's own settings: which keys may be set, and the change that sets them."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.errors import InvalidInputError
from lancewood.model.operations import MapUpdate

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
    for key in values:
        if isinstance(key, str) and key.startswith(RESERVED_PREFIX) and key not in KNOWN_KEYS:
            raise InvalidInputError(
                f"configuration key {key!r} is not known: the prefix {RESERVED_PREFIX!r} is "
                f"reserved for {', '.join(sorted(KNOWN_KEYS))}"
            )
    return text_update(values, replace=replace)


def text_update(values: Mapping[str, str | None], *, replace: bool = False) -> MapUpdate:
    """A change to a map of strings; raises InvalidInputError for anything else."""
    for key, value in values.items():
        if not isinstance(key, str) or not key:
            raise InvalidInputError(f"a key must be a text that is not empty, got {key!r}")
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(
                f"the value of {key!r} must be a text, or None to remove the key; got {value!r}"
            )
    if not values and not replace:
        raise InvalidInputError("nothing to change was given")
    return MapUpdate(dict(values), replace)
