"""An example of the examples directory in a place of its own, and its makers of data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[3] / "examples"


def copied(name: str, folder: Path) -> Path:
    """A copy of an example, as its README advises."""
    return Path(shutil.copytree(EXAMPLES / name, folder / name))


def module(file: Path) -> ModuleType:
    """A script as a module, which the next test does not see."""
    spec = util.spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    made = util.module_from_spec(spec)
    with _no_bytecode():
        spec.loader.exec_module(made)
    return made


@contextmanager
def _no_bytecode() -> Iterator[None]:
    was, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = was
