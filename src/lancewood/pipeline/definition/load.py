"""From a pipeline file to checked values: everything that can be refused before anything runs.

Reads the file and nothing else: no Spark is started, no repository opened, no function imported.
The section ``[pipeline]`` and the small ones are read here; names are checked against the rules of
the repository.

Frames refer to each other by the names in SQL and in the keys ``from`` and ``inputs``; every name
must lead to a frame, and none back to itself.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition import checks, sources, targets, toml_file
from lancewood.pipeline.definition.checks import MOST_ROWS, read_checks
from lancewood.pipeline.definition.model import (
    FAIL,
    Pipeline,
    Quarantine,
    Secret,
    Source,
    Spot,
    Step,
    Stream,
    Target,
)
from lancewood.pipeline.definition.names import (
    checked_files_table,
    checked_pipeline,
    errors_at,
    near,
    parsed_query,
    qualified_name,
    resolved,
    resolved_path,
    tables_in,
    wrong,
)
from lancewood.pipeline.definition.section import Section, parsed_duration
from lancewood.pipeline.definition.sources import (
    FUNCTION_KEYS,
    STEP_KEYS,
    read_functions,
    read_sources,
    read_steps,
)
from lancewood.pipeline.definition.targets import read_targets
from lancewood.pipeline.definition.toml_file import Filling, read_parameters, read_toml
from lancewood.repo import branch_ref, checked_author, checked_message, checked_table, checked_tag
from lancewood.spark.session import checked_settings

HEAD_KEYS = (
    "name",
    "repository",
    "branch",
    "tag",
    "message",
    "author",
    "attempts",
    "keep_failed",
    "kept_rows",
    "storage_options",
)
RUNS = "run"
"""The branches of runs are below it, so no other branch can have this name."""
MOST_ATTEMPTS = 20
MOST_KEPT_ROWS = 100_000
_RUN_EXAMPLES = ("20260131T235959Z-0a1b2c", "a", "0", "A_b-c.d", "x" * 100)
_DATE_EXAMPLE = "2026-01-31"
_location = re.compile(r"\{([^{}]*)\}|[{}]")
QUARANTINE_KEYS = ("table", "most_rows", "most_share")
STREAM_KEYS = ("source", "trigger", "checkpoint", "options")
SPARK_KEYS = ("master",)
"""Keys of the Spark section besides all settings whose names start with ``spark.``."""
AVAILABLE_NOW = "available-now"


def read_head(section: Section, file: Path) -> Pipeline:
    """Read ``[pipeline]``: the pipeline without what the other sections say, and without a digest.

    Raises InvalidInputError for the first wrong key.
    """
    name = section.needed_text("name", checked_pipeline)
    in_full = partial(resolved_path, file.parent)
    repository = section.text("repository", in_full) or in_full(f".lancewood/{name}")
    message, author = section.text("message", checked_message), section.text("author")
    with errors_at(section.spot.at("author")):
        author and checked_author(author)
    with_defaults = {
        "kept_rows": section.number("kept_rows", 0, MOST_KEPT_ROWS),
        "branch": section.text("branch", _checked_branch),
        "attempts": section.number("attempts", 1, MOST_ATTEMPTS),
        "keep_failed": section.duration("keep_failed"),
    }
    said: dict[str, Any] = {key: value for key, value in with_defaults.items() if value is not None}
    return Pipeline(
        name=name,
        file=file,
        repository=repository,
        digest="",
        spot=section.spot,
        tag=_tag(section, name),
        message=message,
        author=author,
        storage_options=section.options("storage_options"),
        **said,
    )


def _checked_branch(branch: str) -> str:
    branch_ref(branch)
    if branch == RUNS or branch.startswith(f"{RUNS}/"):
        raise InvalidInputError(
            f"branch {branch!r} cannot be published into: {RUNS}/… are the branches of runs"
        )
    return branch


def _tag(section: Section, pipeline: str) -> str | None:
    template = section.text("tag")
    if template is None:
        return None
    spot = section.spot.at("tag")
    for found in _location.finditer(template):
        if found[1] not in ("run", "pipeline", "date"):
            raise wrong(
                spot, f"{found[0]!r} stands for nothing: there are {{run}}, {{pipeline}}, {{date}}"
            )
    with errors_at(spot):
        for run in _RUN_EXAMPLES:
            filled_tag(template, run=run, pipeline=pipeline, date=_DATE_EXAMPLE)
    return template


def filled_tag(template: str, *, run: str, pipeline: str, date: str) -> str:
    """The tag of one run; raises InvalidInputError if it is not a valid name."""
    values = {"run": run, "pipeline": pipeline, "date": date}
    return checked_tag(_location.sub(lambda found: values.get(found[1] or "", found[0]), template))


def read_quarantine(
    top: Section, sources: tuple[Source, ...], targets: tuple[Target, ...], pipeline: str
) -> Quarantine:
    """The limits that the file sets; without any, no row may be bad.

    Refuses a target that is one of the tables that runs keep for themselves.
    """
    section = top.needed_table("quarantine", QUARANTINE_KEYS)
    table = section.text("table", checked_table) or Quarantine().table
    kept = {table.casefold(): "for bad rows"}
    for source in sources:
        if source.incremental and source.paths:
            files = checked_files_table(pipeline, source.name)
            kept[files.casefold()] = f"for the files that {source.spot.key} has seen"
    for target in targets:
        if target.table.casefold() in kept:
            why = kept[target.table.casefold()]
            raise wrong(target.spot.at("table"), f"{target.table!r} is kept {why}: take another")
    most_rows = section.number("most_rows", 0, MOST_ROWS)
    most_share = section.share("most_share", 0)
    if most_share is not None and most_share > 1:
        raise section.wrong("most_share", "is more than all rows: takes at most 100 %")
    if most_rows is None and most_share is None:
        most_rows = Quarantine().most_rows
    return Quarantine(table, most_rows, most_share)


def read_stream(
    top: Section,
    sources: tuple[Source, ...],
    targets: tuple[Target, ...],
    head: Pipeline,
) -> Stream | None:
    """Which source comes in micro-batches, and when; None without ``[stream]``."""
    section = top.table("stream", STREAM_KEYS)
    if section is None:
        return None
    name = section.needed_text("source")
    source = next((each for each in sources if each.name == name), None)
    if source is None:
        text = near(name, [each.name for each in sources])
        raise section.wrong("source", f"there is no source {name!r}: {text}")
    for each in sources:
        if each.incremental:
            raise wrong(
                each.spot.at("incremental"),
                "does not go with [stream], whose checkpoint says what is new: leave one out",
            )
    for target in targets:
        if target.on_conflict != FAIL:
            raise wrong(
                target.spot.at("on_conflict"),
                "does not go with [stream]: every batch would take row ids of its own, of which a "
                "table has enough for some hundred thousand runs. A batch begins anew instead",
            )
    if source.sql is not None or source.revision is not None:
        raise section.wrong("source", f"{name!r} is SQL or one revision, and stands still")
    if len(source.paths) > 1:
        raise section.wrong(
            "source",
            f"{name!r} has {len(source.paths)} paths, and a stream reads one: a folder above them, "
            "or one with wild cards",
        )
    if head.tag is not None and "{run}" not in head.tag:
        raise wrong(
            head.spot.at("tag"), "every batch of [stream] is a run of its own: put {run} into it"
        )
    trigger = section.needed_text("trigger")
    if trigger == "once":
        raise section.wrong("trigger", f"not 'once': {AVAILABLE_NOW!r} reads all there is")
    if trigger != AVAILABLE_NOW:
        if trigger.replace("_", "").casefold() == AVAILABLE_NOW.replace("-", ""):
            raise section.wrong("trigger", f"{trigger!r} is written {AVAILABLE_NOW!r} here")
        with errors_at(section.spot.at("trigger")):
            parsed_duration(trigger)
    checkpoint = section.text("checkpoint") or f"{head.repository}/lancewood/streams/{head.name}"
    with errors_at(section.spot.at("checkpoint")):
        location = resolved(head.file.parent, checkpoint)
    options = section.needed_table("options", None).settings()
    return Stream(name, trigger, location, section.spot, options)


def read_spark(top: Section) -> dict[str, str]:
    """Settings of the session, ``master`` among them."""
    section = top.table("spark", None)
    if section is None:
        return {}
    master = section.text("master")
    settings = section.settings(but=SPARK_KEYS)
    for name in settings:
        if not name.startswith("spark."):
            raise wrong(
                section.spot,
                f"{name!r} is no setting: there are master and names that begin with 'spark.'",
            )
    with errors_at(section.spot):
        found = checked_settings({}, settings)
    return found if master is None else {"master": master, **found}


_LEFT_OUT = ("params", "spark")
_INIT = "__init__.py"


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
    "[pipeline]": HEAD_KEYS,
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
SECTIONS = tuple(dict.fromkeys(each.strip("[]").partition(".")[0] for each in KEYS))


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
    head = read_head(top.needed_table("pipeline", HEAD_KEYS), file)
    all_sources = read_sources(top, file.parent, head.name)
    all_steps = read_steps(top)
    all_targets = read_targets(top, file.parent)
    check_wiring(all_sources, all_steps, all_targets)
    pipeline = replace(
        head,
        digest=hashlib.sha256(canonical(data, filling, spot).encode()).hexdigest(),
        parameters=given,
        sources=all_sources,
        steps=all_steps,
        functions=read_functions(top),
        targets=all_targets,
        checks=read_checks(top),
        quarantine=read_quarantine(top, all_sources, all_targets, head.name),
        spark=read_spark(top),
        stream=read_stream(top, all_sources, all_targets, head),
    )
    for name in filling.parameters:
        if name not in filling.used:  # probably forgotten somewhere
            raise wrong(
                spot.at("params", name), f"nothing uses ${{{name}}}: use it, or leave it out"
            )
    return pipeline


def check_wiring(
    sources: Sequence[Source], steps: Sequence[Step], targets: Sequence[Target]
) -> None:
    """Raise InvalidInputError for the first name that leads nowhere, or in a circle."""
    frames: list[Source | Step] = [*sources, *steps]
    seen: dict[str, Spot] = {}
    for each in frames:
        first = seen.setdefault(each.name.casefold(), each.spot)
        if first is not each.spot:
            raise wrong(each.spot, f"is the same name as {first.key} to SQL: take another")
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
