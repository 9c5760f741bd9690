"""The tag that keeps a branch while its target refers to its files.

Both implementations refuse to delete a branch that a tag points at, and keep the files of a tagged
version.
"""

from __future__ import annotations

import time

from lancewood.engine.snapshot import Snapshot
from lancewood.format.refs import encode_tag, tag_key
from lancewood.jobs.naming.guards import PUBLISH_GUARD
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName, Tag, TagName
from lancewood.store.base import Store


def _guard_name(uuid: str) -> TagName:
    """The name of the guard of one publishing."""
    return TagName(f"{PUBLISH_GUARD}{uuid}")


def place_guard(main: Store, head: Snapshot, uuid: str) -> None:
    """Tag the version that is published; one that is there already is the same."""
    branch = head.manifest.branch
    assert branch is not None, "asked of a branch"
    now = time.time_ns()
    tag = Tag(
        name=_guard_name(uuid),
        branch=BranchName.found(branch),
        version=Version(head.manifest.version),
        manifest_size=head.manifest.size,
        created_at_ns=now,
        updated_at_ns=now,
    )
    main.put_new(tag_key(tag.name), encode_tag(tag))


def remove_guard(main: Store, uuid: str) -> None:
    """Remove the guard of a publishing that did not land."""
    main.delete([tag_key(_guard_name(uuid))])
