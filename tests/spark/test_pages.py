"""The pages of the documentation that start a session print what they say.

They share two processes, which two workers can run at once: starting Java takes longer than most of
what stands on a page.
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


COMPILED = ("README.md", "spark.md", "sql.md")
"""On these Spark compiles its plans as it does for a user, and one of them shows such a plan."""
LONG = ("from-delta.md", "scheduling.md")
"""What is on these is nearly all on other pages, too; they are for campaigns."""
OTHERS = tuple(each.name for each in WITH_SPARK if each.name not in (*COMPILED, *LONG))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(OTHERS, id="interpreted"),
        pytest.param(COMPILED, id="compiled"),
        pytest.param(LONG, id="long", marks=pytest.mark.campaign),
    ],
)
def test_the_snippets_of_the_pages_with_spark_print_what_they_say(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    pages = [each for each in WITH_SPARK if each.name in names]
    done = subprocess.run(
        [sys.executable, "-c", RUN_PAGES, *map(str, pages)],
        cwd=tmp_path,
        env=of_a_quick_shell(is_compiled=names == COMPILED),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
