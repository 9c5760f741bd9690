"""What a change wrote, told from two manifests: nothing is read besides them."""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.jobs.publishing.net import find_net
from lancewood.model.fragment import DataFile
from lancewood.table.table import Table


def new_files(before: Table, after: Table) -> tuple[int, int]:
    """How many data files one version has that another has not, and their bytes where known."""
    found = {each.path: each.size or 0 for each in _new_files(before, after)}
    return len(found), sum(found.values())


def _new_files(before: Table, after: Table) -> Iterator[DataFile]:
    net = find_net(before._snapshot.manifest, after._snapshot.manifest)
    for fragment in net.added:
        yield from fragment.files
    for changed in net.changed:
        known = {each.path for each in changed.then.files}
        yield from (each for each in changed.now.files if each.path not in known)
