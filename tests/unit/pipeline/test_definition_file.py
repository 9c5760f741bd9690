"""Files that are no pipelines, and what every file has: names, places, defaults."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.pipeline.definition_files import GOOD, HEAD, SOURCE, TARGET, loaded, refused

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.definition.model import Mode, Quarantine
from lancewood.pipeline.definition.toml_file import MOST_BYTES


def test_a_small_file_has_the_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD)
    assert (found.name, found.file) == ("zoo", tmp_path / "zoo.toml")
    assert found.repository == str(tmp_path / ".lancewood" / "zoo")
    assert (found.branch, found.tag, found.message, found.author) == ("main", None, None, None)
    assert (found.attempts, found.kept_rows, found.keep_failed) == (3, 1_000, timedelta(days=7))
    assert found.quarantine == Quarantine()
    assert found.sources[0].paths == (str(tmp_path / "animals"),)
    assert found.targets[0].mode is Mode.APPEND
    assert str(found.targets[0].spot.at("mode")) == "zoo.toml line 9: targets[0].mode"
    assert str(found.targets[0].spot.at("on", 0)) == "zoo.toml: targets[0].on[0]"


def test_the_path_may_be_relative_to_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zoo.toml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    found = load("zoo.toml")
    assert found.file == tmp_path / "zoo.toml"
    assert found.sources[0].paths == (str(tmp_path / "animals"),)


def test_relative_places_are_against_the_file_and_uris_stay(tmp_path: Path) -> None:
    text = HEAD + 'repository = "../repo"\n'
    text += (
        '[sources.a]\nformat = "csv"\npaths = ["../x/*.csv", "/y", "s3a://b/../c", "file:/z"]\n'
        '[sources.b]\nuri = "t.lance"\n[sources.c]\nuri = "s3://b/t.lance"\n'
        '[[targets]]\ntable = "t"\nfrom = "a"\nmode = "append"\nuri = "out/t.lance"\n'
        '[stream]\nsource = "c"\ntrigger = "10 seconds"\ncheckpoint = "points"\n'
    )
    found = loaded(tmp_path, text)
    above = str(tmp_path.parent)
    assert found.repository == f"{above}/repo"
    assert found.sources[0].paths == (f"{above}/x/*.csv", "/y", "s3a://b/../c", "file:/z")
    assert found.sources[1].uri == f"{tmp_path}/t.lance"
    assert found.sources[2].uri == "s3://b/t.lance"
    assert found.targets[0].uri == f"{tmp_path}/out/t.lance"
    assert found.stream is not None
    assert found.stream.checkpoint == f"{tmp_path}/points"


def test_a_missing_file_names_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "photos.toml").write_text(GOOD)
    (tmp_path / "other.toml").write_text(GOOD)
    with pytest.raises(NotFoundError, match=r"did you mean .*/photos\.toml\?"):
        load(tmp_path / "photo.toml")
    with pytest.raises(NotFoundError, match=r"there is no file .*/zzz$"):
        load(tmp_path / "zzz")
    with pytest.raises(NotFoundError, match="there is no file"):
        load(tmp_path / "nowhere" / "photos.toml")


def test_a_directory_is_no_pipeline(tmp_path: Path) -> None:
    (tmp_path / "photos.toml").write_text(GOOD)
    with pytest.raises(InvalidInputError, match=r"is a directory.*did you mean .*photos\.toml"):
        load(tmp_path)


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    os.symlink(tmp_path / "a.toml", tmp_path / "a.toml")
    with pytest.raises(StorageError, match="cannot be read"):
        load(tmp_path / "a.toml")
    with pytest.raises(InvalidInputError, match="is no path"):
        load(f"{tmp_path}/a\0.toml")


NO_PIPELINES = {
    "no quotes": (b"[pipeline]\nname = zoo\n", "zoo.toml line 2: this is not TOML, at column 8: "),
    "twice": (b"[pipeline]\nname = 'a'\nname = 'b'\n", "zoo.toml line 3: this is not TOML"),
    "not closed": (b"[pipeline", "zoo.toml: this is not TOML: "),
    "latin": (b"a = 1\nb = '\xff'\n", "zoo.toml line 2: the file is not UTF-8: byte 0xff"),
    "lists": (b"a = " + b"[" * 5_000 + b"]" * 5_000, "zoo.toml: the file nests deeper than 30"),
    "dots": (b".".join([b"a"] * 400_000) + b" = 1", "zoo.toml: the file nests deeper than 30"),
    "quoted dots": (b"[" + b" . ".join([b"''"] * 99_999) + b"]", "zoo.toml: the file nests deeper"),
    "some dots": (b".".join([b"a"] * 40) + b" = 1", "zoo.toml: the file nests deeper than 30"),
    "large": (b"#" * (MOST_BYTES + 1), "zoo.toml: the file has more than 1,000,000 bytes"),
    "hex": (b"\n[pipeline]\nattempts = 0x" + b"f" * 99_999, "zoo.toml line 3: pipeline.attempts"),
    "digits": (b"a = " + b"9" * 5_000, "zoo.toml: this is not TOML: "),
    "one word": (b"a" * MOST_BYTES, "zoo.toml: this is not TOML: "),
}


@pytest.mark.parametrize(("content", "told"), NO_PIPELINES.values(), ids=NO_PIPELINES.keys())
def test_what_is_no_toml_is_refused_with_the_line(
    tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "zoo.toml").write_bytes(content)
    with pytest.raises(InvalidInputError) as caught:
        load(tmp_path / "zoo.toml")
    assert caught.value.message.startswith(told)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    ("text", "line", "way_out"),
    [
        ('name = "zoo\n', 2, "is a quote missing?"),
        ("[[checks]]\n[checks]\n", 3, "each begins with [[targets]] or [[checks]]"),
        ("[checks]\nsql = ''\n[[checks]]\n", 4, "this key is there already"),
        ("name = 'a'\nname = 'b'\n", 3, "this key is there already"),
        ("name = zoo\n", 2, "texts stand in quotes"),
        ('name = "C:\\data"\n', 2, "between single quotes a '\\' is itself"),
        ("tag = [1, 2\nname = 'a'\n", 3, "is a comma or a ']' missing?"),
        ("storage_options = { a = 1\n}\n", 2, "stands on one line"),
    ],
)
def test_a_slip_in_toml_is_told_with_the_way_out(
    tmp_path: Path, text: str, line: int, way_out: str
) -> None:
    (tmp_path / "zoo.toml").write_text(f"[pipeline]\n{text}")
    with pytest.raises(InvalidInputError) as caught:
        load(tmp_path / "zoo.toml")
    assert caught.value.message.startswith(f"zoo.toml line {line}: this is not TOML")
    assert way_out in caught.value.message


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "zoo.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    found = load(tmp_path / "zoo.toml")
    assert found.targets[0].spot.line == 6


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        (GOOD + "[target] #!\n", "target", "there is no such key: did you mean 'targets'?"),
        (GOOD + "zzz = 1 #!", "targets[0].zzz", "there are columns, deleted, from, "),
        ("pipeline = 1 #!\n" + SOURCE + TARGET, "pipeline", "takes a table, got the number 1"),
        (SOURCE + TARGET, "pipeline", "the key 'name' is missing"),
        ("[pipeline] #!\n" + SOURCE + TARGET, "pipeline", "the key 'name' is missing"),
        (HEAD + SOURCE, "targets", "the file has no [[targets]]"),
        (HEAD + SOURCE + "[targets] #!\n", "targets", "takes tables with two brackets"),
        (HEAD + "[[sources]] #!\n" + TARGET, "sources", "takes a table, got a list"),
        (HEAD + "[sources]\na = 1 #!\n" + TARGET, "sources.a", "takes a table"),
    ],
)
def test_sections_have_their_names_and_shapes(
    tmp_path: Path, text: str, key: str, told: str
) -> None:
    assert told in refused(tmp_path, text, key)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('name = "a/b"', "pipeline name 'a/b' is not allowed"),
        ('name = ".a"', "is not allowed"),
        ('name = "a.lock"', "is not allowed"),
        (f'name = "{"x" * 61}"', "at most 60"),
        ("name = 3", "takes a text, got the number 3"),
        ('name = " "', "takes a text, got an empty one"),
        ('name = "a\\u0000"', "without a NUL"),
        ('branch = "a..b"', "it contains '..'"),
        ('branch = "data"', "is the name of a directory"),
        ('branch = "run"', "are the branches of runs"),
        ('branch = "run/7"', "are the branches of runs"),
        ('tag = "v {run}"', "it contains a space"),
        ('tag = "{runs}"', "'{runs}' stands for nothing"),
        ('tag = "{run"', "'{' stands for nothing"),
        ('tag = "{run}.lock"', "ends with '.lock'"),
        ('tag = "-{run}"', "starts with '-'"),
        (f'tag = "{"v" * 200}{{run}}"', "bytes long"),
        ('author = "Ada"', "Name <address>"),
        ('message = ["x"]', "takes a text, got a list"),
        ("attempts = 0", "takes a whole number from 1 to 20, got the number 0"),
        ("attempts = 21", "from 1 to 20"),
        ("attempts = true", "from 1 to 20, got true"),
        ("attempts = 3.0", "got the number 3.0"),
        ('attempts = "3"', "got the text '3'"),
        ("attempts = 2026-01-31", "got the date or time 2026-01-31"),
        ("kept_rows = -1", "from 0 to 100,000"),
        ('keep_failed = "7"', '"7 days" or "12 hours"'),
        ('keep_failed = "7 dayz"', "is no length of time"),
        ('keep_failed = "0 days"', "from one second to ten years"),
        ('keep_failed = "9999999999 weeks"', "from one second to ten years"),
        ("keep_failed = 7", "takes a text"),
        ('repository = "s3://b/r"', "takes a path on a disk"),
        ('repository = "~/r"', "'~' is not replaced"),
        ("storage_options = 1", "takes a table"),
        ('repo = "x"', "did you mean 'repository'?"),
    ],
)
def test_a_wrong_key_of_the_pipeline_is_refused(tmp_path: Path, line: str, told: str) -> None:
    key = line.split(" = ")[0]
    name = "" if key == "name" else 'name = "zoo"\n'
    text = f"[pipeline]\n{name}{line} #!\n{SOURCE}{TARGET}"
    assert told in refused(tmp_path, text, f"pipeline.{key}")


def test_what_the_pipeline_says_is_kept(tmp_path: Path) -> None:
    text = (
        '[pipeline]\nname = "zoo"\nbranch = "exp/a"\ntag = "v-{date}-{run}-{pipeline}"\n'
        'message = "day"\nauthor = "Ada <a@b.c>"\nattempts = 20\nkept_rows = 0\n'
        'keep_failed = "1 hour"\n[pipeline.storage_options]\nregion = "eu"\nvirtual = true\n'
    )
    found = loaded(tmp_path, text + SOURCE + TARGET)
    assert (found.branch, found.tag) == ("exp/a", "v-{date}-{run}-{pipeline}")
    assert (found.message, found.author) == ("day", "Ada <a@b.c>")
    assert (found.attempts, found.kept_rows, found.keep_failed) == (20, 0, timedelta(hours=1))
    assert found.storage_options == {"region": "eu", "virtual": "true"}
