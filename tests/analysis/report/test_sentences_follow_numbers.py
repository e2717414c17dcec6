"""Each sentence comes from numbers in analysis.json: they are all there, and another number makes another sentence."""

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from knockout.analysis import history
from knockout.analysis.inference.contrasts import Contrast
from knockout.analysis.report import sentences
from knockout.analysis.report.answer import answer
from knockout.analysis.report.audit_trail import account
from knockout.analysis.report.sections.page import study_answer
from knockout.analysis.report.study import JudgedStudy, judge_study
from knockout.analysis.results import Results, load
from knockout.analysis.stats.power import pairing_pays_above
from tests.analysis.conftest import BuildStudy

QUICK = Path(__file__).parents[3] / "results" / "reference" / "quick"

STATED = {"95": "the level of every interval", "0": "the null hypothesis of a difference"}
"""Numbers of sentences that are no result: they are part of the words."""

LEARNING_RATE = 0.123
"""In the study it is part of the recipe, in design.json."""


@cache
def quick() -> tuple[Results, JudgedStudy, dict[str, Any]]:
    """The published study, judged again from its packed records, and its analysis.json."""
    results = load(QUICK)
    judged = judge_study(results)
    return results, judged, json.loads(account(judged.comparison))


# --- every number of a sentence is there -----------------------------------------------------------------------------


def numbers_of(accounted: Mapping[str, Any], variants: Sequence[str]) -> list[float]:
    """The numbers that a sentence on these variants may have: theirs, the floors', and the head's."""
    head, plan = accounted, accounted["plan"]
    values = [plan["alpha"], plan["margin"], 100 * plan["power"], len(head["seeds"]), head["family"]]
    for number in accounted["numbers"]:
        of, value = number["of"], number["value"]
        if value is None or isinstance(value, bool) or of[0] not in ("contrast", "floor", "claim"):
            continue
        if of[0] == "contrast" and of[1] not in (*variants, head["baseline"]):
            continue
        share = of[-1] == "two_source" and number["name"] in ("low", "high")  # printed in points
        values.append(100 * value if share else value)
    for verdict in accounted["verdicts"]:
        if verdict["variant"] in variants:
            flips = verdict["left_out_flips"]
            values += [*flips, *([len(flips)] if flips else [])]
    return values


def printed_numbers(text: str, names: Sequence[str]) -> list[str]:
    """The numbers in a sentence, as printed, without those in names."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return re.findall(r"\d[\d,]*\.?\d*|\.\d+", re.sub(r"p < \.001", "", text))


def stands(token: str, values: Sequence[float]) -> bool:
    """Whether one of the values is printed like this when it is rounded to as many decimals."""
    plain = token.replace(",", "").rstrip(".")
    digits = len(plain.partition(".")[2])
    shown = {f"{abs(value):.{digits}f}" for value in values}
    return plain in shown or f"0{plain}" in shown


def named_in(text: str, variants: Sequence[str]) -> list[str]:
    return [name for name in variants if re.search(rf"\b{name}\b", text)]


def test_every_number_of_the_answer_is_in_the_account() -> None:
    results, judged, accounted = quick()
    names = [*judged.comparison.variants, *(floor.name for floor in results.design.floors)]
    lines = study_answer(results, judged.comparison, history.exploratory(results))
    assert any(printed_numbers(line, names) for line in lines)
    for line in lines:
        subjects = named_in(line, names) or list(judged.comparison.variants)
        values = numbers_of(accounted, subjects)
        for token in printed_numbers(line, names):
            assert token in STATED or stands(token, values), (token, line)


def test_every_number_of_a_verdict_in_words_is_one_of_its_own() -> None:
    _, judged, accounted = quick()
    names = judged.comparison.variants
    for contrast in judged.comparison.contrasts:
        text, values = sentences.sentence(contrast), numbers_of(accounted, [contrast.variant])
        if "p < .001" in text:
            assert any(value < 0.0005 for value in values)
        for token in printed_numbers(text, names):
            assert token in STATED or stands(token, values), (token, text)


def test_a_number_that_is_not_there_is_seen() -> None:
    """The test before would see a wrong number: 73.52 is the mean of another variant."""
    _, _, accounted = quick()
    assert stands("73.52", numbers_of(accounted, ["no_position"]))
    assert not stands("73.52", numbers_of(accounted, ["pool_max"]))
    assert printed_numbers("heads_1: \N{MINUS SIGN}0.73 points, p = .019, 1,234 of 12.", ["heads_1"]) == [
        "0.73", ".019", "1,234", "12."
    ]  # fmt: skip


def test_every_number_of_claims_and_limits_is_in_the_account() -> None:
    _, judged, accounted = quick()
    names = judged.comparison.variants
    for claim in judged.claims:
        for token in printed_numbers(claim.reason, names):
            assert stands(token, numbers_of(accounted, [claim.variant])), (token, claim.reason)
    told = sentences.limits(judged.comparison.contrasts, learning_rate=LEARNING_RATE, costs=True)
    for line in told:
        for token in printed_numbers(line.replace(f"{LEARNING_RATE:g}", ""), names):
            assert stands(token, numbers_of(accounted, names)), (token, line)


def test_numbers_on_pairing_are_there_too(build_study: BuildStudy) -> None:
    """Where pairing did not help, the limits say by how much: arms that run against each other over the seeds."""
    base = [300, 304, 296, 302, 299, 301]
    against = [600 - x for x in base]
    root = build_study({"baseline": base, "heads_1": against, "pool_max": [x + s % 2 for s, x in enumerate(base)]})
    for variants in (["heads_1"], ["heads_1", "pool_max"]):
        comparison = judge_study(load(root)).comparison
        kept = replace(comparison, contrasts=tuple(c for c in comparison.contrasts if c.variant in variants))
        told, pairing = sentences.pairing(kept.contrasts), json.loads(account(kept))["pairing"]
        values = [pairing["known"], pairing["low"], pairing["known"] - pairing["low"], pairing["bound"]]
        values += [] if pairing["cost"] is None else [pairing["cost"]]
        tokens = printed_numbers(told, variants)
        assert tokens
        for token in tokens:
            assert stands(token, values), (token, told)
    # sd of the differences over what independent samples would have, from the definitions
    d = [a - b for a, b in zip(against, base, strict=True)]
    one = replace(comparison, contrasts=comparison.contrasts[:1])
    sds = [statistics.stdev(x) for x in (d, against, base)]
    ratio = sds[0] / math.sqrt((sds[1] ** 2 + sds[2] ** 2) * (1 - pairing_pays_above(6, 0.05, 0.8)))
    assert json.loads(account(one))["pairing"]["cost"] == pytest.approx(100 * (ratio - 1))


# --- another number, another sentence --------------------------------------------------------------------------------

TABLES = "in a table or a CSV file, beside the sentence's number"
DECIDES = "decides which sentence is chosen, and is not printed"
UNUSED = {
    **dict.fromkeys(["Contrast.alpha", "Tested.direction"], DECIDES),
    **dict.fromkeys(["Tested.p_tost", "SignFlip.p", "Wilcoxon.p"], "raw p values: sentences print those after Holm"),
    **dict.fromkeys(
        ["Pair.seed", "Pair.variant", "Pair.baseline", "Pair.difference"], "drawn seed by seed: forest.csv"
    ),
    **dict.fromkeys(["Metric.scale", "Metric.rounding"], "how values were turned into the unit, before any sentence"),
    **dict.fromkeys(["Arm.rate_low", "Arm.rate_high"], TABLES),
    **dict.fromkeys(["Needs.seeds_difference", "Needs.seeds_equivalence"], "tested alone: sentences take the first"),
    **{f"Estimate.{name}": TABLES for name in ("t", "d_z", "g_z", "d_av", "win_rate", "cliffs_delta", "p_welch")},
    **{f"LeftOut.{name}": "seeds.csv: sentences name the seeds" for name in ("difference", "p_holm", "p_tost_holm")},
    **{f"Discordant.{name}": "examples.csv" for name in ("seed", "difference", "p_exact")},
    **{f"Wilcoxon.{name}": TABLES for name in ("statistic", "w_minus", "rank_biserial", "n_used", "zeros")},
    **{
        f"PitmanMorgan.{name}": "the spread over seeds has a table of its own"
        for name in ("n", "sd_variant", "sd_baseline", "ratio", "low", "high", "r", "t", "df", "p")
    },
    **{
        f"TwoSource.{name}": "sentences print the interval; its parts are in a table"
        for name in (
            *("seeds", "examples", "mean", "se", "df", "t", "p", "ms_seed", "ms_example", "ms_residual"),
            *("share_seed", "share_example", "share_residual"),
        )
    },
}
"""Numeric fields that no sentence prints, and why."""


def numeric_leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str, float]]:
    """Path, "Class.field" and value of each number in a dataclass and in those that it holds."""
    for field in fields(value):
        held = getattr(value, field.name)
        here = (*path, field.name)
        if isinstance(held, int | float) and not isinstance(held, bool):
            yield here, f"{type(value).__name__}.{field.name}", held
        elif is_dataclass(held):
            yield from numeric_leaves(held, here)
        elif isinstance(held, tuple):
            for i, item in enumerate(held):
                if is_dataclass(item):
                    yield from numeric_leaves(item, (*here, i))


def changed(value: Any, path: tuple[str | int, ...], new: float) -> Any:
    """The dataclass with another number at a path."""
    if not path:
        return new
    step, *rest = path
    if isinstance(step, int):
        return (*value[:step], changed(value[step], tuple(rest), new), *value[step + 1 :])
    return replace(value, **{step: changed(getattr(value, step), tuple(rest), new)})


def texts(contrast: Contrast) -> str:
    """All that a report says of one contrast in sentences."""
    return "\n".join(
        [
            sentences.sentence(contrast),
            sentences.needed(contrast),
            *answer([contrast], done=1, planned=1),
            *sentences.limits([contrast], learning_rate=None, costs=False),
            sentences.pairing([contrast]),
        ]
    )


def others(value: float) -> list[float]:
    """Values that are clearly other ones, of the same type."""
    if isinstance(value, int):
        return [value + 1, value + 7, 2 * value + 3, 0]
    return [value + 0.31, value * 3 + 2, -value - 0.7, 0.0, 1.0]


def cases(build_study: BuildStudy) -> list[Contrast]:
    """Contrasts of every kind: the published ones, failures at few seeds, one seed alone, pairs that are missing."""
    base: list[int | str] = [300, 304, 296, 302, 299, 301]
    studies: dict[str, dict[str, list[int | str]]] = {
        "one": {"baseline": [300], "heads_1": [310]},
        "few": {"baseline": [*base[:5], "diverged"], "heads_1": [290, "dead", 287, 289, 288, "dead"]},
        "theory": {"baseline": base[:5], "heads_1": [290, 292, 287, 289, 288]},
        "part": {"baseline": base, "heads_1": [290, 292, 287, "missing", 288, 280]},
        "same": {"baseline": base, "heads_1": [int(x) + 4 for x in base]},
        "wild": {"baseline": base, "heads_1": [310, 308, 310, 305, 380, 306]},
    }
    made = [judge_study(load(build_study(s, name=name))).comparison.contrasts[0] for name, s in studies.items()]
    return [*quick()[1].comparison.contrasts, *made]


def test_another_number_makes_another_sentence(build_study: BuildStudy) -> None:
    seen: dict[str, bool] = {}
    for contrast in cases(build_study):
        before = texts(contrast)
        for path, name, value in numeric_leaves(contrast):
            if seen.get(name):
                continue
            seen[name] = any(texts(changed(contrast, path, new)) != before for new in others(value) if new != value)
    assert {name for name, used in seen.items() if not used} == set(UNUSED)


@pytest.mark.parametrize("name", ["difference", "low", "high"])
def test_the_floor_sentence_follows_its_gap(name: str) -> None:
    results, judged, _ = quick()
    comparison = judged.comparison
    floor = next(iter(comparison.floors))
    gap = changed(comparison.floors[floor], (name,), 3.21)
    moved = replace(comparison, floors={**comparison.floors, floor: gap})
    before, after = (study_answer(results, each, {}) for each in (comparison, moved))
    assert before != after
    assert any("+3.21" in line for line in after)
