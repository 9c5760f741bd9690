"""The whole machine, and one run of it: so many histories from a seed.

A rule draws seeds and small numbers; what they mean is made of the state that it finds, so that the
same seed gives the same histories.
"""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as from_seed
from hypothesis.stateful import run_state_machine_as_test
from tests.histories.column_rules import ColumnRules
from tests.histories.index_rules import IndexRules
from tests.histories.row_rules import RowRules
from tests.histories.table_rules import TableRules

from lancewood.jobs.index import building


class Histories(RowRules, ColumnRules, IndexRules, TableRules):
    """Every rule there is."""


def run_histories(
    seed: int, count: int, steps: int, *, shrinks: bool, machine: type[Histories] = Histories
) -> None:
    """Run histories; what fails is raised, with the seed and the steps that led to it."""
    phases = [Phase.generate, Phase.shrink] if shrinks else [Phase.generate]
    try:
        with patch.object(building, "LEAST_BYTES", 0):  # a task for every few fragments
            run_state_machine_as_test(
                from_seed(seed)(machine),
                settings=settings(
                    max_examples=count,
                    stateful_step_count=steps,
                    deadline=None,
                    database=None,
                    phases=phases,
                    print_blob=False,
                    report_multiple_bugs=False,
                    suppress_health_check=list(HealthCheck),
                ),
            )
    except BaseException as failure:
        failure.add_note(f"seed {seed}, {count} histories of up to {steps} steps")
        raise
