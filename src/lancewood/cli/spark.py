"""The group ``lw spark``: which commands it has, and where each of them lives."""

from __future__ import annotations

from typing import ClassVar

from lancewood.cli.lazy import Entry, LazyGroup, new_app


class SparkGroup(LazyGroup):
    """The commands about Spark on this machine."""

    entries: ClassVar[dict[str, Entry]] = {
        "doctor": Entry(
            "lancewood.cli.commands.spark_doctor", "Say what Spark needs, and what of it is there."
        ),
    }
    known_as: ClassVar[dict[str, str]] = {"check": "doctor", "info": "doctor", "java": "doctor"}


group = new_app(
    SparkGroup, help="Look after what Spark needs.", no_args_is_help=True, add_completion=False
)


@group.callback()
def spark() -> None:
    """Look after what Spark needs."""
