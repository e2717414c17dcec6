import math

import pytest

from knockout.analysis.inference.family import family_of
from knockout.analysis.inference.pairs import rows_of
from knockout.analysis.inference.verdict import ranked_differences
from knockout.analysis.publish import publish
from knockout.analysis.results import load
from knockout.analysis.stopping import look, sentences
from knockout.files import replace_json
from knockout.study import Plan
from tests.analysis.conftest import BuildStudy
from tests.designs import raw_design

BASE: list[int | str] = [300, 304, 298, 301, 299, 300, 302, 303]


def arm(shift: int) -> list[int | str]:
    return [b + shift for b in BASE if isinstance(b, int)]


def test_the_decision_is_over_complete_seeds_in_order(build_study: BuildStudy) -> None:
    """Two contrasts need eight straight wins or losses: e = 50.3 of 40."""
    correct = {"baseline": [*BASE, 300], "heads_1": [*arm(5), "crashed"], "no_scale": [*arm(-7)[:7], "dead", 290]}
    stop = look(load(build_study(correct, anytime=40)))
    assert stop is not None
    assert stop.decided
    assert stop.counted == tuple(range(8))
    assert stop.needless == tuple(range(8, 40))
    assert str(stop) == "decided after 8 seeds: heads_1 better, no_scale worse; seeds 8 to 39 were not needed"


def test_what_is_not_decided_is_named(build_study: BuildStudy) -> None:
    correct = {"baseline": BASE, "heads_1": arm(5), "no_scale": [*arm(-7)[:7], "missing"]}
    stop = look(load(build_study(correct, anytime=40)))
    assert stop is not None
    assert not stop.decided
    assert (len(stop.counted), stop.needless) == (7, ())
    assert str(stop) == "after 7 seeds in order not decided: heads_1, no_scale"
    alone = look(load(build_study({"baseline": BASE, "heads_1": arm(1), "no_scale": BASE}, anytime=8, name="ties")))
    assert alone is not None
    assert str(alone) == "after 8 seeds in order decided: heads_1 better; not decided: no_scale"


def test_a_variant_that_was_dropped_still_counts_in_the_family(build_study: BuildStudy) -> None:
    """One contrast needs seven seeds; as one of two, eight."""
    root = build_study({"baseline": BASE[:7], "heads_1": arm(5)[:7]}, anytime=40)
    assert getattr(look(load(root)), "decided", None) is True
    design = raw_design(root)
    design["first"]["variants"].append("no_scale")
    replace_json(root / "design.json", design)
    assert getattr(look(load(root)), "decided", None) is False


def test_fixed_seeds_are_not_decided_on(build_study: BuildStudy) -> None:
    assert look(load(build_study({"baseline": BASE, "heads_1": arm(5)}))) is None


def test_failures_are_infinite_and_two_of_them_are_a_tie(build_study: BuildStudy) -> None:
    correct = {"baseline": [300, "dead", "diverged", 301], "heads_1": ["diverged", 280, "dead", 303]}
    results = load(build_study(correct))
    family = family_of(
        rows_of(results.runs),
        metric=results.metric,
        plan=results.plan,
        baseline="baseline",
        variants=["heads_1"],
        seeds=[0, 1, 2, 3],
    )
    assert ranked_differences(family.pairs["heads_1"], family.metric) == [-math.inf, math.inf, 0.0, 2.0]


def test_a_decided_study_is_whole_and_is_published(build_study: BuildStudy) -> None:
    root = build_study({"baseline": BASE, "heads_1": arm(5)}, anytime=40)
    publish(root, target=root.parent / "published")
    stop = look(load(root.parent / "published"))
    assert stop is not None
    assert stop.outcome.decided_at == 7
    assert stop.needless == tuple(range(8, 40))


@pytest.mark.parametrize(("process", "least"), [("sign", 11), ("t", 7)])
def test_check_says_the_fewest_seeds(process: str, least: int) -> None:
    plan = Plan(anytime=process)  # type: ignore[arg-type]  # one of the two
    told = " ".join(sentences(k=10, plan=plan, max_seeds=40))
    assert f"can decide all 10 contrasts are {least}: " in told
    assert "each e has to reach 200" in told
    assert "Undecidable" not in told
    short = " ".join(sentences(k=10, plan=plan, max_seeds=least - 1))
    assert f"Undecidable by design: every contrast, since max_seeds is {least - 1}" in short
