from __future__ import annotations

from pathlib import Path

import pytest

from lancewood.store.mounts import LOCAL_KINDS, mount_kind

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/far rw - nfs4 host:/x rw
31 22 0:41 / /mnt/with\\040space rw - xfs /dev/sdb rw
32 30 0:42 / /mnt/far/near rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/t.lance", True),
        ("/mnt/far/t.lance", False),
        ("/mnt/farther", True),
        ("/mnt/far/near/t", True),
        ("/mnt/with space/t", True),
    ],
)
def test_the_longest_mount_point_decides(tmp_path: Path, path: str, expected: bool) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert (mount_kind(path, str(table)) in LOCAL_KINDS) is expected


def test_without_a_table_nothing_is_believed(tmp_path: Path) -> None:
    assert mount_kind("/", str(tmp_path / "missing")) is None
