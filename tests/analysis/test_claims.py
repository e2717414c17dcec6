import pytest

from knockout.analysis.claims import judge
from tests.analysis.test_contrasts import BASE, Cell, one

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
