"""What counts as a small fragment, smaller than it is, so that few rows are read in every way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from lancewood.data.small_fragments import TO_READ, SmallFragments


@contextmanager
def small_sizes(**sizes: int) -> Iterator[None]:
    """Have each scan take these sizes, whatever it computes."""
    found = TO_READ._replace(**sizes)
    always = property(lambda _: found, lambda *_: None)
    with patch.object(SmallFragments, "sizes", always, create=True):
        yield
