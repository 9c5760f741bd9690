"""``Table.tags``: names for versions that stay where they are put."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.engine.revisions import At
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.naming.tags import create_tag, delete_tag, find_tag, list_tags, update_tag
from lancewood.model.refs import Tag


class Tags:
    """The tags of a table, whatever branch their versions are on. Made by ``Table.tags``.

    A version that a tag names is never cleaned up. Where a verb takes ``at``, None is the version
    of the handle, a number or a moment a version of its branch, a text what ``lancewood.open``
    takes for it: ``"exp:12"``, ``":12"`` (main), another tag.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def create(
        self,
        name: str,
        at: At = None,
        *,
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> Tag:
        """A new tag; raises AlreadyExistsError, or NotFoundError for a version that is not there.

        Letters, digits, ``.``, ``-`` and ``_`` are allowed. ``force`` allows a name that says that
        somebody reads the files of the version, as clones leave one.
        """
        return create_tag(self._snapshot, name, at, metadata=metadata, force=force)

    def update(self, name: str, at: At = None, *, force: bool = False) -> Tag:
        """Move a tag to another version. When it was created and its metadata stay."""
        return update_tag(self._snapshot, name, at, force=force)

    def list(self, *, pins: bool = False) -> dict[str, Tag]:
        """Every tag by its name, sorted; no version is opened.

        With ``pins`` also those that clones and publishing have left.
        """
        return list_tags(self._snapshot, guards=pins)

    def get(self, name: str) -> Tag:
        """What is recorded about a tag; raises NotFoundError."""
        return find_tag(self._snapshot, name)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Remove a tag; its version may then be cleaned up.

        ``force`` also removes one that a clone has left, whose files may then go.
        """
        delete_tag(self._snapshot, name, force=force)

    def __repr__(self) -> str:
        return f"<tags of {self._snapshot.place.uri}>"
