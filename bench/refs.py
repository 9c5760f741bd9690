"""Names: making a branch, a tag and a clone by the number of fragments, and listing many."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import lance

import lancewood as lw
from bench import OURS, PYLANCE
from bench.measure import interleave
from bench.places import Places, scratch, twin
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_fragments, make_small

BUDGETED = 100_000
"""The number of fragments that the budgets speak of."""


def run(scale: Scale, places: Places) -> Section:
    rows: list[Row] = []
    for count in scale.fragments:
        with scratch(places.fast) as here:
            rows += _make(here / "t.lance", count, scale.metadata_passes)
    with scratch(places.fast) as here:
        rows += _list(here / "t.lance", scale.refs, scale.metadata_passes)
    return Section(
        name="refs",
        title="Branches, tags and clones",
        note=(
            f"On {places.fast_name}; a fragment has ten rows. Making one opens the table, makes it "
            "and leaves the handle; no file is synced."
        ),
        rows=tuple(rows),
    )


def _make(ours: Path, count: int, passes: int) -> Iterator[Row]:
    make_fragments(ours, count, stable_row_ids=False)
    pylances = twin(ours)
    number = itertools.count()

    def name() -> str:
        return f"n{next(number)}"

    jobs: tuple[tuple[str, float | None, Callable[[], object], Callable[[], object]], ...] = (
        (
            "open and branch",
            10.0,
            lambda: lw.open(ours, access=lw.Access(fsync=False)).branches.create(name()),
            lambda: lance.dataset(pylances).create_branch(name()),
        ),
        (
            "open and tag",
            5.0,
            lambda: lw.open(ours, access=lw.Access(fsync=False)).tags.create(name()),
            lambda: lance.dataset(pylances).tags.create(name(), 2),
        ),
        ("tag through an open handle", None, _our_tag(ours, name), _pylance_tag(pylances, name)),
        (
            "open and clone, shallow",
            10.0,
            lambda: lw.open(ours, access=lw.Access(fsync=False)).clone(ours.with_name(name())),
            lambda: lance.dataset(pylances).shallow_clone(str(ours.with_name(name())), 2),
        ),
    )
    for verb, least, our_job, pylance_job in jobs:
        found = interleave({OURS: our_job, PYLANCE: pylance_job}, passes)
        yield Row(
            work=f"{count:,} fragments: {verb}",
            unit="ms",
            ours=found[OURS],
            pylance=found[PYLANCE],
            target=LeastRatio(least) if least and count == BUDGETED else None,
        )


def _our_tag(table: Path, name: Callable[[], str]) -> Callable[[], object]:
    handle = lw.open(table, access=lw.Access(fsync=False))
    return lambda: handle.tags.create(name())


def _pylance_tag(table: Path, name: Callable[[], str]) -> Callable[[], object]:
    handle = lance.dataset(table)
    return lambda: handle.tags.create(name(), 2)


def _list(ours: Path, count: int, passes: int) -> Iterator[Row]:
    """Listing opens no version, so the records of one branch and one tag stand for all of them."""
    make_small(ours)
    table = lw.open(ours, access=lw.Access(fsync=False))
    table.branches.create("b")
    table.tags.create("t")
    for kind, first in (("branches", "b"), ("tags", "t")):
        directory = ours / "_refs" / kind
        record = json.loads((directory / f"{first}.json").read_text())
        for number in range(1, count):
            (directory / f"{first}{number}.json").write_text(json.dumps(record))
    handle = lance.dataset(ours)
    jobs: tuple[tuple[str, Callable[[], object], Callable[[], object]], ...] = (
        ("branches", table.branches.list, handle.branches.list),
        ("tags", table.tags.list, handle.tags.list),
    )
    for kind, our_job, pylance_job in jobs:
        found = interleave({OURS: our_job, PYLANCE: pylance_job}, passes)
        yield Row(
            work=f"list {count:,} {kind}", unit="ms", ours=found[OURS], pylance=found[PYLANCE]
        )
