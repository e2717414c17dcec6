"""Two studies paired by variant and seed: against scipy, and against what the studies' own reports say."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from knockout.analysis.diff.paired import diff_studies
from knockout.analysis.diff.sides import DiffError
from knockout.analysis.diff.texts import answer, diff_table, markdown_text, sentence, write_diff
from knockout.analysis.publish import pack_study
from knockout.analysis.report.study import judge_study
from knockout.analysis.results import load
from knockout.design import write_design
from knockout.ledger import run_config
from knockout.record import write_record
from knockout.study import read_study
from tests.analysis.conftest import DATA_ID, TEST, BuildStudy, data_summary, outcome
from tests.command_line import knockout

BEFORE: Mapping[str, Sequence[int | str]] = {
    "baseline": [300, 304, 296, 302, 299, 301, 298, 303],
    "heads_1": [290, 293, 287, 289, 288, 291, 290, 292],
    "pool_max": [301, 300, 297, 303, 300, 299, 298, 302],
}
AFTER: Mapping[str, Sequence[int | str]] = {
    "baseline": [300, 304, 296, 302, 299, 301, 298, 303],
    "heads_1": [301, 303, 299, 300, 297, 304, 301, 303],
    "pool_max": [301, 300, 297, 303, 301, 299, 298, 302],
    "post_norm": [300, 300, 300, 300, 300, 300, 300, 301],
}


def other_study(
    folder: Path, *, seeds: Sequence[int], data_id: str = DATA_ID, rest: str = "", torch: str = "2.13", right: int = 300
) -> Path:
    """A study of baseline and heads_1, with what tests want to be different."""
    folder.mkdir()
    path = folder / "other.toml"
    path.write_text(
        f'question = "q"\nvariants = ["heads_1"]\nseeds = {list(seeds)}\n[data]\nsource = "rotten_tomatoes"\n{rest}',
        encoding="utf-8",
    )
    study = read_study(path)
    root = folder / "other"
    for i, run in enumerate(write_design(root, study, data_id=data_id, data_summary=data_summary())):
        write_record(
            root,
            config=run_config(study, run, data_id=data_id),
            outcome=outcome(run, right + i % 5),
            environment={"torch": torch, "python": "3.11", "device": "cpu"},
            ended="2026-01-01T00:00:00",
            log="",
        )
    return root


def test_differences_are_those_of_scipy_and_holm_is_over_the_arms(build_study: BuildStudy) -> None:
    found = diff_studies(build_study(BEFORE, name="before"), build_study(AFTER, name="after"))
    assert [c.variant for c in found.contrasts] == ["baseline", "heads_1", "pool_max"]
    raw, equal, margin = [], [], found.comparison.plan.margin
    for contrast in found.contrasts:
        d = np.array(AFTER[contrast.variant], float) - np.array(BEFORE[contrast.variant], float)
        points = 100 * d / TEST
        assert contrast.estimate is not None
        assert contrast.estimate.difference == pytest.approx(points.mean())
        n = len(d)
        if points.std() == 0:  # exact tests: every pattern of signs is as likely
            raw.append(1.0)
            equal.append(0.5**n)
            continue
        tested = stats.ttest_1samp(points, 0.0)
        ends = tested.confidence_interval(0.95)
        assert (contrast.estimate.low, contrast.estimate.high) == pytest.approx((ends.low, ends.high))
        raw.append(float(tested.pvalue))
        sides = (
            stats.ttest_1samp(points, -margin, alternative="greater").pvalue,
            stats.ttest_1samp(points, margin, alternative="less").pvalue,
        )
        equal.append(float(max(sides)))
    assert [c.p for c in found.contrasts] == pytest.approx(raw)
    assert [c.p_holm for c in found.contrasts] == pytest.approx(multipletests(raw, method="holm")[1])
    assert [c.p_tost for c in found.contrasts] == pytest.approx(equal)
    assert [c.p_tost_holm for c in found.contrasts] == pytest.approx(multipletests(equal, method="holm")[1])
    assert [c.verdict for c in found.contrasts] == ["equivalent", "better", "equivalent"]


def test_the_other_way_round_every_difference_has_the_other_sign(build_study: BuildStudy) -> None:
    before, after = build_study(BEFORE, name="before"), build_study(AFTER, name="after")
    there, back = diff_studies(before, after), diff_studies(after, before)
    for a, b in zip(there.contrasts, back.contrasts, strict=True):
        assert a.estimate is not None
        assert b.estimate is not None
        assert a.estimate.difference == -b.estimate.difference
        assert a.p_holm == b.p_holm
    assert (there.only_before, there.only_after) == ((), ("post_norm",))
    assert (back.only_before, back.only_after) == (("post_norm",), ())


def test_a_study_is_bit_identical_with_itself(build_study: BuildStudy) -> None:
    root = build_study({**BEFORE, "post_norm": [300, "diverged", "dead", 300, 300, 300, 300, 300]})
    found = diff_studies(root, root)
    assert found.total.identical == found.total.pairs == 32
    assert found.differences == ()
    assert not any(moved.moved for moved in found.verdicts)
    for contrast in found.contrasts:
        assert contrast.estimate is not None
        assert contrast.estimate.difference == 0
    assert {c.variant: c.verdict for c in found.contrasts if c.variant != "post_norm"} == dict.fromkeys(
        BEFORE, "equivalent"
    )
    assert answer(found)[0] == "All 32 pairs of runs are bit-identical (predictions and losses)."


def test_identity_counts_pairs_of_runs(build_study: BuildStudy) -> None:
    found = diff_studies(build_study(BEFORE, name="before"), build_study(AFTER, name="after"))
    same = {
        arm: sum(a == b for a, b in zip(BEFORE[arm], AFTER[arm], strict=True)) for arm in BEFORE
    }  # the fixture's predictions follow from the count, and its losses from the seed
    assert {arm: i.identical for arm, i in found.identity.items()} == same
    assert {arm: i.predictions for arm, i in found.identity.items()} == same
    assert {i.losses for i in found.identity.values()} == {8}


def test_verdicts_are_those_of_both_reports(build_study: BuildStudy) -> None:
    roots = (
        build_study(BEFORE, name="before"),
        build_study({**AFTER, "pool_max": [*[301] * 7, "missing"]}, name="after"),
    )
    found = diff_studies(*roots)
    labels = [{c.variant: c.label for c in judge_study(load(root)).comparison.contrasts} for root in roots]
    assert {m.variant: (m.before, m.after) for m in found.verdicts} == {
        v: (labels[0][v], labels[1][v]) for v in ("heads_1", "pool_max")
    }
    assert found.contrasts[2].label == "inconclusive (incomplete: 7 of 8)"
    text = " ".join(answer(found))
    assert f"heads_1: worse -> {labels[1]['heads_1']}" in text


def test_a_run_that_fails_in_b_alone_counts_as_worst(build_study: BuildStudy) -> None:
    broken = {**BEFORE, "heads_1": ["diverged"] * 8}
    found = diff_studies(build_study(BEFORE, name="before"), build_study(broken, name="after"))
    heads = found.contrasts[1]
    assert heads.test == "worst_rank"
    assert heads.p == pytest.approx(2 * 0.5**8)  # all signs alike: the smallest exact p
    assert heads.verdict == "worse"


def test_only_seeds_of_both_count(build_study: BuildStudy, tmp_path: Path) -> None:
    before = build_study(BEFORE, name="before")
    found = diff_studies(before, other_study(tmp_path / "b", seeds=[2, 3, 4, 5, 99]))
    assert found.comparison.seeds == (2, 3, 4, 5)
    assert found.only_before == ("pool_max",)


def test_a_packed_file_counts_like_its_folder(build_study: BuildStudy, tmp_path: Path) -> None:
    before, after = build_study(BEFORE, name="before"), build_study(AFTER, name="after")
    expected = diff_table(diff_studies(before, after))
    pack_study(after, after / "records-new.parquet")
    assert diff_table(diff_studies(before, after / "records-new.parquet")).equals(expected)
    elsewhere = tmp_path / "alone"
    elsewhere.mkdir()
    (after / "records-new.parquet").rename(elsewhere / "r.parquet")
    with pytest.raises(DiffError, match=r"design.json has to lie beside it"):
        diff_studies(before, elsewhere / "r.parquet")


def test_what_differs_between_the_designs_is_named(build_study: BuildStudy, tmp_path: Path) -> None:
    before = build_study(BEFORE, name="before")
    rest = "[baseline]\ndropout = 0.3\n[train]\nepochs = 2\n[plan]\nmargin = 0.7\n"
    found = diff_studies(before, other_study(tmp_path / "b", seeds=[0, 1, 2], rest=rest, torch="2.14"))
    named = {(d.of, d.key): (d.before, d.after) for d in found.differences}
    assert named["plan", "margin"] == (0.5, 0.7)
    assert named["recipe", "epochs"][1] == 2
    assert named["baseline", "dropout"][1] == 0.3
    assert named["libraries and machine", "torch"] == ("2.13", "2.14")
    assert named["plan", "seeds"] == (list(range(8)), [0, 1, 2])
    assert ("data", "id") not in named


@pytest.mark.parametrize(
    ("seeds", "data_id", "rest", "says"),
    [
        ([0, 1], "cd" * 32, "", "other data"),
        ([50, 51], DATA_ID, "", r"no seed in common \(A: 0, 1.*; B: 50, 51\)"),
        ([0, 1], DATA_ID, '[plan]\nmetric = "macro_f1"\n', "judged by accuracy and B by macro_f1"),
    ],
)
def test_what_cannot_be_compared_is_said_with_the_way_on(
    seeds: Sequence[int], data_id: str, rest: str, says: str, build_study: BuildStudy, tmp_path: Path
) -> None:
    before = build_study(BEFORE, name="before")
    other = other_study(tmp_path / "b", seeds=seeds, data_id=data_id, rest=rest)
    with pytest.raises(DiffError, match=says):
        diff_studies(before, other)


def test_other_test_labels_are_no_pairs(build_study: BuildStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    root = build_study(BEFORE)
    sides = iter([load(root), replace(load(root), labels_sha256="0" * 64)])
    monkeypatch.setattr("knockout.analysis.diff.paired.read_side", lambda _: next(sides))
    with pytest.raises(DiffError, match="other labels"):
        diff_studies(root, root)


def test_nothing_to_read(build_study: BuildStudy, tmp_path: Path) -> None:
    before = build_study(BEFORE, name="before")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DiffError, match=r"x\.parquet: not readable"):
        diff_studies(before, tmp_path / "x.parquet")
    with pytest.raises(DiffError, match="no such folder"):
        diff_studies(before, tmp_path / "gone")
    empty = build_study({arm: ["missing"] * 8 for arm in BEFORE}, name="empty")
    with pytest.raises(DiffError, match=r"B: .*no run has a result yet"):
        diff_studies(before, empty)


def test_the_report_of_a_diff(build_study: BuildStudy, tmp_path: Path) -> None:
    before, after = build_study(BEFORE, name="before"), build_study(AFTER, name="after")
    found = diff_studies(before, after)
    paths = write_diff(found, tmp_path / "to")
    first = {name: path.read_bytes() for name, path in paths.items()}
    assert {p.name for p in (tmp_path / "to").iterdir()} == set(first)
    write_diff(diff_studies(before, after), tmp_path / "to")
    assert {name: path.read_bytes() for name, path in paths.items()} == first
    accounted = json.loads(first["analysis.json"])
    assert [v["sentence"] for v in accounted["verdicts"]] == [
        sentence(c, found.identity[c.variant]) for c in found.contrasts
    ]
    assert "heads_1 is better in B than in A" in markdown_text(found)
    with pytest.raises(DiffError, match="folder of a study"):
        write_diff(found, before)
    (tmp_path / "to" / "mine.txt").write_text("mine")
    with pytest.raises(DiffError, match="name another folder"):
        write_diff(found, tmp_path / "to")


def test_the_command_fits_80_columns_and_names_what_moved(
    build_study: BuildStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_study(BEFORE, name="before")
    build_study(AFTER, name="after")
    monkeypatch.setattr("knockout.terminal.out.width", 80)
    done = knockout("diff", "before", "after", "--to", "written", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = done.stdout.split("\n\n")[1].splitlines()  # sentences are wrapped on a terminal only
    assert [line.split()[0] for line in table] == ["arm", *BEFORE]
    assert max(map(len, table)) <= 80
    words = " ".join(done.stdout.split())
    assert "In B heads_1 (" in words
    assert "Only B has post_norm." in words
    assert (tmp_path / "written" / "diff.md").is_file()
    quiet = knockout("diff", "before", "after", "-q", cwd=tmp_path)
    assert quiet.stdout.splitlines() == ["15 of 24 pairs of runs are bit-identical."]
    refused = knockout("diff", "before", "gone", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")


def test_of_studies_that_stop_when_all_is_decided_the_seeds_that_both_ran_count(build_study: BuildStudy) -> None:
    base = [300, 304, 296, 302, 299, 301, 298, 303]
    before = build_study({"baseline": base, "heads_1": [x - 9 for x in base]}, name="before", anytime=12)
    after = build_study({"baseline": base[:6], "heads_1": [x + 9 for x in base[:6]]}, name="after", anytime=12)
    found = diff_studies(before, after)
    assert found.comparison.seeds == (0, 1, 2, 3, 4, 5)
    assert any("take their number as fixed" in " ".join(note.split()) for note in found.comparison.notes)
    heads = found.contrasts[1]
    assert heads.estimate is not None
    assert heads.estimate.difference == pytest.approx(100 * 18 / TEST)
    own = [{c.variant: c.label for c in judge_study(load(root)).comparison.contrasts} for root in (before, after)]
    assert [(m.before, m.after) for m in found.verdicts] == [(own[0]["heads_1"], own[1]["heads_1"])]


def test_placebo_arms_are_paired_like_any_other(build_study: BuildStudy) -> None:
    counts = {**BEFORE, "placebo_1": [298, 303, 299, 301, 300, 297, 302, 299]}
    found = diff_studies(build_study(counts, name="before"), build_study({**AFTER, "placebo_1": BEFORE["baseline"]}))
    assert [c.variant for c in found.contrasts] == [*BEFORE, "placebo_1"]
    assert {c.family for c in found.contrasts} == {4}
