"""What a task that wrote files answers: the fragments that it made, or why it could not.

Bytes, a few hundred for a file. Knows nothing of Spark, nor of what becomes of the fragments.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError, LancewoodError
from lancewood.model.fragment import Fragment
from lancewood.proto import table_pb2

_FRAGMENTS, _ERROR = b"F", b"E"
NOTHING = _FRAGMENTS
"""The answer of a task that had no rows."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What all tasks said."""

    fragments: tuple[Fragment, ...]
    """In the order of the tasks, without ids."""
    errors: tuple[LancewoodError, ...]

    @property
    def rows(self) -> int:
        return sum(each.physical_rows for each in self.fragments)

    @property
    def files(self) -> int:
        return sum(len(each.message.files) for each in self.fragments)

    @property
    def bytes(self) -> int:
        return sum(file.file_size_bytes for each in self.fragments for file in each.message.files)


def encode_fragments(fragments: Sequence[Fragment]) -> bytes:
    listed = table_pb2.FragmentList()
    listed.fragments.extend(each.message for each in fragments)
    return _FRAGMENTS + listed.SerializeToString()


def encode_error(error: LancewoodError) -> bytes:
    return _ERROR + pickle.dumps(error)


def is_nothing(answers: Sequence[bytes]) -> bool:
    """Whether no task had rows."""
    return all(each == NOTHING for each in answers)


def answers_in(messages: Sequence[Any]) -> list[bytes | None]:
    """What partitions answered, by the messages that Spark hands to a commit.

    It gives None for a partition that failed, or whose answer it did not get.
    """
    return [None if each is None else each.answer for each in messages]


def decode_answers(answers: Sequence[bytes | None]) -> Answers:
    """What all tasks said; None stands for one that did not answer.

    Raises FormatError for what is no answer of a task. Errors are unpickled: answers come from
    our own executors, as the functions that ran there went to them.
    """
    fragments: list[Fragment] = []
    errors: list[LancewoodError] = []
    for each in answers:
        if each is None:
            continue
        kind, rest = bytes(each[:1]), bytes(each[1:])
        if kind == _FRAGMENTS:
            fragments += _fragments(rest)
        elif kind == _ERROR:
            errors.append(pickle.loads(rest))
        else:
            raise FormatError(f"a task answered {bytes(each[:20])!r}, which is no answer of a task")
    return Answers(tuple(fragments), tuple(errors))


def _fragments(rest: bytes) -> list[Fragment]:
    try:
        listed = table_pb2.FragmentList.FromString(rest)
    except DecodeError as cause:
        raise FormatError("a task answered with fragments that cannot be decoded") from cause
    return [Fragment(each) for each in listed.fragments]
