import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from knockout.analysis import Comparison, compare, replay
from knockout.analysis.inference.aa_test import placebos
from knockout.analysis.inference.contrasts import contrasts
from knockout.analysis.inference.family import Family, family_of
from knockout.analysis.inference.pairs import rows_of
from knockout.analysis.report.audit_trail import account
from knockout.analysis.stats.exact import floor
from knockout.analysis.stats.metric import counted
from knockout.analysis.stats.multiplicity import holm
from knockout.analysis.stats.trace import Trace, recording, sha256_of, traced, traced_each
from knockout.study import Plan
from tests.analysis.frames import BASE, MOVED, strict_json, tidy

RENAMED = {
    "n_estimate": "n",
    "p_sign_flip": "sign_flip.p",
    "p_sign_flip_holm": "sign_flip_holm",
    "p_wilcoxon": "wilcoxon.p",
    "p_wilcoxon_holm": "wilcoxon_holm",
    "rank_biserial": "wilcoxon.rank_biserial",
    "p_max_t": "max_t",
    "sd_ratio": "stability.ratio",
    "p_pitman_morgan": "stability.p",
}
"""Columns of contrasts.csv (tables.contrast_row) whose number has another name in the account: part.name."""

OF_THE_PLAN = {"family", "alpha", "margin", "power"}
"""Columns that nothing computes."""

READ_OFF = {"direction"}
"""The sign of the difference or of the rank sum; words and booleans are read off numbers too, and are not numbers."""


def everything() -> Comparison:
    """Failures, a factorial, secondary metrics, correctness: one call of every kind."""
    rng = np.random.default_rng(11)
    arms = {"base": (0, 0, 0.8), "a": (1, 0, 0.75), "b": (0, 1, 0.82), "ab": (1, 1, 0.7), "failing": (2, 0, 0.8)}
    frame = pd.DataFrame(
        [
            {
                "variant": v,
                "seed": s,
                "lr": lr,
                "width": width,
                "correct": rng.random(60) < share,
                "loss": rng.random(),
                "status": "diverged" if (v, s) == ("failing", 2) else "finished",
            }
            for v, (lr, width, share) in arms.items()
            for s in range(7)
        ]
    )
    return compare(frame, baseline="base", factors=["lr", "width"], secondary=["loss"])


@pytest.fixture(scope="module")
def whole() -> Comparison:
    return everything()


@pytest.fixture(scope="module")
def parsed(whole: Comparison) -> Any:
    return strict_json(account(whole))


def test_every_call_can_be_made_again(parsed: Mapping[str, Any]) -> None:
    told: dict[int, list[Any]] = {}
    for number in parsed["numbers"]:
        told.setdefault(number["call"], []).append(number["value"])
    assert [c["call"] for c in parsed["calls"]] == list(range(len(parsed["calls"])))
    for call in parsed["calls"]:
        again = Trace()
        again.add(("again",), replay, {}, replay(call))
        assert [n.value for n in again.numbers] == told[call["call"]], call["function"]
        assert call["inputs_sha256"] == sha256_of(call["arguments"])


def test_the_calls_are_of_every_kind(parsed: Mapping[str, Any]) -> None:
    functions = {c["function"].rpartition(".")[2] for c in parsed["calls"]}
    assert functions >= {
        "arm", "estimate", "paired_t", "tost_paired", "worst_rank", "holm", "flipped", "wilcoxon", "jointly_flipped",
        "pitman_morgan", "two_source_interval", "per_seed", "discordant", "needs", "benjamini_hochberg", "mean",
    }  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: compare(tidy({"base": BASE, "v": [x + 0.02 for x in BASE]}), baseline="base"),
        lambda: compare(tidy({"base": BASE, "v": ["diverged"] * 8, "w": [*MOVED[:7], "crashed"]}), baseline="base"),
        lambda: compare(tidy({"base": BASE, "v": MOVED}), baseline="base", anytime="t"),
        lambda: compare(tidy({"base": BASE, "v": ["dead", *MOVED[1:]]}), baseline="base", anytime="sign"),
        lambda: compare(tidy({"base": BASE[:2], "v": MOVED[:2]}), baseline="base"),
        lambda: compare(tidy({"base": [x**9 for x in BASE * 3], "v": [x**9 for x in MOVED * 3]}), baseline="base"),
    ],
)
def test_every_call_of_other_cases_can_be_made_again(make: Any) -> None:
    test_every_call_can_be_made_again(strict_json(account(make())))


def test_every_number_has_one_name(parsed: Mapping[str, Any]) -> None:
    keys = [(*n["of"], n["name"]) for n in parsed["numbers"]]
    assert len(set(keys)) == len(keys)


def number_of(parsed: Mapping[str, Any], variant: str, column: str, baseline: str) -> Any:
    """What the account says of a column of contrasts.csv."""
    own = RENAMED.get(column, column)
    of, name = ["contrast", variant], own
    for prefix, part, owner in (
        ("variant_", "arm", variant),
        ("baseline_", "arm", baseline),
        ("texts_", "two_source", variant),
    ):
        if column.startswith(prefix):
            of, name = ["contrast", owner, part], column.removeprefix(prefix)
    if "." in own:
        of, name = [*of, own.split(".")[0]], own.split(".")[1]
    found = [n["value"] for n in parsed["numbers"] if n["of"] == of and n["name"] == name]
    assert len(found) <= 1
    return found[0] if found else None


def test_every_number_of_the_table_is_in_the_account(whole: Comparison, parsed: Mapping[str, Any]) -> None:
    table = whole.table(all=True)
    checked = set()
    for row in table.to_dict("records"):
        for column, value in row.items():
            if isinstance(value, bool | str) or column in OF_THE_PLAN | READ_OFF:
                continue
            told = number_of(parsed, row["variant"], str(column), whole.baseline)
            if value is None or math.isnan(value):
                assert told is None, column
            else:
                assert told == value, column
                checked.add(column)
    assert len(checked) > 60
    assert checked >= {
        "difference",
        "p",
        "p_holm",
        "p_tost",
        "p_max_t",
        "texts_mean",
        "baseline_sd",
        "floor",
        "sd_ratio",
    }


def test_plan_and_verdicts_are_in_the_account(whole: Comparison, parsed: Mapping[str, Any]) -> None:
    assert parsed["plan"]["alpha"] == 0.05
    assert parsed["plan_sha256"] == sha256_of(parsed["plan"])
    assert [v["sentence"] for v in parsed["verdicts"]] == whole.sentences()
    assert [v["variant"] for v in parsed["verdicts"]] == list(whole.variants)
    assert {c["library"].split()[0] for c in parsed["calls"]} >= {"knockout", "scipy", "statsmodels"}


def test_every_seed_left_out_is_in_the_account(whole: Comparison, parsed: Mapping[str, Any]) -> None:
    told = {(*n["of"], n["name"]): n["value"] for n in parsed["numbers"]}
    for contrast in whole.contrasts:
        assert len(contrast.left_out) == 7
        for left in contrast.left_out:
            section = f"contrast without seed {left.seed}"
            assert told[section, contrast.variant, "difference"] == left.difference
            assert told[section, contrast.variant, "p_holm"] == left.p_holm


def hashes(comparison: Comparison) -> dict[tuple[str, ...], str]:
    return {(*n.of, n.name): comparison.trace.calls[n.call].inputs_sha256 for n in comparison.trace.numbers}


def test_an_input_that_changes_changes_its_hashes_and_no_other() -> None:
    before = hashes(compare(tidy({"base": BASE, "v": MOVED, "w": BASE[::-1]}), baseline="base"))
    after = hashes(compare(tidy({"base": BASE, "v": [0.831, *MOVED[1:]], "w": BASE[::-1]}), baseline="base"))
    assert before.keys() == after.keys()
    changed = {key for key in before if before[key] != after[key]}
    assert ("contrast", "v", "p") in changed
    assert ("contrast", "v", "difference") in changed
    assert ("contrast", "v", "arm", "mean") in changed
    assert ("contrast", "w", "p_holm") in changed  # corrected together
    assert not {key for key in changed if key[1] == "w" and key[-1] in ("p", "difference", "sd", "p_tost")}
    assert ("contrast", "base", "arm", "mean") not in changed


def test_arrays_change_their_hashes_too() -> None:
    def at(flip: int) -> str:
        right = np.arange(5000) % 3 > 0
        other = right.copy()
        other[flip] = ~other[flip]
        rows = [{"variant": v, "seed": s, "correct": a} for v, a in (("base", right), ("v", other)) for s in range(3)]
        return hashes(compare(pd.DataFrame(rows), baseline="base"))["contrast", "v", "two_source", "mean"]

    assert at(0) != at(1)


def test_an_array_too_large_to_keep_is_not_replayed() -> None:
    rights = np.arange(5000) % 3 > 0
    rows = [{"variant": v, "seed": s, "correct": rights} for v in ("base", "v") for s in range(3)]
    parsed = strict_json(account(compare(pd.DataFrame(rows), baseline="base")))
    call = next(c for c in parsed["calls"] if c["function"].endswith(".two_source_interval"))
    assert call["arguments"]["differences"]["shape"] == [3, 5000]
    with pytest.raises(ValueError, match=r"an input of shape \[3, 5000\] was too large to be kept"):
        replay(call)


def test_only_functions_of_knockout_are_called_again() -> None:
    with pytest.raises(ValueError, match=r"os\.system is no function of knockout\.analysis"):
        replay({"function": "os.system", "arguments": {"command": "true"}})


def test_infinities_pass_through_json(parsed: Mapping[str, Any]) -> None:
    call = next(c for c in parsed["calls"] if c["function"].endswith(".worst_rank"))
    assert call["arguments"]["differences"][2] == {"float": "-inf"}


def family(runs: pd.DataFrame, variants: list[str]) -> Family:
    return family_of(
        rows_of(runs),
        metric=counted("accuracy", examples=400),
        plan=Plan(),
        baseline="base",
        variants=variants,
        seeds=range(4),
    )


def test_a_call_is_kept_by_the_innermost_recording_with_its_arguments_by_name() -> None:
    with recording(Trace()) as outer:
        with recording(Trace()) as inner:
            assert traced_each(("x", "p_holm"), ["a", "b"], holm, [0.01, 0.5], k=2) == (0.02, 0.5)
        assert traced(("y", "floor"), floor, 3) == 0.25
    assert traced(("z", "floor"), floor, 4) == 0.125  # nothing records here
    assert [c.arguments for c in inner.calls] == [{"p": [0.01, 0.5], "k": 2}]
    assert [(n.of, n.name, n.value) for n in inner.numbers] == [
        (("x", "a"), "p_holm", 0.02),
        (("x", "b"), "p_holm", 0.5),
    ]
    assert [c.arguments for c in outer.calls] == [{"n": 3}]


def test_placebos_are_traced_apart() -> None:
    counts = {"base": [320, 331, 318, 322], "p1": [321, 330, 319, 321], "p2": [323, 329, 320, 324]}
    runs = pd.DataFrame(
        [
            {"variant": v, "seed": s, "status": "finished", "failed": False, "value": c}
            for v, cells in counts.items()
            for s, c in enumerate(cells)
        ]
    )
    rows = rows_of(runs)
    with recording(Trace()) as trace:
        found = placebos(rows, ["p1", "p2"], family(runs, []))
    assert found is not None
    assert found.rate is None  # under twenty arms
    alone = contrasts(family(runs, ["p2"]), rows)[0]
    assert found.contrasts[1].p_holm == alone.p_holm == alone.p
    keys = [(*n.of, n.name) for n in trace.numbers]
    assert ("placebo", "p1", "p") in keys
    assert ("placebo", "p2", "p_holm") in keys


def test_a_rate_of_twenty_placebos_has_an_interval() -> None:
    rng = np.random.default_rng(0)
    arms = [f"p{i}" for i in range(20)]
    runs = pd.DataFrame(
        [
            {"variant": v, "seed": s, "status": "finished", "failed": False, "value": int(c)}
            for v in ("base", *arms)
            for s, c in enumerate(rng.integers(300, 340, 4))
        ]
    )
    with recording(Trace()) as trace:
        found = placebos(rows_of(runs), arms, family(runs, []))
    assert found is not None
    assert found.rate is not None
    assert (found.rate.arms, found.rate.found) == (20, found.found)
    z, n, p = 1.959963984540054, 20, found.found / 20
    centre, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert found.rate.low == pytest.approx(max(0, centre - half / (1 + z * z / n)), abs=1e-12)
    assert found.rate.high == pytest.approx(centre + half / (1 + z * z / n))
    assert {n.name for n in trace.numbers if n.of == ("placebo", "rate")} == {"found", "arms", "rate", "low", "high"}
