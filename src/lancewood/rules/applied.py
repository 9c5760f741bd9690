"""Whether a batch may be loaded, and how it is recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.errors import BatchAppliedError
from lancewood.model.table_config import (
    APPLIED_PREFIX,
    LATEST,
    MOST_APPS,
    AppliedBatch,
    Mark,
    marks,
    newest_batch,
)


def check_new(config: Mapping[str, str], wanted: AppliedBatch | None) -> None:
    """Raise BatchAppliedError for a batch that is there already, and for an earlier one."""
    if wanted is None:
        return
    found = newest_batch(config, wanted.app)
    if found is not None and found >= wanted.batch:
        what = "is there already" if found == wanted.batch else f"comes after batch {found}"
        raise BatchAppliedError(
            f"batch {wanted.batch} of {wanted.app!r} {what}; nothing was written. Give the next "
            "batch a higher number",
            app=wanted.app,
            batch=wanted.batch,
            applied=found,
        )


def is_applied(config: Mapping[str, str], wanted: AppliedBatch | None) -> bool:
    """Whether a batch, or a later one, is there already; no batch is never there."""
    try:
        check_new(config, wanted)
    except BatchAppliedError:
        return True
    return False


def with_mark(
    config: Mapping[str, str], applied: AppliedBatch, uuid: str, at: int
) -> dict[str, str]:
    """The configuration that also records the batch.

    Beyond the maximum number of applications, those that loaded longest ago are dropped. A clock
    that is behind does no harm: no mark is older than those recorded before it.
    """
    others = [(mark.at, app) for app, mark in marks(config) if app != applied.app]
    at = max([at, *(min(before + 1, LATEST) for before, _ in others)])
    marked = {**config, applied.key: Mark(applied.batch, uuid, at).encode()}
    for _, app in sorted(others)[: max(0, len(others) - (MOST_APPS - 1))]:
        del marked[APPLIED_PREFIX + app]
    return marked


def marks_of(config: Mapping[str, str]) -> dict[str, str]:
    """The part of a configuration that records what was loaded."""
    return {key: value for key, value in config.items() if key.startswith(APPLIED_PREFIX)}
