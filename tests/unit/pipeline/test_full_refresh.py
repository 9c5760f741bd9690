"""A full refresh: what the pipeline becomes by it, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from tests.unit.pipeline.definition_files import HEAD, loaded
from tests.unit.pipeline.run_scene import Scene

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.facts import Ending
from lancewood.pipeline.start import refreshed

SOURCES = (
    '[sources.drops]\nformat = "csv"\npath = "in"\nincremental = true\n'
    '[sources.people]\nuri = "people.lance"\nincremental = true\n'
    '[sources.zones]\nformat = "csv"\npath = "zones"\n'
    '[steps.joined]\nsql = "SELECT * FROM drops JOIN zones USING (id)"\n'
)


def target(table: str, mode: str, source: str | None = None, more: str = "") -> str:
    said = "" if source is None else f'from = "{source}"\n'
    return f'[[targets]]\ntable = "{table}"\nmode = "{mode}"\n{said}{more}\n'


TARGETS = (
    target("orders", "append", "joined")
    + target("orders", "merge", "zones", 'on = ["id"]')
    + target("orders", "add-columns", None, 'columns = { double = "2 * id" }')
    + target("people", "merge", "people", 'on = ["id"]')
    + target("zones", "overwrite", "zones")
)


def anew(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(each.table, each.mode.value) for each in pipeline.targets if each.is_anew]


@pytest.mark.parametrize(
    ("tables", "sources", "targets"),
    [
        (True, ["drops", "people"], [("orders", "append"), ("people", "merge")]),
        (["orders"], ["drops"], [("orders", "append")]),
        (["zones"], [], []),
    ],
)
def test_tables_begin_anew_once_and_their_sources_from_the_start(
    tmp_path: Path,
    tables: bool | Collection[str],
    sources: list[str],
    targets: list[tuple[str, str]],
) -> None:
    pipeline = loaded(tmp_path, HEAD + SOURCES + TARGETS)
    found = refreshed(pipeline, tables)
    assert [each.name for each in found.sources if each.is_from_start] == sources
    assert anew(found) == targets
    assert found.targets[2].overwrite is ("orders" in found.full_refresh)
    names = ["orders", "people", "zones"] if isinstance(tables, bool) else tables
    assert [*found.full_refresh] == names
    assert found.digest != pipeline.digest, "a run that was cut off goes on with nothing else"
    assert refreshed(pipeline, False) is refreshed(pipeline, []) is pipeline


@pytest.mark.parametrize(
    ("more", "tables", "why"),
    [
        ("", ["order"], "there is no target 'order' to be refreshed: did you mean 'orders'?"),
        (
            target("counts", "append", "drops"),
            ["orders"],
            r"zoo.toml line 39: targets\[5\]: 'counts' gets rows of 'drops' too, .* 'orders' reads "
            "from the start: refresh both",
        ),
        (
            target("notes", "merge", "drops", 'on = ["id"]\nnot_matched = "ignore"'),
            True,
            r"zoo.toml line 44: targets\[5\].not_matched: inserts nothing, so that 'notes' would",
        ),
    ],
)
def test_what_cannot_be_made_from_the_start_is_refused(
    tmp_path: Path, more: str, tables: bool | Collection[str], why: str
) -> None:
    with pytest.raises(InvalidInputError, match=why):
        refreshed(loaded(tmp_path, HEAD + SOURCES + TARGETS + more), tables)


def test_a_stream_has_its_checkpoint_instead(tmp_path: Path) -> None:
    text = SOURCES.replace("incremental = true\n", "") + target("orders", "append", "drops")
    stream = '[stream]\nsource = "drops"\ntrigger = "available-now"\n'
    with pytest.raises(InvalidInputError, match=r"line 18: stream: goes on from its checkpoint"):
        refreshed(loaded(tmp_path, HEAD + text + stream), True)


def test_a_refresh_is_never_nothing_new_and_says_how_to_do_it_again(tmp_path: Path) -> None:
    scene = Scene.at(tmp_path).incremental()
    scene.run()
    assert scene.run("r2").ending is Ending.NOTHING_NEW
    again = scene.changed(full_refresh=("photos",))
    facts = again.run("r3", dry_run=True)
    assert facts.full_refresh == ["photos"]
    assert facts.what_next == [f"lw run {scene.pipeline.file} --full-refresh-table=photos"]
    assert again.run("r3").ending is Ending.PUBLISHED
