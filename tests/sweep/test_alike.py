"""When equal failures end a sweep."""

from dataclasses import replace

import pytest

from knockout.study import Run
from knockout.sweep.alike import MOST, Alike
from knockout.sweep.answer import Answer
from knockout.sweep.work import progress_of

RUN = Run(id="a" * 64, variant="up", seed=0)
CRASH = Answer(run=RUN, status="crashed", reason="IndexError: index 503 of 0x7f3a in batch 3")
DONE = Answer(run=RUN, status="finished")


def stopped(*answers: Answer, keep_going: bool = False) -> bool:
    alike = Alike(keep_going=keep_going)
    told = [alike.count(answer) for answer in answers]
    assert sum(told) <= 1
    return alike.stop


def test_equal_failures_in_a_row_stop_a_sweep_and_any_result_between_them_does_not() -> None:
    assert stopped(*[CRASH] * MOST)
    assert not stopped(*[CRASH] * (MOST - 1))
    assert not stopped(*[CRASH] * (MOST - 1), DONE, CRASH)
    assert not stopped(*[CRASH] * (MOST - 1), replace(CRASH, reason="KeyError: 0"), CRASH)
    assert not stopped(*[CRASH] * MOST, keep_going=True)


def test_a_run_in_flight_that_comes_to_a_result_takes_it_back() -> None:
    assert not stopped(*[CRASH] * MOST, DONE)
    assert stopped(*[CRASH] * MOST, replace(CRASH, status="stopped", reason=""))


def test_numbers_and_addresses_differ_from_run_to_run() -> None:
    others = [replace(CRASH, reason=f"IndexError: index {n} of 0x7f{n}b in batch {n}") for n in range(MOST)]
    assert stopped(*others)


@pytest.mark.parametrize("status", ["diverged", "timed_out"])
def test_a_result_or_a_time_limit_is_no_error(status: str) -> None:
    answer = Answer(run=RUN, status="diverged" if status == "diverged" else "timed_out", reason="the same")
    assert not stopped(*[answer] * MOST)


def test_progress_is_in_plain_numbers_and_never_beyond_its_end() -> None:
    at = progress_of(3.0, 0, 10)
    assert (at.step, at.steps, at.loss) == (3, 3, 10.0)
    for wrong in ((None, 1, 0.5), (1, "2", 0.5), (1, float("nan"), 0.5), (1, 2, [0.5])):
        with pytest.raises(TypeError, match=r"expected job\.progress\(step, steps, loss\)"):
            progress_of(*wrong)
