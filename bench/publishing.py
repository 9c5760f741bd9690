"""Publishing a branch of many fragments, against doing its work once more on main with pylance.

pylance has no publishing: whoever wants the rows of a branch on main reads them there and writes
them again, or runs the same delete twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance

import lancewood as lw
from bench import OURS, PYLANCE
from bench.contenders import ten_rows
from bench.measure import interleave
from bench.places import Places, scratch
from bench.result import Row, Section
from bench.scale import Scale
from bench.tables import make_fragments
from lancewood.model.transaction import Append

_PASSES = 3
_BRANCH = "work"
_CONDITION = "id = 3"


def run(scale: Scale, places: Places) -> Section:
    count = scale.small_fragments
    rows: list[Row] = []
    for work, make, by_pylance in (
        ("new fragments", _appended, _append_again),
        ("new fragments, main has moved", _appended_and_moved, _append_again),
        ("fragments with deletions", _deleted, _delete_again),
    ):
        with scratch(places.fast) as here:
            ours = _each(_tables(here, count, make), _publish)
            pylances = _each(_tables(here / "pylance", count, make), by_pylance)
            found = interleave({OURS: ours, PYLANCE: pylances}, _PASSES)
        name = f"publish {count:,} {work}"
        rows.append(Row(work=name, unit="ms", ours=found[OURS], pylance=found[PYLANCE]))
    return Section(
        name="publishing",
        title="Publishing a branch",
        note=f"On {places.fast_name}; fragments of ten rows. pylance does the work again on main.",
        rows=tuple(rows),
    )


def _tables(here: Path, count: int, make: Callable[[Path, int], None]) -> Iterator[Path]:
    """A fresh table with a branch for every pass, made before the clock starts."""
    made = [here / f"{number}.lance" for number in range(_PASSES + 1)]
    for each in made:
        make(each, count)
    return iter(made)


def _each(tables: Iterator[Path], job: Callable[[Path], object]) -> Callable[[], object]:
    return lambda: job(next(tables))


def _appended(table: Path, count: int) -> None:
    main = lw.create(table, ten_rows(), access=lw.Access(fsync=False))
    branch = main.branches.create(_BRANCH)
    (fragment,) = branch.write_fragments(ten_rows())
    branch.commit(branch.transaction(Append((fragment,) * count)))


def _appended_and_moved(table: Path, count: int) -> None:
    _appended(table, count)
    lw.open(table, access=lw.Access(fsync=False)).append(ten_rows())


def _deleted(table: Path, count: int) -> None:
    make_fragments(table, count, stable_row_ids=True)
    lw.open(table, access=lw.Access(fsync=False)).branches.create(_BRANCH).delete(_CONDITION)


def _publish(table: Path) -> object:
    return lw.open(table, access=lw.Access(fsync=False)).branches.publish(_BRANCH)


def _append_again(table: Path) -> object:
    dataset: Any = lance.dataset(str(table))
    work = dataset.checkout_version((_BRANCH, None)).to_table(offset=10)
    return lance.write_dataset(work, str(table), mode="append")


def _delete_again(table: Path) -> object:
    dataset: Any = lance.dataset(str(table))
    return dataset.delete(_CONDITION)
