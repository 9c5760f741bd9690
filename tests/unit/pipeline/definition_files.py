"""Pipeline files for tests: a small good one, and what ``load`` says of a bad one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.definition.model import Pipeline

HEAD = '[pipeline]\nname = "zoo"\n'
SOURCE = '[sources.animals]\nformat = "parquet"\npath = "animals"\n'
TARGET = '[[targets]]\ntable = "animals"\nfrom = "animals"\nmode = "append"\n'
GOOD = HEAD + SOURCE + TARGET
MARK = "#!"
"""A comment in the line that an error has to name."""


def loaded(
    folder: Path,
    text: str,
    parameters: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Pipeline:
    file = folder / "zoo.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, parameters or {}, environment or {})


def refused(
    folder: Path,
    text: str,
    key: str,
    parameters: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What the error says behind file, line and key, which have to be right."""
    with pytest.raises(InvalidInputError) as caught:
        loaded(folder, text, parameters, environment)
    marked = [number for number, line in enumerate(text.splitlines(), 1) if MARK in line]
    where = f"zoo.toml line {marked[0]}: {key}: " if marked else f"zoo.toml: {key}: "
    assert caught.value.message.startswith(where), caught.value.message
    assert caught.value.facts["line"] == (marked[0] if marked else None)
    return caught.value.message.removeprefix(where)
