"""``python -m bench`` as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.breadth import EVERY_CASE

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "benchmarks.md"


def _bench(*arguments: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp), "TMPDIR": str(tmp)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_quick_run_prints_tables_writes_json_and_leaves_the_document_alone(tmp_path: Path) -> None:
    result, scratch = tmp_path / "result.json", tmp_path / "scratch"
    scratch.mkdir()
    document = DOCUMENT.read_bytes()
    names = ["small-append", "refs", *["metadata"] * EVERY_CASE]
    done = _bench(*names, "--quick", "--json", str(result), tmp=scratch)
    assert done.returncode == 0, done.stderr
    assert "| append 10 rows" in done.stdout
    found = json.loads(result.read_text())
    assert found["scale"] == "quick"
    assert found["machine"]["pylance"].startswith("14.")
    assert [each["name"] for each in found["sections"]] == names
    assert all(row["ratio"] > 0 for each in found["sections"] for row in each["rows"])
    assert DOCUMENT.read_bytes() == document
    assert not [each for each in scratch.iterdir() if each.name.startswith("lancewood-bench-")]


def test_unknown_name_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    done = _bench("smal-append", "--quick", tmp=tmp_path)
    assert done.returncode == 2
    assert "no benchmark is named 'smal-append'; there are metadata, memory" in done.stderr


def test_document_has_the_markers_that_a_full_run_needs() -> None:
    from bench.report import replace_generated

    assert "measured" in replace_generated(DOCUMENT.read_text(), "new").split("<!-- bench:begin")[0]
