from __future__ import annotations

import runpy
from pathlib import Path

from lancewood.cli.groups import VERBS

SCRIPT = Path(__file__).parents[3] / "scripts" / "cli_reference.py"


def test_the_reference_is_what_the_commands_say_today() -> None:
    made = runpy.run_path(str(SCRIPT))
    assert made["PAGE"].read_text() == made["page"](), f"run {SCRIPT}"


def test_the_reference_has_every_command_and_every_exit_code() -> None:
    text = runpy.run_path(str(SCRIPT))["page"]()
    assert text.count("\n## `lw table ") == 46
    assert "\n## `lw doctor`\n" in text
    assert all(f"\n## `lw {name}`\n" in text for name in VERBS)
    assert "| 12 | lw doctor, verify, repair or fsck found something wrong |" in text
    assert "`--mode` `create|append|overwrite`" in text.replace("\\|", "|")
