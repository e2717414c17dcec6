import math

import pandas as pd
import pytest

from knockout.analysis.inference.claims import judge, ratio_test
from tests.analysis.inference.test_contrasts import BASE, Cell, one

LARGE: list[Cell] = [b + 90 + i for i, b in enumerate(BASE) if isinstance(b, int)]  # .9 points and more
SMALL: list[Cell] = [
    b + 40 + 5 * (i % 2) for i, b in enumerate(BASE) if isinstance(b, int)
]  # about .4, and not under .3
SAME: list[Cell] = [b + (7 if i % 2 else -7) for i, b in enumerate(BASE) if isinstance(b, int)]
WILD: list[Cell] = [b + (300 if i % 2 else -300) for i, b in enumerate(BASE) if isinstance(b, int)]


@pytest.mark.parametrize(
    ("variant", "base", "better", "worse", "equal"),
    [
        (LARGE, BASE, "supported", "refuted", "refuted"),
        (BASE, LARGE, "refuted", "supported", "refuted"),
        (SMALL, BASE, "refuted", "refuted", "supported"),  # trivial
        (SAME, BASE, "refuted", "refuted", "supported"),  # equivalent
        (WILD, BASE, "inconclusive", "inconclusive", "inconclusive"),
        (["crashed", *LARGE[1:]], BASE, "inconclusive", "inconclusive", "inconclusive"),
        (LARGE[:2], BASE[:2], "inconclusive", "inconclusive", "inconclusive"),
    ],
)
def test_rule_d0(variant: list[Cell], base: list[Cell], better: str, worse: str, equal: str) -> None:
    contrast = one(variant, base)
    claims = [
        {"id": says, "variant": "v", "says": says, "metric": "accuracy", "text": ""}
        for says in ("better", "worse", "equal")
    ]
    found = judge(claims, [contrast])
    assert [j.ruling for j in found] == [better, worse, equal]
    assert all(contrast.verdict in j.reason for j in found)


def test_a_difference_that_is_shown_but_under_the_margin_supports_no_direction() -> None:
    shown: list[Cell] = [b + 30 + 20 * (i % 3) for i, b in enumerate(BASE) if isinstance(b, int)]
    contrast = one(shown, BASE)
    assert contrast.verdict == "better"  # TOST does not exclude the margin
    assert contrast.estimate is not None
    assert contrast.estimate.difference < contrast.margin
    claims = [
        {"id": says, "variant": "v", "says": says, "metric": "accuracy", "text": ""}
        for says in ("better", "worse", "equal")
    ]
    assert [j.ruling for j in judge(claims, [contrast])] == ["inconclusive", "refuted", "inconclusive"]


def runs_of(values: dict[str, list[float | None]], column: str) -> pd.DataFrame:
    """Runs with one value each; `None` for a run that diverged."""
    rows = [
        {"variant": v, "seed": s, "status": "finished" if x is not None else "diverged", "failed": x is None, column: x}
        for v, own in values.items()
        for s, x in enumerate(own)
    ]
    return pd.DataFrame(rows)


def ruled(values: dict[str, list[float | None]], *, metric: str = "final_loss") -> dict[str, str]:
    n = len(values["base"])
    contrast = one([8000] * n, [8000] * n)
    claims = [{"id": w, "variant": "v", "says": w, "metric": metric, "text": ""} for w in ("better", "worse", "equal")]
    column = {"final_loss": "final_loss", "log_loss": "test_loss"}[metric]
    found = judge(claims, [contrast], runs=runs_of(values, column), baseline="base")
    return {j.says: j.ruling for j in found}


LOSS: list[float | None] = [0.50, 0.55, 0.52, 0.48, 0.51, 0.53, 0.49, 0.54]


def times(factor: float) -> list[float | None]:
    return [x * factor * (1 + 0.001 * i) for i, x in enumerate(LOSS) if x is not None]


def test_rule_d1_on_ratios_of_losses() -> None:
    for metric in ("final_loss", "log_loss"):
        higher = ruled({"base": LOSS, "v": times(1.4)}, metric=metric)
        assert higher == {"better": "refuted", "worse": "supported", "equal": "refuted"}
    lower = ruled({"base": LOSS, "v": times(0.7)})
    assert lower == {"better": "supported", "worse": "refuted", "equal": "refuted"}


def test_rule_d1_needs_a_large_cliffs_delta() -> None:
    near = times(1.003)  # every seed a little higher: p = 2 / 2^8, and the arms lie within each other
    told = ratio_test([x or 0.0 for x in near], [x or 0.0 for x in LOSS], -1)
    assert told.p == 2 / 2**8
    assert abs(told.cliffs_delta) < 0.47
    assert set(ruled({"base": LOSS, "v": near}).values()) == {"inconclusive"}


def test_rule_d1_ranks_a_failed_run_as_the_worst() -> None:
    failed: list[float | None] = [None, None, *times(1.4)[2:]]
    assert ruled({"base": LOSS, "v": failed})["worse"] == "supported"
    told = ratio_test([math.inf, math.inf, *(x or 0.0 for x in times(1.4)[2:])], [x or 0.0 for x in LOSS], -1)
    assert told.p == 2 / 2**8
    assert told.ratio == pytest.approx(1.4, rel=0.01)  # of the six pairs in which neither failed
    logs = [math.log((b or 0) / (a or 1)) for a, b in zip(LOSS, times(1.4), strict=True)]
    assert ratio_test([x or 0.0 for x in times(1.4)], [x or 0.0 for x in LOSS], -1).ratio == pytest.approx(
        math.exp(sum(logs) / 8)
    )


def test_claims_on_failures_are_read_off_the_exact_paired_test() -> None:
    six: list[Cell] = ["diverged"] * 6
    contrast = one([*six, *BASE[6:]], BASE)
    claims = [
        {"id": says, "variant": "v", "says": says, "metric": "failures", "text": ""}
        for says in ("better", "worse", "equal")
    ]
    assert [j.ruling for j in judge(claims, [contrast])] == ["refuted", "supported", "refuted"]  # 6 against 0: p = .031
    few = one(["diverged", "diverged", *BASE[2:]], BASE)
    assert {j.ruling for j in judge(claims, [few])} == {"inconclusive"}
