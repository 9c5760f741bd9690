"""Targets: manifest files and transactions, from bytes up to a commit on top of them."""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from google.protobuf.message import DecodeError
from tests.fuzz.bend import bend
from tests.fuzz.corpus import Corpus, sections
from tests.fuzz.message import bend_message
from tests.fuzz.target import Context, Target, Trial, WrongAnswer, expect

from lancewood.engine.commit.commit import CommitPolicy, commit
from lancewood.engine.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.versions.finding import load_manifest
from lancewood.engine.versions.history import load_transaction, load_transaction_of
from lancewood.errors import LancewoodError
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.format.transaction import decode_transaction, encode_transaction
from lancewood.model.fragment import Fragment
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import (
    Append,
    Delete,
    MapUpdate,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateConfig,
)
from lancewood.proto import table_pb2
from lancewood.rules.apply import apply
from lancewood.rules.conflicts import judge
from lancewood.rules.features import check_readable
from lancewood.store.memory import MemoryStore
from lancewood.store.retry import COMMITS

_POLICY = CommitPolicy(retry=replace(COMMITS, attempts=3, sleep=lambda _: None))
_LOOK_AT = 200


def targets(context: Context) -> Iterator[Target]:
    corpus = context.corpus
    yield Target("manifest", lambda rng: _bent_file(rng, corpus.manifests), check_manifest)
    yield Target(
        "manifest-sections",
        lambda rng: _bent_sections(rng, corpus.manifests, corpus.transactions),
        check_manifest,
    )
    judges = [decode_transaction(each, name="corpus") for each in corpus.transactions]
    newest = corpus.decoded
    yield Target(
        "transaction",
        lambda rng: (
            bend_message(rng, rng.choice(corpus.transactions), corpus.transactions)
            if rng.random() < 0.75
            else bend(rng, rng.choice(corpus.transactions), corpus.transactions)
        ),
        lambda data, trial: check_transaction(data, trial, judges, newest),
    )


def bent_manifest(rng: Random, data: bytes, corpus: Corpus) -> bytes:
    """A manifest file bent as a file, or one of its sections as a message."""
    if rng.random() < 0.3:
        return _bent_file(rng, [data])
    return _bent_sections(rng, [data], corpus.transactions)


def _bent_file(rng: Random, manifests: list[bytes]) -> bytes:
    data = rng.choice(manifests)
    if rng.random() < 0.2:  # the footer decides where everything is
        edges = (0, -1, len(data) - 16, len(data) - 20, len(data), 1 << 62, -(1 << 63))
        return data[:-16] + struct.pack("<q", rng.choice(edges)) + data[-8:]
    return bend(rng, data, manifests)


def _bent_sections(rng: Random, manifests: list[bytes], transactions: list[bytes]) -> bytes:
    """One section bent as a message, in a frame that is right but for what the bending did."""
    parts = dict(sections(rng.choice(manifests)))
    if rng.random() < 0.1:
        parts["transaction_section"] = rng.choice(transactions)
    chosen = "manifest" if rng.random() < 0.7 else rng.choice(sorted(parts))
    parts[chosen] = bend_message(rng, parts[chosen], [*parts.values(), *transactions[:3]])
    try:
        message = table_pb2.Manifest.FromString(parts["manifest"])
    except DecodeError:
        body = parts["manifest"]
        return struct.pack("<I", len(body)) + body + struct.pack("<qHH4s", 0, 0, 2, b"LANC")
    return encode_manifest_file(
        message,
        index_section=parts.get("index_section"),
        transaction_section=parts.get("transaction_section"),
    )


def check_manifest(data: bytes, trial: Trial) -> None:
    manifest = decode_manifest_file(data, name="fuzzed")
    check_readable(manifest)
    trial(lambda: manifest.timestamp)
    trial(lambda: _look_at_indices(manifest))
    trial(lambda: _look_at_fragments(manifest, trial))
    with _stored(manifest, data) as store:
        snapshot = Snapshot(Location(store), manifest, NamingScheme.V2)
        trial(lambda: snapshot.arrow_schema)
        trial(lambda: load_transaction(store, manifest))
        trial(lambda: load_transaction_of(store, manifest.version, NamingScheme.V2))
        for operation in _operations(manifest):
            trial(lambda: _check_commit(store, manifest, operation))  # noqa: B023
            own = manifest_key(manifest.version, NamingScheme.V2)
            store.delete([each.key for each in store.list() if each.key != own])


def _look_at_indices(manifest: Manifest) -> None:
    for each in manifest.indices[:_LOOK_AT]:
        _ = (each.uuid, each.name, each.fields, each.kind, each.base_id, each.dataset_version)
        covered = each.fragments
        expect(each.covering(covered).fragments == covered, "the coverage of an index changed")


def _look_at_fragments(manifest: Manifest, trial: Trial) -> None:
    expect(len(manifest.fragments) == manifest.fragment_count, "two counts of fragments")
    rows = manifest.rows_by_fragment
    if rows is not None:
        expect(min(rows, default=0) >= 0, f"a fragment has {min(rows, default=0)} rows")
        single = [each.num_rows for each in manifest.fragments]
        expect(single == list(rows), "two counts of rows")
    for at, each in enumerate(manifest.fragments[:_LOOK_AT]):
        _ = [(f.path, f.fields, f.column_indices, f.version, f.size, f.base_id) for f in each.files]
        position = manifest.position_of(each.id)
        expect(position is not None, f"fragment {each.id} at {at} is not found by its id")
        found = manifest.fragment(each.id)
        expect(found.id == each.id, "another fragment was found")
        for sequence in (
            trial(lambda: each.row_ids),  # noqa: B023
            trial(lambda: each.created_at),  # noqa: B023
            trial(lambda: each.last_updated_at),  # noqa: B023
        ):
            if sequence is not None and each.physical_rows:
                expect(len(sequence) == each.physical_rows, "a sequence has another length")


_numbers = itertools.count()


@contextlib.contextmanager
def _stored(manifest: Manifest, data: bytes) -> Iterator[MemoryStore]:
    store = MemoryStore("fuzz", f"t{next(_numbers)}")
    store.put(manifest_key(manifest.version, NamingScheme.V2), data)
    try:
        yield store
    finally:
        store.delete([each.key for each in store.list()])


def _operations(manifest: Manifest) -> Iterator[Operation]:
    yield UpdateConfig(config=MapUpdate({"k": "v"}))
    yield Append((Fragment.make([], 5),))
    yield ReserveFragments(3)
    yield Restore(manifest.version)
    yield Overwrite((), manifest.fields[:1], {}, file_version="2.1")
    yield Project(manifest.fields[1:])
    if manifest.fragment_count:
        with contextlib.suppress(LancewoodError):
            yield Delete((), (manifest.fragments[0].id,), "x")


def _check_commit(store: MemoryStore, manifest: Manifest, operation: Operation) -> None:
    """A commit on top of the manifest can be read back, and its rows add up."""
    before = _rows(manifest)
    transaction = Transaction.new(manifest.version, operation)
    done = commit(Location(store), manifest, NamingScheme.V2, transaction, _POLICY)
    try:
        again = load_manifest(store, done.version, NamingScheme.V2)
    except LancewoodError as error:
        raise WrongAnswer(
            f"{type(operation).__name__} made what cannot be read: {error}"
        ) from error
    expect(done.version == manifest.version + 1, f"version {done.version} came next")
    if isinstance(operation, Append) and before is not None:
        expect(again.row_count == before + 5, f"{before} rows and 5 are {again.row_count}")
        ids = [each.id for each in again.fragments]
        expect(ids.count(ids[-1]) == 1, f"fragment id {ids[-1]} came twice")
        if again.has_stable_row_ids:
            expect(again.next_row_id == manifest.next_row_id + 5, "row ids were not handed out")


def _rows(manifest: Manifest) -> int | None:
    """The rows as far as they can be known."""
    try:
        return manifest.row_count
    except LancewoodError:
        return None


def check_transaction(
    data: bytes, trial: Trial, others: list[Transaction], newest: list[Manifest]
) -> None:
    transaction = decode_transaction(data, name="fuzzed")
    for other in others:
        trial(lambda: judge(transaction, other))  # noqa: B023
        trial(lambda: judge(other, transaction))  # noqa: B023
    encoded = trial(lambda: encode_transaction(transaction))
    if encoded is not None:
        again = decode_transaction(encoded, name="fuzzed")
        expect(again == transaction, "a rewritten transaction is another one")
    for head in newest[:: max(1, len(newest) // 6)]:
        restored = head if isinstance(transaction.operation, Restore) else None
        trial(lambda: apply(head, transaction, restored))  # noqa: B023
    _ = (transaction.message, transaction.user_properties)
