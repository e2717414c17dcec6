"""The simulations repeat, each can fail, and what is committed is what the script defines."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from analysis.calibration import simulate as sim
from analysis.calibration.__main__ import judged, main, page, read, run, write
from analysis.calibration.settings import Case, cases
from analysis.calibration.simulate import METRIC, PLAN, SPREAD, Law
from analysis.calibration.unpaired import Sizes, unpaired_error
from scipy import stats

from knockout.analysis.inference.pairs import Pair, complete, differences, estimate
from knockout.analysis.inference.verdict import Judgement
from knockout.analysis.stats.independent import Welch

REPOSITORY = Path(__file__).parents[2]
COMMITTED = REPOSITORY / "results" / "calibration"
ONE_OF_EACH_PART = ("coverage/normal/n3", "family/normal/n5/k5", "power/arm-sd/n5", "peeking/t/family", "worst-rank/n6")


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def case(name: str) -> Case:
    return next(c for c in cases() if c.id == name)


def test_the_same_csv_twice_on_one_process_and_on_two(tmp_path: Path) -> None:
    chosen = [replace(case(name), repetitions=260) for name in ONE_OF_EACH_PART[:1]]
    chosen += [replace(case(name), repetitions=20) for name in ONE_OF_EACH_PART[1:]]
    for processes in (1, 2):
        write(run(chosen, processes=processes), tmp_path / str(processes))
    for name in ("calibration.csv", "calibration.md"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_cell_keeps_its_random_numbers_whatever_runs_beside_it() -> None:
    chosen = [replace(case(name), repetitions=30) for name in ("coverage/normal/n3", "coverage/normal/n5")]
    assert run(chosen, processes=1)[1] == run(chosen[1:], processes=1)[0]


@pytest.mark.parametrize("law", ["normal", "skewed arms", "skewed differences", "very skewed differences"])
def test_nothing_differs_under_the_null_and_the_margin_is_one_sd(law: Law) -> None:
    r = rng()
    drawn = np.concatenate([differences(*complete(p)) for p in sim.study(r, law, n=2000, k=20)])
    heavy = 10 if law == "very skewed differences" else 4
    assert abs(drawn.mean()) < heavy * SPREAD / np.sqrt(2000)  # of 20 contrasts that share a baseline
    assert drawn.std() == pytest.approx(SPREAD, rel=0.15)
    assert all(float(x).is_integer() for x in drawn)
    assert pytest.approx(SPREAD * METRIC.scale) == PLAN.margin


def test_failures_fall_where_the_law_says() -> None:
    alone = sim.study(rng(), "one variant fails at .2", n=500, k=3)
    rates = [sum(p.state != "complete" for p in pairs) / 500 for pairs in alone]
    assert rates[0] == pytest.approx(0.2, abs=0.06)
    assert rates[1:] == [0, 0]
    every = sim.study(rng(), "every run fails at .2", n=500, k=2)
    for pairs in every:
        told = [p.state for p in pairs]
        assert told.count("variant failed") / 500 == pytest.approx(0.16, abs=0.06)
        assert told.count("baseline failed") / 500 == pytest.approx(0.16, abs=0.06)
        assert told.count("both failed") / 500 == pytest.approx(0.04, abs=0.03)


def test_correctness_has_the_variances_that_it_is_asked_for() -> None:
    d = sim.correctness(rng(), seeds=400, texts=2000, seed_sd=0.05, text_sd=0.08, discordant=0.2)
    assert set(np.unique(d)) == {-1, 0, 1}
    assert np.abs(d).mean() == pytest.approx(0.2, abs=0.005)
    assert d.mean(axis=1).std() == pytest.approx(0.05, abs=0.006)
    assert d.mean(axis=0).std() == pytest.approx(np.hypot(0.08, 0.43 / 20), abs=0.01)


def test_a_part_of_the_cases_runs_again_and_the_other_rows_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [replace(case(name), repetitions=20) for name in ("coverage/normal/n3", "worst-rank/n6")]
    chosen.append(replace(case("unpaired/coverage/3v3"), repetitions=20))
    whole = run(chosen, processes=1)
    monkeypatch.setattr("analysis.calibration.__main__.cases", lambda: chosen)
    write(whole[:1] + whole[2:], tmp_path)
    main(["--only", "worst-rank/", "--into", str(tmp_path)])
    assert read(tmp_path / "calibration.csv") == whole
    write(whole[1:], tmp_path)
    with pytest.raises(SystemExit, match="coverage/normal/n3 is not there"):
        main(["--only", "worst-rank/", "--into", str(tmp_path)])
    write([replace(whole[0], repetitions="10"), *whole[1:]], tmp_path)
    with pytest.raises(SystemExit, match="of an earlier setting"):
        main(["--only", "worst-rank/", "--into", str(tmp_path)])


# A simulation that could not tell a bad procedure from a good one would show nothing: each of these is a bad one.


def test_naive_peeking_is_caught() -> None:
    values = sim.naive_peeking(rng(), 120, first=3, last=20)
    assert judged(replace(case("peeking/t"), claim="at most", nominal=0.05), list(values)).within == "no"


def test_unadjusted_intervals_are_caught() -> None:
    unadjusted = sim.unadjusted_error(rng(), 100, n=8, k=10)
    assert unadjusted.mean() > 0.2
    row = judged(case("family/normal/n8/k10"), list(unadjusted))
    assert row.within == "no"
    assert re.fullmatch(r"above 0\.05 by 0\.\d{3}, \d+ standard errors: not explained", row.deviation)


def test_a_family_judged_without_holm_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unadjusted(p: list[float], k: int) -> tuple[float, ...]:
        assert len(p) == k
        return tuple(p)

    monkeypatch.setattr("knockout.analysis.inference.verdict.holm", unadjusted)
    values = sim.family_error(rng(), 100, law="normal", n=8, k=10)
    assert judged(case("family/normal/n8/k10"), list(values)).within == "no"


def test_a_t_interval_of_normal_width_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(variant: list[float], baseline: list[float], worth: float, sign: int) -> object:
        found = estimate(variant, baseline, worth, sign)
        assert found is not None
        assert found.sd is not None
        half = 1.96 * found.sd / np.sqrt(found.n)
        return replace(found, low=found.difference - half, high=found.difference + half)

    monkeypatch.setattr(sim, "estimate", narrow)
    row = judged(case("coverage/normal/n3"), list(sim.coverage(rng(), 300, law="normal", n=3)))
    assert row.within == "no"
    assert float(row.estimate) == pytest.approx(0.82, abs=0.07)  # z196 of sim_ci_coverage


def test_equivalence_at_half_the_margin_is_no_error_and_beyond_it_would_be_rare() -> None:
    inside = sim.called_alike(rng(), 60, n=20, k=1, effect=0.2)
    beyond = sim.called_alike(rng(), 60, n=20, k=1, effect=1.5)
    assert inside.mean() > 0.8
    assert beyond.mean() < 0.05


def test_student_s_pooled_variance_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the smaller arm the noisier one, Student's test rejects far too often, and Welch's does not."""

    def pooled(a: list[float], b: list[float]) -> Welch:
        found = stats.ttest_ind(a, b, equal_var=True)
        return Welch(t=float(found.statistic), df=float(found.df), p=float(found.pvalue), low=0.0, high=0.0)

    claim, sizes = case("unpaired/error/5v20-sd3/k1"), Sizes(variant=5, baseline=20, ratio=3)
    honest = unpaired_error(rng(), 400, sizes=sizes, k=1)
    monkeypatch.setattr("knockout.analysis.inference.unpaired.welch", pooled)
    values = unpaired_error(rng(), 400, sizes=sizes, k=1)
    assert judged(claim, list(honest)).within == "yes"
    assert judged(claim, list(values)).within == "no"


def test_an_effect_is_found_and_none_is_not() -> None:
    assert sim.power(rng(), 40, n=10, k=2, true=1, effect=3, correlation=0.5).mean() > 0.9
    assert sim.power(rng(), 40, n=10, k=2, true=1, effect=0, correlation=0.5).mean() < 0.2


def test_a_plugged_in_variance_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """An e-process for a known variance with the sample's in its place."""

    def plugged_in(d: list[float]) -> tuple[float, ...]:
        found = [1.0]
        for n in range(2, len(d) + 1):
            z = float(np.mean(d[:n]) / np.std(d[:n], ddof=1)) * np.sqrt(n)
            found.append(float(np.exp(min(700.0, z * z / 2 * n / (1 + n))) / np.sqrt(1 + n)))
        return tuple(found)

    honest = sim.peeking(rng(), 400, process="t", last=40)
    monkeypatch.setattr(sim, "t_process", plugged_in)
    values = sim.peeking(rng(), 400, process="t", last=40)
    assert judged(case("peeking/t"), list(honest)).within == "yes"
    assert judged(case("peeking/t"), list(values)).within == "no"


def test_intervals_that_count_one_source_only_are_caught() -> None:
    given = {"seeds": 20, "texts": 500, "seed_sd": 0.001, "text_sd": 0.15}
    short = sim.seeds_only_coverage(rng(), 150, **given)  # type: ignore[arg-type]  # two of them are whole
    both = sim.two_source_coverage(rng(), 150, **given)  # type: ignore[arg-type]
    claim = case("two-source/seeds.1-texts8.5/20x2000")
    assert judged(claim, list(short)).within == "no"
    assert judged(claim, list(both)).within == "yes"
    assert judged(claim, list(sim.mcnemar_coverage(rng(), 200, texts=2000, seed_sd=0.02))).within == "no"


def test_a_failure_that_touched_others_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sim.touched(rng(), 10, n=6, k=2).sum() == 0

    def pooled(paired: list[list[Pair]]) -> list[Judgement]:
        """As tools do that drop a seed from every arm."""
        kept = [s for s in range(6) if all(p[s].state == "complete" for p in paired)]
        return honest([[p[s] for s in kept] for p in paired])

    honest = sim.verdicts
    monkeypatch.setattr(sim, "verdicts", pooled)
    assert sim.touched(rng(), 10, n=6, k=2).sum() > 0


def test_claims_are_judged_as_the_page_says() -> None:
    told = partial(Case, id="x", part="p", setting="s", what="w", repetitions=100, simulate=lambda _, n: np.zeros(n))
    tenth = [1.0] * 10 + [0.0] * 90  # .1, se .03
    for given, within in (
        (told(claim="at most", nominal=0.05), "yes"),
        (told(claim="at most", nominal=0.005), "no"),
        (told(claim="is", nominal=0.15), "yes"),
        (told(claim="is", nominal=0.2), "no"),
        (told(claim="between", nominal=0.15, upper=0.3), "yes"),
        (told(claim="between", nominal=0.2, upper=0.3), "no"),
        (told(claim="between", nominal=0.0, upper=0.005), "no"),
        (told(claim="about", nominal=0.19), "yes"),
        (told(claim="about", nominal=0.3, because="a reason"), "no"),
    ):
        row = judged(given, tenth)
        assert (row.within, bool(row.deviation)) == (within, within == "no")
    assert row.deviation == "below 0.3 by 0.200, 7 standard errors: a reason"


def test_what_is_committed_is_what_the_script_defines() -> None:
    rows = read(COMMITTED / "calibration.csv")
    defined = cases()
    assert [(r.id, r.part, r.setting, r.what, r.claim) for r in rows] == [
        (c.id, c.part, c.setting, c.what, c.claim) for c in defined
    ]
    assert [int(r.repetitions) for r in rows] == [c.repetitions for c in defined]
    assert (COMMITTED / "calibration.md").read_text(encoding="utf-8") == page(rows)


def test_the_committed_page_says_of_every_row_that_is_not_within_how_it_deviates_and_why() -> None:
    rows = read(COMMITTED / "calibration.csv")
    told = (COMMITTED / "calibration.md").read_text(encoding="utf-8").split("## What is not within")[1]
    listed, tables = told.split("\n## ", 1)
    missed = [r for r in rows if r.within == "no"]
    assert listed.count("\n- ") == len(missed)
    for r in missed:
        assert f"{r.setting}: {r.what}: {r.estimate}, {r.deviation}" in listed
        assert f"| {r.deviation} |" in tables
        assert "not explained" not in r.deviation


def test_the_figures_of_the_readme_are_those_of_the_csv() -> None:
    text = (REPOSITORY / "analysis" / "README.md").read_text(encoding="utf-8")
    rows = {r.id: r for r in read(COMMITTED / "calibration.csv")}
    told = re.findall(r"^\| .* \| (\.\d+(?:, \.\d+)*) \| `(.+)` \|$", text, re.MULTILINE)
    assert len(told) == 30
    for figures, pattern in told:
        before, _, rest = pattern.partition("{")
        chosen, _, after = rest.partition("}")
        for figure, part in zip(figures.split(", "), chosen.split(","), strict=True):
            assert float(figure) == pytest.approx(float(rows[before + part + after].estimate), abs=0.00051)
