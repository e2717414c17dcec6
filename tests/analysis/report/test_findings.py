"""The answer in plain words, against the numbers that it is made of."""

import re

import pytest

from knockout.analysis import Comparison, compare
from knockout.analysis.report.findings import NAMED, findings
from knockout.job import Floor
from tests.analysis.frames import BASE, MOVED, Cell, tidy


def judged(arms: dict[str, list[Cell]], *, margin: float = 1.0) -> Comparison:
    return compare(tidy({"base": BASE, **arms}), baseline="base", metric="accuracy", margin=margin)


def lines(comparison: Comparison, *, done: int = 1, planned: int = 1, floors: tuple[Floor, ...] = ()) -> dict[str, str]:
    """verdict -> its line; lines about none under their first word."""
    found = findings(comparison.contrasts, done=done, planned=planned, floors=floors)
    return {f.verdict.text if f.verdict else f.text.split()[0]: f.text for f in found}


def test_each_verdict_has_a_line_that_counts_and_names() -> None:
    arms: dict[str, list[Cell]] = {
        "up": list(MOVED),
        "down": [x - 0.05 + 0.001 * (i % 2) for i, x in enumerate(BASE)],
        "same": [x + 0.0001 * (-1) ** i for i, x in enumerate(BASE)],
    }
    comparison = judged(arms)
    verdicts = {c.variant: c.verdict for c in comparison.contrasts}
    assert verdicts == {"up": "better", "down": "worse", "same": "equivalent"}
    said = lines(comparison)
    up = sum(a - b for a, b in zip(MOVED, BASE, strict=True)) / len(BASE) * 100
    assert said["better"] == f"1 of 3 variants does better than the baseline in accuracy: up (+{up:.2f} points)."
    assert said["worse"].startswith("1 of 3 variants does worse than the baseline in accuracy: down (−4.9")
    assert said["equivalent"] == "1 of 3 variants makes no difference as large as 1 point: same."
    assert list(said)[:2] == ["worse", "better"]
    assert "inconclusive" not in said


def test_a_changed_number_changes_the_line() -> None:
    first = judged({"up": list(MOVED)})
    second = judged({"up": [x + 0.01 for x in MOVED]})
    assert first.contrasts[0].estimate is not None
    assert second.contrasts[0].estimate is not None
    assert f"+{first.contrasts[0].estimate.difference:.2f} points" in lines(first)["better"]
    assert f"+{second.contrasts[0].estimate.difference:.2f} points" in lines(second)["better"]
    assert lines(first)["better"] != lines(second)["better"]
    told = re.search(r"(\d+) seeds per variant, the baseline at ([\d.]+) % accuracy", lines(first)["How"])
    assert told is not None
    assert int(told[1]) == len(BASE)
    assert float(told[2]) == pytest.approx(100 * sum(BASE) / len(BASE), abs=0.0051)


def test_failed_runs_and_an_open_verdict_are_said() -> None:
    comparison = judged(
        {"dies": [*MOVED[:6], "diverged", "diverged"], "open": [x + 0.02 * (-1) ** i for i, x in enumerate(BASE)]}
    )
    said = lines(comparison)
    assert "dies (2 of 8 runs failed)" in " ".join(said.values())
    assert "neither a difference nor its absence within 1 point is shown" in said["inconclusive"]


def test_an_unfinished_study_and_a_floor_above_the_baseline_come_first() -> None:
    floor = Floor(name="a linear model", scores={"accuracy": 0.9}, made="from the texts")
    found = findings(judged({"up": list(MOVED)}).contrasts, done=3, planned=16, floors=(floor,))
    assert found[0].text.startswith("The baseline's mean accuracy, 80.1 %, is 9.9 points below what a linear model")
    assert found[1].text == "The study is not complete: 3 of 16 runs came to a result."
    lower = Floor(name="a linear model", scores={"accuracy": 0.5}, made="from the texts")
    assert "below" not in lines(judged({"up": list(MOVED)}), floors=(lower,)).get("The", "")


def test_many_variants_are_counted_and_not_all_named() -> None:
    said = lines(judged({f"v{i:02}": [x - 0.05 + 0.001 * (j % 2) for j, x in enumerate(BASE)] for i in range(20)}))
    assert said["worse"].startswith("20 of 20 variants do worse")
    assert said["worse"].endswith(f" and {20 - NAMED} more.")
