"""What every kind of check can say and do, and what it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.checks.gathering import Gathered
from lancewood.pipeline.checks.relations import Relations
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.figures import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    """What a check has to work with."""

    spark: SparkSession
    pipeline: Pipeline
    relations: Relations


@dataclass(frozen=True)
class Finding:
    """What a check found."""

    is_passed: bool
    found: str
    """The figure, in words."""
    failing_rows: int = 0
    gathered: Gathered | None = None
    """The failing rows, for checks that look at rows."""


@dataclass(frozen=True)
class Kind:
    """One kind of check; ``kinds`` has the table of them."""

    word: str
    """As ``CheckFacts.kind`` has it."""
    asked: Callable[[Any], str]
    """What must hold, in words."""
    plan: Callable[[Work, Any], None]
    """Raise InvalidInputError that begins with the spot for what could not be judged."""
    judge: Callable[[Work, Any], Finding]
    """Look; runs one Spark job, or none."""


def of_rows(failing: int, total: int) -> str:
    """``3 of 1,204 rows``."""
    return f"{failing:,} of {counted(total, 'row')}"


def in_table(table: str, columns: tuple[str, ...]) -> str:
    """Columns as people name them: ``photos.id``, ``labels (photo, label)``."""
    return f"{table}.{columns[0]}" if len(columns) == 1 else f"{table} ({', '.join(columns)})"
