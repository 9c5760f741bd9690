"""Counting Spark's tasks, with a tracker that says what the test wants."""

from __future__ import annotations

from dataclasses import dataclass, field

from lancewood.pipeline.report.facts import TaskTally


@dataclass
class Stage:
    numTasks: int
    numCompletedTasks: int = 0


@dataclass
class Job:
    stageIds: list[int]


@dataclass
class Tracker:
    """Spark as the test has it."""

    active: list[int] = field(default_factory=list)
    jobs: dict[int, Job] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)

    def getActiveJobsIds(self) -> list[int]:
        return list(self.active)

    def getJobInfo(self, jobId: int) -> Job | None:
        return self.jobs.get(jobId)

    def getStageInfo(self, stageId: int) -> Stage | None:
        return self.stages.get(stageId)


def test_tasks_of_all_jobs_add_up_and_nothing_is_told_twice() -> None:
    spark = Tracker()
    tally = TaskTally(spark)
    assert tally.look() is None
    spark.active, spark.jobs, spark.stages = [1], {1: Job([1])}, {1: Stage(4, 1)}
    assert tally.look() == (1, 4)
    assert tally.look() is None
    spark.stages[1].numCompletedTasks = 4
    spark.active, spark.jobs[2], spark.stages[2] = [2], Job([2]), Stage(10, 3)
    assert tally.look() == (7, 14)
    spark.active, spark.stages[2].numCompletedTasks = [], 10
    assert tally.look() == (14, 14)


def test_jobs_that_ran_before_do_not_count() -> None:
    spark = Tracker([7], {7: Job([7])}, {7: Stage(100, 5)})
    tally = TaskTally(spark)
    spark.active, spark.jobs[8], spark.stages[8] = [7, 8], Job([8]), Stage(2, 1)
    assert tally.look() == (1, 2)


def test_stages_that_a_finished_job_did_not_need_are_not_waited_for() -> None:
    spark = Tracker([], {1: Job([1, 2, 3])}, {1: Stage(200), 2: Stage(4, 4)})
    tally = TaskTally(spark)
    spark.active = [1]
    assert tally.look() == (4, 204)
    spark.active = []
    assert tally.look() == (4, 4)


def test_what_is_done_stays_done_when_spark_forgets_a_job() -> None:
    spark = Tracker()
    tally = TaskTally(spark)
    spark.active, spark.jobs, spark.stages = [1], {1: Job([1])}, {1: Stage(4, 3)}
    assert tally.look() == (3, 4)
    spark.active, spark.jobs, spark.stages = [], {}, {}
    assert tally.look() == (3, 3)
