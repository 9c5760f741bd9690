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

import pytest
from tests.faults.hurting import MODES, Deaf, copied, every_call, through
from tests.index_scene import ONE, Seen, indexed, small_tasks, unreferenced

import lancewood as lw
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture(autouse=True, scope="module")
def _small_tasks() -> Iterator[None]:
    with small_tasks():
        yield


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
    uri = str(directory / "t.lance")
    indexed(uri, stable=stable)
    after = {}
    for name, act in CHANGES.items():
        copy = str(directory / f"{name}.lance")
        shutil.copytree(uri, copy)
        act(lw.open(copy))
        after[name] = Seen.at(copy)
        assert not unreferenced(copy)
    return Template(uri, Seen.at(uri), after)


@pytest.mark.sliced(12)
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


@pytest.mark.sliced(4)
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
