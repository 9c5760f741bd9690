"""Names of new data files. Knows nothing of where they lie."""

from __future__ import annotations

import uuid


def new_data_file_name(mark: str = "") -> str:
    """A name that no other file has: 24 binary digits, 26 hexadecimal ones, ``.lance``.

    The digits come first so that object stores spread files over their partitions. ``mark`` stands
    before the dot, for writers who want to know their files again by the manifest alone.
    """
    random = uuid.uuid4().bytes
    return "".join(f"{each:08b}" for each in random[:3]) + random[3:].hex() + f"{mark}.lance"
