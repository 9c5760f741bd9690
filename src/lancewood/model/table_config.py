"""What a table's configuration says of it, in keys of ours. Plain values.

*Applied batches*: which batches of which applications a table holds, so that none is loaded twice.
The newest of each is in the same manifest as the rows: a reader that sees the rows sees the mark,
also on a branch or clone made from it, and restoring an older version restores both. Only the most
recent applications are kept. ``rules.features`` decides when a batch is refused.

*Closed branches*: a branch that was published says what its work became. The key never reaches the
branch that it was published onto, nor a branch or clone made from it; ``rules.features`` says what
follows for writers.

*An exclusive table* names the repository that alone may write it, in every version, beside a writer
flag that no other program knows (``model.manifest.FLAG_EXCLUSIVE``): such a program may read, and
refuses to write. A clone elsewhere belongs to nobody, and has no such key. ``rules.features`` says
what follows for writers.

*A manifest store*: the kind of the store through which versions are committed, never its address.
It stops writers that do not know of the store: they would commit beside it, and versions would be
lost. A clone elsewhere has its own publisher, and a copy of the directory can be freed;
``engine.commit`` refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.ids import MAX_U64, Version
from lancewood.model.transaction import MapUpdate, Operation, UpdateConfig, check_text

if TYPE_CHECKING:
    from lancewood.model.manifest import ManifestHead

EXCLUSIVE_KEY = "lancewood.exclusive"
"""The key of the repository's identity in a table's configuration."""
ANY_REPOSITORY = "*"
"""The identity that may write to any table: what is already committed must land anywhere."""


def keeper_of(head: ManifestHead) -> str | None:
    """The only repository that may write the table; None where anybody may."""
    found = head.message.config.get(EXCLUSIVE_KEY)
    return None if found is None else str(found)


def keeping(repository: str | None) -> UpdateConfig:
    """The change that reserves a table for a repository, or with None opens it to everybody."""
    return UpdateConfig(config=MapUpdate({EXCLUSIVE_KEY: repository}))


def frees(operations: Sequence[Operation]) -> bool:
    """Whether the operations only open the table to everybody: anybody may do that, because the
    repository may be gone."""
    return list(operations) == [keeping(None)]


PUBLISHED_KEY = "lancewood.published"
RESET_KEY = "lancewood.reset"
"""In every version of a branch since its last reset: the version in which that was. In two versions
with different values, equal row ids are different rows. The record of the branch has it, too, and
does not apply to versions with another value."""
_MOST_DIGITS = 20
"""The pattern of a version's number."""
RENAMED_KEY = "lancewood.renamed"
"""In the last version of a root whose branch was renamed: the new name."""


def reset_version(config: Mapping[str, str]) -> int:
    """The version in which a branch was last reset, by its configuration; 0 if it never was."""
    text = config.get(RESET_KEY, "")
    found = int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
    return found if found <= MAX_U64 else 0


@dataclass(frozen=True, slots=True)
class Closing:
    """What a closed branch records about its publishing."""

    onto: str | None
    """The branch that it is published onto; None for main."""
    uuid: str
    """The identity of the commit there, landed or not."""
    head: Version
    """The version of the branch that is published."""
    fork: Version
    """The version of the target that the branch was forked from."""
    after: Version
    """The newest version of the target when the branch was closed; the commit comes later."""
    landed: Version | None = None
    """The version of the target that the work became; None if not recorded yet."""

    def encode(self) -> str:
        """The value of the key."""
        return json.dumps(asdict(self))

    @classmethod
    def found_in(cls, config: Mapping[str, str], name: str) -> Closing | None:
        """The closing in a configuration; None for an open branch. Raises FormatError naming the
        file for an invalid value."""
        text = config.get(PUBLISHED_KEY)
        if text is None:
            return None
        try:
            found = json.loads(text)
            onto, uuid = found["onto"], found["uuid"]
            numbers = [found[key] for key in ("head", "fork", "after")]
            landed = found.get("landed")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as cause:
            raise _odd_reset(name, text) from cause
        is_text = isinstance(uuid, str) and isinstance(onto, str | None)
        all_numbers = [*numbers, 0 if landed is None else landed]
        if not is_text or any(type(each) is not int or each < 0 for each in all_numbers):
            raise _odd_reset(name, text)
        head, fork, after = map(Version, numbers)
        return cls(onto, uuid, head, fork, after, landed)


def _odd_reset(name: str, text: str) -> FormatError:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return FormatError(f"{name}: the configuration {PUBLISHED_KEY} says {shown!r}", file=name)


APPLIED_PREFIX = "lancewood.applied."
MOST_APPS = 256
"""Number of applications for which the newest batch is kept."""
_LONGEST_NAME = 200
_MOST = LATEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """One batch of one application. Raises InvalidInputError for invalid values."""

    app: str
    """The application that loads: the same name in every run, also after a crash."""
    batch: int
    """Grows with every batch of the application; gaps are fine."""

    def __post_init__(self) -> None:
        check_text("app", self.app)
        if not self.app or len(self.app) > _LONGEST_NAME:
            raise InvalidInputError(
                f"app takes a name of 1 to {_LONGEST_NAME} characters, got {self.app[:80]!r}"
            )
        is_number = isinstance(self.batch, int) and not isinstance(self.batch, bool)
        if not is_number or not 0 <= self.batch <= _MOST:
            raise InvalidInputError(
                f"batch takes a whole number from 0 that grows with every batch, got {self.batch!r}"
            )

    @property
    def key(self) -> str:
        return APPLIED_PREFIX + self.app

    @classmethod
    def asked_for(cls, app: str | None, batch: int | None) -> AppliedBatch | None:
        """The batch that a caller names; None for neither value. Raises InvalidInputError for only
        one."""
        if app is None and batch is None:
            return None
        if app is None or batch is None:
            raise InvalidInputError(
                "app and batch go together: app names who loads, batch is its running number; got "
                f"app={app!r}, batch={batch!r}"
            )
        return cls(app, batch)


@dataclass(frozen=True, slots=True)
class Mark:
    """What the configuration records for an application."""

    batch: int
    uuid: str
    """The identity of the commit that loaded it."""
    at: int
    """The time in nanoseconds since 1970: the oldest marks make room for new ones."""

    def encode(self) -> str:
        return json.dumps({"batch": self.batch, "uuid": self.uuid, "at": self.at})


def newest_batch(config: Mapping[str, str], app: str) -> int | None:
    """The newest batch of an application that a table holds; None for an unknown application.

    Raises FormatError for an invalid mark: loading again would be a guess.
    """
    text = config.get(APPLIED_PREFIX + app)
    return None if text is None else decode_mark(app, text).batch


def marks(config: Mapping[str, str]) -> Iterator[tuple[str, Mark]]:
    """All applications that a table knows, and their marks."""
    for key, text in config.items():
        if key.startswith(APPLIED_PREFIX):
            app = key.removeprefix(APPLIED_PREFIX)
            yield app, decode_mark(app, text)


def decode_mark(app: str, text: str) -> Mark:
    """Decode a mark; raises FormatError for an invalid one."""
    try:
        found = json.loads(text)
        batch, uuid, at = found["batch"], found["uuid"], found["at"]
    except (ValueError, LookupError, TypeError, RecursionError) as cause:
        raise _odd(app, text) from cause
    numbers_hold = all(type(each) is int and 0 <= each <= _MOST for each in (batch, at))
    if not numbers_hold or not isinstance(uuid, str):
        raise _odd(app, text)
    return Mark(batch, uuid, at)


def _odd(app: str, text: str) -> FormatError:
    key = APPLIED_PREFIX + app
    return FormatError(
        f"the configuration {key!r} says {text[:80]!r}, which names no batch; look which batch of "
        f"{app!r} was loaded last, and remove the key with set_config to begin anew",
        key=key,
    )


MANIFEST_STORE_KEY = "lancewood.manifest_store"
"""The key of the kind of manifest store in a table's configuration."""


def manifest_store_of(head: ManifestHead) -> str | None:
    """The kind of manifest store that writers must use; None where the table names none."""
    found = head.message.config.get(MANIFEST_STORE_KEY)
    return None if found is None else str(found)


def leaves_manifest_store(operations: Sequence[Operation]) -> bool:
    """Whether the operations only say that the table needs no manifest store: anybody may do that,
    because it may be a copy that nobody else writes to."""
    return list(operations) == [UpdateConfig(config=MapUpdate({MANIFEST_STORE_KEY: None}))]
