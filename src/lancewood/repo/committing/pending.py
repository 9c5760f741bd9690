"""A table that a transaction writes, from its stage to its pin, and on to its branch.

Knows one table. Which tables a commit has, and what to do when another was faster, is for
``transaction`` to say.
"""

from __future__ import annotations

from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.engine.landing import land
from lancewood.engine.staging import Stage
from lancewood.repo.grounds import Grounds
from lancewood.repo.writing.exclusive import keep_to_setting

_MOVED = (
    "the transaction has met another commit, and this handle is on a state from before: ask "
    "table() of the transaction for the table again"
)


class Pending:
    """One table of a transaction: its stage, and the pin that the commit gets for it."""

    def __init__(self, stage: Stage, uri: str, *, is_new: bool = False) -> None:
        self.stage = stage
        self.uri = uri
        self.is_new = is_new
        self._pin: Pin | None = None

    def begin(self, stage: Stage) -> None:
        """Go on with a stage that was built anew; who holds the old one is told so."""
        self.stage.close(_MOVED)
        self.stage, self._pin = stage, None

    @property
    def is_changed(self) -> bool:
        return self.is_new or bool(self.stage.steps)

    def keep_to_setting(self, grounds: Grounds) -> None:
        """Have the state that is going to be pinned say who may write to the table."""
        if self._pin is None:
            keep_to_setting(grounds, self.stage)

    def pinned(self) -> Pin:
        """The pin of the last state, which is written first."""
        if self._pin is None:
            if self.stage.steps:
                landing = self.stage.publish()
                self._pin = pin_of(self.stage.published, self.uri, landing)
            else:
                self._pin = pin_of(self.stage.snapshot, self.uri)
        return self._pin

    def land(self) -> None:
        landing = self.pinned().landing
        if landing is not None:
            land(self.stage.place, landing, stage=self.stage)
