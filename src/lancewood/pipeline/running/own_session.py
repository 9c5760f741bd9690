"""The session of a run that was not given one: with the settings that the file has."""

from __future__ import annotations

from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.running.parts import Session
from lancewood.spark.session import session


def start_session(pipeline: Pipeline) -> Session:
    """A session as the file asks for, or the one that runs on that master already; where the file
    names no master, any that runs."""
    said = dict(pipeline.spark)
    master = said.pop("master", None)
    return session(master, app_name=f"lancewood {pipeline.name}", conf=said)
