"""The proof that a store honours put-if-absent, and the refusal of one that does not."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.careless import CarelessStore

import lancewood as lw
from lancewood.engine.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.write import WriteRequest, create_table
from lancewood.errors import StorageError, UnsupportedError
from lancewood.store.base import PutOutcome, Store
from lancewood.store.memory import MemoryStore
from lancewood.store.probe import check_put_if_absent, probe_put_if_absent
from lancewood.testing.faults import FaultyStore, Mode, WatchedStore

ROWS = pa.table({"a": [1, 2]})
MODES: list[Mode] = ["before", "after"]


class Unproven(FaultyStore):
    """A store that must prove itself."""

    name: str | None = None

    @property
    def probed_as(self) -> str | None:
        self.name = self.name or self.uri
        return self.name


def create(store: Store) -> Snapshot:
    return create_table(Location(store), ROWS, WriteRequest(file_version="2.2"))


def test_a_store_that_honours_it_is_asked_once_and_left_as_it_was() -> None:
    store = Unproven(MemoryStore())
    check_put_if_absent(store, "d")
    assert [verb for verb, _ in store.calls] == ["put_new", "put_new", "get", "delete"]
    assert [*store.list()] == []
    asked = len(store.calls)
    check_put_if_absent(store, "d")
    check_put_if_absent(store.at("deeper"), "d")
    assert [verb for verb, _ in store.calls[asked:]] == []


def test_a_store_that_needs_no_proof_is_not_asked() -> None:
    store = FaultyStore(MemoryStore())
    check_put_if_absent(store, "d")
    assert store.calls == []


def test_a_careless_store_is_refused_with_both_ways_out() -> None:
    store = CarelessStore(MemoryStore())
    for _ in range(2):  # a refusal is not remembered
        with pytest.raises(UnsupportedError, match="created twice") as refused:
            check_put_if_absent(store, "d")
    assert "unsafe=True" in str(refused.value)
    assert "external manifest store" in str(refused.value)
    assert [*store.list()] == []


def test_a_store_that_refuses_but_overwrites_is_refused() -> None:
    class Liar(CarelessStore):
        def put_new(self, key: str, data: bytes) -> PutOutcome:
            there = key in {each.key for each in self._inner.list()}
            self.put(key, data)
            return PutOutcome.EXISTS if there else PutOutcome.CREATED

    with pytest.raises(UnsupportedError, match="bytes of the first are gone"):
        probe_put_if_absent(Liar(MemoryStore()), "d/k")


def test_a_store_that_says_no_to_everyone_is_refused() -> None:
    class Full(WatchedStore):
        def put_new(self, key: str, data: bytes) -> PutOutcome:
            return PutOutcome.EXISTS

    with pytest.raises(UnsupportedError, match="reported to be taken"):
        probe_put_if_absent(Full(MemoryStore()), "d/k")


def test_a_store_without_such_a_request_is_refused() -> None:
    class Old(WatchedStore):
        def put_new(self, key: str, data: bytes) -> PutOutcome:
            raise UnsupportedError("no such header", key=key, landed=False)

    with pytest.raises(UnsupportedError, match="no such request"):
        probe_put_if_absent(Old(MemoryStore()), "d/k")


def test_an_answer_that_is_lost_does_not_spoil_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)
    for at in range(1, 5):
        for mode in MODES:
            inner = MemoryStore()
            store = Unproven(inner, at=at, mode=mode)
            try:
                check_put_if_absent(store, "d")
            except StorageError:
                assert (store.calls[-2][0], store.calls[-1][0]) == ("get", "delete")
            left = [each.key for each in inner.list()]
            assert not left or store.calls[-1][0] == "delete"


def test_a_store_that_never_answers_is_a_failure_and_not_an_unknown_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)

    class Deaf(Unproven):
        def _call(self, verb: str, key: str, action: object) -> object:  # type: ignore[override]
            raise StorageError("no answer")

    with pytest.raises(StorageError, match="cannot find out whether") as failure:
        check_put_if_absent(Deaf(MemoryStore()), "d")
    assert failure.value.facts["landed"] is False


def test_nothing_is_created_on_a_careless_store() -> None:
    inner = MemoryStore()
    with pytest.raises(UnsupportedError, match="put-if-absent"):
        create(CarelessStore(inner))
    assert [*inner.list()] == []


def test_nothing_is_written_to_a_table_on_a_careless_store() -> None:
    inner = MemoryStore()
    done = create(inner)
    before = {each.key: each.etag for each in inner.list()}
    table = lw.Table(Snapshot(Location(CarelessStore(inner)), done.manifest, done.scheme))
    for write in (
        lambda: table.append(ROWS),
        lambda: table.overwrite(ROWS),
        lambda: table.set_config({"k": "v"}),
        lambda: table.restore(1),
        lambda: table.write_fragments(ROWS),
    ):
        with pytest.raises(UnsupportedError, match="put-if-absent"):
            write()
    assert {each.key: each.etag for each in inner.list()} == before
    assert table.count_rows() == 2
