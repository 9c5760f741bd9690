"""Which file system a path is on, and whether the times of its directories can be trusted.

A network file system may show times from a cache. Only those known to be local and exact are
trusted; everything else, and everything on a system without a table of mounts, is not.
"""

from __future__ import annotations

import os

_TABLE = "/proc/self/mountinfo"
LOCAL_KINDS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "overlay"})


_known: dict[int, bool] = {}


def keeps_directory_times(path: str, device: int) -> bool:
    """Whether a directory there shows at once, to everyone, that its names changed.

    ``device`` is the number of its file system, by which the answer is cached.
    """
    if device not in _known:
        _known[device] = mount_kind(os.path.realpath(path)) in LOCAL_KINDS
    return _known[device]


def mount_kind(path: str, table: str = _TABLE) -> str | None:
    """The type of the file system with the longest mount point above the path."""
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split() for line in lines]
    except OSError:
        return None
    best, kind = -1, None
    for fields in mounts:
        if len(fields) < 5 or "-" not in fields:
            continue
        point = fields[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        after = fields.index("-") + 1
        if inside and len(point) >= best and after < len(fields):
            best, kind = len(point), fields[after]
    return kind
