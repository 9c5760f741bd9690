"""What the photo pipeline does in Python: look at photos, make thumbnails, compute features.

Executors call these functions on the bytes of one photo at a time; they need Pillow.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEEN = "struct<taken: string, camera: string, width: int, height: int, why: string>"
MODEL, TAKEN = 0x0110, 0x0132
"""Tags of EXIF."""
BINS = 16


def looked_at(images: DataFrame) -> DataFrame:
    """Files as photos, one row each; ``why`` tells what is wrong with a broken one."""
    from pyspark.sql import functions as F

    seen = images.select(
        F.element_at(F.split("path", "/"), -1).alias("name"),
        F.col("content").alias("image"),
        F.sha2("content", 256).alias("sha256"),
        F.udf(look_at, SEEN, useArrow=False)("content").alias("seen"),
    )
    return seen.select(
        "name",
        F.expr("to_timestamp_ntz(seen.taken, 'yyyy:MM:dd HH:mm:ss')").alias("taken"),
        "seen.camera",
        "seen.width",
        "seen.height",
        "sha256",
        "image",
        "seen.why",
    )


def look_at(content: bytes) -> tuple[str | None, str | None, int | None, int | None, str | None]:
    """When, with what and how large a photo was taken; or why nobody can tell."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            exif = image.getexif()
            return exif.get(TAKEN), exif.get(MODEL), image.width, image.height, None
    except UnidentifiedImageError:
        why = "not an image" if content.strip(b"\0") else "nothing but zeros"
    except OSError:
        why = "the image is cut off"
    return None, None, None, None, why


def thumbnail(image: bytes) -> bytes:
    """A JPEG of at most 96 by 96 pixels."""
    from PIL import Image

    small = io.BytesIO()
    with Image.open(io.BytesIO(image)) as opened:
        opened.thumbnail((96, 96))
        opened.save(small, "JPEG", quality=80)
    return small.getvalue()


def features(image: bytes) -> list[float]:
    """Which hues a photo has: sixteen shares that add up to one. Photos alike have alike ones."""
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        opened.thumbnail((96, 96))
        counts = opened.convert("HSV").getchannel("H").histogram()
    width = len(counts) // BINS
    pixels = sum(counts)
    return [sum(counts[at : at + width]) / pixels for at in range(0, len(counts), width)]
