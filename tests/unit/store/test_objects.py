"""The object store's own ways: few requests, no lost answers, clear words and no secrets."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.versions.finding import newest_version, versions_since
from lancewood.errors import InvalidInputError, StorageError, UnsupportedError
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.model.ids import Version
from lancewood.store.base import PutOutcome, Store
from lancewood.store.locate import open_store
from lancewood.store.readback import put_new_settled
from lancewood.testing.wire import Fault, FaultyWire, Request, at

Options = dict[str, str]
ROWS = pa.table({"a": [1, 2]})


@pytest.fixture
def wire(s3_endpoint: str) -> Iterator[FaultyWire]:
    with FaultyWire(s3_endpoint) as wire:
        yield wire


@pytest.fixture
def options(wire: FaultyWire, s3_options: Options) -> Options:
    return {**s3_options, "aws_endpoint": wire.endpoint}


@pytest.fixture
def store(options: Options, s3_root: str) -> Store:
    return open_store(s3_root, storage_options=options)


def careless(request: Request) -> Fault | None:
    return "careless" if request.is_conditional else None


def verbs(store: Store) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: store.get("d/k"),
        "get_range": lambda: store.get_range("d/k", 0, 1),
        "head": lambda: store.head("d/k"),
        "list": lambda: [*store.list("d")],
        "names": lambda: [*store.names("d")],
        "put": lambda: store.put("d/k", b"1"),
        "put_new": lambda: store.put_new("d/new", b"1"),
        "replace": lambda: store.replace("d/k", b"2", '"0"'),
        "copy": lambda: store.copy("d/k", "d/copy"),
        "delete": lambda: store.delete(["d/k"]),
    }


def test_a_long_history_costs_one_page_of_the_listing(
    store: Store, wire: FaultyWire, s3_options: Options, s3_root: str
) -> None:
    past = open_store(s3_root, storage_options=s3_options)
    keys = [manifest_key(Version(each), NamingScheme.V2) for each in range(1, 1_051)]
    with ThreadPoolExecutor(4) as pool:
        assert len([*pool.map(lambda key: past.put(key, b""), keys)]) == 1_050
    newest = newest_version(store)
    assert newest is not None
    assert newest.version == 1_050
    assert versions_since(store, Version(1_048), NamingScheme.V2).versions == (1_050, 1_049)
    assert len(wire.requests) == 2
    wire.play()
    assert len([*store.names("_versions")]) == 1_050
    assert len(wire.requests) == 2
    wire.play()
    store.delete(keys)
    assert [each.method for each in wire.requests] == ["POST", "POST"]
    assert [*store.names("_versions")] == []


def test_what_lies_deeper_is_stepped_over_and_not_listed(store: Store, wire: FaultyWire) -> None:
    deep = [f"d/m/{number}" for number in range(20)]
    for key in [*deep, "d/a", "d/m", "d/m-", "d/m0", "d/z"]:
        store.put(key, b"")
    wire.play()
    assert [*store.names("d")] == ["a", "m", "m-", "m0", "z"]
    assert len(wire.requests) == 2


def test_opening_a_table_costs_two_requests(
    options: Options, s3_root: str, wire: FaultyWire
) -> None:
    lw.create(s3_root, ROWS, access=lw.Access(storage_options=options)).append(ROWS)
    wire.play()
    assert lw.open(s3_root, access=lw.Access(storage_options=options)).version == 2
    assert [each.method for each in wire.requests] == ["GET", "GET"]


def test_a_refusal_is_told_clearly_and_is_certain(store: Store, wire: FaultyWire) -> None:
    store.put("d/k", b"1")
    for name, verb in verbs(store).items():
        wire.play(lambda request: "refuse")
        with pytest.raises(StorageError, match=r"403.*check the credentials") as refused:
            verb()
        assert len(wire.requests) == 1, name
        assert refused.value.facts["landed"] is False
    wire.play()
    assert store.get("d/k") == b"1"
    assert [*store.names("d")] == ["k"]


def test_a_bucket_that_is_not_there_is_told_by_every_verb(options: Options) -> None:
    store = open_store("s3://no-such-bucket/t", storage_options=options)
    for name, verb in verbs(store).items():
        if name != "head":  # an answer without a body cannot say more than 404
            with pytest.raises(StorageError, match="bucket does not exist"):
                verb()
    with pytest.raises(StorageError, match="bucket does not exist"):
        lw.create("s3://no-such-bucket/t", ROWS, access=lw.Access(storage_options=options))
    with pytest.raises(StorageError, match="bucket does not exist"):
        lw.open("s3://no-such-bucket/t", access=lw.Access(storage_options=options))


def test_http_must_be_allowed(options: Options) -> None:
    store = open_store("s3://b/t", storage_options={**options, "allow_http": "false"})
    with pytest.raises(StorageError, match="'allow_http': 'true'"):
        store.get("k")


@pytest.mark.parametrize("key", ["a\nb", "a\tb", "a\x7fb"])
def test_control_characters_are_refused(store: Store, key: str) -> None:
    with pytest.raises(InvalidInputError, match="control character"):
        store.put(key, b"")
    with pytest.raises(InvalidInputError, match="control character"):
        store.at(key)


@pytest.mark.parametrize("fault", ["drop", "error-after", "late"])
def test_a_conditional_put_whose_answer_is_lost_is_not_sent_again(
    options: Options, s3_root: str, wire: FaultyWire, fault: Fault
) -> None:
    if fault == "late":
        options = {**options, "timeout": "500ms"}
    store = open_store(s3_root, storage_options=options)
    wire.play(at(1, fault))
    with pytest.raises(StorageError) as lost:
        store.put_new("k", b"mine")
    assert "landed" not in lost.value.facts
    assert len(wire.requests) == 1
    assert store.get("k") == b"mine"
    etag = store.head("k").etag
    wire.play(at(1, fault))
    with pytest.raises(StorageError):
        store.replace("k", b"again", etag)
    assert len(wire.requests) == 1
    wire.play(at(1, fault))
    assert put_new_settled(store, "other", b"mine too") is PutOutcome.CREATED
    assert [each.method for each in wire.requests] == ["PUT", "GET"]


def test_taken_after_a_throttled_attempt_is_unclear_until_it_is_read_back(
    store: Store, wire: FaultyWire
) -> None:
    wire.play(at(1, "slow-down-after"))
    with pytest.raises(StorageError, match="may have been carried out"):
        store.put_new("k", b"mine")
    wire.play(at(1, "slow-down-after"))
    assert put_new_settled(store, "other", b"mine") is PutOutcome.CREATED
    store.put("theirs", b"theirs")
    wire.play(at(1, "slow-down"))
    assert put_new_settled(store, "theirs", b"mine") is PutOutcome.EXISTS


def test_a_delete_whose_answer_is_lost_is_sent_again(store: Store, wire: FaultyWire) -> None:
    faults: list[Fault] = ["drop", "reset", "slow-down", "error"]
    for fault in faults:
        store.put("k", b"1")
        wire.play(at(1, fault))
        store.delete(["k"])
        assert len(wire.requests) == 2
        assert [*store.list()] == []


def test_retries_end(options: Options, s3_root: str, wire: FaultyWire) -> None:
    store = open_store(s3_root, storage_options={**options, "client_max_retries": "2"})
    for name, verb in verbs(store).items():
        wire.play(lambda request: "slow-down")
        with pytest.raises(StorageError, match="503"):
            verb()
        assert len(wire.requests) >= 3, name
        assert len(wire.requests) <= 9, name


def test_a_server_that_ignores_conditions_is_refused_unless_the_user_says_unsafe(
    options: Options, s3_root: str, wire: FaultyWire, s3_options: Options
) -> None:
    wire.play(careless)
    with pytest.raises(UnsupportedError, match=r"put-if-absent.*unsafe=True"):
        lw.create(s3_root, ROWS, access=lw.Access(storage_options=options))
    past = open_store(s3_root, storage_options=s3_options)
    assert [*past.list()] == []
    wire.play(careless)
    table = lw.create(s3_root, ROWS, access=lw.Access(storage_options=options, unsafe=True))
    assert not [each for each in wire.requests if "probe-" in each.path]
    before = {each.key for each in past.list()}
    with pytest.raises(UnsupportedError, match="put-if-absent"):
        lw.open(s3_root, access=lw.Access(storage_options=options)).append(ROWS)
    assert {each.key for each in past.list()} == before
    assert (
        lw.open(s3_root, access=lw.Access(storage_options=options, unsafe=True))
        .append(ROWS)
        .version
        == 2
    )
    again: lw.Table = pickle.loads(pickle.dumps(table))
    assert again.latest().append(ROWS).version == 3


def test_a_store_is_asked_for_its_proof_once_for_all_tables(
    options: Options, s3_root: str, wire: FaultyWire
) -> None:
    for number in range(2):
        lw.create(f"{s3_root}/{number}", ROWS, access=lw.Access(storage_options=options)).append(
            ROWS
        )
    assert len([each for each in wire.requests if "probe-" in each.path]) == 3


def test_no_secret_shows_anywhere(
    options: Options, s3_root: str, wire: FaultyWire, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    planted = {
        "aws_access_key_id": "PLANTEDKEYID",
        "aws_secret_access_key": "planted-secret-key",
        "aws_session_token": "planted-session-token",
        "headers.authorization-note": "planted-header",
    }
    options = {**options, **planted, "client_max_retries": "0", "download_retry_count": "0"}
    table = lw.create(
        s3_root, ROWS, access=lw.Access(storage_options=options), message="m"
    ).set_config({"k": "v"})
    table = table.append(ROWS)
    snapshot = table._snapshot
    texts = [
        repr(table),
        repr(snapshot),
        repr(snapshot.location),
        repr(snapshot.location.store),
        repr(snapshot.location.storage_options),
        repr(vars(snapshot.location.store)),
        repr(table.scan()),
        table.scan(where="a > 1").explain(),
        repr(list(table.versions())),
        repr(table.stats()),
        repr(table.config),
    ]
    texts += [store_text(s3_root, options, each) for each in ("", "_versions", "_transactions")]
    attempts: dict[str, Callable[[], object]] = {
        **verbs(snapshot.location.store),
        "append": lambda: table.append(ROWS),
        "open": lambda: lw.open(s3_root, access=lw.Access(storage_options=options)),
        "create": lambda: lw.create(
            f"{s3_root}/2", ROWS, access=lw.Access(storage_options=options)
        ),
        "drop": lambda: lw.drop(s3_root, access=lw.Access(storage_options=options)),
        "lance": lambda: table.lance(),
        "scan": lambda: lw.Table(snapshot).to_arrow(),
        "unknown option": lambda: lw.open(
            s3_root, access=lw.Access(storage_options={**options, "x": "y"})
        ),
    }
    faults: list[Fault] = ["refuse", "drop", "error"]
    for fault in faults:
        wire.play(lambda request, fault=fault: fault)  # type: ignore[misc]
        for name, attempt in attempts.items():
            try:
                attempt()
            except lw.LancewoodError as error:
                texts += traceback.format_exception(error)
                texts += [repr(error), repr(error.facts), repr(pickle.loads(pickle.dumps(error)))]
            else:
                assert name == "scan", name
    texts.append(caplog.text)
    for text in texts:
        for secret in planted.values():
            assert secret not in text


def store_text(root: str, options: Options, directory: str) -> str:
    """Every byte below a directory, as a text."""
    store = open_store(root, storage_options=options)
    return "".join(f"{each} {store.get(each.key)!r}" for each in store.list(directory))
