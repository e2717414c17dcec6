"""`python rivals.py TOOL < case.json`: one tool's answer to one case, as JSON, from an interpreter that has the tool.

Each tool is called as its README or docstring shows for this purpose, with its defaults. A case has `rows` (variant,
seed, value, status) in the order of the file; `baseline`; `target`, the variant in question; `margin`, a share;
`instead`, what to call as well. Higher is better. An answer has `version`; `beside`, the versions of the tool's own
dependencies; `said`, a list of `call`, `says`, `verdict` and `instead` (whether it uses a setting other than the
default).
"""

import contextlib
import importlib.metadata
import io
import json
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Case = dict[str, Any]
Said = dict[str, Any]
Ask = Callable[[], tuple[str, str]]
"""What was said, and the verdict that it stands for."""

ALPHA = 0.05
TAU = 0.2
"""The threshold of epsilon that the README of deepsig recommends; its summary says 0.5."""


BESIDE = ("numpy", "scipy", "pandas")
"""Packages whose versions are told beside a tool's own."""


def frame(case: Case) -> pd.DataFrame:
    """One row per run, in the order of the file."""
    made = pd.DataFrame(case["rows"], columns=["variant", "seed", "accuracy", "status"])
    made["accuracy"] = made["accuracy"].astype(float)
    return made


def wide(case: Case) -> pd.DataFrame:
    """One column per variant, one row per seed: runs are paired by seed whatever the order of the file."""
    runs = frame(case)
    table = runs.pivot(index="seed", columns="variant", values="accuracy")
    return pd.DataFrame({str(v): table[v].to_numpy() for v in dict.fromkeys(runs["variant"])})


def attempt(call: str, ask: Ask, *, instead: bool = False) -> Said:
    """What `ask` says and its verdict, or the first line of what it raised."""
    try:
        says, verdict = ask()
    except Exception as error:
        says = f"{type(error).__name__}: {(str(error).strip() or 'no text').splitlines()[0]}"
        verdict = "stops"
    return {"call": call, "says": says, "verdict": verdict, "instead": instead}


def of_p(p: float, difference: float) -> str:
    """The verdict that a p and the sign of a difference (variant minus baseline) stand for."""
    if np.isnan(p):
        return "no verdict"
    if p > ALPHA:
        return "no difference shown"
    return "better" if difference > 0 else "worse"


def autorank(case: Case) -> list[Said]:
    """`autorank(data)`, and what the last sentence of `create_report` assumes."""
    from autorank import autorank as rank
    from autorank import create_report

    data, target, baseline = wide(case), case["target"], case["baseline"]

    def frequentist(force_mode: str | None = None) -> tuple[str, str]:
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            result = rank(data, alpha=ALPHA, verbose=False, force_mode=force_mode)
            create_report(result)
        last = told.getvalue().strip().splitlines()[-1]
        claim = last.rsplit("we assume that", 1)[1].strip() if "we assume that" in last else ""
        table = result.rankdf
        name = {"ttest": "paired t", "anova": "repeated-measures ANOVA"}.get(result.omnibus, result.omnibus)
        says = f"{name}, p = {result.pvalue:.3g}"
        verdict = "no difference shown"
        if len(table) == 2:
            larger = re.match(r"the (?:mean value|median) of (.+?) is significantly larger than", claim)
            if larger:
                verdict = "better" if larger[1] == target else "worse"
        elif result.pvalue < ALPHA:  # the report then goes by one of these two rules
            if result.cd is not None:
                gap = float(table.loc[baseline, "meanrank"] - table.loc[target, "meanrank"])  # rank 1 is the best
                bar = float(result.cd)
                says += f"; Nemenyi, mean ranks differ by {abs(gap):.2f}, critical difference {bar:.2f}"
            else:
                gap = float(table.loc[target, "mean"] - table.loc[baseline, "mean"])
                bar = float(table["ci_upper"].iloc[0] - table["ci_lower"].iloc[0]) / 2
                says += f"; Tukey HSD, means differ by {abs(gap):.4f}, half an interval is {bar:.4f}"
            if abs(gap) > bar:
                verdict = of_p(0.0, gap)
        return f'{says}: "{claim}"', verdict

    def bayesian() -> tuple[str, str]:
        result = rank(
            data, alpha=ALPHA, verbose=False, approach="bayesian", rope=case["margin"], rope_mode="absolute",
            random_state=1,
        )  # fmt: skip
        low, within, high = result.posterior_matrix.loc[result.rankdf.index[0], result.rankdf.index[1]]
        word = str(result.decision_matrix.loc[target, baseline])
        verdicts = {"equal": "equivalent", "inconclusive": "inconclusive", "larger": "better", "smaller": "worse"}
        return f"P(smaller, equal, larger) = {low:.3f}, {within:.3f}, {high:.3f}: {word}", verdicts[word]

    calls = [attempt("autorank(data)", frequentist)]
    if "parametric" in case["instead"]:
        calls.append(
            attempt('autorank(data, force_mode="parametric")', lambda: frequentist("parametric"), instead=True)
        )
    if "rope" in case["instead"]:
        call = f'autorank(data, approach="bayesian", rope={case["margin"]}, rope_mode="absolute")'
        calls.append(attempt(call, bayesian, instead=True))
    return calls


def scikit_posthocs(case: Case) -> list[Said]:
    """The paired tests that fit: Wilcoxon with Holm, Friedman-Nemenyi, and Demsar's test of many against one."""
    import scikit_posthocs as sp

    runs, data, target, baseline = frame(case), wide(case), case["target"], case["baseline"]
    mean = float(np.nanmean(data[target].to_numpy() - data[baseline].to_numpy()))
    ranks = data.rank(axis=1)
    rank = float(np.nanmean(ranks[target].to_numpy() - ranks[baseline].to_numpy()))

    def wilcoxon(given: pd.DataFrame) -> tuple[str, str]:
        table = sp.posthoc_wilcoxon(given, val_col="accuracy", group_col="variant", p_adjust="holm")
        p = float(table.loc[target, baseline])
        return f"p = {p:.3g}", of_p(p, mean)

    def nemenyi() -> tuple[str, str]:
        p = float(sp.posthoc_nemenyi_friedman(data).loc[target, baseline])
        return f"p = {p:.3g}", of_p(p, rank)

    def demsar() -> tuple[str, str]:
        p = float(sp.posthoc_demsar(data, control=baseline, p_adjust="holm").loc[target, baseline])
        return f"p = {p:.3g}", of_p(p, rank)

    def by_hand() -> tuple[str, str]:
        table = sp.posthoc_wilcoxon(runs, val_col="accuracy", group_col="variant")
        raw = table[baseline].drop(baseline).sort_values(kind="stable")
        adjusted = np.minimum(1.0, np.maximum.accumulate(raw.to_numpy() * np.arange(len(raw), 0, -1)))
        p = float(adjusted[list(raw.index).index(target)])
        return f"p = {p:.3g}", of_p(p, mean)

    calls = [
        attempt('posthoc_wilcoxon(frame, p_adjust="holm")', lambda: wilcoxon(runs)),
        attempt("posthoc_nemenyi_friedman(data)", nemenyi),
        attempt('posthoc_demsar(data, control, p_adjust="holm")', demsar),
    ]
    others: dict[str, tuple[str, Ask]] = {
        "sorted": ('the same Wilcoxon on frame.sort_values("seed")', lambda: wilcoxon(runs.sort_values("seed"))),
        "failed as 0": ("the same Wilcoxon on frame.fillna(0)", lambda: wilcoxon(runs.fillna({"accuracy": 0.0}))),
        "baseline only": ("posthoc_wilcoxon(frame), then Holm over the contrasts with the baseline", by_hand),
    }
    calls += [attempt(*others[name], instead=True) for name in others if name in case["instead"]]
    return calls


def rliable(case: Case) -> list[Said]:
    """Intervals of the probability of improvement and of the means; scores are (runs, tasks), with one task."""
    from rliable import library, metrics

    columns = wide(case)
    target, baseline = case["target"], case["baseline"]
    scores = {v: columns[[v]].to_numpy() for v in (target, baseline)}

    def mean(x: Any) -> Any:
        return np.array([metrics.aggregate_mean(x)])

    def improvement() -> tuple[str, str]:
        np.random.seed(1)  # noqa: NPY002  # its bootstrap draws from the global generator, whatever random_state is
        pairs = {"pair": (scores[target], scores[baseline])}
        point, interval = library.get_interval_estimates(pairs, metrics.probability_of_improvement, reps=2000)
        value, (low, high) = float(np.ravel(point["pair"])[0]), np.ravel(interval["pair"])
        says = f"P({target} > {baseline}) = {value:.3f}, 95 % [{low:.3f}, {high:.3f}]"
        verdict = "better" if low > 0.5 else "worse" if high < 0.5 else "no difference shown"
        return says, "no verdict" if np.isnan([value, low, high]).any() else verdict

    def means() -> tuple[str, str]:
        np.random.seed(1)  # noqa: NPY002
        point, interval = library.get_interval_estimates(scores, mean, reps=50000)
        told = [f"{v} {point[v][0]:.4f} [{interval[v][0][0]:.4f}, {interval[v][1][0]:.4f}]" for v in scores]
        return "means, 95 %: " + ", ".join(told), "describes"

    def differences() -> tuple[str, str]:
        np.random.seed(1)  # noqa: NPY002
        given = {"difference": scores[target] - scores[baseline]}
        _, interval = library.get_interval_estimates(given, mean, reps=50000)
        low, high = (float(end) for end in np.ravel(interval["difference"]))
        verdict = "better" if low > 0 else "worse" if high < 0 else "no difference shown"
        return f"mean difference, 95 % [{low:.4f}, {high:.4f}]", verdict

    calls = [
        attempt("get_interval_estimates(pair, probability_of_improvement)", improvement),
        attempt("get_interval_estimates(scores, aggregate_mean)", means),
    ]
    if "differences" in case["instead"]:
        call = "get_interval_estimates(differences per seed, aggregate_mean)"
        calls.append(attempt(call, differences, instead=True))
    return calls


def deepsig(case: Case) -> list[Said]:
    """`aso` of the variant over the baseline and the other way; `multi_aso` for more than two arms."""
    import deepsig as ds

    columns = wide(case)
    scores = {str(v): columns[v].to_numpy() for v in columns}
    target, baseline = case["target"], case["baseline"]
    pairs = len(scores) * (len(scores) - 1) // 2

    def judged(over: float, under: float) -> tuple[str, str]:
        says = f"eps_min = {over:.3f} ({target} over {baseline}), {under:.3f} ({baseline} over {target})"
        verdict = "better" if over < TAU else "worse" if under < TAU else "no difference shown"
        return says, "no verdict" if np.isnan([over, under]).any() else verdict

    def aso(confidence: float) -> tuple[str, str]:
        a, b = scores[target], scores[baseline]
        over = ds.aso(a, b, confidence_level=confidence, seed=1234, show_progress=False)
        under = ds.aso(b, a, confidence_level=confidence, seed=1234, show_progress=False)
        return judged(float(over), float(under))

    def multi() -> tuple[str, str]:
        found = ds.multi_aso(scores, confidence_level=0.95, return_df=True, show_progress=False, seed=1234)
        return judged(float(found.loc[target, baseline]), float(found.loc[baseline, target]))

    def permutation() -> tuple[str, str]:
        p = float(ds.permutation_test(scores[target], scores[baseline], seed=1234))
        return f"one-sided p = {p:.3g}", of_p(2 * p, 1.0)

    two = len(scores) == 2
    calls = [attempt("aso(a, b)", lambda: aso(0.95)) if two else attempt("multi_aso(scores)", multi)]
    if "permutation" in case["instead"]:
        calls.append(attempt("permutation_test(a, b), doubled", permutation, instead=True))
    if "bonferroni" in case["instead"]:
        call = f"aso(a, b, confidence_level=1 - 0.05 / {pairs})"
        calls.append(attempt(call, lambda: aso(1 - 0.05 / pairs), instead=True))
    return calls


def knockout(case: Case) -> list[Said]:
    """`compare(frame, baseline=...)` with the margin in points."""
    from knockout.analysis import compare

    runs = frame(case)
    if runs["status"].isna().all():
        runs = runs.drop(columns="status")

    def judged() -> tuple[str, str]:
        told = compare(runs, baseline=case["baseline"], margin=100 * case["margin"])
        contrast = told[case["target"]]
        sentence = told.sentences()[told.variants.index(case["target"])]
        return f"p = {contrast.p_holm:.3g} after Holm: {sentence}", contrast.label

    return [attempt("compare(frame, baseline)", judged)]


TOOLS: dict[str, Callable[[Case], list[Said]]] = {
    "autorank": autorank,
    "scikit-posthocs": scikit_posthocs,
    "rliable": rliable,
    "deepsig": deepsig,
    "knockout": knockout,
}
"""By the name of the distribution."""


def main() -> None:
    """One case from standard input, one answer to standard output."""
    tool = sys.argv[1]
    warnings.simplefilter("ignore")
    case: Case = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answers = TOOLS[tool](case)
    version, *beside = (importlib.metadata.version(name) for name in (tool, *BESIDE))
    print(json.dumps({"version": version, "beside": dict(zip(BESIDE, beside, strict=True)), "said": answers}))


if __name__ == "__main__":
    main()
