"""What a git repository is made of, as far as anybody else asks: the seam between disk and bucket.

Each part is there twice. On a disk it is files, locks and syncs (``git``); in a bucket objects and
conditional puts (``git.bucket``). ``Objects`` is one for both, over either kind of ``Loose`` and
``Packed``. Protocols only; nothing is done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from lancewood.git.reflog import LogEntry
from lancewood.git.syncing import Unsettled
from lancewood.git.values import Hash, Signature


@dataclass(frozen=True, slots=True)
class Head:
    """What HEAD names: a branch by its short name, or, without one, a commit (detached).

    ``hash`` is None for a branch that has no commit yet.
    """

    branch: str | None
    hash: Hash | None


class Loose(Protocol):
    """Objects that are kept one by one."""

    def read(self, hash: Hash) -> bytes | None:
        """The object with its header, or None. Raises FormatError that names the file."""

    def has(self, hash: Hash) -> bool: ...

    def freshen(self, hash: Hash) -> bool:
        """Whether an object is known to be there, and will stay; in doubt it is not."""

    def write(self, batch: Mapping[Hash, bytes], met: Iterable[Hash] = ()) -> None:
        """Write objects, as ``pack_loose`` gave them. Raises StorageError."""

    def unsettled(self, hashes: Iterable[Hash]) -> Unsettled:
        """What is left to do until what was written outlasts a power cut."""


class Packed(Protocol):
    """Objects in packs."""

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content, or None after a look for new packs. Raises FormatError."""

    def peek(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object that is found quickly; None says nothing."""

    def freshen(self, hash: Hash) -> bool:
        """Whether a pack has it, and keeps it; in doubt it has not."""

    def starting_with(self, prefix: str) -> Iterator[Hash]:
        """The objects whose hashes start so, loose ones included."""

    def close(self) -> None: ...


class RefStore(Protocol):
    """Refs, HEAD and their logs: ``Refs`` on a disk, ``BucketRefs`` in a bucket.

    Every move is compare-and-swap and is logged, and the line is there before the move; ``Refs``
    says what each verb answers and raises.
    """

    def read(self, name: str) -> Hash | None: ...

    def head(self) -> Head: ...

    def current(self) -> str | None: ...

    def names(self, prefix: str = "refs/") -> dict[str, Hash]: ...

    def every_name(self, prefix: str = "refs/") -> list[str]: ...

    def log(self, name: str) -> Iterator[LogEntry]: ...

    def logged_names(self) -> list[str]: ...

    def of_work_trees(self) -> tuple[set[Hash], set[Hash]]: ...

    def move(
        self, name: str, old: Hash | None, new: Hash | None, *, why: str, by: Signature
    ) -> bool: ...

    def switch_head(self, branch: str, *, why: str, by: Signature) -> None: ...

    def detach_head(self, hash: Hash, *, why: str, by: Signature) -> None: ...
