"""Values that went through a float32 or float16 are judged as the numbers that they stand for."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from knockout.analysis import Comparison, compare
from knockout.analysis.external.precision import precise
from knockout.analysis.inference.pairs import differences
from knockout.analysis.stats.numeric import ROUNDING

Arms = dict[str, list[float]]


def frame(arms: Arms, kind: str = "float64") -> pd.DataFrame:
    rows = [(name, seed, value) for name, values in arms.items() for seed, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["variant", "seed", "accuracy"]).astype({"accuracy": kind})


def judged(runs: pd.DataFrame) -> list[tuple[object, ...]]:
    """All that a tie can change: the planned test, the exact tests beside it, and how often the variant is better."""
    return [
        (
            c.verdict,
            c.p,
            c.judgement.tested.test,
            c.sensitivity.sign_flip,
            c.sensitivity.wilcoxon,
            c.sensitivity.max_t,
            None if c.estimate is None else c.estimate.win_rate,
        )
        for c in compare(runs, baseline="base").contrasts
    ]


def widened(arms: Arms, kind: type[np.floating] = np.float32) -> Arms:
    """As a float64 holds what went through a narrower type: .46 becomes 0.46000000834465027."""
    return {name: [float(kind(x)) for x in values] for name, values in arms.items()}


@pytest.mark.parametrize("kind", ["float32", "float16", "Float32", "widened"])
def test_a_constant_difference_is_constant(kind: str) -> None:
    base = [0.46, 0.47, 0.452, 0.481, 0.463] if kind != "float16" else [0.46, 0.47, 0.45, 0.48, 0.44]
    arms = {"base": base, "v": [round(x + 0.01, 3) for x in base]}
    runs = frame(widened(arms)) if kind == "widened" else frame(arms, kind)
    found: Comparison = compare(runs, baseline="base")
    assert found["v"].judgement.tested.test == "exact (constant difference)"
    assert found["v"].p == 0.0625  # 2 ** -4, the least that five signs can show
    assert found["v"].verdict == "inconclusive"


@pytest.mark.parametrize("examples", [100, 1000, 1066, 8192, 25_000])
@pytest.mark.parametrize("kind", ["float32", "widened"])
def test_ties_are_those_of_the_exact_numbers(examples: int, kind: str) -> None:
    rng = np.random.default_rng(examples)
    for seeds in (3, 6, 10):
        low, wide = int(0.4 * examples), max(4, examples // 50)
        arms = {v: [float(k) / examples for k in rng.integers(low, low + wide, seeds)] for v in ("base", "a", "b")}
        runs = frame(widened(arms)) if kind == "widened" else frame(arms, kind)
        found, expected = judged(runs), judged(frame(arms))
        for one, other in zip(found, expected, strict=True):
            assert one[0] == other[0]
            assert one[1] == pytest.approx(other[1], rel=1e-9)
            assert one[2:] == other[2:]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_of_single_precision_is_read_as_its_decimals(ending: str, tmp_path: Path) -> None:
    from knockout.analysis.external.report import report_runs
    from knockout.analysis.external.runs import RunColumns

    arms = {"base": [0.46, 0.47, 0.452, 0.481, 0.463], "v": [0.47, 0.48, 0.462, 0.491, 0.473]}
    path = tmp_path / f"runs.{ending}"
    if ending == "csv":
        frame(widened(arms)).to_csv(path, index=False)
        assert "0.46000000834465027" in path.read_text(encoding="utf-8")
    else:
        frame(arms, "float32").to_parquet(path)
    written = report_runs(path, RunColumns(), statuses={}, baseline="base", target=tmp_path / "out")
    assert written.comparison.contrasts[0].p == 0.0625
    assert any("single precision: 0.46000000834465027 is read as 0.46" in note for note in written.comparison.notes)


@pytest.mark.parametrize(
    "values",
    [
        [0.5, 0.25, 0.75],
        [563 / 8192, 1001 / 8192],  # counts over a power of two are float32s as they stand
        [890 / 1066, 0.1 + 0.2, 1 / 3],  # float64
        [1_234_567_936.0, 16_777_216.0],
        [0.46, 0.123456789, 1e-300, 1e300],
        [math.nan, math.inf, -math.inf],
        [],
    ],
)
def test_other_values_stay_as_they_are(values: list[float]) -> None:
    read = precise(values, "accuracy")
    assert read.values == pytest.approx(values, rel=0, abs=0, nan_ok=True)
    assert (read.rounding, read.note) == (ROUNDING, "")


def test_a_float32_with_fewer_digits_written_is_its_decimal() -> None:
    read = precise([0.4600000083, 0.4799999893, 0.5], "accuracy")
    assert read.values == [0.46, 0.48, 0.5]


def test_real_values_of_single_precision_tie_within_it() -> None:
    rng = np.random.default_rng(3)
    loss = [float(np.float32(x)) for x in rng.normal(2.3, 0.1, 12)]
    read = precise([*loss, math.nan, *(float(np.nextafter(np.float32(x), np.float32(9))) for x in loss)], "loss")
    assert 1e-7 < read.rounding < 1e-6
    assert differences(read.values[13:], read.values[:12], read.rounding) == [0.0] * 12
    assert len(set(differences(read.values[13:], read.values[:12]))) > 1


def test_differences_of_one_size_within_the_precision_have_one_size() -> None:
    a, b = [1.5, 1.25 + 1e-7, 3.0], [1.25, 1.5, 1.0]
    assert differences(a, b, 2.4e-7) == [pytest.approx(0.25), pytest.approx(-0.25), 2.0]
    assert abs(differences(a, b, 2.4e-7)[0]) == abs(differences(a, b, 2.4e-7)[1])
    assert abs(differences(a, b)[0]) != abs(differences(a, b)[1])
