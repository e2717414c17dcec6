"""Small inputs of paired seeded runs on which some tool goes wrong, with the right answers, computed with scipy only.

Values are shares (accuracy, higher is better) in thousandths, so that exact tests can count in whole numbers. Nothing
here calls Knockout.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import integrate, stats

Arms = Mapping[str, Sequence[float | None]]
"""variant -> accuracy by seed; None for a run that diverged"""

BASE = "base"
MARGIN = 0.005
"""Half a point: what the studies of this project hold for the largest difference that does not matter."""

NOTHING = frozenset({"no difference shown", "inconclusive", "undecidable by design"})
"""Verdicts that claim neither a difference nor its absence."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """One table of runs."""

    arms: Arms
    label: str = ""
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """the seeds of an arm in the order of the file, where that is not 1, 2, ...; values come in the same order"""
    right: frozenset[str]
    in_part: frozenset[str] = frozenset()
    """verdicts that are true and leave something out"""

    def rows(self) -> list[tuple[str, int, float | None, str | None]]:
        """variant, seed, accuracy, status, in the order of the file; a status only where a run diverged."""
        failed = any(x is None for values in self.arms.values() for x in values)
        found = []
        for name, values in self.arms.items():
            for seed, x in zip(self.seeds.get(name, range(1, len(values) + 1)), values, strict=True):
                found.append((name, seed, x, ("diverged" if x is None else "finished") if failed else None))
        return found


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is asked, what is right, and why a tool may say otherwise."""

    title: str
    inputs: tuple[Input, ...]
    target: str = "variant"
    answer: Callable[[], str]
    """the right answer, with numbers computed when it is called"""
    why: str
    """where the tools part from it, and which setting would not"""
    instead: tuple[str, ...] = ()
    """other settings to show, by the names that benchmarks/rivals.py knows"""


def differences(arms: Arms, target: str = "variant") -> list[int]:
    """Variant minus baseline in whole thousandths, over seeds at which both finished."""
    pairs = zip(arms[target], arms[BASE], strict=True)
    return [round(1000 * a) - round(1000 * b) for a, b in pairs if a is not None and b is not None]


def _array(arms: Arms, name: str) -> npt.NDArray[np.float64]:
    return np.array(arms[name], dtype=float)


def sign_flip(d: Sequence[float]) -> float:
    """Exact two-sided p of the mean, over all 2^n patterns of signs."""
    size = abs(sum(d))
    sums = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=len(d))
    ]
    return sum(x >= size for x in sums) / len(sums)


def signed_rank(d: Sequence[float]) -> float:
    """Exact two-sided p of Wilcoxon's signed-rank test, over all patterns of signs; d without zeros, ties midranked."""
    ranks = 2 * stats.rankdata(np.abs(d))  # doubled: whole numbers
    return sign_flip([int(r) * (1 if x > 0 else -1) for r, x in zip(ranks, d, strict=True)])


def t_test(d: Sequence[float]) -> float:
    return float(stats.ttest_1samp(np.array(d, dtype=float), 0.0).pvalue)


def shifted(base: Sequence[float], thousandths: Sequence[int]) -> list[float]:
    return [round(x + d / 1000, 3) for x, d in zip(base, thousandths, strict=True)]


# Five seeds, better in all.
SKEWED: Arms = {BASE: [0.801, 0.806, 0.797, 0.803, 0.720], "variant": [0.804, 0.808, 0.802, 0.804, 0.770]}


def five_seeds() -> str:
    d = differences(SKEWED)
    return (
        "No difference is shown: the smallest two-sided p that five seeds can give an exact test is 1/16. Exact"
        f" signed-rank p = {signed_rank(d):.4f}, exact sign-flip p = {sign_flip(d):.4f}, paired t p = {t_test(d):.3f}."
    )


# No spread.
SPREAD = [0.801, 0.806, 0.797, 0.803, 0.799]
SAME: Arms = {BASE: SPREAD, "variant": SPREAD}
CONSTANT: Arms = {BASE: [0.81, 0.80, 0.79, 0.83, 0.82], "variant": [0.82, 0.81, 0.80, 0.84, 0.83]}


def no_spread() -> str:
    return (
        f"(a) p = {sign_flip(differences(SAME)):g}: nothing differs. (b) p = {sign_flip(differences(CONSTANT)):g}, the"
        " smallest that five seeds can give: five equal differences say that the spread is too small to be seen, not"
        " that it is 0. Divided by 0 spread, t is infinite; divided by rounding errors it is any number."
    )


# A run that diverged.
FAILED: Arms = {
    BASE: [0.801, 0.806, 0.797, 0.803, 0.799, 0.802],
    "variant": [0.811, 0.817, None, 0.812, 0.810, 0.814],
}


def diverged() -> str:
    runs = zip(FAILED["variant"], FAILED[BASE], strict=True)
    d = [-(10**6) if a is None else round(1000 * a) - round(1000 * (b or 0)) for a, b in runs]
    finished = differences(FAILED)
    return (
        "No difference is shown. A run that diverged is a result, the worst there is: ranked as such the exact"
        f" signed-rank p is {signed_rank(d):.4f}. Over the five seeds at which both finished it is"
        f" {signed_rank(finished):.4f}, and says nothing of the sixth."
    )


# Rows in another order.
SORTED: Arms = {
    BASE: [0.742, 0.771, 0.758, 0.803, 0.787, 0.729],
    "variant": [0.748, 0.776, 0.765, 0.808, 0.794, 0.733],
}
ORDER = (4, 1, 6, 2, 5, 3)
SHUFFLED: Arms = {BASE: SORTED[BASE], "variant": [SORTED["variant"][s - 1] for s in ORDER]}


def row_order() -> str:
    d = differences(SORTED)
    return (
        f"Better: paired by seed all six differences are positive, exact p = {sign_flip(d):.4f}, t p ="
        f" {t_test(d):.1g}. Paired by row, as here, the exact signed-rank p would be"
        f" {signed_rank(differences(SHUFFLED)):.3f}."
    )


# Seeds that differ more than the variants do.
SEEDS = [0.742, 0.771, 0.758, 0.803, 0.787, 0.729, 0.764, 0.795]
BLOCKED: Arms = {
    BASE: SEEDS,
    "variant": shifted(SEEDS, [6, 4, 7, 5, 6, 3, 7, 5]),
    "other": shifted(SEEDS, [1, -2, 2, -1, 0, 1, -1, 2]),
}


def seed_effect() -> str:
    d = differences(BLOCKED)
    welch = float(stats.ttest_ind(_array(BLOCKED, "variant"), _array(BLOCKED, BASE), equal_var=False).pvalue)
    return (
        f"Better: at all eight seeds by 0.3 to 0.7 points, exact p = {sign_flip(d):.4f} (.0156 when doubled for two"
        f" contrasts), paired t p = {t_test(d):.1g}. Taken as independent samples, p = {welch:.2f}: the seeds differ by"
        " more than the variants do."
    )


# Three seeds wholly apart.
APART: Arms = {BASE: [0.801, 0.803, 0.799], "variant": [0.806, 0.804, 0.809]}


def three_seeds() -> str:
    ranks = [set(c) for c in itertools.combinations(range(6), 3)]
    share = sum(r in ({0, 1, 2}, {3, 4, 5}) for r in ranks) / len(ranks)
    d = differences(APART)
    return (
        f"No difference is shown: of pairs of arms that do not differ {100 * share:.0f} % are wholly apart at three"
        f" runs each (2 of {len(ranks)} orders). Exact sign-flip p = {sign_flip(d):.2f}, paired t p = {t_test(d):.2f}."
    )


# Equal medians.
MEDIANS_BASE = [0.41, 0.76, 0.77, 0.79, 0.80, 0.81, 0.82, 0.83, 0.84]
MEDIANS_VARIANT = [0.45, 0.78, 0.785, 0.80, 0.815, 0.798, 0.845, 0.85, 0.87]
BASE_FIRST: Arms = {BASE: MEDIANS_BASE, "variant": MEDIANS_VARIANT}
VARIANT_FIRST: Arms = {"variant": MEDIANS_VARIANT, BASE: MEDIANS_BASE}


def column_order() -> str:
    d = differences(BASE_FIRST)
    return (
        f"Better, whichever column comes first: at {sum(x > 0 for x in d)} of 9 seeds, exact signed-rank p ="
        f" {signed_rank(d):.4f}, exact sign-flip p = {sign_flip(d):.4f}, paired t p = {t_test(d):.4f}."
    )


# Other variants beside a pair.
PAIR = [0.792, 0.801, 0.797, 0.804, 0.789, 0.806, 0.795, 0.800]
ALONE: Arms = {BASE: PAIR, "variant": shifted(PAIR, [6, 4, 9, 3, 7, 5, 8, 4])}
BESIDE: Arms = {
    **ALONE,
    "poor 1": [0.733, 0.748, 0.740, 0.743, 0.734, 0.747, 0.742, 0.743],
    "poor 2": [0.724, 0.729, 0.731, 0.734, 0.715, 0.738, 0.723, 0.734],
    "poor 3": [0.705, 0.720, 0.712, 0.725, 0.706, 0.719, 0.714, 0.715],
    "poor 4": [0.696, 0.651, 0.603, 0.706, 0.647, 0.610, 0.695, 0.656],
}


def irrelevant() -> str:
    d = differences(ALONE)
    names = [v for v in BESIDE if v != BASE]
    adjusted = min(1.0, len(names) * sign_flip(d))
    return (
        f"Better in both: at all eight seeds, exact p = {sign_flip(d):.4f}, times {len(names)} contrasts"
        f" {adjusted:.3f}; paired t p = {t_test(d):.2g}, times {len(names)} {len(names) * t_test(d):.2g}. Four variants"
        " far below say nothing of this pair."
    )


# A variant far off beside a pair that does not differ.
FAR: Arms = {
    BASE: PAIR,
    "variant": shifted(PAIR, [9, -3, 8, -2, 9, -3, 7, 4]),
    "poor": shifted(PAIR, [-90, -83, -86, -96, -88, -91, -81, -93]),
}


def far_off() -> str:
    d = differences(FAR)
    tukey = stats.tukey_hsd(*(_array(FAR, v) for v in FAR))
    p = float(np.asarray(tukey.pvalue)[0, 1])
    half = float(np.asarray(tukey.confidence_interval(0.95).high)[0, 1] - np.asarray(tukey.statistic)[0, 1])
    return (
        f"No difference is shown: paired t p = {t_test(d):.3f}, exact p = {sign_flip(d):.3f}. Tukey's HSD gives this"
        f" pair p = {p:.2f}: they must differ by {half:.4f}, and do by {sum(d) / 8000:.4f}."
    )


# Six variants that do not differ from the baseline.
def _drawn() -> tuple[int, Arms, str]:
    """The first seed at which a variant stands wholly above or below the baseline, its runs, and that variant."""
    names = [BASE, *(f"v{i}" for i in range(1, 7))]
    for seed in itertools.count(1):
        drawn = np.round(np.random.default_rng(seed).normal(0.8, 0.006, (7, 4)), 3)
        apart = [i for i in range(1, 7) if drawn[i].min() > drawn[0].max() or drawn[i].max() < drawn[0].min()]
        if apart:
            return seed, {n: [float(x) for x in row] for n, row in zip(names, drawn, strict=True)}, names[apart[0]]
    raise AssertionError


DRAWN_SEED, NULLS, LUCKY = _drawn()


def six_nulls() -> str:
    d = differences(NULLS, LUCKY)
    # the lowest and highest of four uniform runs of the baseline, then six variants of four runs each
    none = integrate.dblquad(
        lambda low, high: 12 * (high - low) ** 2 * (1 - low**4 - (1 - high) ** 4) ** 6, 0, 1, 0, lambda x: x
    )
    return (
        "No difference is shown, and there is none: all 28 values are drawn from one normal distribution (mean .800, sd"
        f" .006, `default_rng({DRAWN_SEED})`, the first seed at which some variant is wholly apart from the baseline,"
        f" which {100 * (1 - none[0]):.0f} % of all such studies are). Paired t p = {t_test(d):.3f}, times 6 contrasts"
        f" {min(1.0, 6 * t_test(d)):.2f}; exact p = {sign_flip(d):.3f}."
    )


# Under the margin.
SMALL_BASE = [0.801, 0.806, 0.797, 0.803, 0.799, 0.804, 0.798, 0.802]
SMALL: Arms = {BASE: SMALL_BASE, "variant": shifted(SMALL_BASE, [1, 2, 1, 1, 0, 1, 1, 1])}


def small() -> str:
    d = differences(SMALL)
    low, high = stats.ttest_1samp(d, 0.0).confidence_interval(0.9)
    over = float(stats.ttest_1samp(d, 1000 * MARGIN, alternative="less").pvalue)
    return (
        f"There is a difference (paired t p = {t_test(d):.2g}, exact p = {sign_flip(d):.4f}) and it is smaller than the"
        f" margin of 0.5 points (p = {over:.1g}; 90 % interval {low / 10:.2f} to {high / 10:.2f} points): it does not"
        " matter."
    )


CASES: tuple[Case, ...] = (
    Case(
        title="Five seeds, better in all",
        inputs=(Input(arms=SKEWED, right=NOTHING),),
        answer=five_seeds,
        why=(
            "autorank finds the arms not normal, takes Wilcoxon's test, and tests one-sided in the direction that the"
            " medians show, which halves p; `force_mode` makes it the two-sided t. Nemenyi's and Demsar's tests take"
            " ranks of five seeds for normal."
        ),
        instead=("parametric",),
    ),
    Case(
        title="No spread: (a) identical runs, (b) a constant difference",
        inputs=(
            Input(arms=SAME, label="(a)", right=frozenset({"no difference shown", "equivalent"})),
            Input(arms=CONSTANT, label="(b)", right=NOTHING),
        ),
        answer=no_spread,
        why=(
            "The paired t test has no value without spread. autorank's report takes p = nan for a rejection, since nan"
            " is not at least .05; in (b) its p is made of rounding errors."
        ),
    ),
    Case(
        title="A run that diverged",
        inputs=(Input(arms=FAILED, right=NOTHING),),
        answer=diverged,
        why=(
            "None of the four has a place for a failed run: it is given as NaN (ours takes a status column). autorank's"
            " report again takes p = nan for a rejection; Nemenyi's and Demsar's tests leave the seed out, not saying"
            " so; `posthoc_wilcoxon` refuses, and with 0 in its place gives the worst-rank p, but for a tie (.817 -"
            " .806 and .810 - .799) that floats break."
        ),
        instead=("failed as 0",),
    ),
    Case(
        title="Rows of one arm in another order",
        inputs=(Input(arms=SHUFFLED, seeds={"variant": ORDER}, right=frozenset({"better"})),),
        answer=row_order,
        why=(
            "`posthoc_wilcoxon` pairs by the order of rows, as its docstring says; it has no argument for a seed. The"
            " others are given one column per variant, made with pandas' `pivot`, so that order cannot matter; rliable"
            " and deepsig do not pair at all (see the next case)."
        ),
        instead=("sorted", "differences", "permutation"),
    ),
    Case(
        title="Seeds that differ more than the variants do",
        inputs=(Input(arms=BLOCKED, right=frozenset({"better"})),),
        answer=seed_effect,
        why=(
            "rliable and `aso` take runs for independent, which is right where they are. autorank's ANOVA pairs, its"
            " Tukey HSD does not, so that the report says both that the means differ and that none does. Paired ways"
            " are there: differences per seed for rliable, `permutation_test` in deepsig."
        ),
        instead=("differences", "permutation"),
    ),
    Case(
        title="Three seeds wholly apart",
        inputs=(Input(arms=APART, right=NOTHING),),
        answer=three_seeds,
        why=(
            "A bootstrap of three runs never leaves their range, so that the 95 % interval of P(improvement) has no"
            " width. ASO takes the share of the overlap, 0, with a bootstrap error of 0. autorank asks for five rows."
        ),
        instead=("permutation",),
    ),
    Case(
        title="Equal medians: (a) the baseline's column first, (b) the variant's",
        inputs=(
            Input(arms=BASE_FIRST, label="(a)", right=frozenset({"better"})),
            Input(arms=VARIANT_FIRST, label="(b)", right=frozenset({"better"})),
        ),
        answer=column_order,
        why=(
            "autorank tests one-sided that the column with the larger median is the larger; where medians tie it is the"
            " first column, so that p becomes 1 - p when columns change places; and the report takes the names in the"
            " order of ranks, so that in (b) the better one is called the smaller. `force_mode` avoids both."
        ),
        instead=("parametric",),
    ),
    Case(
        title="A pair (a) alone and (b) beside four worse variants",
        inputs=(
            Input(arms=ALONE, label="(a)", right=frozenset({"better"})),
            Input(arms=BESIDE, label="(b)", right=frozenset({"better"})),
        ),
        answer=irrelevant,
        why=(
            "Ranks over all variants know only that the pair stands one rank apart, however steadily, and the critical"
            " difference grows with the number of variants (Benavoli et al. 2016). `posthoc_wilcoxon` with Holm"
            " corrects over all 15 pairs, where 5 are asked about."
        ),
        instead=("baseline only",),
    ),
    Case(
        title="A pair beside one variant that is far off",
        inputs=(Input(arms=FAR, right=NOTHING),),
        answer=far_off,
        why=(
            "The far variant makes the ANOVA significant. autorank's report then calls two means different when they"
            " differ by more than half the width of one interval; its own rule, intervals that do not overlap, asks for"
            " the whole width."
        ),
    ),
    Case(
        title="Six variants, four seeds, no difference anywhere",
        inputs=(Input(arms=NULLS, right=NOTHING),),
        target=LUCKY,
        answer=six_nulls,
        why=(
            "rliable corrects for nothing. `multi_aso` means to correct, and adds (1 - .95)/m to the confidence level:"
            " .952 for the m = 21 pairs here, where Bonferroni asks for 1 - .05/21 = .998. Arms that"
            " are wholly apart leave ASO no doubt at any level, so that this alone would not help. autorank asks for"
            " five rows."
        ),
        instead=("bonferroni",),
    ),
    Case(
        title="A steady difference that is under the margin",
        inputs=(Input(arms=SMALL, right=frozenset({"trivial", "equivalent"}), in_part=frozenset({"better"})),),
        answer=small,
        why=(
            'A test against 0 is not asked whether a difference matters, so "better" is no fault here; no more can be'
            " had from scikit-posthocs, rliable or deepsig. autorank's Bayesian approach with a region of practical"
            " equivalence does ask, and is right."
        ),
        instead=("rope",),
    ),
)
