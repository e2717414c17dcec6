"""What single sections say, against the runs that they were made from."""

import csv
import io
import statistics

from knockout.analysis.report.blocks import Table
from knockout.analysis.report.sections import side_by_side
from knockout.analysis.report.sections.page import changes_sentence
from knockout.analysis.report.sections.setting import costs
from knockout.analysis.report.sentences import DASH, flags, needed, pairing
from knockout.analysis.report.study import judge_study
from knockout.analysis.report.write import write_report
from knockout.analysis.results import load
from knockout.profile_table import ProfileRow, write_profile
from tests.analysis.conftest import BuildStudy

BASE = [300, 306, 299, 312, 303, 308, 301]


def test_costs_that_no_variant_has_are_left_out() -> None:
    bare: dict[str, object] = dict.fromkeys(("parameters", "train_seconds", "ratio", "peak_bytes", "tokens_per_second"))
    rows = [{"variant": "baseline", "runs": 3, **bare}, {"variant": "up", "runs": 2, **bare}]
    assert costs(rows, workers="2 workers") is None
    rows[1]["parameters"] = 1200.0
    section = costs(rows, workers="2 workers")
    assert section is not None
    assert "ratio" not in section.lead[0]
    (shown,) = section.blocks
    assert isinstance(shown, Table)
    assert [c.title for c in shown.columns] == ["Variant", "Runs", "Parameters"]
    assert [[cell.text for cell in row] for row in shown.rows] == [["baseline", "3", DASH], ["up", "2", "1,200"]]


def test_two_seeds_give_no_interval_and_no_effect_size(build_study: BuildStudy) -> None:
    report = write_report(build_study({"baseline": [300, 310], "heads_1": [290, 288]}))
    contrast = report.contrasts[0]
    assert contrast.estimate is not None
    assert contrast.estimate.difference < 0
    assert (contrast.estimate.low, contrast.estimate.d_z, contrast.estimate.d_av, contrast.needs) == (None,) * 4
    assert contrast.two_source is None
    text = report.paths["details.md"].read_text(encoding="utf-8")
    assert "seeds would detect" not in text


def test_seeds_needed_are_given_with_their_interval(build_study: BuildStudy) -> None:
    root = build_study({"baseline": BASE[:4], "heads_1": [301, 299, 305, 306]})
    contrast = judge_study(load(root)).comparison.contrasts[0]
    needs = contrast.needs
    assert needs is not None
    # four differences: the sd lies between .57 and 3.73 times what was seen, so the seeds do between .3 and 14 times
    assert needs.seeds_difference_low is not None
    assert needs.seeds_difference_first is not None
    assert needs.seeds_difference_high is not None
    assert needs.seeds_difference_low < needs.seeds_difference_first < needs.seeds_difference_high
    interval = f"[{needs.seeds_difference_low:,} to {needs.seeds_difference_high:,}]"
    assert f"{needs.seeds_difference_first:,} {interval} seeds would detect" in needed(contrast)


def test_pairing_that_did_not_help_is_said_with_its_cost(build_study: BuildStudy) -> None:
    against = {"baseline": BASE, "heads_1": [612 - x for x in BASE], "heads_16": [2 * x - 300 for x in BASE]}
    contrasts = judge_study(load(build_study(against))).comparison.contrasts
    assert "did not help here: for 1 of 1 variant" in pairing(contrasts[:1])  # correlation -1
    assert "helped: for 1 of 1 variant" in pairing(contrasts[1:])  # correlation 1
    # At correlation -1 and equal sds the differences have twice the sd of an arm, where independent samples have
    # sqrt(2) times: the ratio is sqrt(2 / (1 - bound)).
    bound = contrasts[0].pairing_pays_above
    assert bound is not None
    cost = 100 * ((2 / (1 - bound)) ** 0.5 - 1)
    assert f"{cost:.0f} % larger" in pairing(contrasts[:1])


def test_flags_stand_in_the_answer_too(build_study: BuildStudy) -> None:
    report = write_report(build_study({"baseline": BASE, "heads_1": [x - 4 for x in BASE], "pool_max": BASE}))
    for contrast in report.contrasts:
        for flag in flags(contrast):
            line = next(line for line in report.answer if contrast.variant in line)
            assert flag in line
    assert any("identical predictions" in line or "same values" in line for line in report.answer)
    assert "; exploratory" not in " ".join(report.answer)


def test_what_variants_change_is_counted_and_not_assumed() -> None:
    assert changes_sentence({"a": {"x": 1}, "b": {"y": 2}}) == "Each variant is the baseline with one factor changed."
    mixed = changes_sentence({"a": {"x": 1}, "b": {"x": 1, "y": 2}})
    assert mixed.startswith("b changes several factors of the baseline at once.")
    assert mixed.endswith("Each other variant is the baseline with one factor changed.")
    both = changes_sentence({"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}})
    assert both == "Each variant changes several factors of the baseline at once."


def test_captions_speak_of_failures_only_where_a_run_failed(build_study: BuildStudy) -> None:
    clean = write_report(build_study({"baseline": BASE, "heads_1": [x - 4 for x in BASE]}, name="clean"))
    failed = write_report(build_study({"baseline": BASE, "heads_1": ["dead", *BASE[1:]]}, name="failed"))
    texts = [r.paths["details.md"].read_text(encoding="utf-8").partition("### Glossary")[0] for r in (clean, failed)]
    for said in ("worst-rank", "with failed runs", "Where runs failed"):
        assert said not in texts[0]
        assert said in texts[1]


def test_macro_f1_is_folded_on_two_balanced_classes(build_study: BuildStudy) -> None:
    report = write_report(build_study({"baseline": BASE, "heads_1": [x - 4 for x in BASE]}))
    text = report.paths["details.md"].read_text(encoding="utf-8")
    assert "| Macro-F1, %" not in text
    assert "Macro-F1 repeats accuracy on two classes of about the same size" in text
    assert "macro_f1" in report.paths["secondary.csv"].read_text(encoding="utf-8")


def test_losses_are_those_of_the_records(build_study: BuildStudy) -> None:
    report = write_report(build_study({"baseline": BASE, "heads_1": [x - 4 for x in BASE]}))
    rows = list(csv.DictReader(io.StringIO(report.paths["losses.csv"].read_text(encoding="utf-8"))))
    assert [row["variant"] for row in rows] == ["baseline", "heads_1"]
    results = report.results
    for row in rows:
        runs = results.runs[results.runs["variant"] == row["variant"]]
        last = [float(results.epochs[i]["loss"].iloc[-1]) for i in runs["run_id"]]
        ends_above = sum(float(results.epochs[i]["loss"].min()) < x for i, x in zip(runs["run_id"], last, strict=True))
        assert float(row["validation"]) == statistics.fmean(last)
        assert float(row["train"]) == statistics.fmean(float(x) for x in runs["final_loss"])
        assert int(row["overfitted"]) == ends_above
        assert int(row["runs"]) == len(BASE)


def measured(variant: str, run_id: str, **numbers: float) -> ProfileRow:
    texts = {"device": "cpu", "device_name": "A Processor", "torch": "9.9", "memory_of": "process"}
    texts |= {"measured": "2026-01-02T03:04:05+00:00"}
    return ProfileRow(variant=variant, run_id=run_id, numbers={"threads": 2, "rounds": 3, **numbers}, texts=texts)


def test_systems_stand_side_by_side_with_ratios_first(build_study: BuildStudy) -> None:
    root = build_study({"baseline": BASE[:3], "heads_1": BASE[:3], "heads_16": BASE[:3]})
    design = load(root).design
    assert side_by_side.section(root, design) is None
    ids = {run.variant: run.id for run in design.runs if run.seed == design.now.seeds[0]}
    epoch = {"seconds_per_epoch_ratio": 1.5, "seconds_per_epoch_ratio_low": 1.25, "seconds_per_epoch_ratio_high": 2.0}
    latency: dict[str, float] = {"latency_1_passes": 200, "latency_64_passes": 50}
    for size in (1, 64):
        latency |= {f"latency_{size}_p50_ms": 1.5 * size, f"latency_{size}_p95_ms": 2.5 * size}
    rows = [
        measured("baseline", ids["baseline"], parameters=1200, timed_steps=30, seconds_per_epoch=12.0, **latency),
        measured("heads_1", ids["heads_1"], parameters=900, timed_steps=30, seconds_per_epoch=18.0, **epoch),
        measured("heads_16", "of an earlier file", seconds_per_epoch=1.0),
    ]
    write_profile(root, rows)
    section = side_by_side.section(root, design)
    assert section is not None
    assert "3 rounds of rotated order (A Processor, 2 threads, torch 9.9; 2026-01-02)" in section.lead[0]
    assert "from 30 timed optimiser steps" in section.lead[0]
    assert "over 200 batches of 1 test text and 50 of 64" in section.lead[0]
    assert section.lead[1].startswith("1 row of profile.csv is of variants, data or seeds that the study does not run")
    ratios, values = section.blocks
    assert isinstance(ratios, Table)
    assert isinstance(values, Table)
    assert [[cell.text for cell in row] for row in ratios.rows] == [
        ["baseline", DASH],
        ["heads_1", "1.50 [1.25, 2.00]"],
    ]
    assert [c.title for c in values.columns][:3] == ["Variant", "Parameters", "Seconds per epoch"]
    assert [cell.text for cell in values.rows[0]] == ["baseline", "1,200", "12", "1.5 / 2.5", "96 / 160"]
    assert [cell.text for cell in values.rows[1]] == ["heads_1", "900", "18", DASH, DASH]
    assert "Systems side by side" in write_report(root).paths["details.md"].read_text(encoding="utf-8")

    (root / "profile.csv").write_bytes(b"variant\n")
    section = side_by_side.section(root, design)
    assert section is not None
    assert section.blocks == ()
    assert section.lead[0].startswith("profile.csv: changed since it was written, or cut off; it is left out.")
