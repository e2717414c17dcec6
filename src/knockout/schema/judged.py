"""The objects of `knockout report` and `knockout compare`."""

from dataclasses import dataclass
from typing import Literal

from knockout.schema.common import Floor, Metric, Plan, Trainer, Verdict, Version


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One variant against the baseline: the columns of contrasts.csv (results/README.md), and these.

    `verdict`: one of six; `label`: the verdict as contrasts.csv has it, which says where runs are missing. `sentence`:
    all of it in words. `flags`: what a reader must know wherever the verdict stands. `seeds`: the differences.
    """

    variant: str
    verdict: Verdict
    label: str
    sentence: str
    flags: list[str]
    exploratory: str
    metric: str
    unit: str
    variant_runs: int
    variant_failures: int
    variant_rate_low: float | None
    variant_rate_high: float | None
    variant_mean: float | None
    variant_sd: float | None
    baseline_runs: int
    baseline_failures: int
    baseline_rate_low: float | None
    baseline_rate_high: float | None
    baseline_mean: float | None
    baseline_sd: float | None
    n_estimate: int | None
    difference: float | None
    low: float | None
    high: float | None
    sd: float | None
    d_z: float | None
    g_z: float | None
    d_av: float | None
    win_rate: float | None
    cliffs_delta: float | None
    correlation: float | None
    t: float | None
    p_welch: float | None
    n_planned: int
    n_pairs: int
    failed_variant_only: int
    failed_baseline_only: int
    failed_both: int
    family: int
    alpha: float
    margin: float
    power: float
    p_failures: float
    test: str
    p: float | None
    p_holm: float
    p_tost: float | None
    p_tost_holm: float
    p_sign_flip: float | None
    p_sign_flip_holm: float
    sign_flip_method: str | None
    p_wilcoxon: float | None
    p_wilcoxon_holm: float
    rank_biserial: float | None
    p_max_t: float | None
    disagree: str
    sd_ratio: float | None
    p_pitman_morgan: float | None
    floor: float
    seeds_for_floor: int
    normal_theory_only: bool
    identical: bool
    unchanged: bool
    detectable: float | None
    detectable_first: float | None
    seeds_difference: int | None
    seeds_difference_first: int | None
    seeds_equivalence: int | None
    seeds_equivalence_first: int | None
    seeds_difference_low: int | None
    seeds_difference_high: int | None
    seeds_equivalence_low: int | None
    seeds_equivalence_high: int | None
    pairing_pays_above: float | None
    texts_seeds: int | None
    texts_examples: int | None
    texts_mean: float | None
    texts_ms_seed: float | None
    texts_ms_example: float | None
    texts_ms_residual: float | None
    texts_estimable: bool | None
    texts_reason: str | None
    texts_se: float | None
    texts_df: float | None
    texts_t: float | None
    texts_p: float | None
    texts_low: float | None
    texts_high: float | None
    texts_share_seed: float | None
    texts_share_example: float | None
    texts_share_residual: float | None
    texts_advice: str | None
    texts_from_seeds: bool | None
    left_out_flips: str
    direction: int
    reason: str
    seeds: "list[SeedDifference]"


@dataclass(frozen=True, kw_only=True)
class SeedDifference:
    """One pair of runs. `difference` is null unless both finished without failing."""

    seed: int | str
    state: Literal["complete", "variant failed", "baseline failed", "both failed", "missing"]
    difference: float | None


@dataclass(frozen=True, kw_only=True)
class UnpairedContrast:
    """One variant against the baseline without pairs: the columns of contrasts.csv, and a sentence."""

    variant: str
    verdict: Verdict
    sentence: str
    metric: str
    unit: str
    comparison: Literal["unpaired"]
    variant_runs: int
    variant_failures: int
    variant_rate_low: float | None
    variant_rate_high: float | None
    variant_mean: float | None
    variant_sd: float | None
    variant_planned: int
    baseline_runs: int
    baseline_failures: int
    baseline_rate_low: float | None
    baseline_rate_high: float | None
    baseline_mean: float | None
    baseline_sd: float | None
    baseline_planned: int
    difference: float | None
    low: float | None
    high: float | None
    df: float | None
    t: float | None
    d_av: float | None
    cliffs_delta: float | None
    detectable: float | None
    detectable_first: float | None
    family: int
    alpha: float
    margin: float
    test: str
    p: float | None
    p_holm: float
    p_tost: float | None
    p_tost_holm: float
    p_rank_sum: float | None
    p_rank_sum_holm: float
    rank_sum_method: str | None
    p_permuted: float | None
    p_permuted_holm: float
    permuted_method: str | None
    disagree: str
    direction: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run that failed, or has no result: what became of it, and why."""

    variant: str
    seed: int | str
    status: str
    reason: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the study file, and its ruling."""

    id: str
    variant: str
    says: Literal["better", "worse", "equal"]
    metric: str
    text: str
    ruling: Literal["supported", "refuted", "inconclusive"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class FloorGap:
    """The baseline's mean over seeds minus a floor, in the metric's unit, with a 95 % t interval over `n` seeds.

    `p` is two-sided; null hypothesis: the baseline's mean over seeds is the floor. It decides no verdict.
    """

    name: str
    n: int
    mean: float
    floor: float
    difference: float
    low: float | None
    high: float | None
    p: float | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """`knockout report`. `answer`: the report's sentences. `files`: name in the report -> path."""

    schema: Version
    command: Literal["report"]
    study: str
    question: str
    folder: str
    metric: Metric
    plan: Plan
    baseline: str
    seeds: list[int]
    answer: list[str]
    warnings: list[str]
    contrasts: list[Contrast]
    claims: list[Claim]
    floors: list[Floor]
    floor_gaps: list[FloorGap]
    failures: list[FailedRun]
    dropped_variants: list[str]
    notes: list[str]
    trainer: Trainer
    damage: list[str]
    files: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Compare:
    """`knockout compare`: `contrasts` of runs that are paired by seed, `unpaired_contrasts` with `--unpaired`."""

    schema: Version
    command: Literal["compare"]
    source: str
    paired: bool
    metric: Metric
    plan: Plan
    baseline: str
    seeds: list[int | str]
    answer: list[str]
    warnings: list[str]
    contrasts: list[Contrast]
    unpaired_contrasts: list[UnpairedContrast]
    failures: list[FailedRun]
    notes: list[str]
    files: dict[str, str]
