"""The unpaired comparison: Welch, equivalence, Holm, failures and missing runs, from runs to verdicts."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from knockout.analysis.inference.unpaired import UnpairedComparison, compare_unpaired_runs
from knockout.analysis.stats.metric import raw, share
from knockout.analysis.stats.power import unpaired_needs
from knockout.analysis.stats.trace import _leaves
from knockout.study import Plan

BASE = [0.801, 0.806, 0.797, 0.803, 0.799]
ARMS = {"base": BASE, "up": [0.861, 0.866, 0.857, 0.864], "down": [0.751, 0.744, 0.752, 0.748, 0.749, 0.747]}


def runs(arms: Mapping[str, Sequence[float | str]]) -> pd.DataFrame:
    """A word in place of a value is the run's status."""
    rows = []
    for variant, values in arms.items():
        for i, value in enumerate(values):
            status = value if isinstance(value, str) else "finished"
            row = {"variant": variant, "seed": i, "status": status, "failed": status == "diverged"}
            rows.append({**row, "value": None if isinstance(value, str) else value})
    return pd.DataFrame(rows).astype({"value": object})


def compared(arms: Mapping[str, Sequence[float | str]], margin: float = 0.5) -> UnpairedComparison:
    judged = Plan(margin=margin)
    return compare_unpaired_runs(
        runs(arms), metric=share("accuracy"), baseline="base", variants=[n for n in arms if n != "base"], plan=judged
    )


def test_welch_and_holm_are_scipy_s_and_statsmodels() -> None:
    found = compared(ARMS)
    raw_p = [stats.ttest_ind(ARMS[c.variant], BASE, equal_var=False).pvalue for c in found.contrasts]
    assert [c.p for c in found.contrasts] == pytest.approx(raw_p)
    assert [c.p_holm for c in found.contrasts] == pytest.approx(multipletests(raw_p, method="holm")[1].tolist())
    assert [c.verdict for c in found.contrasts] == ["better", "worse"]
    up = found.contrasts[0]
    expected = stats.ttest_ind(ARMS["up"], BASE, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert up.estimate is not None
    assert up.estimate.difference == pytest.approx(100 * (np.mean(ARMS["up"]) - np.mean(BASE)))
    assert [up.estimate.low, up.estimate.high] == pytest.approx([100 * low, 100 * high])
    assert up.estimate.df == pytest.approx(expected.df)
    assert up.estimate.cliffs_delta == 1.0
    assert (up.rank_sum and up.rank_sum.p) == pytest.approx(2 / math.comb(9, 4))
    assert (up.permuted and up.permuted.p) == pytest.approx(1 / math.comb(9, 4))  # 5 against 4: one end only


def test_where_lower_is_better_the_direction_turns_and_the_difference_does_not() -> None:
    found = compare_unpaired_runs(
        runs(ARMS),
        metric=raw("loss", better="lower", margin=0.01),
        baseline="base",
        variants=["up"],
        plan=Plan(margin=0.01),
    ).contrasts[0]
    assert found.verdict == "worse"
    assert found.estimate is not None
    assert found.estimate.difference == pytest.approx(np.mean(ARMS["up"]) - np.mean(BASE))


def test_equivalence_is_two_one_sided_welch_tests() -> None:
    same = [x + 0.0002 for x in (0.803, 0.799, 0.801, 0.797, 0.806)]
    found = compared({"base": BASE, "same": same}, margin=2.0).contrasts[0]
    above = stats.ttest_ind(np.array(same) + 0.02, BASE, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(np.array(same) - 0.02, BASE, equal_var=False, alternative="less").pvalue
    assert found.p_tost == pytest.approx(max(above, below))
    assert found.verdict == "equivalent"
    assert compared({"base": BASE, "same": same}, margin=0.3).contrasts[0].verdict == "inconclusive"


def test_failed_runs_rank_worst_and_a_missing_run_stops_the_test() -> None:
    failed: list[float | str] = [*["diverged"] * 4, 0.86]
    found = compared({"base": BASE, "x": failed}).contrasts[0]
    scores = [0.0, 0.0, 0.0, 0.0, 0.86, *BASE]
    ranks = stats.rankdata(scores)
    far = [abs(sum(ranks[list(c)]) - 27.5) >= abs(sum(ranks[:5]) - 27.5) - 1e-9 for c in combinations(range(10), 5)]
    assert found.test == "worst-rank rank sum"
    assert found.p == pytest.approx(np.mean(far))
    assert found.direction == -1
    assert (found.arm.failures, found.arm.runs) == (4, 5)
    assert found.p_tost is None
    all_failed = compared({"base": BASE, "x": ["diverged"] * 5}).contrasts[0]
    assert all_failed.verdict == "worse"
    assert all_failed.estimate is None
    missing = compared({"base": BASE, "x": [0.86, 0.861, 0.862, "crashed"]}).contrasts[0]
    assert (missing.verdict, missing.p, missing.missing) == ("inconclusive", None, 1)
    assert "1 of 9 runs have no result yet" in missing.reason


def test_a_missing_run_touches_no_other_contrast_and_keeps_the_family() -> None:
    found = compared({**ARMS, "late": [0.9, 0.9, "missing"]})
    assert [c.family for c in found.contrasts] == [3, 3, 3]
    alone = [c.p for c in compared(ARMS).contrasts]
    assert [c.p for c in found.contrasts] == [*alone, None]
    assert [c.p_holm for c in found.contrasts] == pytest.approx(multipletests([*alone, 1.0], method="holm")[1].tolist())


def test_three_against_three_with_failures_cannot_be_decided() -> None:
    """The smallest p of 3 against 3 is .1."""
    found = compared({"base": BASE[:3], "x": ["diverged", 0.1, 0.2]}).contrasts[0]
    assert found.verdict == "undecidable by design"
    assert "3 against 3 runs (0.1)" in found.reason


def test_two_runs_give_estimates_only() -> None:
    found = compared({"base": BASE, "x": [0.9, 0.91]}).contrasts[0]
    assert (found.verdict, found.p) == ("undecidable by design", None)
    assert found.estimate is not None
    assert found.estimate.low is None


def test_arms_without_spread_are_judged_by_the_exact_test() -> None:
    """t would be infinite, and p 0. Values that differ by rounding only have no spread either."""
    found = compared({"base": [0.8] * 5, "x": [0.81, 0.81, 0.01 + 0.8, 0.81, 0.81], "same": [0.8] * 5})
    x, same = found.contrasts
    assert x.test == "exact (no spread)"
    assert x.p == pytest.approx(2 / math.comb(10, 5))
    assert (same.p, same.direction) == (1.0, 0)
    assert same.p_tost == pytest.approx(1 / math.comb(10, 5))


def test_the_trace_holds_the_numbers() -> None:
    found = compared(ARMS)
    values = {(*n.of, n.name): n.value for n in found.trace.numbers}
    assert found.contrasts[0].p in values.values()
    assert list(_leaves(found.contrasts[0].estimate, ""))
    assert compared(ARMS).trace.numbers == found.trace.numbers


def test_the_minimum_detectable_difference_uses_the_sds_and_not_the_difference() -> None:
    up = compared(ARMS).contrasts[0]
    moved = compared({**ARMS, "up": [x - 0.06 for x in ARMS["up"]]}).contrasts[0]
    assert up.needs is not None
    assert moved.needs is not None
    assert moved.needs.detectable == pytest.approx(up.needs.detectable)
    sds = 100 * np.std(ARMS["up"], ddof=1), 100 * np.std(BASE, ddof=1)
    assert up.needs == unpaired_needs(float(sds[0]), float(sds[1]), 4, 5, 2, 0.05, 0.8)
    assert compared({"base": BASE, "x": [*ARMS["up"], "diverged"]}).contrasts[0].needs is None
    assert compared({"base": BASE, "x": [0.9, 0.91]}).contrasts[0].needs is None
    assert compared({"base": [0.8] * 5, "x": [0.81] * 5}).contrasts[0].needs is None
