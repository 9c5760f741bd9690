"""``make demo``: its story, and that it is true; the judges are pylance, Pillow and git."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
from math import dist
from pathlib import Path

import lance
import pytest
from tests.spark.environment import of_a_quick_shell
from tests.spark.pipeline.example_scene import EXAMPLES, module

from lancewood.repo.repository import Repository

pytestmark = pytest.mark.spark
Image = pytest.importorskip("PIL.Image", reason="the photo demo needs Pillow")
IS_SET_UP = ("--old-file", ".venv/.installed")
"""What runs the tests is set up, wherever it is."""


@pytest.mark.campaign
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
def test_the_demo_tells_a_true_story(tmp_path: Path) -> None:
    location = tmp_path / "photos"
    done = subprocess.run(
        ["make", *IS_SET_UP, "demo", f"DEMO={location}", f"BIN={os.path.dirname(sys.executable)}"],
        cwd=EXAMPLES.parent,
        env=of_a_quick_shell(),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    told = re.sub(r" +", " ", done.stdout)
    for part in [
        "photos: 1 check failed",
        "loaded photos append new -> 47 rows 47 inserted",
        "photos add-columns 47 -> 47 rows 47 updated, 2 new columns, index created: features_idx",
        "labels merge new -> 45 rows 45 inserted",
        "failed no photo from the future: 1 row",
        "warned every photo has a label: 2 rows",
        "bad rows 4 rows in broken; allowed: at most 10 rows",
        "day-1 photos checks failed",
        "IMG_0042.jpg 2126-05-13",
        "photos: published into main",
        "photos: already published",
        "photos append 47 -> 58 rows 11 inserted",
        "photos add-columns 58 -> 58 rows 11 updated, index extended: features_idx",
        "labels merge 45 -> 56 rows 11 inserted, 1 updated",
        "day-2 seen the image is cut off",
    ]:
        assert part in told, part
    assert "warning" not in done.stderr.lower().replace("warning: using incubator modules", "")
    assert told.index("checks failed") < told.index("published into") < told.index("already")

    album = Repository.open(location / "album")
    assert [name for name in album.branches.list() if name.startswith("run/")] == []
    assert album.at("refs/tags/v2").hash == album.at("main").hash
    assert album.at("refs/tags/v1").hash == album.at("main~1").hash
    assert album.at("v1").table("photos").count_rows() == 47
    for run in ("day-1", "day-2"):
        assert (album.path / "lancewood" / "runs" / "photos" / run / "report.html").exists()

    photos = lance.dataset(str(album.path / "tables" / "photos.lance"))
    photos.validate()
    rows = photos.to_table().to_pylist()
    assert len(rows) == len({each["name"] for each in rows}) == 58
    assert str(photos.schema.field("features").type).startswith("fixed_size_list<")
    for each in rows:
        assert hashlib.sha256(each["image"]).hexdigest() == each["sha256"]
        assert each["taken"].year == 2026
        assert sum(each["features"]) == pytest.approx(1, abs=1e-4)
        assert len(each["features"]) == 16
        with Image.open(io.BytesIO(each["image"])) as image:
            assert image.size == (each["width"], each["height"])
            assert image.getexif()[0x0110] == each["camera"]
        with Image.open(io.BytesIO(each["thumbnail"])) as small:
            assert small.format == "JPEG"
            assert max(small.size) == 96
    by_id = {each["_rowid"]: each for each in photos.to_table(with_row_id=True).to_pylist()}
    nearest = sorted(by_id.values(), key=lambda each: dist(each["features"], by_id[0]["features"]))
    found = told.partition("$ lw table search")[2].splitlines()[2:6]
    assert [each.split()[0] for each in found] == [each["name"] for each in nearest[:4]]
    labels = lance.dataset(str(album.path / "tables" / "labels.lance")).to_table().to_pylist()
    assert len(labels) == 56
    assert {each["label"] for each in labels if each["photo"] == "IMG_0003.jpg"} == {"sea"}
    broken = lance.dataset(str(album.path / "tables" / "broken.lance")).to_table().to_pylist()
    assert sorted((each["run"], each["reason"].partition(" as ")[0]) for each in broken) == [
        ("day-1", "does not parse"),
        ("day-1", "not an image"),
        ("day-1", "nothing but zeros"),
        ("day-1", "the image is cut off"),
        ("day-2", "the image is cut off"),
    ]
    if shutil.which("git") is not None:
        lines = [each for each in done.stdout.splitlines() if each.startswith("* ")]
        assert [each.split(" photos: ")[1] for each in lines[-2:]] == ["run day-2", "run day-1"]
        assert "tag: v2" in lines[-2]


def test_photos_are_the_same_each_time_and_the_second_thoughts_are_others() -> None:
    made = module(EXAMPLES / "photos" / "make_photos.py")
    assert made.photo(1) == made.photo(1) != made.photo(2)
    assert all(made.scene_of(number) != label for number, label in made.SECOND_THOUGHTS.items())


def test_the_demo_clears_what_it_made_and_nothing_else(tmp_path: Path) -> None:
    demo = module(EXAMPLES / "photos" / "demo.py")
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    demo.make_folder(own)
    (own / "album").mkdir()
    demo.make_folder(own)
    assert sorted(each.name for each in own.iterdir()) == sorted([demo.MARK, *demo.FILES])
    foreign.mkdir()
    (foreign / "diary.txt").write_text("dear diary")
    with pytest.raises(SystemExit, match="not made by this demo"):
        demo.make_folder(foreign)
    assert (foreign / "diary.txt").exists()
