"""The inputs of benchmarks/inputs.py: Knockout's verdict is among the right ones, and the exact p there are right."""

import json

import pytest
from benchmarks.inputs import BASE, CASES, MARGIN, Case, Input, sign_flip, signed_rank
from benchmarks.rivals import knockout
from benchmarks.side_by_side import page
from scipy import stats

ASKED = [(case, given) for case in CASES for given in case.inputs]


@pytest.mark.parametrize(("case", "given"), ASKED, ids=[f"{c.title} {g.label}" for c, g in ASKED])
def test_our_verdict_is_among_the_right_ones(case: Case, given: Input) -> None:
    question = {"rows": given.rows(), "baseline": BASE, "target": case.target, "margin": MARGIN, "instead": []}
    (said,) = knockout(json.loads(json.dumps(question)))
    assert said["verdict"].partition(" (")[0] in given.right, said["says"]


def test_exact_p_by_enumeration_against_scipy() -> None:
    d = [3, -1, 4, 8, 5, -9, 2]
    assert signed_rank(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, abs=1e-12)
    assert sign_flip([1, 2, 4, 8]) == 2 / 16  # only all signs alike reach the sum
    assert sign_flip([-1, 2, 4, 8]) == 4 / 16  # and, here, all but the smallest alike


def test_a_tool_that_is_not_there_has_no_numbers_on_the_page() -> None:
    absent = {"version": None, "said": [{"call": "", "says": "", "verdict": "not there", "instead": False}]}
    tools = ("autorank", "scikit-posthocs", "rliable", "deepsig", "knockout")
    told = page({(i, j, t): absent for i, c in enumerate(CASES) for j, _ in enumerate(c.inputs) for t in tools})
    assert "autorank (not there)" in told
    assert "p = nan, " not in told
    assert told.count("## ") == len(CASES)
