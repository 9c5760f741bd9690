"""Jobs on executors: the same results as on threads, and what else a runner promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.job_suite import JOBS, Job, check_job
from tests.spark.runner_suite import CHECKS

import lancewood as lw
from lancewood.spark import runner

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.sliced(4)
@pytest.mark.parametrize("job", JOBS, ids=str)
def test_job_on_executors_equals_the_one_on_threads(spark: Any, tmp_path: Path, job: Job) -> None:
    check_job(spark, tmp_path, job)


@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.__name__)
def test_runner_keeps_its_promises(
    spark: Any, tmp_path: Path, check: Callable[[Any, Path], None]
) -> None:
    check(spark, tmp_path)


def test_more_than_the_driver_may_take_is_told_with_the_way_out(spark: Any) -> None:
    def lengthen(number: int) -> bytes:
        return bytes(2 << 20)

    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "3m")
    try:
        with pytest.raises(lw.LancewoodError, match=r"Raise spark\.driver\.maxResultSize"):
            list(runner(spark).run(lengthen, range(4), what="w"))
    finally:
        settings.set("spark.driver.maxResultSize", "1g")
