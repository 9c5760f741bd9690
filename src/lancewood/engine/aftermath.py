"""What may have happened while a version was published: asked once it is there.

It landed, so the only error is CommitUnknownError: nobody may take its files for those of a commit
that did not.
"""

from __future__ import annotations

from lancewood.engine.place import Place
from lancewood.engine.refs import load_branch
from lancewood.errors import CommitUnknownError, NotFoundError, StorageError
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import BranchName
from lancewood.store.base import Store


def check_source(store: Store, scheme: NamingScheme, version: Version, source: Version) -> None:
    """Raises CommitUnknownError if the older version that this one was made of is gone.

    A cleanup that began before may have taken its files for those of a version that nobody
    needs. As long as its manifest is there, it has not.
    """
    if not source or is_detached(source):
        return
    try:
        store.head(manifest_key(source, scheme))
    except NotFoundError as cause:
        raise CommitUnknownError(
            f"version {version} of {store.uri} was made of version {source} while a "
            "cleanup removed that, and files of it may be gone; verify() tells, and restoring "
            "the version before goes back",
            version=version,
        ) from cause
    except StorageError:
        return  # it landed, and nothing speaks against it


def check_branch(place: Place, scheme: NamingScheme, head: ManifestHead, before: Version) -> None:
    """Raises CommitUnknownError if the version landed in a root that its branch has left.

    Renaming and deleting a branch free the numbers of its versions. As long as the version
    ``before`` is there, or a record names the branch, nobody has done so.
    """
    main = place.main(head)
    if main is None or head.branch is None:
        return
    try:
        place.store.head(manifest_key(before, scheme))
    except NotFoundError:
        if load_branch(main, BranchName.found(head.branch)) is None:
            raise CommitUnknownError(
                f"version {head.version} of branch {head.branch} landed at "
                f"{place.uri} while the branch was renamed or deleted; look at "
                "branches.list(), and do it again on the branch as it is now called",
                version=head.version,
                branch=head.branch,
            ) from None
    except StorageError:
        return  # it landed, and nothing speaks against it
