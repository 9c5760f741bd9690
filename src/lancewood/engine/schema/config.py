"""The table's own settings: which keys may be set, and the change that sets them.

Which metadata of a field may be changed is decided where the change is applied (``rules.apply``),
because another commit may land first; values that are never valid are rejected here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace as replaced

from lancewood.data.encodings import check_encoding_keys, check_hints
from lancewood.errors import InvalidInputError
from lancewood.model.ids import FieldId
from lancewood.model.lines import LINE_KEY, MERGED_KEY
from lancewood.model.schema import Field, Schema
from lancewood.model.table_config import APPLIED_PREFIX, EXCLUSIVE_KEY, PUBLISHED_KEY
from lancewood.model.transaction import MapUpdate, check_text

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
"""The keys under the reserved prefix that callers may set."""


def config_update(values: Mapping[str, str | None], *, replace: bool = False) -> MapUpdate:
    """The change to the configuration; raises InvalidInputError for a reserved key."""
    update = text_update(values, replace=replace)
    for key, value in values.items():
        if key.startswith(APPLIED_PREFIX) and value is not None:
            raise InvalidInputError(
                f"configuration key {key!r} says which batch was loaded, and is set with its rows; "
                "None as its value forgets it"
            )
        if key.startswith(RESERVED_PREFIX) and key not in KNOWN_KEYS:
            raise InvalidInputError(
                f"configuration key {key!r} is not known: the prefix {RESERVED_PREFIX!r} is "
                f"reserved for {', '.join(sorted(KNOWN_KEYS))}"
            )
        if key == EXCLUSIVE_KEY and value is not None:
            raise InvalidInputError(
                f"configuration key {key!r} keeps the table for a repository, and is set by that: "
                "repo.exclusive(True); None as its value frees the table"
            )
        if key in (LINE_KEY, MERGED_KEY):
            raise InvalidInputError(
                f"configuration key {key!r} says what the rows of a branch have in common with "
                "those of others, and is set when branches are made and merged"
            )
        if key == PUBLISHED_KEY:
            raise InvalidInputError(
                f"configuration key {key!r} says that a branch was published, and is set and "
                "removed with that; branches.publish and branches.reset do"
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


def field_metadata_update(
    schema: Schema,
    file_version: str,
    values: Mapping[str, Mapping[str, str | None]],
    *,
    replace: bool = False,
) -> dict[FieldId, MapUpdate]:
    """The change to the metadata of fields, which are named by their dotted paths.

    The item of a list is below the list, under its own name. Raises InvalidInputError for an
    unknown column, and for a key or value of an encoding that no codec knows.
    """
    if not isinstance(values, Mapping) or not values:
        raise InvalidInputError(f"a map from columns to maps of texts was expected, got {values!r}")
    known: dict[str, Field] = {}
    for path, field in _paths(schema):
        known.setdefault(path, field)
    updates = {}
    for path, entries in values.items():
        named = known.get(path)
        if named is None:
            close = difflib.get_close_matches(str(path), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidInputError(f"column {path!r} not found{hint}", column=path)
        update = text_update(entries, replace=replace)
        new = {key: value.encode() for key, value in entries.items() if value is not None}
        kept = {} if replace else {k: v for k, v in named.metadata.items() if k not in entries}
        check_encoding_keys(Schema((replaced(named, metadata=new, children=()),)))
        check_hints(replaced(named, metadata={**kept, **new}), path, file_version)
        updates[named.id] = update
    return updates


def _paths(schema: Schema) -> Iterator[tuple[str, Field]]:
    def below(path: str, field: Field) -> Iterator[tuple[str, Field]]:
        yield path, field
        for child in field.children:
            yield from below(f"{path}.{child.name}", child)

    for top in schema.fields:
        yield from below(top.name, top)
