"""Makes a small photo library: real JPEG files with EXIF data, some of them broken on purpose.

    python make_photos.py FOLDER          fifty photos, their labels, an empty corrections.csv
    python make_photos.py FOLDER --more   twelve new photos and their labels

The same files on every machine, as far as Pillow's encoder is the same.
"""

from __future__ import annotations

import io
import json
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

from PIL import Image, ImageDraw

SIZES = [(640, 480), (480, 640), (720, 480)]
CAMERAS = ["Kestrel K2", "Kestrel K2", "Heron 35", "Pocket Wren"]
SKIES = {
    "sea": ((110, 175, 220), (205, 230, 240)),
    "forest": ((150, 190, 215), (220, 235, 225)),
    "desert": ((225, 170, 110), (250, 225, 180)),
    "mountain": ((90, 120, 190), (200, 210, 235)),
    "night": ((8, 10, 35), (40, 40, 80)),
}
GROUNDS = {
    "sea": (20, 85, 130),
    "forest": (40, 90, 45),
    "desert": (200, 150, 80),
    "mountain": (85, 95, 90),
    "night": (15, 18, 22),
}
FIRST, MORE = range(1, 51), range(51, 63)
CUT_OFF, ZEROS, NO_IMAGE, WRONG_CLOCK = {13, 55}, {21}, {34}, {42}
NEVER_LABELLED, BROKEN_LABEL = {30}, {7}
SECOND_THOUGHTS = {3: "sea"}
"""Labels of the first day that the second day says otherwise."""
NO_PHOTO = b"<html><title>404 Not Found</title><h1>This is no photo</h1></html>\n"


def name_of(number: int) -> str:
    return f"IMG_{number:04}.jpg"


def scene_of(number: int) -> str:
    return random.Random(f"scene {number}").choice(sorted(SKIES))


def photo(number: int) -> bytes:
    """One photo as the bytes of its file."""
    chance = random.Random(f"photo {number}")
    taken = datetime(2026, 5, 1, 6) + timedelta(hours=7 * number, minutes=chance.randrange(60))
    if number in WRONG_CLOCK:
        taken = taken.replace(year=2126)
    exif = Image.Exif()
    exif[0x0110] = chance.choice(CAMERAS)
    exif[0x0132] = taken.strftime("%Y:%m:%d %H:%M:%S")
    file = io.BytesIO()
    drawn(scene_of(number), chance).save(file, "JPEG", quality=82, exif=exif)
    return file.getvalue()


def drawn(scene: str, chance: random.Random) -> Image.Image:
    width, height = chance.choice(SIZES)
    high, low = (Image.new("RGB", (width, height), each) for each in SKIES[scene])
    picture = Image.composite(low, high, Image.linear_gradient("L").resize((width, height)))
    pen = ImageDraw.Draw(picture)
    horizon = int(height * chance.uniform(0.5, 0.7))
    if scene == "night":
        for _ in range(60):
            x, y = chance.randrange(width), chance.randrange(horizon)
            pen.ellipse((x, y, x + 2, y + 2), fill=(255, 255, 230))
    sun, size = chance.randrange(width // 5, width), chance.randrange(20, 50)
    glow = (245, 245, 225) if scene == "night" else (255, 235, 160)
    pen.ellipse((sun - size, 50, sun + size, 50 + 2 * size), fill=glow)
    context = GROUNDS[scene]
    pen.rectangle((0, horizon, width, height), fill=context)
    for _ in range(14 if scene in ("forest", "mountain") else 5):
        x, tall = chance.randrange(width), chance.randrange(40, 170)
        shade = tuple(max(0, part - chance.randrange(30)) for part in context)
        if scene == "sea":
            y = chance.randrange(horizon, height)
            pen.line((x, y, x + tall, y), fill=(200, 220, 230), width=3)
        else:
            pen.polygon(
                [(x - tall // 2, horizon + 20), (x, horizon - tall), (x + tall // 2, horizon + 20)],
                fill=shade,
            )
    return picture


def make_photos(folder: Path, numbers: range) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        content = photo(number)
        if number in CUT_OFF:
            content = content[: len(content) * 2 // 3]
        elif number in ZEROS:
            content = bytes(4096)  # as after a power cut
        elif number in NO_IMAGE:
            content = NO_PHOTO
        (folder / name_of(number)).write_bytes(content)


def make_labels(file: Path, numbers: range, others: dict[int, str]) -> None:
    """One JSON object a line: who says what a photo shows."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unreadable = CUT_OFF | ZEROS | NO_IMAGE
    lines = []
    for number in (*others, *numbers):
        if number not in unreadable | NEVER_LABELLED:
            label = others.get(number, scene_of(number))
            line = json.dumps({"photo": name_of(number), "label": label, "by": "ada"})
            lines.append(line[:-9] if number in BROKEN_LABEL else line)
    file.write_text("\n".join(lines) + "\n")


def main(folder: Path, *, more: bool) -> None:
    if more:
        make_photos(folder / "photos", MORE)
        make_labels(folder / "labels" / "day-2.jsonl", MORE, SECOND_THOUGHTS)
        print(f"{len(MORE)} new photos and their labels are in {folder}")
        return
    make_photos(folder / "photos", FIRST)
    make_labels(folder / "labels" / "day-1.jsonl", FIRST, {})
    (folder / "corrections.csv").write_text("name,taken\n")
    print(
        f"{len(FIRST)} photos and their labels are in {folder}; three photos and a label are broken"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), more="--more" in sys.argv[2:])
