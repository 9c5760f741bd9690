"""A new repository with its first commit, made whole under another name and then renamed.

So it is there with everything or not at all, and costs a third of the files and directories that
``init`` and a commit take: the objects are one pack, and there is no log of moves yet, since
nothing has moved. For repositories of which there are millions. Knows nothing of tables.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Mapping

from lancewood.errors import StorageError
from lancewood.git.hashes import Hash, checked_hash, is_hash
from lancewood.git.kind import new_config
from lancewood.git.names import HEAD, checked_ref
from lancewood.git.newpack import write_pack
from lancewood.git.reading import SYMBOLIC
from lancewood.git.syncing import sync_paths

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EXDEV)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def make_whole(
    path: str,
    *,
    staging: str,
    head: str,
    refs: Mapping[str, Hash],
    objects: Mapping[Hash, tuple[bytes, bytes]],
    settings: Mapping[str, str],
    fsync: bool,
) -> bool:
    """Make a bare repository at ``path`` with these refs, by their full names.

    ``head`` is the full name of a branch, or a hash: then HEAD is detached.
    ``staging`` is a path on the same file system where nothing is. False if something is at
    ``path`` already, or it is on another file system; then nothing has changed. The name itself
    is durable when the directory that ``path`` is in is synced, which is left to the caller.
    Raises StorageError.
    """
    texts = {"config": new_config(settings)}
    for ref, hash in refs.items():
        texts[checked_ref(ref)] = checked_hash(hash).encode() + b"\n"
    named = checked_hash(head) if is_hash(head) else SYMBOLIC + checked_ref(head)
    texts[HEAD] = named.encode() + b"\n"
    try:
        directories = _make_directories(staging, texts)
        files = [*write_pack(f"{staging}/objects/pack", objects)]
        for name, text in texts.items():
            files.append(f"{staging}/{name}")
            descriptor = os.open(files[-1], _CREATE, 0o666)
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)
        if fsync:
            sync_paths(files, directories)
        os.rename(staging, path)
    except OSError as cause:
        shutil.rmtree(staging, ignore_errors=True)
        if cause.errno in _TAKEN:
            return False
        raise StorageError(
            f"cannot make a repository at {path}: {cause.strerror}", path=path
        ) from cause
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return True


def _make_directories(root: str, files: Iterable[str]) -> list[str]:
    """The directories of a repository and of its files; all of them are new."""
    wanted = {"": None, "objects": None, "objects/pack": None, "refs": None, "refs/heads": None}
    for each in files:
        parts = each.split("/")[:-1]
        wanted |= {"/".join(parts[:count]): None for count in range(1, len(parts) + 1)}
    made = [f"{root}/{each}".rstrip("/") for each in wanted]
    for each in made:
        os.mkdir(each)
    return made
