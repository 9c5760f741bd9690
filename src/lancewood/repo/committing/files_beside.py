"""Files that a commit gets beside its tables, decided at the moment of the swap.

What they say may depend on what others committed meanwhile. So who gives them gives a function of
the commit that the new one follows, and it is asked again whenever that is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from lancewood.catalog.files import checked_files
from lancewood.git.hashes import Hash
from lancewood.repo.grounds import Grounds
from lancewood.repo.looking.view import View

FilesBeside: TypeAlias = Mapping[str, bytes] | Callable[[View | None], Mapping[str, bytes] | None]
"""Files by path; or a function of the commit that is followed (None: there is none yet) that gives
them, and None if nothing is left to commit. It may raise ConflictError."""


class Beside:
    """The files of one commit that is about to be made."""

    def __init__(self, grounds: Grounds, files: FilesBeside | None) -> None:
        self._grounds = grounds
        self._files = files if files is None or callable(files) else checked_files(files)
        self._seen: tuple[Hash | None, dict[str, bytes] | None] | None = None

    @property
    def is_any(self) -> bool:
        return self._files is not None

    def after(self, tip: Hash | None) -> dict[str, bytes] | None:
        """The files of a commit that follows ``tip``; None if there is to be none."""
        if self._files is None:
            return {}
        if not callable(self._files):
            return dict(self._files)
        if self._seen is None or self._seen[0] != tip:
            found = self._files(None if tip is None else View(self._grounds, tip))
            self._seen = tip, None if found is None else checked_files(found)
        return self._seen[1]
