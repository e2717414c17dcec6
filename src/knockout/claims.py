"""The claims of a study file: what is stated about its variants before results exist."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, get_args

from knockout.plan import Plan
from knockout.strict import Fault, Faults, build, got_text, nearest
from knockout.variants import BASELINE

Score = Literal["accuracy", "macro_f1", "log_loss", "final_loss", "failures"]
"""The other metrics that a claim may be on."""

Measure = Literal[
    "spikes",
    "large_spikes",
    "gradient_spikes",
    "drawdown",
    "drawdown_tail",
    "excursion_area",
    "total_variation",
    "short_term_risk",
    "short_term_iqr",
    "blow_up",
    "plateau",
    "mean_probe_loss",
    "excess_early",
    "excess_late",
    "early_peak",
    "early_jitter",
    "gradient_outliers",
    "early_gradient",
    "clipped",
    "depth_ratio_init",
    "depth_ratio_100",
    "depth_ratio_end",
    "attention_logit_init",
    "attention_logit",
    "attention_entropy",
    "attention_peak",
    "rank_residual_init",
    "rank_residual_end",
]
"""The measures of instability that a claim may be on, as `analysis.inference.curve_metrics` has them."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A preregistered statement about one variant against the baseline."""

    id: str
    variant: str
    says: Literal["better", "worse", "equal"]
    metric: Literal[Score, Measure] = "accuracy"
    text: str = ""


def unused(arms: Mapping[str, Any], declared: Mapping[str, Any], claims: tuple[Claim, ...]) -> tuple[str, ...]:
    """Sentences on the variants that are declared and not run, and on the claims on variants that are not run."""
    left_out = "which is not in the list `variants`"
    return (
        *(f"[variant.{name}] is not run: add {name} to the list `variants`" for name in declared if name not in arms),
        *(f"claim {c.id} is not judged: it is on {c.variant}, {left_out}" for c in claims if c.variant not in arms),
    )


def read_claims(
    raw: object, arms: Mapping[str, Any], known: AbstractSet[str], named: object, file: str
) -> tuple[tuple[Claim, ...], list[Fault]]:
    """All claims of the file. They may be on a variant that is `known` and not run: leaving one out is no fault."""
    if not isinstance(raw, list) or not all(isinstance(c, dict) for c in raw):
        return (), [Fault(file=file, key="claims", got=f"got {got_text(raw)}", allowed="tables, [[claims]]")]
    named = named if isinstance(named, list) else []  # a name of these that is no variant is a fault already
    faults = Faults()
    claims: list[Claim] = []
    for i, table in enumerate(raw, 1):
        claim = faults.take(build(Claim, table, file, f"claims {i}"))
        if claim is None:
            continue
        run = [n for n in arms if n != BASELINE]
        elsewhere = claim.variant in named or claim.variant in known
        if arms and claim.variant not in run and (not elsewhere or claim.variant == BASELINE):
            got = f'on "{claim.variant}", which is no variant'
            hint = nearest(claim.variant, {*run, *known} - {BASELINE})
            faults.append(Fault(file=file, key=f"claims {i}.variant", got=got, allowed=", ".join(run), nearest=hint))
        if claim.id in {c.id for c in claims}:
            faults.append(Fault(file=file, key=f"claims {i}.id", got=f'"{claim.id}" stands here twice', allowed="once"))
        claims.append(claim)
    return tuple(claims), faults


def claim_metrics(claims: tuple[Claim, ...], plan: Plan, file: str) -> list[Fault]:
    """The claims on a metric that is neither the plan's nor one with a rule of its own."""
    allowed = list(dict.fromkeys([plan.metric, "log_loss", "final_loss", "failures", *get_args(Measure)]))
    return [
        Fault(
            file=file,
            key=f'claims "{c.id}".metric',
            got=f'got "{c.metric}", where the plan judges by {plan.metric}',
            allowed=", ".join(f'"{name}"' for name in allowed),
        )
        for c in claims
        if c.metric not in allowed
    ]
