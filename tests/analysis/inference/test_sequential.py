"""Seeds until decided, and placebo arms, as a report judges them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from knockout.analysis import Comparison
from knockout.analysis.inference.comparison import compare_runs
from knockout.analysis.report.printed import printed
from knockout.analysis.stats.e_process import Process, sign_process
from knockout.analysis.stats.metric import counted
from knockout.study import Plan

Frame = Mapping[str, Sequence[int | None]]


def compared(cells: Frame, *, anytime: Process | None = None, placebos: tuple[str, ...] = ()) -> Comparison:
    rows = [
        {"variant": v, "seed": s, "status": "finished", "failed": False, "value": c}
        for v, own in cells.items()
        for s, c in enumerate(own)
        if c is not None
    ]
    computed = compare_runs(
        pd.DataFrame(rows).astype({"value": "Int64"}),
        metric=counted("accuracy", examples=2000),
        baseline="base",
        variants=[v for v in cells if v != "base" and v not in placebos],
        seeds=range(len(cells["base"])),
        plan=Plan(),
        anytime=anytime,
        placebo_arms=placebos,
    )
    return printed(computed)


def test_seven_straight_wins_decide_one_contrast() -> None:
    six = compared({"base": [1500] * 6, "v": [1510, 1512, 1509, 1511, 1508, 1513]}, anytime="sign")
    assert six.contrasts[0].verdict == "inconclusive"
    assert "cannot show equivalence" in six.contrasts[0].reason
    seven = compared({"base": [1500] * 7, "v": [1510, 1512, 1509, 1511, 1508, 1513, 1501]}, anytime="sign")
    contrast = seven.contrasts[0]
    assert (contrast.verdict, contrast.test) == ("better", "e-process")
    assert contrast.p == pytest.approx(1 / 26.8, rel=1e-3)  # analysis/RULES.md, step 10: 7 straight wins give 26.8
    assert seven.sequential is not None
    assert seven.sequential.decided_at == 7
    assert seven.sequential.decisions["v"].e == pytest.approx(sign_process([1] * 7)[-1])


def test_holm_corrects_over_the_contrasts() -> None:
    up = [1500 + 10 + i for i in range(7)]
    both = compared({"base": [1500] * 7, "a": up, "b": [1500 + (-1) ** i * (i + 1) for i in range(7)]}, anytime="sign")
    a = both["a"]
    assert a.p_holm == pytest.approx(2 * (a.p or 0))
    assert a.verdict == "inconclusive"
    assert both.sequential is not None
    assert both.sequential.decided_at is None


def test_seeds_after_the_first_missing_pair_are_not_looked_at() -> None:
    base: list[int | None] = [1500] * 9
    v: list[int | None] = [1510, 1512, 1509, None, 1508, 1513, 1501, 1511, 1510]
    told = compared({"base": base, "v": v}, anytime="sign").sequential
    assert told is not None
    assert told.n == 3


def test_the_sentence_names_the_process_and_no_t_test() -> None:
    seven = compared({"base": [1500] * 7, "v": [1510, 1512, 1509, 1511, 1508, 1513, 1501]}, anytime="t")
    (sentence,) = seven.sentences()
    assert "e-process" in sentence
    assert "paired t test" not in sentence


def placebo_cells(arms: int, n: int) -> Frame:
    rng = np.random.default_rng(11)
    cells = {
        "base": [int(x) for x in rng.integers(1480, 1520, n)],
        "v": [int(x) for x in rng.integers(1480, 1520, n)],
    }
    return {**cells, **{f"placebo_{i}": [int(x) for x in rng.integers(1480, 1520, n)] for i in range(1, arms + 1)}}


def test_placebos_are_judged_alone_and_leave_the_family_as_it_is() -> None:
    cells = placebo_cells(3, 8)
    arms = tuple(v for v in cells if v.startswith("placebo"))
    with_arms = compared(cells, placebos=arms)
    without = compared({v: c for v, c in cells.items() if v not in arms})
    assert with_arms.contrasts == without.contrasts
    assert with_arms.placebos is not None
    for contrast in with_arms.placebos.contrasts:
        assert contrast.family == 1
        ours, theirs = (np.array(cells[v], dtype=float) for v in (contrast.variant, "base"))
        assert contrast.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
        assert contrast.p_holm == contrast.p
    assert with_arms.placebos.rate is None  # three arms give no rate


def test_a_rate_is_told_from_twenty_arms() -> None:
    cells = placebo_cells(20, 6)
    told = compared(cells, placebos=tuple(v for v in cells if v.startswith("placebo"))).placebos
    assert told is not None
    assert told.rate is not None
    found = sum(c.verdict in ("better", "worse", "trivial") for c in told.contrasts)
    interval = stats.binomtest(found, 20).proportion_ci(method="wilson")
    assert (told.rate.found, told.rate.arms) == (found, 20)
    assert (told.rate.low, told.rate.high) == pytest.approx((interval.low, interval.high))
