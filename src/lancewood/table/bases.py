"""Verbs of a table's base paths: the other homes of its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Self

from lancewood.engine.base_paths import BasePath, declared_bases, normal_path
from lancewood.engine.chosen_homes import Base
from lancewood.jobs.base_changes import add_base_path, set_base_path
from lancewood.table.handle import Handle, terms


class BaseVerbs(Handle):
    """Verbs of a table's base paths: the other homes of its files."""

    @property
    def base_paths(self) -> tuple[BasePath, ...]:
        """The other homes that this version declares, as its manifest spells them."""
        return declared_bases(self._snapshot.manifest.base_paths)

    def add_base(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        is_dataset_root: bool = False,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        serializable: bool = False,
    ) -> Self:
        """Declare another home for data files, which ``append(bases=…)`` can then write to.

        Files lie directly in ``path`` or, where it ``is_dataset_root``, in its directory ``data``.
        Raises InvalidInputError for a name or place that the table has already, for its own root,
        and for a place in the directories of a table, whose cleanup would remove the files.
        """
        base = BasePath(path, name=name, is_dataset_root=is_dataset_root)
        conditions = terms(message, properties, serializable=serializable)
        return self._after(add_base_path(self._snapshot, base, conditions))

    def set_base(
        self,
        base: Base,
        path: str | os.PathLike[str],
        *,
        check: bool = True,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        serializable: bool = False,
    ) -> Self:
        """Say where a base path is now, after its files were brought there by other means.

        ``base`` is its id, name or path. Some of its data files are looked for at the new place, by
        name and size, before anything changes; ``check=False`` takes your word for it. Older
        versions, tags and other branches still lead to the old place, and restoring an older
        version brings it back. Recorded as a Restore of the newest version: whoever was writing
        meanwhile is told to run again. The one exception is an overwrite by pylance, which must not
        be under way.
        """
        if message is None:
            message = f"base path {base} is at {normal_path(path)} now"
        conditions = terms(message, properties, serializable=serializable)
        return self._after(set_base_path(self._snapshot, base, path, conditions, check=check))
