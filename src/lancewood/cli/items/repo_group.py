"""The group ``lw repo``: what makes a repository of something else."""

from __future__ import annotations

from typing import ClassVar

from lancewood.cli.lazy import Entry, LazyGroup, new_app


class RepoGroup(LazyGroup):
    """The commands that make repositories."""

    entries: ClassVar[dict[str, Entry]] = {
        "import-plain": Entry(
            "lancewood.cli.items.import_plain",
            "Import snapshots in the plain layout of ADR-019 into a repository.",
        ),
    }


group = new_app(
    RepoGroup,
    help="Make a repository of something else.",
    no_args_is_help=True,
    add_completion=False,
)


@group.callback()
def repo() -> None:
    """Make a repository of something else."""
