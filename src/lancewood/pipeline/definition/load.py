"""From a pipeline file to checked values: everything that can be refused before anything runs.

Reads the file and nothing else. Starts no Spark, opens no repository, imports no function of the
file's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from lancewood.pipeline.definition import checks, head, parameters, rejects, sources, targets
from lancewood.pipeline.definition.checks import read_checks
from lancewood.pipeline.definition.digest import digest_of
from lancewood.pipeline.definition.head import read_head
from lancewood.pipeline.definition.model import Pipeline, Spot
from lancewood.pipeline.definition.parameters import Filling, read_parameters
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.definition.section import Section
from lancewood.pipeline.definition.sections import (
    QUARANTINE_KEYS,
    SPARK_KEYS,
    STREAM_KEYS,
    read_quarantine,
    read_spark,
    read_stream,
)
from lancewood.pipeline.definition.sources import read_sources
from lancewood.pipeline.definition.steps import (
    FUNCTION_KEYS,
    STEP_KEYS,
    read_functions,
    read_steps,
)
from lancewood.pipeline.definition.targets import read_targets
from lancewood.pipeline.definition.toml_file import read_toml
from lancewood.pipeline.definition.wiring import check_wiring

KEYS: Mapping[str, tuple[str, ...]] = {
    "[pipeline]": head.KEYS,
    "[params]": parameters.KEYS,
    "[spark]": SPARK_KEYS,
    "[sources.<name>]": sources.KEYS,
    "[[sources.<name>.reject]]": rejects.KEYS,
    "[steps.<name>]": STEP_KEYS,
    "[functions.<name>]": FUNCTION_KEYS,
    "[[targets]]": targets.KEYS,
    "[[checks]]": checks.KEYS,
    "[checks.rows]": checks.ROWS_KEYS,
    "[checks.references]": checks.REFERENCES_KEYS,
    "[quarantine]": QUARANTINE_KEYS,
    "[stream]": STREAM_KEYS,
}
"""Every key of every section that a file may have; ``docs/pipeline-file.md`` explains them."""

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

    ``environment`` is where secrets come from: that of the process if it is not given. Raises
    InvalidInputError, which begins with file, line and key, for the first thing that is wrong, and
    NotFoundError where there is no such file.
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
        stream=read_stream(top, all_sources, about, file.parent),
        **{each.name: getattr(about, each.name) for each in fields(about)},
    )
    _check_used(filling, spot)
    return pipeline


def _check_used(filling: Filling, spot: Spot) -> None:
    """A parameter that changes nothing is one that was forgotten somewhere."""
    for name in filling.parameters:
        if name not in filling.used:
            raise wrong(
                spot.at("params", name), f"nothing uses ${{{name}}}: use it, or leave it out"
            )
