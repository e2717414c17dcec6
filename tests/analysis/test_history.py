import hashlib
from dataclasses import replace
from pathlib import Path

from knockout.analysis import history
from knockout.analysis.report.write import write_report
from knockout.analysis.results import load
from knockout.design import write_design
from knockout.files import replace_json
from knockout.study import read_study
from tests.analysis.conftest import DATA_ID, BuildStudy, data_summary, write_run, write_study
from tests.designs import raw_design

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
    rows = [line for line in html.splitlines() if '<th scope="row" class="name">' in line and "→" in line]
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
    assert "no_scale (still counted by Holm)" in report.paths["details.md"].read_text(encoding="utf-8")
    assert report.results.others == 3


def test_claims_that_were_turned_later_are_exploratory(build_study: BuildStudy) -> None:
    correct: dict[str, list[int | str]] = {"baseline": [300, 301, 303], "heads_1": [300, 304, 302]}
    root = build_study(correct, claims=CLAIM.format("worse"))
    assert history.later_claims(load(root)) == set()
    _again(root, ["heads_1"], 3, claims=CLAIM.format("better"))
    assert history.later_claims(load(root)) == {"X"}
    assert "exploratory: stated after" in write_report(root).paths["details.md"].read_text(encoding="utf-8")


def _head(root: Path) -> str:
    return write_report(root).paths["report.md"].read_text(encoding="utf-8").partition("\n## ")[0]


def test_another_recipe_is_told_in_the_head_with_the_old_and_the_new_value(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    _again(root, ["heads_1"], 3, extra="[train]\nepochs = 6")
    why = "the recipe's epochs changed from 3 to 6 after the first run"
    assert history.exploratory(load(root)) == {"heads_1": why}
    assert why in _head(root)


def test_other_data_are_told_in_the_head(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    study = read_study(root.parent / "synthetic.toml")
    for run in write_design(root, study, data_id="cd" * 32, data_summary=data_summary()):
        write_run(root, study, run, 300, data_id="cd" * 32)
    why = f"the data changed from id {DATA_ID} to id {'cd' * 32} after the first run"
    assert history.exploratory(load(root)) == {"heads_1": why}
    assert why in _head(root)
    path = root.parent / "synthetic.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('"rotten_tomatoes"', '"a.csv"'), encoding="utf-8")
    write_design(root, read_study(path), data_id="ef" * 32, data_summary=data_summary())
    why = 'the data\'s source changed from "rotten_tomatoes" to "a.csv" after the first run'
    assert history.exploratory(load(root)) == {"heads_1": why}


def test_a_variant_that_means_something_else_is_exploratory_alone(build_study: BuildStudy) -> None:
    mine = "[variant.mine]\nnum_heads = {}"
    scores: dict[str, list[int | str]] = {
        "baseline": [300, 301, 303], "heads_1": [300, 304, 302], "mine": [301, 302, 303]
    }  # fmt: skip
    root = build_study(scores, extra=mine.format(4))
    _again(root, ["heads_1", "mine"], 3, extra=mine.format(2))
    assert history.exploratory(load(root)) == {"mine": "its num_heads changed from 4 to 2 after the first run"}


def test_a_key_that_a_later_version_adds_is_no_change(build_study: BuildStudy) -> None:
    setting = load(build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})).design.now.setting
    assert setting is not None
    added = replace(setting, recipe={**setting.recipe, "new": (0.1, 0.1)})
    assert history.setting_changes(setting, added) == []
    assert history.setting_changes(None, added) == []
    used = replace(setting, recipe={**setting.recipe, "new": (0.1, 0.5)})
    assert history.setting_changes(setting, used) == ["the recipe's new changed from 0.1 to 0.5 after the first run"]
    version = replace(setting, version=9)
    (why,) = history.setting_changes(setting, version)
    assert why.startswith("the trainer changed from knockout.train:train version ")


def test_the_report_says_which_copy_is_which(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]}, claims=CLAIM.format("worse"))
    first = (root / "study.toml").read_text(encoding="utf-8")
    _again(root, ["heads_1"], 4, claims=CLAIM.format("worse"))
    rows = dict(history.provenance_rows(load(root), version="1"))
    assert rows["Copies"] == (
        "study.toml and plan.toml of this report; study.first.toml and plan.first.toml of the first run"
    )
    assert "seeds = 4" in (root / "study.toml").read_text(encoding="utf-8")
    assert (root / "study.first.toml").read_text(encoding="utf-8") == first

    for kind in ("study", "plan"):  # as an earlier version left it: the first files only
        (root / f"{kind}.first.toml").replace(root / f"{kind}.toml")
    rows = dict(history.provenance_rows(load(root), version="1"))
    assert rows["Copies"] == "plan.toml of this report; study.toml and plan.toml of the first run"
    assert "Damaged file" not in rows
    _again(root, ["heads_1"], 4, claims=CLAIM.format("worse"))
    assert (root / "study.first.toml").read_text(encoding="utf-8") == first

    (root / "study.first.toml").write_text("torn", encoding="utf-8")
    rows = dict(history.provenance_rows(load(root), version="1"))
    assert rows["Damaged file"] == "study.first.toml: not the file of the first run any more"
    assert "whether the claims say what they said then is not known" in _head(root)


def test_a_trainer_without_texts_is_described(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    design = raw_design(root)
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


def test_what_was_set_on_the_command_line_is_in_the_report(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 303], "heads_1": [300, 304, 302]})
    assert "Set on the command line" not in dict(history.design_rows(load(root)))
    before = load(root).design.now.study_sha256
    study = read_study(root.parent / "synthetic.toml", ["plan.margin=2", "budget.hours=3.5"])
    write_design(root, study, data_id=DATA_ID, data_summary=data_summary())
    results = load(root)
    assert dict(history.design_rows(results))["Set on the command line"] == "plan.margin = 2; budget.hours = 3.5"
    assert results.design.now.study_sha256 == hashlib.sha256((root / "study.toml").read_bytes()).hexdigest() != before
    assert results.design.first.study_sha256 == before
