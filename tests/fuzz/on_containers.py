"""Target: the container of a data file, which we read ourselves; its pages are the codec's."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.fuzz.bend import bend
from tests.fuzz.target import Context, Target, Trial, expect

from lancewood.data.container import read_container

_TAIL = 1_000
"""Footer, offset tables and lists of pages of a small file lie within these last bytes."""


def targets(context: Context) -> Iterator[Target]:
    files = context.corpus.data_files
    yield Target("container", lambda rng: _bent_file(rng, files), check_container)


def _bent_file(rng: Random, files: list[bytes]) -> bytes:
    """A data file, mostly bent at its end, where it is told what lies where."""
    data = rng.choice(files)
    if rng.random() < 0.2:
        return bend(rng, data, files)
    return data[:-_TAIL] + bend(rng, data[-_TAIL:], [each[-_TAIL:] for each in files])


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
