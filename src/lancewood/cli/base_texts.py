"""Which base path a text on the command line means: its id, its name or its path."""

from __future__ import annotations

import lancewood as lw


def meant_base(table: lw.Table, text: str) -> int | str:
    """The base path as the API takes it: a number is an id, unless a base path is called so."""
    is_number = text.isascii() and text.isdigit()
    if is_number and all(each.name != text for each in table.base_paths):
        return int(text)
    return text
