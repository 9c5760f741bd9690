"""Item repositories written, tagged and read by Spark; against git called as a program.

git does a sample of them, one after the other, as a script would: there is no job that calls it
for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lancewood.spark as lws
from bench import OURS
from bench.git_program import GIT, GitProgram
from bench.measure import Contender, Samples, interleave
from bench.places import Places, scratch
from bench.result import Row, Section
from bench.scale import Scale
from lancewood import items

_GIT = "git"
_TEXT = "<edit/>"


def run(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]")
    try:
        with scratch(places.disk) as here:
            rows = tuple(_measure(spark, here, scale))
    finally:
        spark.stop()
    return Section(
        name="items",
        title="Items on Spark, against git as a program",
        note=(
            f"On disk; `local[2]`; {scale.items:,} items of one small file each, in 256 folders. "
            "Synced: everything is on the disk when the job returns; git with `core.fsync=all`. "
            f"git does {scale.item_sample} items, with seven processes for a new one, five for its "
            "next snapshot and one for each other work. Names are checked first, so the frame is "
            "computed twice."
        ),
        against="git as a program",
        rows=rows,
    )


def _measure(spark: Any, here: Path, scale: Scale) -> Iterator[Row]:
    count, sample = scale.items, scale.item_sample
    numbers = itertools.count()
    last: dict[bool, Path] = {}
    theirs: dict[bool, list[GitProgram]] = {True: [], False: []}

    def written(sync: bool) -> None:
        last[sync] = here / f"ours-{next(numbers)}"
        _written(spark, last[sync], count, "first", sync)

    def by_git(sync: bool) -> None:
        root = here / f"git-{next(numbers)}"
        theirs[sync] = [
            GitProgram.init(root / f"{number}", {"edit.xmp": _TEXT.encode()}, sync=sync)
            for number in range(sample)
        ]

    def moved() -> None:
        _written(spark, last[False], count, f"more {next(numbers)}", False)

    def moved_by_git() -> None:
        for git in theirs[False]:
            git.commit("edit.xmp", f"{_TEXT} more {next(numbers)}".encode())

    def tagged() -> None:
        done = items.tag(spark, last[False], f"v{next(numbers)}", fsync=False)
        _check(done.written, count)

    def each(*words: str) -> Contender:
        return lambda: [
            git.run(*[word.replace("#", f"{next(numbers)}") for word in words])
            for git in theirs[False]
        ]

    def read(counted: Callable[[Any], int]) -> Contender:
        return lambda: _check(counted(items.read(spark, last[False])), count)

    def contents(found: Any) -> int:
        return int(found.contents(columns=["item", "content"]).where("content is not null").count())

    def refs(found: Any) -> int:
        return int(found.refs(columns=["ref", "hash"]).where("ref = 'HEAD'").count())

    works: tuple[tuple[str, Contender, Contender], ...] = (
        ("new items, synced", lambda: written(True), lambda: by_git(True)),
        ("new items, not synced", lambda: written(False), lambda: by_git(False)),
        (
            "the next snapshot of each, not synced",
            moved,
            moved_by_git,
        ),
        ("tag all, not synced", tagged, each("update-ref", "refs/tags/v#", "HEAD")),
        ("read HEAD and refs", read(refs), each("for-each-ref")),
        ("read contents", read(contents), each("cat-file", "blob", "HEAD:tables/edit.xmp")),
    )
    for work, ours, git in works:
        found = interleave({OURS: ours, **({_GIT: git} if GIT else {})}, scale.item_passes)
        yield Row(
            work=work,
            unit="items/s",
            ours=_rates(found[OURS], count),
            pylance=_rates(found.get(_GIT, ()), sample),
            more_is_better=True,
        )


def _written(spark: Any, folder: Path, count: int, text: str, sync: bool) -> None:
    frame = spark.range(count).selectExpr(
        "concat(lpad(hex(id % 256), 2, '0'), '/item-', id) AS item",
        "'edit.xmp' AS path",
        f"encode(concat('{_TEXT} {text} ', id), 'UTF-8') AS content",
    )
    done = items.write(frame, folder, author="bench <bench@example.org>", fsync=sync)
    _check(done.written, count)


def _check(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{wanted} items were to be done, and {found} were")


def _rates(milliseconds: Samples, count: int) -> Samples:
    return tuple(count * 1_000 / each for each in milliseconds)
