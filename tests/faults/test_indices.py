"""A failure, a lost answer or a death at every store call of create, extend, optimize and drop.

pylance writes the files of a segment past the store; what is hurt are the calls around that. The
table is then as before or as after, answers are right either way, and what was built for nothing is
removed, unless nobody knows whether it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from tests.faults.hurting import MODES, ONE, Deaf, copied, every_call, through
from tests.histories.answers import check_answers
from tests.pylance import judged

import lancewood as lw
from lancewood.jobs.indexing import building
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
TYPES = {"k": pa.int64(), "a": pa.int32(), "s": pa.string(), "v": pa.list_(pa.float32(), 2)}


@pytest.fixture(autouse=True, scope="module")
def _small_tasks() -> Iterator[None]:
    """A task for every few fragments, however small: their segments are merged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "LEAST_BYTES", 0)
        yield


def rows(first: int, stop: int) -> pa.Table:
    columns = {
        "k": [*range(first, stop)],
        "a": [k % 3 for k in range(first, stop)],
        "s": [f"{'new' if k % 2 else 'old'} x" for k in range(first, stop)],
        "v": [[k % 4, 0.5] for k in range(first, stop)],
    }
    return pa.table({name: pa.array(columns[name], kind) for name, kind in TYPES.items()})


CHANGES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "create": lambda t: t.indices.create("k", name="on_k", runner=ONE),
    "create on texts": lambda t: t.indices.create("s", "INVERTED", name="on_s", runner=ONE),
    "create on vectors": lambda t: t.indices.create("v", partitions=1, name="on_v", runner=ONE),
    "create anew": lambda t: t.indices.create("a", "BITMAP", name="on_a", replace=True, runner=ONE),
    "extend": lambda t: t.indices.extend(runner=ONE),
    "optimize": lambda t: t.indices.optimize("on_a", runner=ONE),
    "drop": lambda t: t.indices.drop("on_a"),
}


@dataclass(frozen=True)
class Seen:
    """The indices of a table; what they answer is right."""

    indices: tuple[tuple[str, str, int, int | None], ...]

    @classmethod
    def at(cls, uri: str) -> Seen:
        table, dataset = lw.open(uri), judged(uri)
        assert table.version == dataset.version
        assert not table.verify().problems
        values = dataset.to_table().to_pydict()
        told = table.indices.list()
        for each in told:
            assert each.column is not None
            known = dict(zip(values["k"], values[each.column], strict=True))
            check_answers(table, dataset, each.column, each.kind, known)
        return cls(tuple((each.name, each.kind, each.segments, each.rows_covered) for each in told))


@dataclass(frozen=True)
class Template:
    """A table before any change, and what each of them makes of it."""

    uri: str
    before: Seen
    after: dict[str, Seen]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Template]:
    """Tables with and without stable row ids, each made once."""
    return cache(lambda stable: made(tmp_path_factory.mktemp("indices"), stable))


def made(directory: Path, stable: bool) -> Template:
    """An index of two segments and one of one; neither covers everything, and both hold an old
    value of a row that was changed since."""
    uri = str(directory / "t.lance")
    table = lw.create(uri, rows(0, 8), stable_row_ids=stable, max_rows_per_file=4, fsync=False)
    table = table.indices.create("a", "BITMAP", name="on_a", runner=ONE)
    table = table.append(rows(8, 12)).indices.extend(runner=ONE)
    table = table.indices.create("a", "ZONEMAP", name="zones", runner=ONE)
    table = table.update({"a": 7}, "k = 2", rewrite="columns").append(rows(12, 14))
    table.delete("k = 5")
    after = {}
    for name, act in CHANGES.items():
        copy = str(directory / f"{name}.lance")
        shutil.copytree(uri, copy)
        act(lw.open(copy))
        after[name] = Seen.at(copy)
        assert not unreferenced(copy)
    return Template(uri, Seen.at(uri), after)


def unreferenced(uri: str) -> set[str]:
    """The directories of segments that no version names."""
    table = lw.open(uri)
    versions = [table.checkout(version=each.version) for each in table.versions()]
    named = {str(segment.uuid) for each in versions for segment in each.indices}
    return {each.name for each in Path(uri, "_indices").iterdir()} - named


@pytest.mark.sliced(8)
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_indices_is_old_or_new_whatever_call_goes_wrong(
    templates: Callable[[bool], Template], uri: str, name: str, mode: Mode, stable: bool
) -> None:
    template = templates(stable)
    act, before, after = CHANGES[name], template.before, template.after[name]
    assert before != after or name == "create anew"
    for attempt in every_call(mode, lambda _: copied(template.uri, uri)):
        outcome = attempt.run(act, through(uri, attempt.store))
        seen = Seen.at(uri)
        attempt.check(seen, before, after)
        if outcome == "done" or attempt.must_leave_nothing:
            assert not unreferenced(uri) or attempt.hurts_removal, attempt.where
        if outcome == "dead" and seen == before:
            act(lw.open(uri))
            assert Seen.at(uri) == after, attempt.where


class DeafAndIdle(Deaf):
    """The manifest never arrived."""

    puts = False


@pytest.mark.sliced(3)
@pytest.mark.parametrize("name", CHANGES)
def test_segments_of_a_change_whose_fate_is_unknown_stay(
    templates: Callable[[bool], Template], uri: str, name: str
) -> None:
    template = templates(True)
    act, after = CHANGES[name], template.after[name]
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        act(through(uri, Deaf(copied(template.uri, uri))))
    assert Seen.at(uri) == after
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        act(through(uri, DeafAndIdle(copied(template.uri, uri))))
    assert Seen.at(uri) == template.before
    assert bool(unreferenced(uri)) == (name != "drop")
    act(lw.open(uri))
    assert Seen.at(uri) == after
