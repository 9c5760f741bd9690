"""Targets: files of scalar indices, and the trees of bitmaps in them.

Pages carry no checksum, so that an index whose rows were bent may name others: rows can be missing
then. Rows that do not meet a condition never come, nor does one twice or out of order.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from random import Random

from tests.fuzz.bend import bend
from tests.fuzz.corpus import Corpus
from tests.fuzz.on_tables import pack, unpack
from tests.fuzz.target import Context, Target, Trial, expect

import lancewood
from lancewood.model.bitmap import decode_bitmap_tree

CONDITIONS = ("i = 3", "i IN (1, 2, 77)", "i < 2", "i IS NULL", "s = 'text 5'", "z > 90")


def targets(context: Context) -> Iterator[Target]:
    corpus = context.corpus

    def check(data: bytes, trial: Trial) -> None:
        root = context.scratch / "indexed"
        shutil.rmtree(root, ignore_errors=True)
        try:
            unpack(data, root)
            table = lancewood.open(str(root), access=lancewood.Access(fsync=False))
            for where in CONDITIONS:
                _check(table, where, trial)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    yield Target("index-file", lambda rng: _bent_index(rng, corpus), check)
    yield Target("bitmap-tree", lambda rng: _bent_tree(rng, corpus), _check_tree)


def _check(table: lancewood.Table, where: str, trial: Trial) -> None:
    def addresses(*, use_indices: bool) -> list[int]:
        scan = table.scan([], where, with_row_address=True, use_indices=use_indices)
        found: list[int] = scan.to_arrow()["_rowaddr"].to_pylist()
        return found

    found = trial(lambda: addresses(use_indices=True))
    if found is not None:
        expect(set(found) <= set(addresses(use_indices=False)), f"{where}: rows that do not match")
        expect(found == sorted(set(found)), f"{where}: rows twice, or out of order")
        counted = trial(lambda: table.count_rows(where))
        expect(counted in (None, len(found)), f"{where}: {counted} counted, {len(found)} read")


def _bent_index(rng: Random, corpus: Corpus) -> bytes:
    files = dict(corpus.indexed)
    paths = sorted(each for each in files if each.startswith("_indices/"))
    path, what = rng.choice(paths), rng.random()
    if what < 0.05:
        del files[path]
    elif what < 0.15:
        files[path] = files[rng.choice(paths)]
    else:
        bent = bend(rng, files[path], [files[each] for each in paths])
        size = len(files[path])  # that the manifest says, so that the codec gets to see it
        files[path] = bent[:size] + files[path][len(bent) :] if rng.random() < 0.9 else bent
    return pack(files)


def _bent_tree(rng: Random, corpus: Corpus) -> bytes:
    return bend(rng, rng.choice(corpus.bitmap_trees), corpus.bitmap_trees)


def _check_tree(data: bytes, trial: Trial) -> None:
    tree = trial(lambda: decode_bitmap_tree(data, "a tree"))
    if tree is not None:
        expect(all(0 <= high < 1 << 32 for high in tree), "an upper half of more than 32 bits")
        expect(sum(map(len, tree.values())) >= 0, "fewer than no numbers")
