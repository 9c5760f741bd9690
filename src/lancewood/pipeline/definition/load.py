"""From a pipeline file to checked values: everything that can be refused before anything runs.

Reads the file and nothing else: no Spark is started, no repository opened, no function imported.

Frames refer to each other by the names in SQL and in the keys ``from`` and ``inputs``; every name
must lead to a frame, and none back to itself.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition import checks, head, sources, targets, toml_file
from lancewood.pipeline.definition.checks import read_checks
from lancewood.pipeline.definition.head import (
    QUARANTINE_KEYS,
    SPARK_KEYS,
    STREAM_KEYS,
    read_head,
    read_quarantine,
    read_spark,
    read_stream,
)
from lancewood.pipeline.definition.model import Pipeline, Secret, Source, Spot, Step, Target
from lancewood.pipeline.definition.names import errors_at, near, wrong
from lancewood.pipeline.definition.queries import parsed_query, qualified_name, tables_in
from lancewood.pipeline.definition.section import Section
from lancewood.pipeline.definition.sources import (
    FUNCTION_KEYS,
    STEP_KEYS,
    read_functions,
    read_sources,
    read_steps,
)
from lancewood.pipeline.definition.targets import read_targets
from lancewood.pipeline.definition.toml_file import Filling, read_parameters, read_toml

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


KEYS: Mapping[str, tuple[str, ...]] = {
    "[pipeline]": head.KEYS,
    "[params]": toml_file.KEYS,
    "[spark]": SPARK_KEYS,
    "[sources.<name>]": sources.KEYS,
    "[[sources.<name>.reject]]": sources.REJECT_KEYS,
    "[steps.<name>]": STEP_KEYS,
    "[functions.<name>]": FUNCTION_KEYS,
    "[[targets]]": targets.KEYS,
    "[[targets.index]]": targets.INDEX_KEYS,
    "[[checks]]": checks.KEYS,
    "[checks.rows]": checks.ROWS_KEYS,
    "[checks.references]": checks.REFERENCES_KEYS,
    "[quarantine]": QUARANTINE_KEYS,
    "[stream]": STREAM_KEYS,
}
"""Every key of every section; ``docs/pipeline-file.md`` explains them."""
SECTIONS = (
    "pipeline",
    "params",
    "spark",
    "sources",
    "steps",
    "functions",
    "targets",
    "checks",
    "quarantine",
    "stream",
)


def load(
    path: str | Path,
    parameters: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Pipeline:
    """The pipeline that a file describes, with its parameters filled in.

    Secrets come from ``environment``, by default that of the process. Raises InvalidInputError,
    which starts with file, line and key, for the first thing that is wrong, and NotFoundError if
    there is no such file.
    """
    file = Path(os.path.abspath(path))
    data, spot = read_toml(file)
    given = read_parameters(data.get("params"), parameters or {}, spot.at("params"))
    filling = Filling(given, os.environ if environment is None else environment)
    top = Section(data, spot, SECTIONS, filling)
    about = read_head(top.needed_table("pipeline", head.KEYS), file.parent)
    all_sources = read_sources(top, file.parent, about.name)
    all_steps = read_steps(top)
    all_targets = read_targets(top, file.parent)
    check_wiring(all_sources, all_steps, all_targets)
    pipeline = Pipeline(
        file=file,
        digest=digest_of(data, filling, spot),
        parameters=given,
        sources=all_sources,
        steps=all_steps,
        functions=read_functions(top),
        targets=all_targets,
        checks=read_checks(top),
        quarantine=read_quarantine(top, all_sources, all_targets, about.name),
        spark=read_spark(top),
        stream=read_stream(top, all_sources, all_targets, about, file.parent),
        **{each.name: getattr(about, each.name) for each in fields(about)},
    )
    _check_used(filling, spot)
    return pipeline


def _check_used(filling: Filling, spot: Spot) -> None:
    """A parameter that nothing uses was probably forgotten somewhere."""
    for name in filling.parameters:
        if name not in filling.used:
            raise wrong(
                spot.at("params", name), f"nothing uses ${{{name}}}: use it, or leave it out"
            )


def check_wiring(
    sources: Sequence[Source], steps: Sequence[Step], targets: Sequence[Target]
) -> None:
    """Raise InvalidInputError for the first name that leads nowhere, or in a circle."""
    frames: list[Source | Step] = [*sources, *steps]
    _check_twice(frames)
    source_names = [each.name for each in sources]
    names = [*source_names, *(each.name for each in steps)]
    needs: dict[str, tuple[str, ...]] = {}
    for source in sources:
        needs[source.name] = _in_sql(source.sql, source.spot, source_names)
    for step in steps:
        needs[step.name] = _in_sql(step.sql, step.spot, names) + step.inputs
        for index, name in enumerate(step.inputs):
            _check_known(name, names, step.spot.at("inputs", index))
    _check_circles(needs, {each.name: each.spot for each in frames})
    for target in targets:
        if target.source is not None:
            _check_known(target.source, names, target.spot.at("from"))


def frames_in(sql: str, names: Iterable[str]) -> tuple[str, ...]:
    """The frames that a query reads, as often as it names them, in their own spelling: SQL ignores
    case.

    Raises InvalidInputError for anything but a single SELECT, and for a name that is not a frame. A
    qualified name would be a table of Spark's catalog, and is refused as well.
    """
    known = {each.casefold(): each for each in names}
    found = []
    for table in tables_in(parsed_query(sql)):
        name = qualified_name(table)
        if table.db or name.casefold() not in known:
            raise InvalidInputError(
                f"there is no source or step {name!r} that this SQL could read: "
                f"{near(name, known.values())} (a table of the repository needs a source of its "
                "own, with the key table)"
            )
        found.append(known[name.casefold()])
    return tuple(found)


def _in_sql(sql: str | None, spot: Spot, names: Iterable[str]) -> tuple[str, ...]:
    if sql is None:
        return ()
    with errors_at(spot.at("sql")):
        return frames_in(sql, names)


def _check_known(name: str, names: Sequence[str], spot: Spot) -> None:
    if name not in names:
        raise wrong(spot, f"there is no source or step {name!r}: {near(name, names)}")


def _check_twice(frames: Sequence[Source | Step]) -> None:
    seen: dict[str, Spot] = {}
    for each in frames:
        first = seen.setdefault(each.name.casefold(), each.spot)
        if first is not each.spot:
            raise wrong(each.spot, f"is the same name as {first.key} to SQL: take another")


def _check_circles(needs: Mapping[str, tuple[str, ...]], spots: Mapping[str, Spot]) -> None:
    done: set[str] = set()
    for start in needs:
        stack = [(start, iter(needs[start]))] if start not in done else []
        path = [start]
        while stack:
            name, rest = stack[-1]
            following = next((each for each in rest if each not in done), None)
            if following is None:
                done.add(name)
                stack.pop()
                path.pop()
            elif following in path:
                circle = [*path[path.index(following) :], following]
                raise wrong(
                    spots[following], f"needs itself: {' needs '.join(circle)}; break the circle"
                )
            else:
                path.append(following)
                stack.append((following, iter(needs[following])))
