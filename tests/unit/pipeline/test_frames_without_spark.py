"""What is known before Spark starts: that nothing is new, and that functions are there."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.pipeline import run
from lancewood.pipeline import start as run_module
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.frames.unread import _SCHEMA as SEEN
from lancewood.pipeline.frames.unread import has_no_news, passed_over, whole_table
from lancewood.pipeline.report.facts import Ending
from lancewood.pipeline.running import run as running
from lancewood.pipeline.running.ledger import LedgerEntry, encode_entry, entry_file

HEAD = '[pipeline]\nname = "zoo"\nrepository = "repo"\n'
DROPS = '[sources.drops]\nformat = "csv"\npath = "in"\nincremental = true\n'
TARGET = '[[targets]]\ntable = "labels"\nfrom = "drops"\nmode = "append"\n'


class Scene:
    """A folder with drops, a pipeline file, and a repository that published runs have left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = lw.Repository.init(folder / "repo")

    def write(self, name: str, text: str = "1\n") -> Path:
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def file(self, text: str = DROPS + TARGET) -> Path:
        path = self.folder / "zoo.toml"
        path.write_text(HEAD + text)
        return path

    def publish(self, *read: Path, scheme: str = "file:") -> None:
        """What a run that has read these files leaves."""
        made = [os.stat(each) for each in read]
        times = [datetime.fromtimestamp(each.st_mtime_ns // 10**6 / 1e3, UTC) for each in made]
        paths = [f"{scheme}{each}" for each in read]
        sizes = [each.st_size for each in made]
        seen = pa.table([paths, sizes, times, ["r1"] * len(read)], schema=SEEN)
        entry = encode_entry(LedgerEntry("zoo", "r1", "d", "2026-01-01T00:00:00+00:00", "main"))
        with self.repository.transaction(
            "main", "a run", files={entry_file("zoo"): entry}
        ) as changes:
            if "labels" not in changes.tables:
                changes.create_table("labels", pa.table({"id": [1]}))
                changes.create_table("zoo_drops_files", seen)
            else:
                changes.table("zoo_drops_files").append(seen)

    def has_no_news(self, text: str = DROPS + TARGET) -> bool:
        pipeline = load(self.file(text))
        base = self.repository.branches.list().get("main")
        return has_no_news(pipeline, RunContext(self.repository, pipeline, "r2", base), {})


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")

    def start(_: object) -> None:
        raise AssertionError("Spark starts")

    monkeypatch.setattr(running, "start_session", start)
    monkeypatch.setattr(run_module, "start_session", start)
    return Scene(tmp_path / "a [1] {x}*? folder")


def test_a_run_ends_without_spark_if_every_file_was_read(scene: Scene) -> None:
    scene.publish(scene.write("a.csv"), scene.write("b b%20.csv"))
    assert run(scene.file()).ending is Ending.NOTHING_NEW
    scene.write(".hidden.csv")
    scene.write("_later")
    scene.write("empty.csv", "")
    scene.write("below/c.csv")
    assert scene.has_no_news(), "Spark passes over all of them"
    new = scene.write("c.csv")
    assert not scene.has_no_news()
    scene.publish(new)
    assert scene.has_no_news()
    os.utime(new, (1_600_000_000, 1_600_000_000))
    assert not scene.has_no_news(), "it was written anew"
    new.unlink()
    assert scene.has_no_news(), "one that is gone is not new"
    for each in (scene.folder / "in").glob("*.csv"):
        each.unlink()
    assert scene.has_no_news(), "nor is any if all are gone"


@pytest.mark.parametrize(
    ("path", "seen", "others"),
    [
        ("in/*.csv", ["a.csv"], ["b.txt"]),
        ("in/?/*", ["1/a.csv", "2/b.csv"], ["10/c.csv"]),
        ("in/1", ["1/a.csv"], ["1/below/b.csv"]),
        ("in/1/a.csv", ["1/a.csv"], ["1/b.csv"]),
    ],
)
def test_wild_cards_choose_as_they_do_in_spark(
    scene: Scene, path: str, seen: list[str], others: list[str]
) -> None:
    text = DROPS.replace('"in"', f'"{path}"') + TARGET
    for each in others:
        scene.write(each)
    scene.publish(*map(scene.write, seen))
    assert scene.has_no_news(text)
    (scene.folder / "in" / seen[0]).write_text("more\n")
    assert not scene.has_no_news(text)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("recursiveFileLookup = true", "below/b.csv"),
        ('basePath = "in"', "day=1/b.csv"),
        ("header = true", "day=1/b.csv"),
    ],
)
def test_files_below_count_where_spark_looks_below(scene: Scene, options: str, name: str) -> None:
    text = f"{DROPS}options = {{ {options} }}\n{TARGET}"
    scene.publish(scene.write("a.csv"))
    assert scene.has_no_news(text)
    below = scene.write(name)
    assert not scene.has_no_news(text)
    scene.publish(below)
    assert scene.has_no_news(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('path = "in"', 'path = "s3a://b/in"'),
        ('path = "in"', 'path = "{in,out}"'),
        ('path = "in"', 'path = "gone"'),
        ('path = "in"', 'path = "in"\noptions = { modifiedAfter = "2020-01-01T00:00:00" }'),
        ('path = "in"', 'path = "in"\noptions = { pathGlobFilter = "[a]*" }'),
        ("incremental = true", ""),
    ],
)
def test_what_is_not_certain_is_left_to_spark(scene: Scene, old: str, new: str) -> None:
    text = DROPS + TARGET
    assert not scene.has_no_news(text), "a first run"
    scene.publish(scene.write("a.csv"))
    assert scene.has_no_news(text)
    assert not scene.has_no_news(text.replace(old, new))


def test_a_path_that_means_another_file_system_to_spark_is_left_to_it(scene: Scene) -> None:
    scene.publish(scene.write("a.csv"), scheme="hdfs://name:9000")
    for each in (scene.folder / "in").iterdir():
        each.unlink()
    assert not scene.has_no_news()


def test_rows_of_a_table_are_new_by_its_versions(scene: Scene) -> None:
    table = lw.create(
        scene.folder / "t.lance", pa.table({"id": [1]}), layout=lw.Layout(stable_row_ids=True)
    )
    text = '[sources.drops]\nuri = "t.lance"\nincremental = true\n' + TARGET
    pipeline = load(scene.file(text))
    context = RunContext(scene.repository, pipeline, "r2", None)
    assert not has_no_news(pipeline, context, {}), "all of it is new"
    state = whole_table(pipeline.sources[0], table, context).state()
    assert has_no_news(pipeline, context, {"drops": state})
    table = table.append(pa.table({"id": [2]}))
    assert not has_no_news(pipeline, context, {"drops": state})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '[functions.f]\npython = "steps:shrnk"\nreturns = "int"\n',
            r"line 13: functions\.f\.python: 'steps:shrnk': .*steps\.py has no 'shrnk'; did you me",
        ),
        (
            '[steps.s]\npython = "steps:shrink"\ninputs = ["drops"]\n',
            r"line 12: steps\.s: 'steps:shrink' is called with 1 frame .* missing a required",
        ),
        ('[steps.s]\npython = "stepz:f"\ninputs = ["drops"]\n', r"line 13: .*no module 'stepz'"),
        (
            '[[checks]]\ntable = "lables"\nunique = ["id"]\n',
            r"line 13: .*no table 'lables'",
        ),
        (
            '[[checks]]\nsql = "SELECT * FROM lables"\n',
            r"line 13: .*no table 'lables'",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_although_nothing_is_new(
    scene: Scene, text: str, why: str
) -> None:
    scene.publish(scene.write("a.csv"))
    (scene.folder / "steps.py").write_text("def shrink(frame, more): ...\n")
    with pytest.raises(InvalidInputError, match=why):
        run(scene.file(DROPS + TARGET + text))
    good = text.replace("shrnk", "shrink").replace("stepz:f", "steps:shrink")
    good = good.replace("lables", "labels").replace("inputs", "arguments = { more = 1 }\ninputs")
    assert run(scene.file(DROPS + TARGET + good)).ending is Ending.NOTHING_NEW


FUNCTION = '[functions.f]\npython = "steps:shrnk"\nreturns = "int"\n'
STREAM = '[stream]\nsource = "drops"\ncheckpoint = "at"\ntrigger = "available-now"\n'


@pytest.mark.parametrize(
    "text",
    [
        DROPS + FUNCTION,
        DROPS.replace("incremental = true", 'schema = "id INT"') + FUNCTION + STREAM,
        DROPS + '[[checks]]\ntable = "lables"\nunique = ["id"]\n',
    ],
    ids=["function", "stream", "check"],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_misspelt_name_is_found_before_spark_starts(
    scene: Scene, text: str, dry_run: bool
) -> None:
    scene.write("a.csv")
    (scene.folder / "steps.py").write_text("def shrink(value): ...\n")
    with pytest.raises(InvalidInputError, match=r"did you mean '(shrink|labels)'"):
        run(scene.file(text + TARGET), dry_run=dry_run)


@pytest.mark.parametrize(
    "needs_session", ["@udf('int')\ndef shrink(v): ...\n", "shrink, x = str, col('x')\n"]
)
def test_a_module_that_needs_a_session_to_load_is_left_to_spark(
    scene: Scene, needs_session: str
) -> None:
    scene.publish(scene.write("a.csv"))
    module = f"from pyspark.sql.functions import col, udf\n{needs_session}"
    (scene.folder / "steps.py").write_text(module)
    text = DROPS + TARGET + FUNCTION.replace("shrnk", "shrink")
    assert run(scene.file(text)).ending is Ending.NOTHING_NEW
    (scene.folder / "steps.py").write_text("raise ValueError('of its own')\n")
    with pytest.raises(InvalidInputError, match="does not load: ValueError: of its own"):
        run(scene.file(text))


def test_files_that_spark_leaves_out_for_their_names_are_counted(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for name in ("1.csv", "_2.csv", ".3.csv", "_SUCCESS", ".1.csv.crc", "below/_4.csv"):
        scene.write(name)
    sources = {
        'path = "in"': 2,
        'path = "in/*.csv"': 2,
        'path = "in/1.csv"': 0,
        'path = "in"\noptions = { pathGlobFilter = "*2*" }': 1,
        'path = "in"\noptions = { recursiveFileLookup = true }': 3,
        'path = "s3://bucket/in"': None,
    }
    for said, count in sources.items():
        text = DROPS.replace('path = "in"', said) + TARGET
        (source,) = load(scene.file(text), {}, {}).sources
        assert passed_over(source) == count, said
