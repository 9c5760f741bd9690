"""What is left to do once a run is published: its tag, its ref, and its branch, which goes.

Each step can be done again, and whoever runs the same id again does those that a crash left out. A
step that fails does not undo the run: it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lancewood.errors import AlreadyExistsError, LancewoodError
from lancewood.git.names import TAGS
from lancewood.pipeline.running.ground import RunGround
from lancewood.pipeline.running.ledger import Ledger, Published
from lancewood.pipeline.running.resume import remove_branch
from lancewood.pipeline.running.stages import Stages


@dataclass(frozen=True, slots=True)
class Finishing:
    """A published run."""

    ground: RunGround
    ledger: Ledger
    stages: Stages

    def run(self, published: Published) -> None:
        """Every step, in this order: the ref comes before the branch goes, for together with the
        file at the tip it is what says that the run is published."""
        self.stages.facts.commit = published.commit
        tag = published.entry.tag
        if tag is not None:
            self._step("tag", f"tag {tag} was not set", lambda: self._tag(tag, published))
        self._step("record", "the run got no ref yet", lambda: self.ledger.note(published))
        stays = f"branch {self.ground.branch} stays"
        self._step("remove branch", stays, lambda: remove_branch(self.ground))

    def _step(self, stage: str, otherwise: str, act: Callable[[], None]) -> None:
        with self.stages(stage):
            try:
                act()
            except (LancewoodError, OSError) as failed:
                self.stages.listener.told(f"{otherwise}: {failed}")

    def _tag(self, name: str, published: Published) -> None:
        repository = self.ground.repository
        with suppress(AlreadyExistsError):
            repository.tags.create(name, at=published.commit)
        found = repository.at(TAGS + name).hash
        if found != published.commit:
            if not self.ledger.is_lost(found, published.entry.run):
                raise AlreadyExistsError(f"it is at commit {found[:12]} already", tag=name)
            # Of this run, before a reset took it away.
            repository.tags.delete(name)
            repository.tags.create(name, at=published.commit)
            self.stages.listener.told(f"tag {name} was at {found[:12]}, which was reset away")
        self.stages.facts.tag = name
