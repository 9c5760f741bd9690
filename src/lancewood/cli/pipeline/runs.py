"""The group ``lw runs``: which commands it has, and where each of them lives."""

from __future__ import annotations

from typing import ClassVar

from lancewood.cli.lazy import Entry, LazyGroup, new_app

_HOME = "lancewood.cli.pipeline"


class RunsGroup(LazyGroup):
    """The commands about runs of pipelines, in one repository."""

    entries: ClassVar[dict[str, Entry]] = {
        "list": Entry(f"{_HOME}.list_runs", "List the runs of a repository, and how each stands."),
        "show": Entry(f"{_HOME}.show_run", "Show one run, and what it loaded."),
        "clean": Entry(f"{_HOME}.clean_runs", "Remove the branches of runs that nobody finished."),
    }
    known_as: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("ls", "log", "status"), "list"),
        **dict.fromkeys(("info", "describe", "get"), "show"),
        **dict.fromkeys(("cleanup", "prune", "gc", "rm", "remove", "delete"), "clean"),
    }


group = new_app(
    RunsGroup, help="Look after the runs of pipelines.", no_args_is_help=True, add_completion=False
)


@group.callback()
def runs() -> None:
    """Look after the runs of pipelines."""
