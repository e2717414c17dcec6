"""The numbers of `compare` against libraries, where these are right.

pingouin and mlxtend are in the extra `dev` for this file alone.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from knockout.analysis import Contrast, compare
from knockout.analysis.stats.exact import wilcoxon
from knockout.analysis.stats.multiplicity import benjamini_hochberg, holm
from tests.analysis.frames import sound, tidy

SEEDS = (6, 9, 13)


def arms(n: int, seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Accuracies of a variant and its baseline, correlated over seeds, none tied."""
    rng = np.random.default_rng([n, seed])
    base = 0.8 + 0.01 * rng.standard_normal(n)
    return base + 0.004 + 0.008 * rng.standard_normal(n), base


def contrast_of(variant: npt.NDArray[np.float64], base: npt.NDArray[np.float64], **more: Any) -> Contrast:
    frame = tidy({"base": base.tolist(), "v": variant.tolist()})
    return sound(compare(frame, baseline="base", **more))["v"]


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_t_and_tost_are_those_of_scipy_and_statsmodels(n: int, seed: int) -> None:
    variant, base = arms(n, seed)
    found = contrast_of(variant, base, margin=0.7)
    paired = stats.ttest_rel(variant, base)
    assert found.p == pytest.approx(paired.pvalue, rel=1e-9)
    assert found.estimate is not None
    assert found.estimate.t == pytest.approx(paired.statistic, rel=1e-9)
    assert found.estimate.low == pytest.approx(100 * paired.confidence_interval().low, rel=1e-9)
    assert found.estimate.p_welch == pytest.approx(stats.ttest_ind(variant, base, equal_var=False).pvalue, rel=1e-9)
    assert found.estimate.correlation == pytest.approx(stats.pearsonr(variant, base).statistic, rel=1e-9)
    assert found.p_tost == pytest.approx(ttost_paired(variant, base, -0.007, 0.007)[0], rel=1e-9)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_wilcoxon_is_that_of_scipy_without_ties(n: int, seed: int) -> None:
    variant, base = arms(n, seed)
    by_scipy = stats.wilcoxon(variant - base, method="exact")
    found = wilcoxon((variant - base).tolist())
    assert not found.ties
    assert found.p == pytest.approx(by_scipy.pvalue, rel=1e-12)
    assert min(found.statistic, found.w_minus) == by_scipy.statistic
    beside = contrast_of(variant, base).sensitivity.wilcoxon
    assert beside is not None
    assert beside.p == found.p


@pytest.mark.parametrize("n", [6, 9, 12])
def test_the_sign_flip_is_scipys_permutation_test(n: int) -> None:
    variant, base = arms(n, 0)
    flip = contrast_of(variant, base).sensitivity.sign_flip
    by_scipy = stats.permutation_test(
        (variant - base,), np.mean, permutation_type="samples", n_resamples=2**n, vectorized=True
    )
    assert flip is not None
    assert flip.method == "exact by enumeration"
    assert flip.p == pytest.approx(by_scipy.pvalue, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_corrections_are_those_of_statsmodels(seed: int) -> None:
    p = np.round(np.random.default_rng(seed).random(12) ** 3, 2) + 1e-4  # some tied
    rejected, adjusted, _, _ = multipletests(p, method="holm")
    found = holm(p.tolist(), 12)
    assert found == pytest.approx(adjusted, rel=1e-12)
    assert [x <= 0.05 for x in found] == rejected.tolist()
    assert benjamini_hochberg(p.tolist()) == pytest.approx(multipletests(p, method="fdr_bh")[1], rel=1e-12)


def test_the_family_of_a_comparison_is_that_of_statsmodels() -> None:
    told = {f"v{i}": arms(8, i)[0] + 0.003 * i for i in range(5)}
    frame = tidy({"base": arms(8, 9)[1].tolist(), **{v: x.tolist() for v, x in told.items()}})
    found = sound(compare(frame, baseline="base"))
    for raw, corrected in (("p", "p_holm"), ("p_tost", "p_tost_holm")):
        p = [getattr(c, raw) for c in found.contrasts]
        adjusted = multipletests(p, method="holm")[1]
        assert [getattr(c, corrected) for c in found.contrasts] == pytest.approx(adjusted, rel=1e-12)


def rights(seed: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    return rng.random(150) < 0.8, rng.random(150) < 0.7


def given_seeds(*seeds: int) -> Contrast:
    rows = [
        {"variant": v, "seed": s, "correct": right}
        for s in seeds
        for v, right in zip(("v", "base"), rights(s), strict=True)
    ]
    return sound(compare(pd.DataFrame(rows), baseline="base"))["v"]


def test_mcnemar_is_that_of_statsmodels() -> None:
    for told in given_seeds(0, 1, 2).mcnemar:
        variant, base = rights(int(told.seed))
        table = [[int((variant & base).sum()), int((variant & ~base).sum())], [int((~variant & base).sum()), 0]]
        assert (told.variant_only, told.baseline_only) == (table[0][1], table[1][0])
        assert told.p_exact == pytest.approx(mcnemar(table, exact=True).pvalue, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pingouin_has_the_same_paired_t(seed: int) -> None:
    pingouin = pytest.importorskip("pingouin", reason="pingouin is in the extra dev: pip install -e '.[dev]'")
    variant, base = arms(9, seed)
    found = contrast_of(variant, base)
    told = pingouin.ttest(variant, base, paired=True).iloc[0]
    assert found.estimate is not None
    assert found.estimate.t == pytest.approx(told["T"], rel=1e-9)
    assert found.p == pytest.approx(told["p_val"], rel=1e-9)
    assert [found.estimate.low, found.estimate.high] == pytest.approx(100 * told["CI95"], abs=0.51)  # two digits
    assert found.estimate.d_z == pytest.approx(pingouin.compute_effsize(variant, base, paired=True, eftype="cohen_dz"))


def test_pingouin_has_the_same_d_av_where_both_arms_spread_alike() -> None:
    pingouin = pytest.importorskip("pingouin", reason="pingouin is in the extra dev: pip install -e '.[dev]'")
    _, base = arms(9, 4)
    variant = np.random.default_rng(4).permutation(base) + 0.01  # the root mean square of two sds is then their mean
    found = contrast_of(variant, base).estimate
    assert found is not None
    assert found.d_av == pytest.approx(pingouin.ttest(variant, base, paired=True)["cohen_d"].iloc[0], rel=1e-6)
    cles = pingouin.compute_effsize(variant, base, eftype="cles")
    assert (found.cliffs_delta + 1) / 2 == pytest.approx(cles)


@pytest.mark.parametrize("n", [5, 9, 30])
def test_pingouin_approximates_the_same_hedges_factor(n: int) -> None:
    pingouin = pytest.importorskip("pingouin", reason="pingouin is in the extra dev: pip install -e '.[dev]'")
    variant, base = arms(n, 5)
    found = contrast_of(variant, base).estimate
    told = pingouin.compute_effsize(variant - base, 0.0, eftype="hedges")  # 1 - 3 / (4 df - 1), where ours is exact
    assert found is not None
    assert found.g_z == pytest.approx(told, rel=0.1 / n)


def test_mlxtend_has_the_same_mcnemar() -> None:
    evaluate = pytest.importorskip("mlxtend.evaluate", reason="mlxtend is in the extra dev: pip install -e '.[dev]'")
    for told in given_seeds(0, 1, 2).mcnemar:
        variant, base = rights(int(told.seed))
        table = evaluate.mcnemar_table(np.ones(150, dtype=int), variant.astype(int), base.astype(int))
        assert (told.variant_only, told.baseline_only) == (table[0, 1], table[1, 0])
        assert told.p_exact == pytest.approx(evaluate.mcnemar(table, exact=True)[1], rel=1e-12)
