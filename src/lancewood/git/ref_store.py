"""Refs, HEAD and their logs, as far as a disk and a bucket have them alike.

A log has a line for each move of a ref, the newest at the end, as git writes it. A line is written
before the move it records, as git does, so that no move is missing; a crash between the two leaves
a line whose commit exists and was never the ref's, which git lists and otherwise takes no notice
of.

``RefReader`` follows refs: an entry of its own first, then ``packed-refs``. ``RefStore`` has the
verbs that others call. On a disk they are kept by files, locks and syncs (``Refs``), in a bucket by
objects and conditional puts (``BucketRefs``).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lancewood.errors import AlreadyExistsError, FormatError, InvalidInputError, NotFoundError
from lancewood.git.names import HEAD, HEADS, checked_branch, checked_ref, is_ref
from lancewood.git.values import ZERO, Hash, Signature, checked_hash, is_hash

SYMBOLIC = "ref: "
WORK_TREES = "worktrees"
_MOST_STEPS = 5
LOG_BLOCK = 1 << 16
"""Number of bytes of a log that are read at once."""
_MOST_BYTES = 1 << 20
"""Number of bytes in one line of a log; a file without newlines is not read on for ever."""
_is_line = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64}) ([^\t]*)(?:\t(.*))?", re.DOTALL).fullmatch
MARKER = b"lancewood: "
"""The start of an object in a bucket that says there is no ref at this place; see
``bucket.ref_objects``. A download may have brought one along."""


@dataclass(frozen=True, slots=True)
class Head:
    """What HEAD names: a branch by its short name, or, without one, a commit (detached).

    ``hash`` is None for a branch that has no commit yet.
    """

    branch: str | None
    hash: Hash | None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One move: from, to (``ZERO`` for none), by whom and when, and why."""

    old: Hash
    new: Hash
    by: Signature
    why: str


def encode_entry(entry: LogEntry) -> bytes:
    """A line; white space in ``why`` becomes single spaces, as git does it."""
    try:
        why = b" ".join(entry.why.encode().split())
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the reason {entry.why!r} of a move is not UTF-8") from cause
    if b"\0" in why:
        raise InvalidInputError("the reason of a move is not allowed to contain NUL")
    line = b" ".join([entry.old.encode(), entry.new.encode(), entry.by.encode()])
    return line + (b"\t" + why if why else b"") + b"\n"


def decode_entry(line: bytes) -> LogEntry:
    """Raises FormatError. The line is without its newline."""
    found = _is_line(line)
    if found is None:
        raise FormatError(f"{line[:200]!r} is not a line of a log of moves; remove the line")
    old, new, by, why = found.groups()
    return LogEntry(
        Hash(old.decode("ascii")),
        Hash(new.decode("ascii")),
        Signature.decode(by),
        (why or b"").decode("utf-8", "replace"),
    )


def whole_lines_backwards(size: int, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """The lines of a log of ``size`` bytes, from the end; ``read`` takes how many, and from where.

    A last line that is not whole is left out: it is in the making, or was cut short.
    """
    pieces = _pieces_backwards(size, read)
    next(pieces, None)
    return (each for each in pieces if each)


def _pieces_backwards(size: int, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """The pieces between newlines, from the end; the first is what follows the last newline."""
    at = size
    rest = b""
    while at > 0:
        size = min(LOG_BLOCK, at)
        at -= size
        pieces = (read(size, at) + rest).split(b"\n")
        yield from reversed(pieces[1:])
        rest = pieces[0]
        if len(rest) > _MOST_BYTES:
            raise FormatError(f"a line is longer than {_MOST_BYTES} bytes")
    yield rest


class RefReader(ABC):
    """Looks for an entry of a ref first, then into ``packed-refs``: packing a ref removes its entry
    last. ``root`` is where errors say the repository is."""

    root: str

    @abstractmethod
    def data(self, name: str) -> bytes | None:
        """The bytes of a ref's own entry, a marker too; None if there is none."""

    @abstractmethod
    def packed_value(self, name: str) -> Hash | None:
        """What ``packed-refs`` says of a ref. Raises FormatError."""

    @abstractmethod
    def names(self, prefix: str) -> dict[str, Hash]:
        """The refs whose full names start with the prefix, sorted, and their values."""

    @abstractmethod
    def every_name(self, prefix: str) -> list[str]:
        """The full names of refs that start with the prefix, readable or not, sorted."""

    @abstractmethod
    def work_trees(self) -> list[str]:
        """The directories of git's work trees, sorted; raises StorageError."""

    def text(self, name: str) -> str | None:
        """A hash, or ``ref: `` and another name; None where there is no ref."""
        data = self.data(name)
        if data is not None:
            return self.decoded(name, data)
        return None if name == HEAD or name.startswith(WORK_TREES) else self.packed_value(name)

    def loose(self, name: str) -> str | None:
        """A hash, or ``ref: `` and another name, of a ref that is not packed."""
        data = self.data(name)
        return None if data is None else self.decoded(name, data)

    def decoded(self, name: str, data: bytes) -> str | None:
        """What the entry of a ref says; None for a marker."""
        if name != HEAD and is_marker(data):
            return None
        return decode_ref(data, name, self.file(name))

    def file(self, name: str) -> str:
        """Where a ref is, for errors."""
        return f"{self.root}/{name}"

    def follow(self, name: str) -> Hash | None:
        """The hash that a ref leads to, through symbolic refs; None if one of them is missing.

        Raises FormatError for a chain that is too long.
        """
        at = name
        for _ in range(_MOST_STEPS):
            text = self.text(at)
            if text is None or not text.startswith(SYMBOLIC):
                return None if text is None else Hash(text)
            at = text.removeprefix(SYMBOLIC)
        raise FormatError(
            f"{self.file(name)} leads from ref to ref, {_MOST_STEPS} deep", file=self.file(name)
        )

    def head(self) -> tuple[str | None, str]:
        """The branch that HEAD names and its ref; if detached, None and the hash."""
        text = self.loose(HEAD)
        if text is None:
            raise NotFoundError(f"{self.root} has no HEAD: it is not a git repository")
        if not text.startswith(SYMBOLIC):
            return None, text
        target = text.removeprefix(SYMBOLIC)
        if not target.startswith(HEADS):
            raise FormatError(f"{self.root}/HEAD names {target!r}, which is not a branch")
        return target.removeprefix(HEADS), target


class RefStore(ABC):
    """The refs of one repository. Every move is compare-and-swap and is logged, and the line is
    there before the move. Safe to use from threads and processes."""

    def __init__(self, reader: RefReader) -> None:
        self._refs = reader

    # Reading

    def read(self, name: str) -> Hash | None:
        """The value of a ref by its full name, or of HEAD; None where there is none.

        Raises FormatError that names the file.
        """
        return self._refs.follow(checked_name(name))

    def head(self) -> Head:
        """Raises FormatError, and NotFoundError where there is no HEAD."""
        branch, text = self._refs.head()
        return Head(branch, Hash(text) if branch is None else self._refs.follow(text))

    def current(self) -> str | None:
        """The branch that HEAD names; None where it is detached. Raises like ``head``, and does
        not ask for the commit."""
        return self._refs.head()[0]

    def names(self, prefix: str = "refs/") -> dict[str, Hash]:
        """The refs whose full names start so, in order, and their values. Raises FormatError."""
        if prefix != "refs/":
            checked_ref(prefix.removesuffix("/"))
        return self._refs.names(prefix)

    def every_name(self, prefix: str = "refs/") -> list[str]:
        """The full names of the refs that start so, whether or not they can be read, in order."""
        return self._refs.every_name(prefix)

    @abstractmethod
    def log(self, name: str) -> Iterator[LogEntry]:
        """The moves of a ref or of HEAD, newest first, read as they are asked for.

        Empty for a ref that has no log: git removes it with the branch. Raises FormatError.
        """

    @abstractmethod
    def logged_names(self) -> list[str]:
        """The full names that have logs, in order, also where the ref itself was lost.

        Who deletes a ref removes its log first. Raises StorageError.
        """

    def of_work_trees(self) -> tuple[set[Hash], set[Hash]]:
        """What work trees that git made have checked out, and what their logs name besides.

        Raises FormatError and StorageError: git keeps all of it, and so has everybody to.
        """
        named, logged = set[Hash](), set[Hash]()
        for name in self._refs.work_trees():
            value = self._refs.follow(f"{name}/{HEAD}")
            if value is not None:
                named.add(value)
            for entry in self._log_file(f"{name}/logs/{HEAD}"):
                logged |= {entry.old, entry.new}
        return named, logged

    @abstractmethod
    def _log_file(self, key: str) -> Iterator[LogEntry]:
        """The moves in a log file of git's, newest first; none where there is no file."""

    # Moving

    def move(
        self, name: str, old: Hash | None, new: Hash | None, *, why: str, by: Signature
    ) -> bool:
        """Give a ref the value ``new`` if it has ``old``: False if it has another one by now.

        ``old`` None: it must not exist; ``new`` None: it is deleted, with its log, as git does it.
        HEAD can be moved while it is detached. Returns when the move is durable. Raises
        AlreadyExistsError where another ref is in the way (git keeps ``a`` and ``a/b`` apart),
        RetryableConflictError where a lock is not let go of or others are always faster, and
        CommitUnknownError where a disk would not say that the value will stay, or a store whether
        it moved.
        """
        checked_name(name)
        if old is None and new is None:
            raise InvalidInputError(f"moving {name!r} from nothing to nothing is no move")
        old, new = old and checked_hash(old), new and checked_hash(new)
        return self._move(name, old, new, encode_entry(LogEntry(old or ZERO, new or ZERO, by, why)))

    @abstractmethod
    def _move(self, name: str, old: Hash | None, new: Hash | None, line: bytes) -> bool:
        """``move``, of what was checked; ``line`` is for the logs."""

    def switch_head(self, branch: str, *, why: str, by: Signature) -> None:
        """Make HEAD name a branch, which need not have a commit yet."""
        name = HEADS + checked_branch(branch)
        self._set_head(SYMBOLIC + name, lambda: self._refs.follow(name), why, by)

    def detach_head(self, hash: Hash, *, why: str, by: Signature) -> None:
        """Make HEAD name a commit, and no branch."""
        new = checked_hash(hash)
        self._set_head(new, lambda: new, why, by)

    @abstractmethod
    def _set_head(
        self, text: str, find: Callable[[], Hash | None], why: str, by: Signature
    ) -> None:
        """Have HEAD say ``text``; ``find`` is the commit that it then leads to."""


def already_moved(name: str, value: Hash | None, old: Hash | None, new: Hash | None) -> bool | None:
    """What ``move`` answers for a ref that is at ``value`` now; None if there is work to do."""
    if value != old:
        return False
    if old == new:
        return True
    if new is None and name == HEAD:
        raise InvalidInputError("HEAD cannot be deleted: a repository has one")
    return None


def checked_name(name: str) -> str:
    """HEAD, or the full name of a ref; raises InvalidInputError."""
    return name if name == HEAD else checked_ref(name)


def is_marker(data: bytes) -> bool:
    """Whether this content says that there is no ref."""
    return data.startswith(MARKER)


def decode_ref(data: bytes, name: str, file: str) -> str:
    """What a ref says: a hash, or ``ref: `` and another name. Raises FormatError."""
    text = data.decode("utf-8", "replace").rstrip()
    if is_hash(text) and text != ZERO:
        return text
    if text.startswith("ref:"):
        target = text[4:].strip()
        if is_ref(target):
            return SYMBOLIC + target
    raise FormatError(
        f"{file} holds {text[:100]!r}, which is neither a hash of 64 digits nor the name of "
        f"another ref; write there what the last line of logs/{name} says, or bring it back "
        "from a copy",
        file=file,
    )


def standing_value(name: str, text: str) -> Hash:
    """The hash in a ref; raises InvalidInputError for a symbolic one."""
    if text.startswith(SYMBOLIC):
        target = text.removeprefix(SYMBOLIC)
        raise InvalidInputError(f"{name} stands for {target}: move that one")
    return Hash(text)


def in_the_way(name: str, other: str) -> AlreadyExistsError:
    """The error for a name that would have to be a directory of another."""
    return AlreadyExistsError(
        f"cannot make {name}: {other} exists, and git keeps refs as files, so that one name cannot "
        "be a directory of another; delete or rename one of them",
        ref=name,
        other=other,
    )


def checked_packed(text: str, file: str) -> Hash:
    """A hash in ``packed-refs``; raises FormatError."""
    if not is_hash(text):
        raise FormatError(f"{file}: {text[:100]!r} is not a hash of 64 digits", file=file)
    return Hash(text)
