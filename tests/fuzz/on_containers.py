"""Targets: the container of a data file, which we read ourselves, its pages are the codec's; and
the deltas in packs of git."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.bend import bend
from tests.fuzz.target import Context, Target, Trial, expect

from lancewood.data.open_files import read_container
from lancewood.git.loose import MOST_BYTES
from lancewood.git.packs import apply_delta

_BASE = bytes(range(200)) * 50
_TAIL = 1_000
"""Footer, offset tables and lists of pages of a small file lie within these last bytes."""


def targets(context: Context) -> Iterator[Target]:
    files = context.corpus.data_files
    yield Target("container", lambda rng: _bent_file(rng, files), check_container)
    yield Target("git-delta", _bent_delta, check_delta)


def _bent_file(rng: Random, files: list[bytes]) -> bytes:
    """A data file, mostly bent at its end, where it is told what lies where."""
    data = rng.choice(files)
    if rng.random() < 0.2:
        return bend(rng, data, files)
    return data[:-_TAIL] + bend(rng, data[-_TAIL:], [each[-_TAIL:] for each in files])


def _bent_delta(rng: Random) -> bytes:
    """A delta of ``_BASE``: copies and texts of its own, some of them bent, or claiming much."""
    orders = [
        b"\xb3" + (rng.randrange(9_000)).to_bytes(2, "little") + (900).to_bytes(2, "little"),
        b"\x05hello",
        b"\xb0" + len(_BASE).to_bytes(2, "little"),
    ]
    sizes = (900, 5, len(_BASE))
    chosen = [rng.randrange(3) for _ in range(rng.choice((0, 1, 5, 2_000)))]
    claimed = sum(sizes[each] for each in chosen) + rng.choice((0, 0, 0, 1, 1 << 40))
    delta = _number(len(_BASE)) + _number(claimed) + b"".join(orders[each] for each in chosen)
    return delta if rng.random() < 0.4 else bend(rng, delta)


def _number(value: int) -> bytes:
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def check_delta(data: bytes, trial: Trial) -> None:
    made = trial(lambda: apply_delta(_BASE, data))
    expect(made is None or len(made) <= MOST_BYTES, "more than an object may hold")


def check_container(data: bytes, trial: Trial) -> None:
    def read(start: int, length: int) -> bytes:
        expect(start >= 0 and start + length <= len(data), "bytes outside the file were asked for")
        return data[start : start + length]

    container = read_container("fuzzed", len(data), read)
    for index in range(min(container.footer.num_columns, 20)):
        pages = trial(lambda: container.column(index))  # noqa: B023
        for page in pages.pages if pages is not None else ():
            for start, length in zip(page.buffer_offsets, page.buffer_sizes, strict=True):
                expect(start + length <= len(data), "a page lies outside the file")
