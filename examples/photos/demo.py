"""The photo demo: from files to a published, tagged repository, and what happens on the way.

    python examples/photos/demo.py [FOLDER]

FOLDER is .demo/photos if it is not given; it is made anew. Every command that you see is the real
one. Only that ``lw`` starts Spark once here, not once for each run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("photos.toml", "photo_steps.py", "make_photos.py")
MARK = ".made-by-the-photo-demo"
NOT_PUBLISHED = 14
CORRECTION = "IMG_0042.jpg,2026-05-13 12:30:00"
STORY = {
    "library": "Fifty photos, made on the spot: JPEG files with EXIF data, and labels as JSON "
    "lines. Three photos are broken on purpose, and so is one label.",
    "first": "One command loads both into tables, adds a thumbnail and a feature vector to each "
    "photo, and checks the result, all on a branch of its own. Spark starts first, which takes a "
    "moment.",
    "failed": "A check found a photo from the year 2126: a camera's clock was wrong. So nothing is "
    "published. The branch of the run stays for us to look at, and so do the failing rows:",
    "fix": "We write down when that photo was really taken; the pipeline joins this file. Then the "
    "same run once more:",
    "published": "No check fails any more (one warns: two photos have no label), and both tables "
    "are on main, in one commit with the tag v1. Whoever runs it again, after a lost connection "
    "perhaps, loads nothing twice:",
    "more": "On the second day there are twelve new photos, one of them broken. The same pipeline "
    "takes only what is new, and computes thumbnails and features for new photos only:",
    "search": "The features have an index, which the second run has extended. It finds the photos "
    "that look most like the first one, which is the nearest to itself:",
    "look": "What there is now. The repository is one of git's, so git shows it as well:",
}


def main(folder: Path) -> None:
    begun = time.monotonic()
    make_folder(folder)
    print(f"$ cd {shown(folder)}")
    os.chdir(folder)

    tell("library")
    python("make_photos.py", "library")

    tell("first")
    lw("run", "photos.toml", "--param", "version=v1", "--run-id", "day-1", ends=NOT_PUBLISHED)

    tell("failed")
    lw("-C", "album", "runs", "list")
    failures = "album/lancewood/runs/photos/day-1/failures/no photo from the future.lance"
    lw("table", "cat", failures)

    tell("fix")
    correct(Path("library/corrections.csv"))
    lw("run", "photos.toml", "--param", "version=v1", "--run-id", "day-1")

    tell("published")
    lw("run", "photos.toml", "--param", "version=v1", "--run-id", "day-1")

    tell("more")
    python("make_photos.py", "library", "--more")
    lw("run", "photos.toml", "--param", "version=v2", "--run-id", "day-2")

    tell("search")
    lw("table", "index", "list", "album/tables/photos.lance")
    search = ("table", "search", "album/tables/photos.lance")
    lw(*search, "--like", "0", "-k", "4", "--columns", "name,camera")

    tell("look")
    lw("-C", "album", "diff", "v1", "v2")
    lw("table", "cat", "album/tables/broken.lance", "--columns", "run,origin,reason")
    show_history("album")
    look_next(folder, time.monotonic() - begun)


def make_folder(folder: Path) -> None:
    """An empty folder with the pipeline in it; what an earlier demo left there goes."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise SystemExit(f"{folder} is there, and not made by this demo: choose another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    for each in FILES:
        shutil.copy(HERE / each, folder)


def python(*words: str) -> None:
    """Run a Python script as a process of its own."""
    show("python", *words)
    subprocess.run([sys.executable, *words], check=True)


def lw(*words: str, ends: int = 0) -> None:
    """Run ``lw`` in this process, which has the Spark session by then."""
    from lancewood.cli.main import app

    show("lw", *words)
    try:
        app(list(words))
    except SystemExit as ended:
        if ended.code != ends:
            raise SystemExit(f"lw ended with {ended.code}, and the demo expects {ends}") from None


def correct(file: Path) -> None:
    print(f"$ echo {shlex.quote(CORRECTION)} >> {file}")
    with open(file, "a") as opened:
        opened.write(f"{CORRECTION}\n")


def show_history(repository: str) -> None:
    if shutil.which("git") is None:
        lw("-C", repository, "log", "--graph", "--oneline")
        return
    graph = ["log", "--graph", "--oneline", "--decorate", "--abbrev=12", "main"]
    words = ["git", "-C", repository, "--no-pager", *graph]
    show(*words)
    subprocess.run(words, check=True)


def look_next(folder: Path, seconds: float) -> None:
    report = folder / "album" / "lancewood" / "runs" / "photos" / "day-2" / "report.html"
    print(
        f"\nAll of that took {seconds:.0f} seconds. Where to look next:\n\n"
        f"  the report          {report}\n"
        f"  the pipeline        {folder / 'photos.toml'}\n"
        "  the guide           docs/pipeline.md\n\n"
        "Or go on by yourself:\n\n"
        f"  $ . {shown(Path(sys.prefix))}/bin/activate && cd {shown(folder)}\n"
        "  $ lw -C album log --graph\n"
        "  $ lw -C album tables v1\n"
        "  $ lw table head album/tables/photos.lance\n"
        "  $ lw run photos.toml --param version=v3   # nothing new: no commit, no tag\n"
    )


def tell(part: str) -> None:
    print()
    for line in textwrap.wrap(STORY[part], 92):
        print(bold(line))


def show(*words: str) -> None:
    print(f"$ {shlex.join(words)}", flush=True)


def bold(text: str) -> str:
    is_plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    return text if is_plain else f"\x1b[1m{text}\x1b[0m"


def shown(path: Path) -> str:
    """A path as one would type it in the directory that the demo was started in."""
    try:
        return str(path.relative_to(STARTED))
    except ValueError:
        return str(path)


STARTED = Path.cwd()

if __name__ == "__main__":
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise SystemExit("the photo demo needs Pillow, which make setup installs") from None
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo/photos").absolute())
