"""One number for the Python of a pipeline: the modules beside its file that its functions are in,
and those beside it that they import.

Files are read, and nothing is imported. Packages of this Python are not looked at, nor what is
imported by a name that is made up at run time.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from lancewood.pipeline.definition.model import Pipeline

_INIT = "__init__.py"


def code_digest(pipeline: Pipeline) -> str:
    """SHA-256, in hex, of names and content; the empty text where there is no such module."""
    named = [*(each.python for each in pipeline.steps), *(e.python for e in pipeline.functions)]
    modules = [each.partition(":")[0] for each in named if each is not None]
    files = _files(pipeline.file.parent, modules)
    if not files:
        return ""
    found = hashlib.sha256()
    for name in sorted(files):
        found.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return found.hexdigest()


def _files(folder: Path, modules: Iterable[str]) -> dict[str, bytes]:
    """By their paths below the folder, those of modules and of all that they lead to."""
    waiting, seen = list(modules), set[str]()
    files: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        package, _, _ = name.rpartition(".")
        if package:
            waiting.append(package)
        for path in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/{_INIT}"):
            try:
                files[path] = (folder / path).read_bytes()
            except OSError:
                continue
            waiting += _imported(files[path], name if path.endswith(_INIT) else package)
    return files


def _imported(source: bytes, package: str) -> Iterator[str]:
    """The names that may be modules in what a file imports; ``package`` is the one it is in."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # whoever loads it tells
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            place = ".".join(above if node.level else ()) + ("." if node.level else "")
            base = f"{place}{node.module or ''}".strip(".")
            yield from filter(None, (base, *(f"{base}.{each.name}" for each in node.names)))
