"""From changes to a patch: the last step of every rule of ``apply``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lancewood.errors import RetryableConflictError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import ManifestHead
from lancewood.model.transaction import HeadChanges, ManifestPatch
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
    _check_file_roots(source, changes, (*add, *changed.values()))
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


def with_config(
    source: ManifestHead, patch: ManifestPatch, config: Mapping[str, str]
) -> ManifestPatch:
    """The patch with a new configuration for the table."""
    head = replace(patch.head, config=config)
    fragments = (*patch.add, *patch.replace.values())
    return replace(patch, head=head, flags=next_flags(source, head, fragments, keep=patch.keep))


def _check_file_roots(
    source: ManifestHead, changes: HeadChanges, fragments: Iterable[Fragment]
) -> None:
    """Check that the base paths of new files are still declared: one may be removed while files are
    written to it."""
    bases = source.base_paths if changes.base_paths is None else changes.base_paths
    known = {each.id for each in bases}
    for fragment in fragments:
        for file in fragment.message.files:
            if file.HasField("base_id") and file.base_id not in known:
                raise RetryableConflictError(
                    f"a data file lies at base path {file.base_id}, which version "
                    f"{source.version} does not declare; run it again on the newest version",
                    base_id=file.base_id,
                )
