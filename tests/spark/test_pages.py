"""The pages of the documentation that start a session print what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.test_docs import ROOT, WITH_SPARK
from tests.spark.environment import QUICK_START, of_a_shell

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda each: each.name)
def test_the_snippets_of_a_page_with_spark_print_what_it_says(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    code = "import sys; from pathlib import Path; from tests.e2e.test_docs import run_page; "
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code + "run_page(Path(sys.argv[1]))", str(page)],
        cwd=tmp_path,
        env=of_a_shell(PYTHONPATH=path, JDK_JAVA_OPTIONS=QUICK_START),
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stderr
