import numpy as np
import pytest

from knockout.analysis.report.figures.steps import MOST, block_means, rows_per_block, steps_per_block
from knockout.analysis.stats.curve import RunCurve
from tests.analysis.report.figures.curves import curve_of


def run(n: int, *, variant: str = "a", seed: int = 0, every: int = 1) -> RunCurve:
    loss = 2.0 * (1.0 + every * np.arange(n, dtype=np.float64))
    return curve_of(loss, variant=variant, seed=seed, every=every)


def test_the_mean_of_a_block_of_a_straight_line_is_its_middle() -> None:
    line = run(30)
    x, means = block_means(line.step, line.loss, 5)
    assert list(x) == [3, 8, 13, 18, 23, 28]
    assert list(means) == [2 * middle for middle in x]


def test_a_last_shorter_block_meets_the_whole_one_of_a_longer_run() -> None:
    short, whole = block_means(run(12).step, run(12).loss, 5)[0], block_means(run(30).step, run(30).loss, 5)[0]
    assert set(short) <= set(whole)


def test_what_is_not_finite_is_left_out_of_its_block() -> None:
    values = np.array([1.0, np.nan, 3.0, np.inf, np.nan, np.nan])
    x, means = block_means(np.arange(1.0, 7.0), values, 2)
    assert list(x) == [1.5, 3.5]
    assert list(means) == [1.0, 3.0]


@pytest.mark.parametrize(("arms", "seeds", "length"), [(1, 1, 40), (11, 12, 261), (41, 30, 2000), (41, 30, 20_000)])
def test_the_lines_of_a_figure_have_no_more_points_than_it_holds(arms: int, seeds: int, length: int) -> None:
    runs = [run(length, variant=f"v{v}", seed=s) for v in range(arms) for s in range(seeds)]
    rows = rows_per_block(runs)
    points = -(-length // rows)
    assert points <= 100
    assert points * len(runs) <= MOST
    assert points >= min(length, 19)


def test_the_rows_of_a_thinned_curve_count_for_the_steps_they_stand_for() -> None:
    assert steps_per_block([run(50, every=4)], 3) == 12
