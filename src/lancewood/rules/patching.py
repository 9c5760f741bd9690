"""From changes to a patch: what every rule of ``apply`` ends with."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import ManifestHead
from lancewood.model.patch import HeadChanges, ManifestPatch
from lancewood.rules.features import next_flags


def make_patch(
    source: ManifestHead,
    changes: HeadChanges,
    *,
    keep: bool = True,
    add: tuple[Fragment, ...] = (),
    changed: Mapping[FragmentId, Fragment] | None = None,
    remove: frozenset[FragmentId] = frozenset(),
    live_fields: frozenset[FieldId] | None = None,
) -> ManifestPatch:
    """The patch with the feature flags that its content needs."""
    changed = changed or {}
    flags = next_flags(source, changes, (*add, *changed.values()), keep=keep)
    return ManifestPatch(
        head=changes,
        flags=flags,
        keep=keep,
        add=add,
        replace=changed,
        remove=remove,
        live_fields=live_fields,
    )
