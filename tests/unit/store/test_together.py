"""Short works that are done at once."""

from __future__ import annotations

import pytest

from lancewood.errors import StorageError
from lancewood.store.together import together


def test_an_interrupt_is_raised_before_any_other_failure() -> None:
    def fail() -> None:
        raise StorageError("away")

    def interrupt() -> None:
        raise KeyboardInterrupt

    for works in ([fail, interrupt], [interrupt, fail]):
        with pytest.raises(KeyboardInterrupt):
            together(works)
