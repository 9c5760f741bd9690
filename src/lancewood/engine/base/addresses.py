"""Row addresses: a fragment's id in the upper half, a physical offset in the lower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancewood.model.ids import FragmentId

Addresses: TypeAlias = npt.NDArray[np.uint64]

_ROW_BITS = np.uint64(32)
_OFFSET = np.uint64(0xFFFF_FFFF)


def addresses_in(fragment_id: FragmentId, offsets: npt.NDArray[np.int64]) -> Addresses:
    """The addresses of physical offsets in one fragment."""
    return offsets.astype(np.uint64) + (np.uint64(fragment_id) << _ROW_BITS)


def offsets_of(addresses: Addresses) -> npt.NDArray[np.int64]:
    """The physical offsets in row addresses, whatever fragments they are in."""
    return (addresses & _OFFSET).astype(np.int64)


def offsets_by_fragment(
    addresses: Addresses,
) -> Iterator[tuple[FragmentId, npt.NDArray[np.int64]]]:
    """Each fragment that has addresses, and the offsets in it, in their given order."""
    owners = addresses >> _ROW_BITS
    order = np.argsort(owners, kind="stable")
    offsets = offsets_of(addresses)[order]
    ids, begins = np.unique(owners[order], return_index=True)
    bounds = [*begins.tolist(), len(offsets)]
    for at, each in enumerate(ids.tolist()):
        yield FragmentId(each), offsets[bounds[at] : bounds[at + 1]]
