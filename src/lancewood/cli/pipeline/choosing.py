"""The options that the commands about runs share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

OfPipeline: TypeAlias = Annotated[
    str | None,
    typer.Option("--pipeline", metavar="NAME", help="Only runs of this pipeline."),
]
