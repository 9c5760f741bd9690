"""The pages of the documentation that start a session print what they say.

They share one process: starting Java takes longer than most of what stands on them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.test_docs import WITH_SPARK
from tests.spark.environment import of_a_quick_shell
from tests.spark.ways import with_the_door

from lancewood.spark.abilities import NEWEST, release_here

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [
    pytest.mark.spark,
    with_the_door,
    pytest.mark.skipif(
        release_here()[:2] < NEWEST, reason="the pages show what the newest Spark prints"
    ),
]

RUN_PAGES = """
import shutil, sys
from pathlib import Path
from tests.e2e.test_docs import run_page

for page in map(Path, sys.argv[1:]):
    print("on the page", page.name, file=sys.stderr)
    run_page(page)
    for each in Path.cwd().iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
"""
"""Each begins in an empty directory, always the same one, which is also that of Java."""


def test_the_snippets_of_the_pages_with_spark_print_what_they_say(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_PAGES, *map(str, WITH_SPARK)],
        cwd=tmp_path,
        env=of_a_quick_shell(),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
