"""The reference values as a whole: each entry is tested, or is of a method that is not offered, with the reason."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from knockout.analysis import compare
from knockout.analysis.stats.multiplicity import holm
from tests.analysis.conftest import REFERENCE

Reference = Callable[[str], dict[str, Any]]

TESTS = Path(__file__).parents[2]
CALIBRATION = TESTS.parent / "results" / "calibration" / "calibration.csv"
DOCS = TESTS.parent / "analysis" / "README.md"

NOT_OFFERED = {
    "demsar2006_table6_paper": "Friedman's test",
    "demsar2006_table6_printed_data": "Friedman's test",
    "demsar2006_table6_paper_ranks_tiecorrected": "Friedman's test",
    "demsar2006_critical_differences": "Nemenyi, Bonferroni-Dunn",
    "demsar2006_nemenyi_pvalues": "Nemenyi, Bonferroni-Dunn",
    "demsar2006_q_tables": "Nemenyi, Bonferroni-Dunn",
    "scipy_doc_dunnett": "Dunnett, blocked or not; Tukey",
    "scipy_doc_tukey_hsd": "Dunnett, blocked or not; Tukey",
    "ablation_toy_blocked_dunnett_p": "Dunnett, blocked or not; Tukey",
    "ablation_toy_mixed_model": "mixed models",
    "moderated_t_limma": "moderated t (limma)",
    "sklearn_plot_grid_search_stats": "corrected resampled t, Bayesian ROPE",
    "deepsig_readme_scenario1": "almost stochastic order (ASO)",
    "sim_aso_fpr": "almost stochastic order (ASO)",
    "rliable_metrics_test": "interquartile mean, probability of improvement (rliable)",
}
"""Entry -> what analysis/README.md calls the method in the table of what is not offered."""


def test_every_entry_is_tested_or_not_offered_for_a_reason() -> None:
    entries = {e["id"] for e in json.loads(REFERENCE.read_text(encoding="utf-8"))["entries"]}
    tested = set(
        re.findall(r'"(\w+)"', "".join(p.read_text(encoding="utf-8") for p in (TESTS / "analysis").rglob("test_*.py")))
    )
    tested -= set(NOT_OFFERED)
    assert entries - set(NOT_OFFERED) <= tested
    told = DOCS.read_text(encoding="utf-8").split("## What is not offered, and why")[1]
    for entry, method in NOT_OFFERED.items():
        assert any(line.startswith(f"| {method}") for line in told.splitlines()), (entry, method)


def test_holm_of_demsar_s_comparisons_with_a_control(reference: Reference) -> None:
    entry = reference("demsar2006_control_comparisons")
    told = entry["expected"]
    assert list(holm(told["p"], 3)) == pytest.approx(told["holm"], rel=entry["tolerance"]["rtol"])


def test_the_t_interval_covers_as_the_reference_says(reference: Reference) -> None:
    """What `make calibrate` found, beside what was found elsewhere."""
    entry = reference("sim_ci_coverage")
    table = pd.read_csv(CALIBRATION).set_index("id")["estimate"]
    for n, coverage in zip(entry["inputs"]["n"], entry["expected"]["t"], strict=True):
        assert table[f"coverage/normal/n{n}"] == pytest.approx(coverage, abs=entry["tolerance"]["atol"])


def frame(
    base: list[float], variant: list[float], *, status: list[str] | None = None, count: int | None = None
) -> pd.DataFrame:
    n = len(base)
    rows = pd.DataFrame({"variant": ["base"] * n + ["v"] * n, "seed": [*range(n)] * 2, "accuracy": [*base, *variant]})
    rows = rows if status is None else rows.assign(status=status)
    return rows if count is None else rows.assign(count=count)


def test_one_seed_says_nothing_over_seeds(reference: Reference) -> None:
    assert "conditional on this seed" in reference("degenerate_single_seed")["expected"]["recommended"]
    right = [True] * 60 + [False] * 40
    wrong = [True] * 40 + [False] * 10 + [True] * 5 + [False] * 45
    rows = pd.DataFrame({"variant": ["base", "v"], "seed": [0, 0], "correct": [right, wrong]})
    (contrast,) = compare(rows, baseline="base").contrasts
    assert (contrast.p, contrast.verdict) == (None, "undecidable by design")
    assert (contrast.mcnemar[0].variant_only, contrast.mcnemar[0].baseline_only) == (0, 15)
    assert contrast.mcnemar[0].p_exact == pytest.approx(2 / 2**15)
    (sentence,) = compare(rows, baseline="base").sentences()
    assert "Given this seed" in sentence
    assert "this holds for no other seed" in sentence


def test_a_diverged_run_is_counted_ranked_and_left_out_of_the_estimate_alone(reference: Reference) -> None:
    assert "never drop silently" in reference("degenerate_diverged_nan")["expected"]["recommended"]
    base = [0.80, 0.81, 0.79, 0.80, 0.82, 0.80]
    variant = [0.81, 0.83, math.nan, 0.83, 0.86, 0.85]
    told = compare(frame(base, variant, status=["finished"] * 12), baseline="base")
    (contrast,) = told.contrasts
    assert (contrast.arm.failures, contrast.arm.runs) == (1, 6)
    assert contrast.test == "worst_rank"
    assert contrast.p == 0.4375  # the entry worst_rank_diverged: five gains and one failure
    assert contrast.estimate is not None
    assert contrast.estimate.n == 5
    assert "Given that neither run failed (5 of 6 pairs)" in told.sentences()[0]


def test_an_infinite_loss_has_diverged_as_nan_has(reference: Reference) -> None:
    assert "same as NaN" in reference("degenerate_inf_final_loss")["expected"]["recommended"]
    base, variant = [0.5, 0.6, 0.55, 0.52], [0.5, 0.7, math.inf, 0.6]
    rows = frame(base, variant, status=["finished"] * 8).rename(columns={"accuracy": "loss"})
    infinite = compare(rows, baseline="base", metric="loss", margin=0.1)
    as_nan = compare(rows.replace(math.inf, math.nan), baseline="base", metric="loss", margin=0.1)
    assert infinite.contrasts == as_nan.contrasts
    assert infinite["v"].arm.failures == 1


def test_counts_are_whole_and_ties_are_real(reference: Reference) -> None:
    assert "integer correct-counts" in reference("degenerate_granularity")["expected"]["recommended"]
    base, variant = [0.775, 0.325, 0.5, 0.6, 0.6, 0.7], [0.825, 0.375, 0.55, 0.55, 0.65, 0.75]
    told = compare(frame(base, variant, count=40), baseline="base")
    assert [p.variant for p in told["v"].pairs] == [33, 15, 22, 22, 26, 30]
    assert told["v"].p_sign_flip == 14 / 64  # five of +2, one of -2: |sum| >= 8 in 2 (1 + 6) of 64 patterns
    assert told.notes == ()
    odd = compare(frame(base, [0.8262, *variant[1:]], count=40), baseline="base")
    assert any("no whole numbers" in note for note in odd.notes)
