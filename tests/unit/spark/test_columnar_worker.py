"""What a worker of the columnar door answers, to a Java that a test plays."""

from __future__ import annotations

import mmap
import pickle
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import NotFoundError
from lancewood.spark.columnar import protocol, worker
from lancewood.spark.columnar.worker import Worker

SCHEMA = pa.schema([pa.field("n", pa.int64())])


@dataclass
class Rows:
    """Work that gives its number for each row of a message, which says how many there are."""

    number: int
    error: Exception | None = None

    @property
    def reading(self) -> Any:
        return SimpleNamespace(schema=SCHEMA)

    def narrowed(self, names: Sequence[str], where: str | None, limit: int | None) -> Rows:
        return self

    def portion(self, message: bytes) -> Any:
        """Some fragments with as many rows as the message says."""
        return SimpleNamespace(fragments=(b"one", b"two"), rows=int(message))

    def rows(self, portion: Any) -> Iterator[pa.RecordBatch]:
        if self.error is not None:
            raise self.error
        yield pa.record_batch({"n": [self.number] * portion.rows})


class Java:
    """The other end of a worker's connection, which maps memory if it can, and answers offers of
    it with ``to_offers``."""

    def __init__(self) -> None:
        self.to_offers = protocol.NOT_MAPPED
        self.offered: list[int] = []
        self._memory = memoryview(b"")
        self.here, there = socket.socketpair()
        self._file = self.here.makefile("rb")
        self._incoming = protocol.Incoming(self._file)
        self.worker = threading.Thread(target=self._serve, args=(there,))
        self.worker.start()

    @staticmethod
    def _serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as incoming, connection.makefile("wb") as out:
            Worker(incoming, out, lambda options, slots: None).serve()

    def close(self) -> None:
        self.here.shutdown(socket.SHUT_RDWR)
        self.worker.join(10)
        self._file.close()
        self.here.close()

    def read(self, work: bytes | None, *messages: bytes, limit: int = -1) -> Answer:
        """Ask for the rows of some messages."""
        self.here.sendall(bytes([protocol.READ]) + protocol.some_bytes(work))
        self.here.sendall(protocol.texts(["n"]) + protocol.text(None) + protocol.long(limit))
        self.here.sendall(protocol.many(messages))
        return self._answer()

    def _answer(self) -> Answer:
        found = Answer()
        while True:
            kind = self._incoming.integer()
            if kind == protocol.LIST_SIZES:
                assert self._incoming.integer() == 0
            elif kind == protocol.MEMORY:
                self._map(self._incoming.text() or "", self._incoming.long())
                self.here.sendall(bytes([self.to_offers]))
            elif kind == protocol.BATCH:
                size, at = self._incoming.long(), self._incoming.long()
                self._take(found, self._memory[at : at + size])
            elif kind == protocol.BATCH_HERE:
                self._take(found, self._incoming.some_bytes())
            elif kind == protocol.END:
                found.fragments = self._incoming.long()
                return found
            else:
                assert kind == protocol.ERROR
                found.sentence = self._incoming.text()
                found.error = self._incoming.text() or ""
                return found

    def _map(self, path: str, size: int) -> None:
        self.offered.append(size)
        with open(path, "rb") as file:
            self._memory = memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ))

    def _take(self, found: Answer, laid: Any) -> None:
        numbers = pa.ipc.open_stream(laid).read_next_batch().column("n").to_pylist()
        found.numbers += numbers
        self.here.sendall(bytes([protocol.NEXT]))


@dataclass
class Answer:
    numbers: list[int] = field(default_factory=list)
    fragments: int | None = None
    error: str | None = None
    sentence: str | None = None
    """What an error of ours says."""


@pytest.fixture
def java() -> Iterator[Java]:
    made = Java()
    yield made
    made.close()


def test_work_is_kept_for_the_next_request(java: Java) -> None:
    assert java.read(pickle.dumps(Rows(7)), b"2").numbers == [7, 7]
    assert java.read(None, b"1", b"1").numbers == [7, 7]


def test_work_that_cannot_be_loaded_leaves_none_of_the_work_before(java: Java) -> None:
    java.read(pickle.dumps(Rows(7)), b"2")
    assert "UnpicklingError" in str(java.read(b"nothing", b"1").error)
    answer = java.read(None, b"1")
    assert (answer.numbers, bool(answer.error)) == ([], True)
    assert java.read(pickle.dumps(Rows(8)), b"1").numbers == [8]


def test_what_an_error_of_ours_says_is_told_apart_from_its_stack(java: Java) -> None:
    ours = java.read(pickle.dumps(Rows(1, NotFoundError("the file is gone"))), b"1")
    assert ours.sentence == "the file is gone"
    assert "lancewood.errors.NotFoundError: the file is gone" in str(ours.error)
    assert java.read(pickle.dumps(Rows(1, ValueError("theirs"))), b"1").sentence is None


@pytest.mark.parametrize("error", [EOFError("short"), ConnectionResetError("by the store")])
def test_errors_of_the_work_are_told_whatever_they_are(java: Java, error: Exception) -> None:
    answer = java.read(pickle.dumps(Rows(1, error)), b"1")
    assert f"{type(error).__name__}: {error}" in str(answer.error)
    assert "EOFError" in str(java.read(b"", b"1").error)
    assert java.read(pickle.dumps(Rows(8)), b"1").numbers == [8]


def test_fragments_that_a_limit_left_out_do_not_count_as_read(java: Java) -> None:
    work = pickle.dumps(Rows(7))
    assert java.read(work, b"1", b"1", b"1").fragments == 6
    answer = java.read(None, b"2", b"3", b"4", limit=4)
    assert (len(answer.numbers), answer.fragments) == (5, 4)


def test_a_batch_of_which_two_cannot_be_mapped_is_mapped_alone(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.to_offers = protocol.MAPPED
    monkeypatch.setattr(worker, "_MOST", most := 12 << 20)
    work, rows = pickle.dumps(Rows(7)), [b"1", b"1000000", b"1200000", b"2", b"3"]
    answer = java.read(work, *rows)
    assert (len(answer.numbers), answer.error) == (sum(map(int, rows)), None)
    assert java.offered[0] == 10 << 20
    assert all(8_000_000 < each <= most for each in java.offered[1:])
    assert "a row of " in str(java.read(None, b"1600000").error)
    assert java.read(None, b"1").numbers == [7]


def test_who_wants_no_more_may_say_so_to_an_offer(java: Java) -> None:
    java.to_offers = protocol.MAPPED
    java.read(pickle.dumps(Rows(7)), b"1")
    java.to_offers = protocol.STOP
    answer = java.read(None, b"1000000")
    assert (answer.numbers, answer.error) == ([], None)
    java.to_offers = protocol.MAPPED
    assert java.read(None, b"1").numbers == [7]
    assert len(java.offered) == 3
