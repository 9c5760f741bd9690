"""Every job on the executors of a cluster, and over Connect, does what it does on threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.clusters.kinds import elsewhere
from tests.spark.job_suite import JOBS, Job, check_job


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.sliced(18, at=9)
@elsewhere
@pytest.mark.parametrize("job", JOBS, ids=str)
def test_job_on_executors_equals_the_one_on_threads(
    any_spark: Any, tmp_path: Path, job: Job
) -> None:
    check_job(any_spark, tmp_path, job)
