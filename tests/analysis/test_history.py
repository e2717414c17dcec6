import json
from pathlib import Path

from knockout.analysis import history
from knockout.analysis.report.write import write_report
from knockout.analysis.results import load
from knockout.design import write_design
from knockout.files import replace_json
from tests.analysis.conftest import DATA_ID, BuildStudy, data_summary, write_run, write_study

CLAIM = '[[claims]]\nid = "X"\nvariant = "heads_1"\nsays = "{}"\n'


def _again(root: Path, variants: list[str], seeds: int | str, *, claims: str = "", extra: str = "") -> None:
    """The study's file is changed, and run again."""
    study = write_study(root.parent, variants, seeds, name="synthetic", claims=claims, extra=extra)
    known = {p.name for p in (root / "runs").iterdir()}
    for run in write_design(root, study, data_id=DATA_ID, data_summary=data_summary()):
        if f"{run.variant}-s{run.seed}-{run.id[:12]}" not in known:
            write_run(root, study, run, 300 + run.seed % 9)


def test_nothing_changed_is_said(build_study: BuildStudy) -> None:
    results = load(build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]}))
    assert history.exploratory(results) == {}
    assert history.dropped(results) == []
    assert history.later_claims(results) == set()
    rows = dict(history.provenance_rows(results, version="1"))
    assert "unchanged" in rows["Study"]
    assert "unchanged" in rows["Plan"]
    assert (rows["Rows dropped"], rows["Host"], rows["torch"]) == ("repeated text: 31", "box", "2.13")


def test_a_variant_that_was_added_later_is_exploratory(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    _again(root, ["heads_1", "no_scale"], 3)
    report = write_report(root)
    assert history.exploratory(report.results) == {"no_scale": "added after the first run"}
    html = report.paths["report.html"].read_text(encoding="utf-8")
    rows = [line for line in html.splitlines() if '<th class="name">' in line and "→" in line]
    assert [">exploratory<" in row for row in rows] == [False, True]
    assert "CHANGED since the first run" in html
    last = report.paths["contrasts.csv"].read_text(encoding="utf-8").splitlines()[-1]
    assert last.startswith("no_scale,")
    assert last.endswith(",added after the first run")


def test_other_seeds_make_every_contrast_exploratory(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    _again(root, ["heads_1"], 4)
    assert history.exploratory(load(root)) == {"heads_1": "the seeds changed after the first run"}


def test_another_margin_makes_every_contrast_exploratory(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    _again(root, ["heads_1"], 3, extra="[plan]\nmargin = 2.0")
    assert history.exploratory(load(root)) == {"heads_1": "the plan's margin changed after the first run"}


def test_a_variant_that_was_dropped_still_counts(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302], "no_scale": [290, 292, 295]})
    _again(root, ["heads_1"], 3)
    report = write_report(root)
    assert history.dropped(report.results) == ["no_scale"]
    assert [c.family for c in report.contrasts] == [2]
    assert "no_scale (still counted by Holm)" in report.paths["report.md"].read_text(encoding="utf-8")
    assert report.results.others == 3


def test_claims_that_were_turned_later_are_exploratory(build_study: BuildStudy) -> None:
    correct: dict[str, list[int | str]] = {"baseline": [300, 301, 303], "heads_1": [300, 304, 302]}
    root = build_study(correct, claims=CLAIM.format("worse"))
    assert history.later_claims(load(root)) == set()
    _again(root, ["heads_1"], 3, claims=CLAIM.format("better"))
    assert history.later_claims(load(root)) == {"X"}
    assert "exploratory: stated after" in write_report(root).paths["report.md"].read_text(encoding="utf-8")


def test_a_trainer_without_texts_is_described(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    design = json.loads((root / "design.json").read_text(encoding="utf-8"))
    del design["sha256"]
    replace_json(root / "design.json", {**design, "data": {"id": "none"}, "recipe": {}})
    report = write_report(root)
    assert "Data" not in dict(history.design_rows(report.results))
    html = report.paths["report.html"].read_text(encoding="utf-8")
    assert "nothing tuned per variant" in html
    assert "Dotted: ln" not in html


def test_placebos_that_are_added_later_make_nothing_exploratory(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302], "placebo_1": [301, 300, 302]})
    assert history.later_placebos(load(root)) == []
    _again(root, ["heads_1"], 3, extra="placebo = 3")
    results = write_report(root).results
    assert results.placebos == ["placebo_1", "placebo_2", "placebo_3"]
    assert history.exploratory(results) == {}
    assert history.later_placebos(results) == ["placebo_2", "placebo_3"]
    rows = dict(history.provenance_rows(results, version="1"))
    assert rows["Placebo arms added since the first run"] == "placebo_2, placebo_3"
    assert dict(history.design_rows(results))["Placebo arms"] == "3: the baseline on other streams"


def test_more_seeds_for_an_e_process_are_no_change_and_another_process_or_none_is(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]}, anytime=9)
    told = dict(history.design_rows(load(root)))["Seeds"]
    assert told == "at most 9 (0 to 8), in order until the sign e-process has decided every contrast"
    _again(root, ["heads_1"], '"anytime"\nmax_seeds = 12')
    assert history.exploratory(load(root)) == {}
    _again(root, ["heads_1"], 9)
    assert history.exploratory(load(root)) == {"heads_1": "the seeds changed after the first run"}
    (root.parent / "other.toml").write_text('anytime = "t"\n', encoding="utf-8")
    _again(root, ["heads_1"], '"anytime"\nmax_seeds = 9\nplan = "other.toml"')
    assert history.exploratory(load(root)) == {"heads_1": "the e-process changed after the first run"}
