"""What a pipeline is, as two digests: of what its file says, and of the Python beside it.

The first is the same however the file is laid out, and has parameters filled in. Of a secret only
the template counts; formatting, comments, the order of tables and the settings of the session do
not. The second covers the modules beside the file and what they import there. It reads files and
imports nothing, so it misses names that are made up at run time; installed packages do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lancewood.pipeline.definition.model import Pipeline, Secret, Spot
from lancewood.pipeline.definition.parameters import Filling

_LEFT_OUT = ("params", "spark")
_INIT = "__init__.py"


def digest_of(data: Mapping[str, Any], filling: Filling, spot: Spot) -> str:
    """SHA-256 of ``canonical``, in hex."""
    return hashlib.sha256(canonical(data, filling, spot).encode()).hexdigest()


def canonical(data: Mapping[str, Any], filling: Filling, spot: Spot) -> str:
    """What the file says, as JSON in one canonical form."""
    said = {
        key: _said(value, filling, spot.at(key))
        for key, value in data.items()
        if key not in _LEFT_OUT and value != {}
    }
    return json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _said(value: Any, filling: Filling, spot: Spot) -> Any:
    if isinstance(value, dict):
        return {key: _said(each, filling, spot.at(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_said(each, filling, spot.at(index)) for index, each in enumerate(value)]
    if isinstance(value, str):
        filled = filling.option(value, spot)
        return {"secret": filled.template} if isinstance(filled, Secret) else filled
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    return {"time": value.isoformat()}


def code_digest(pipeline: Pipeline) -> str:
    """SHA-256, in hex, of names and content; empty if there is no such module."""
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
    """The content of modules and of all that they import, by path below the folder."""
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
    """Names that may be modules in what a file imports; ``package`` is its own package."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):  # loading it will report that
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            location = ".".join(above if node.level else ()) + ("." if node.level else "")
            base = f"{location}{node.module or ''}".strip(".")
            yield from filter(None, (base, *(f"{base}.{each.name}" for each in node.names)))
