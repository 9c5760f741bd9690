"""Takes docs/images/report.png: the report of a run on a wide screen and on a phone, in Chromium.

.venv/bin/python -m scripts.report_picture [report.html]

Without a file it is the report of an example run.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

from tests.e2e.chromium import Browser, browser, find_chromium
from tests.unit.pipeline.report_facts import published

from lancewood.pipeline.report.page import page

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "report.png"
MOST_BYTES = 200_000
_SCALE = 0.75
_WIDE, _WIDE_HEIGHT = 1_120, 1_180
_PHONE, _PHONE_HEIGHT = 390, 844
_WHOLE, _WHOLE_HEIGHT = 1_130, 885
_BOTH = """<!doctype html><style>
body {{ margin: 0; background: #f6f5f1; position: relative; height: {height}px; overflow: hidden }}
img {{ position: absolute }}
.wide {{ left: 0; top: 0; width: {wide}px }}
.phone {{ right: 24px; top: 118px; width: 292px; border-radius: 30px;
  box-sizing: content-box; border: 8px solid #0b0c0d; box-shadow: 0 18px 50px rgb(0 0 0 / .28) }}
</style><body><img class="wide" src="{first}"><img class="phone" src="{second}">"""


def picture(chromium: Browser, report: Path, folder: Path) -> bytes:
    """The report twice in one picture, as PNG."""
    both = folder / "both.html"
    both.write_text(
        _BOTH.format(
            height=_WHOLE_HEIGHT,
            wide=int(_WIDE * _SCALE),
            first=_seen(chromium, report, _WIDE, _WIDE_HEIGHT, "light"),
            second=_seen(chromium, report, _PHONE, _PHONE_HEIGHT, "dark"),
        )
    )
    tab = chromium.new_tab()
    tab.look(_WHOLE, _WHOLE_HEIGHT, is_phone=False)
    tab.open(both.as_uri())
    return tab.picture()


def _seen(chromium: Browser, report: Path, width: int, height: int, scheme: str) -> str:
    tab = chromium.new_tab()
    tab.look(width, height, scheme=scheme, scale=_SCALE, is_phone=width == _PHONE)
    tab.open(report.as_uri())
    return "data:image/png;base64," + base64.b64encode(tab.picture()).decode()


def main() -> None:
    program = find_chromium()
    if program is None:
        sys.exit("there is no Chromium on this machine: scripts/install_browser.sh installs it")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        report = folder / "report.html"
        if len(sys.argv) > 1:
            report = Path(sys.argv[1]).resolve()
        else:
            report.write_text(page(published()), encoding="utf-8")
        with browser(program, folder / "profile") as chromium:
            taken = picture(chromium, report, folder)
    if len(taken) > MOST_BYTES:
        sys.exit(f"the picture has {len(taken):,} bytes, {MOST_BYTES:,} are allowed")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(taken)
    print(f"{PICTURE}: {len(taken):,} bytes")


if __name__ == "__main__":
    main()
