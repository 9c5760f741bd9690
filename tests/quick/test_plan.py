"""What is run within a budget, and what is left out and told."""

from __future__ import annotations

from tests.quick import durations
from tests.quick.__main__ import told
from tests.quick.plan import UNMEASURED, Part, parts_of, plan

NEAR, FAR = 1, 4


def test_near_tests_come_before_far_ones_and_cheap_ones_before_others() -> None:
    parts = [Part(FAR, 1, "far"), Part(NEAR, 9, "dear"), Part(NEAR, 2, "cheap")]
    planned = plan(parts, 11)
    assert [part.name for part in planned.chosen] == ["cheap", "dear"]
    assert [part.name for part in planned.left_out] == ["far"]


def test_what_does_not_fit_leaves_its_room_to_cheaper_ones() -> None:
    planned = plan([Part(NEAR, 20, "dear"), Part(FAR, 3, "b"), Part(FAR, 2, "a")], 5)
    assert [part.name for part in planned.chosen] == ["a", "b"]
    assert planned.seconds == 5


def test_the_slowest_are_run_last_however_near_they_are() -> None:
    planned = plan([Part(NEAR, 7, "slow"), Part(FAR, 1, "fast")], 10)
    assert [part.name for part in planned.chosen] == ["fast", "slow"]


def test_the_files_of_a_folder_are_given_together_so_that_pytest_finds_their_fixtures() -> None:
    parts = [Part(1, 1, "t/x/a.py"), Part(1, 2, "t/y/b.py"), Part(1, 3, "t/x/c.py::test_d")]
    assert plan(parts, 10).files == ["t/x/a.py", "t/x/c.py", "t/y/b.py"]


def test_a_test_that_takes_long_is_a_part_beside_the_rest_of_its_file() -> None:
    measured = {"t/a.py": 10.0, "t/a.py::test_long": 7.5, "t/b.py": 1.0}
    assert sorted(parts_of({"t/a.py": 2, "t/new.py": 0}, measured)) == [
        Part(0, UNMEASURED, "t/new.py"),
        Part(2, 2.5, "t/a.py"),
        Part(2, 7.5, "t/a.py::test_long"),
    ]
    planned = plan(parts_of({"t/a.py": 2}, measured), 5)
    assert planned.files == ["t/a.py"]
    assert [part.name for part in planned.left_out] == ["t/a.py::test_long"]


def test_what_is_left_out_is_told_with_its_time() -> None:
    planned = plan([Part(1, 60, f"t/{n}.py") for n in range(14)], 120)
    assert told(planned)[:3] == [
        "2 test files, about 1 min 0 s",
        "left out, 6 min 0 s more, which `make test` runs:",
        "  t/10.py, 1 min 0 s",
    ]
    assert told(planned)[-1] == "  and 2 more"
    assert told(plan([Part(1, 3, "t/a.py")], 120)) == ["1 test files, about 2 s"]


def test_durations_are_read_as_they_were_written() -> None:
    cases = [{"t/a.py::test_x": 0.25, "t/a.py::test_y": 2.0}, {"t/a.py::test_x": 0.5}]
    text = durations.written(durations.gathered(cases))
    assert text == "    2.8 t/a.py\n    2.0 t/a.py::test_y\n"
    assert durations.read(text) == {"t/a.py": 2.8, "t/a.py::test_y": 2.0}
    assert durations.whole_test("t/a.py::test_x[1::2-b]") == "t/a.py::test_x"
    assert durations.whole_test("t/a.py::TestA::test_x[1]") == "t/a.py::TestA::test_x"
