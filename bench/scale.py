"""How much each benchmark measures: the full size, and a quick one that proves the harness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes and passes; the pass that is dropped comes on top of ``*passes``."""

    name: str
    is_budgeted: bool
    """Whether the design's budgets are meant for these sizes."""
    fragments: tuple[int, ...]
    stable_fragments: tuple[int, ...]
    """The same with stable row ids."""
    metadata_passes: int
    memory_fragments: int
    memory_passes: int
    append_passes: int
    writers: int
    appends_per_writer: int
    contention_rounds: int
    s3_writers: tuple[int, ...]
    s3_appends_per_writer: int
    s3_rounds: int
    versions: int
    """0 leaves the benchmark out."""
    refs: int
    """Branches, and as many tags, to be listed."""
    rows: int
    wide_rows: int
    """Of a vector and 20 KB each."""
    small_fragments: int
    """To be compacted."""
    many_fragments: int
    """Of a hundred rows each, to be changed."""
    change_passes: int
    scan_passes: int
    take_passes: int
    spark_passes: int
    session_passes: int
    """Of sessions that are started for one query."""
    spark_fragments: tuple[int, ...]
    repository_tables: tuple[int, ...]
    commit_passes: int
    commits: int
    """Of a long history."""
    items: int
    item_sample: int
    """Items that git does as a program."""
    item_passes: int


FULL = Scale(
    name="full",
    is_budgeted=True,
    fragments=(10, 1_000, 10_000, 100_000),
    stable_fragments=(100_000,),
    metadata_passes=7,
    memory_fragments=100_000,
    memory_passes=3,
    append_passes=100,
    writers=16,
    appends_per_writer=20,
    contention_rounds=3,
    s3_writers=(1, 8, 16),
    s3_appends_per_writer=5,
    s3_rounds=2,
    versions=100_000,
    refs=10_000,
    rows=10_000_000,
    wide_rows=40_000,
    small_fragments=1_000,
    many_fragments=100_000,
    change_passes=3,
    scan_passes=5,
    take_passes=15,
    spark_passes=5,
    session_passes=3,
    spark_fragments=(10, 1_000, 100_000),
    repository_tables=(1, 20, 200),
    commit_passes=60,
    commits=100_000,
    items=10_000,
    item_sample=100,
    item_passes=2,
)

QUICK = Scale(
    name="quick",
    is_budgeted=False,
    fragments=(10, 1_000),
    stable_fragments=(1_000,),
    metadata_passes=3,
    memory_fragments=10_000,
    memory_passes=1,
    append_passes=5,
    writers=4,
    appends_per_writer=5,
    contention_rounds=1,
    s3_writers=(1, 2),
    s3_appends_per_writer=3,
    s3_rounds=1,
    versions=0,
    refs=100,
    rows=200_000,
    wide_rows=400,
    small_fragments=40,
    many_fragments=200,
    change_passes=1,
    scan_passes=2,
    take_passes=3,
    spark_passes=1,
    session_passes=1,
    spark_fragments=(10, 1_000),
    repository_tables=(1, 3),
    commit_passes=3,
    commits=300,
    items=200,
    item_sample=5,
    item_passes=1,
)
