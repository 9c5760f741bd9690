"""What a commit takes in that others wrote to a table beside the repository.

The history of a table's branch is one line, and a transaction can only follow its newest version.
So what was written there directly, and not committed, is part of the next commit that changes the
table. It is found here, to be said. Reads, and changes nothing.
"""

from __future__ import annotations

from itertools import islice

from lancewood.catalog.pin import Pin
from lancewood.engine.landed_steps import is_last_step
from lancewood.engine.staging import Stage
from lancewood.engine.transactions import load_transaction_of
from lancewood.engine.versions import versions_since
from lancewood.format.manifest_digest import content_digest
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.operations import Clone
from lancewood.model.transaction import STAGED_PROPERTY
from lancewood.repo.outcome import TakenIn

_MOST_READ = 100


def find_taken_in(name: str, pin: Pin, stage: Stage) -> TakenIn | None:
    """The direct writes between what the commit before pins and what a stage is built on; of the
    newest hundred versions. None where rows and columns are what is pinned.

    Costs nothing where the stage is built on the pinned state itself, as is usual.
    """
    base, since = stage.base, Version(0)
    if pin.branch == base.branch:
        if _is_pinned(pin, base):
            return None
        since = pin.version if pin.landing is None else pin.landing.base
    found, message = list[Version](), None
    newer = versions_since(stage.place.store, since, stage.scheme).versions
    for version in islice((each for each in newer if each <= base.version), _MOST_READ):
        made = load_transaction_of(stage.place.store, version, stage.scheme)
        if isinstance(made.operations[0], Clone):
            break  # where a branch of the table begins, or began anew
        if STAGED_PROPERTY not in made.properties:
            found.append(version)
            message = message or made.message
    return TakenIn(name, tuple(reversed(found)), message) if found else None


def _is_pinned(pin: Pin, base: Manifest) -> bool:
    """Whether a version has the rows and columns that are pinned; known by its number and its
    transaction where it is the pinned state itself."""
    is_exact = base.version == pin.exact_version
    if is_exact and (pin.landing is None or is_last_step(base, pin.landing)):
        return True
    return content_digest(base.message) == pin.content
