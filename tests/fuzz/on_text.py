"""Targets: refs, names in a listing, SQL text."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
from tests.fuzz.bend import BAD_UTF8, EDGES, bend
from tests.fuzz.sql import random_sql
from tests.fuzz.target import Context, Target, Trial, expect

from lancewood.engine.versions.finding import list_versions, newest_version, versions_since
from lancewood.expr import parse_expression, parse_predicate
from lancewood.format.layout import VERSIONS_DIR, parse_manifest_name
from lancewood.format.refs import (
    claimed_space,
    decode_branch,
    decode_tag,
    encode_branch,
    encode_tag,
    ref_file_name,
    ref_name,
    space_key,
)
from lancewood.model.lines import (
    LINE_KEY,
    MERGED_KEY,
    decode_vector,
    encode_vector,
    has_own_ids,
    held_by,
    line_of,
)
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import BranchName, TagName
from lancewood.proto import table_pb2
from lancewood.store.memory import MemoryStore

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("f", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("d", pa.date32()),
        pa.field("n", pa.decimal128(10, 2)),
        pa.field("l", pa.list_(pa.int32())),
        pa.field("st", pa.struct([("x", pa.int16()), ("y", pa.struct([("z", pa.string())]))])),
        pa.field("raw", pa.binary()),
        pa.field("odd name", pa.uint64()),
        pa.field("nothing", pa.null()),
    ]
)
_ROWS: dict[str, list[Any]] = {
    "id": [1, None, -(1 << 63), (1 << 63) - 1],
    "s": ["", None, "a%_b", "ü"],
    "f": [0.0, None, float("nan"), float("-inf")],
    "b": [True, False, None, True],
    "t": [datetime.datetime(1, 1, 1), None, datetime.datetime(9999, 12, 31), datetime.datetime.min],
    "d": [datetime.date(1970, 1, 1), None, datetime.date(9999, 12, 31), datetime.date(1, 1, 1)],
    "n": [None, None, None, None],
    "l": [[], None, [1, None], list(range(10))],
    "st": [{"x": 1, "y": {"z": "q"}}, None, {"x": None, "y": None}, {"x": -1, "y": {"z": None}}],
    "raw": [b"", None, b"\xff\x00", b"a"],
    "odd name": [0, None, (1 << 64) - 1, 5],
    "nothing": [None, None, None, None],
}
_PARAMETERS = {"p": 1, "q": "x"}
_BATCH = pa.RecordBatch.from_pydict(_ROWS, schema=_SCHEMA)


def targets(context: Context) -> Iterator[Target]:
    corpus = context.corpus
    yield Target("refs", lambda rng: _bent_ref(rng, corpus.refs), check_ref)
    yield Target("names", _bent_names, check_names)
    yield Target("lines", _bent_lines, check_lines)
    yield Target("sql", lambda rng: random_sql(rng).encode(errors="surrogatepass"), check_sql)


def _random_json(rng: Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice((*EDGES, -1, 1 << 200, 10**400))
    if kind == 2:
        return rng.choice((0.5, 1e308, -0.0, float("nan"), float("inf")))
    if kind <= 6:
        texts = ("", "main", "a/b", "../x", "\ud800", "\0", "2025-01-01T00:00:00Z", "x" * 2000)
        return rng.choice((*texts, str(rng.choice(EDGES)), "9999-99-99T99:99:99Z"))
    if kind == 7:
        return [_random_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {_random_text(rng): _random_json(rng, depth + 1) for _ in range(rng.randrange(4))}


def _random_text(rng: Random) -> str:
    return rng.choice(("", "a", "version_mapping", "manifestSize", "x" * 50, "ü"))


def _bent_ref(rng: Random, corpus: list[bytes]) -> bytes:
    """The bare name of a file, a line feed, and the bytes in it."""
    names = (b"a", b"a%2Fb", b"gr%C3%BCn", b"main", b"x.lock", b"%FF", b"a%2fb", b"..", b"p%2Fdata")
    name = rng.choice(names) + b".json"
    if rng.random() < 0.2:
        name = bend(rng, name).replace(b"\n", b"")
    data = rng.choice(corpus)
    what = rng.random()
    if what < 0.4:
        data = bend(rng, data, corpus)
    elif what < 0.95:
        document = json.loads(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            key = rng.choice((*document, "manifest_size", "parent_version", "later", "identifier"))
            if rng.random() < 0.2:
                document.pop(key, None)
            else:
                document[key] = _random_json(rng)
        data = json.dumps(document, ensure_ascii=rng.random() < 0.9).encode(errors="surrogatepass")
    else:
        depth = rng.choice((50, 500, 5_000, 200_000))
        data = b'{"x":' + b"[" * depth + b"]" * rng.choice((depth, 0)) + b"}"
    return name + b"\n" + data


def check_ref(case: bytes, trial: Trial) -> None:
    file, _, data = case.partition(b"\n")
    name = trial(lambda: ref_name(file.decode(errors="surrogateescape")))
    is_branch = b"parent" in data
    branch_name = trial(lambda: BranchName.found(name)) if name and is_branch else None
    tag_name = trial(lambda: TagName.found(name)) if name and not is_branch else None
    if branch_name is not None:
        expect(ref_file_name(branch_name).encode() == file, "another file for the same name")
    if is_branch:
        branch = decode_branch(branch_name or BranchName("a"), data)
        again = decode_branch(branch.name, encode_branch(branch))
        expect(again == branch, "a rewritten branch is another one")
        _ = branch.created_at
    else:
        tag = decode_tag(tag_name or TagName("a"), data)
        expect(decode_tag(tag.name, encode_tag(tag)) == tag, "a rewritten tag is another one")
        _ = (tag.created_at, tag.updated_at)


def _bent_names(rng: Random) -> bytes:
    """Names of files in ``_versions``, one a line."""
    names = []
    for _ in range(rng.choice((0, 1, 2, 3, 8, 40))):
        number = rng.choice((rng.choice(EDGES), rng.randrange(20), (1 << 64) - rng.randrange(1, 9)))
        name = rng.choice((f"{number}", f"{number:020d}", f"d{number}", f"{number:021d}")).encode()
        name += rng.choice(
            (b".manifest",) * 6 + (b".manifest-1", b"", b".tmp", b".json", b".MANIFEST")
        )
        if rng.random() < 0.15:
            name = bend(rng, name, BAD_UTF8)
        names.append(name)
    return b"\n".join(names)


def _bent_lines(rng: Random) -> bytes:
    """A branch, its line, what it holds, and the name of a claim, one a line."""
    line = rng.choice(("0" * 32, "f" * 32, "main", "/exp", "g" * 32))
    numbers = (*EDGES, rng.randrange(20), 1 << 27, (1 << 27) - 1)
    texts = [
        rng.choice(("exp", "a/b", "grün", "main")),
        f"{line}:{rng.choice(numbers)}:{rng.choice(('exp', 'a/b', 'grün'))}",
        " ".join(f"{line}:{rng.choice(numbers)}:exp" for _ in range(rng.choice((0, 1, 3, 400)))),
        f"{rng.choice(numbers):09d}.json",
    ]
    bent = (bend(rng, each.encode(), BAD_UTF8) if rng.random() < 0.3 else each for each in texts)
    lines = (each.encode() if isinstance(each, str) else each for each in bent)
    return b"\n".join(each.replace(b"\n", b"") for each in lines)


def check_lines(case: bytes, trial: Trial) -> None:
    branch, line, merged, name = (each.decode(errors="replace") for each in case.split(b"\n"))
    config = {LINE_KEY: line, MERGED_KEY: merged}
    head = ManifestHead(table_pb2.Manifest(version=7, branch=branch, config=config))
    found, held = line_of(head), held_by(head)
    if has_own_ids(head):
        expect(found.encode() == line, "a line that is written again is another one")
        expect(found.branch == branch, "a line of another branch counts")
    expect(found.id in held, "a version does not hold its own line")
    others = decode_vector(merged)
    expect(decode_vector(encode_vector(others)) == others, "a vector that is written again differs")
    space = claimed_space(name)
    expect(space is None or space_key(space).endswith(f"/{name}"), "another file claims the space")


def check_names(case: bytes, trial: Trial) -> None:
    names = [each.decode(errors="replace") for each in case.split(b"\n")]
    store = MemoryStore("fuzz", "names")
    put = []
    for name in names:
        if trial(lambda: _put(store, f"{VERSIONS_DIR}/{name}")):  # noqa: B023
            put.append(name)
    try:
        _check_listing(store, put, trial)
    finally:
        store.delete([each.key for each in store.list()])


def _put(store: MemoryStore, key: str) -> bool:
    store.put(key, b"")
    return True


def _check_listing(store: MemoryStore, names: list[str], trial: Trial) -> None:
    parsed = [name for each in names if (name := parse_manifest_name(each))]
    attached = {each.version for each in parsed if not each.detached}
    found = trial(lambda: list_versions(store))
    if found is None:
        return
    expect(set(found.versions) == attached, "the listing has other versions")
    newest = newest_version(store)
    expect((None if newest is None else newest.version) == found.newest, "two newest versions")
    if found.versions:
        middle = found.versions[len(found.versions) // 2]
        since = trial(lambda: versions_since(store, middle, found.scheme))
        later = tuple(each for each in found.versions if each > middle)
        expect(since is None or since.versions == later, "other versions since")


def check_sql(case: bytes, trial: Trial) -> None:
    sql = case.decode(errors="surrogatepass")
    expression = parse_expression(sql, _SCHEMA, _PARAMETERS)
    expect(set(expression.columns) <= set(_SCHEMA.names), "columns that do not exist")
    values = trial(lambda: expression.evaluate(_BATCH))
    if values is not None:
        expect(len(values) == _BATCH.num_rows, "another number of values than rows")
        expect(values.type == expression.type, "values of another type")
        values.validate(full=True)
    again = pickle.loads(pickle.dumps(expression))
    expect(again.type == expression.type, "another type after pickling")
    if pa.types.is_boolean(expression.type):
        predicate = parse_predicate(sql, _SCHEMA, _PARAMETERS)
        _ = predicate.bounds()
        mask = trial(lambda: predicate.mask(_BATCH))
        expect(mask is None or (len(mask) == 4 and mask.null_count == 0), "a mask with holes")
        if mask is not None and values is not None:
            kept = [each is True for each in values.to_pylist()]
            expect(mask.to_pylist() == kept, "a mask that keeps other rows")
