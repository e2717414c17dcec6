import pytest

from knockout.analysis.inference.outlook import outlook, reachable, sentences
from knockout.analysis.stats.power import t_power
from knockout.study import Plan


def test_reachable_verdicts() -> None:
    def reach(n: int, sd: float, *, first: bool, failures: bool) -> tuple[str, ...]:
        return reachable(
            n=n,
            sd=sd,
            margin=0.5,
            alpha=0.05 / 10 if first else 0.05,
            failures="some" if failures else "none",
        )

    assert reach(2, 1.0, first=False, failures=False) == ("undecidable by design",)
    assert reach(3, 1.0, first=True, failures=False) == ("better", "worse", "inconclusive")
    everything = ("better", "worse", "trivial", "equivalent", "inconclusive")
    assert reach(10, 0.2, first=True, failures=False) == everything
    assert reach(10, 0.7, first=False, failures=False) == ("better", "worse", "equivalent", "inconclusive")
    # a failed run brings in the exact test and its floor
    assert reach(8, 0.2, first=False, failures=True) == ("better", "worse", "inconclusive")
    assert reach(8, 0.2, first=True, failures=True) == ("undecidable by design",)
    assert reach(9, 0.2, first=True, failures=True) == ("better", "worse", "inconclusive")


def test_outlook_of_the_default_plan() -> None:
    view = outlook(n=10, k=10, plan=Plan())
    assert view.undecidable == ()
    assert view.exact_floor == 2**-9
    assert view.seeds_for_exact_floor == 9
    assert view.alone.detectable == pytest.approx(0.996, abs=1e-3)
    assert view.first.detectable > view.alone.detectable
    assert view.alone.chance_margin < view.alone.chance_two_margins
    assert view.alone.chance_two_margins == pytest.approx(t_power(1.0, n=10, alpha=0.05))
    assert view.alone.seeds_difference == 34
    text = " ".join(sentences(view))
    assert "10 seeds, 10 contrasts" in text
    assert "34 to 58 seeds" in text
    assert "undecidable" not in text


@pytest.mark.parametrize(
    ("n", "k", "said"),
    [
        (1, 3, "every contrast: 1 seed gives estimates only"),
        (2, 3, "every contrast: 2 seeds give estimates only"),
        (4, 1, "every contrast in which a run fails: its exact p is at least 0.125"),
        (7, 5, "a contrast in which a run fails, unless enough other contrasts"),
    ],
)
def test_outlook_says_what_cannot_be_decided(n: int, k: int, said: str) -> None:
    view = outlook(n=n, k=k, plan=Plan())
    assert said in "; ".join(view.undecidable)
    assert any(said in line for line in sentences(view))
    if n > 2:
        assert any("normal theory only" in line for line in sentences(view))
