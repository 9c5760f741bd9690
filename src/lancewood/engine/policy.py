"""How hard a commit tries, what it tolerates, and by which clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lancewood.engine.publish import Publisher, PutIfAbsent
from lancewood.model.applied import AppliedBatch


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """How hard a commit tries, and by which clock."""

    max_attempts: int = 64
    serializable: bool = False
    """Refuse if the table moved at all since the transaction's read version."""
    may_be_closed: bool = False
    """Write to a published branch, too: for those who publish and open it."""
    applied: AppliedBatch | None = None
    """Refuse if the table holds this batch or a later one, and note it beside the rows."""
    publisher: Publisher = field(default_factory=PutIfAbsent)
    clock: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
