"""Numbers as text: the sign and the digits that a reader needs, and no more."""

import dataclasses
import math
import warnings

import pytest
from matplotlib.figure import Figure

from knockout.analysis.inference.interactions import EffectEstimate
from knockout.analysis.report.sentences import difference, interval, number, signed, starting_weights
from knockout.analysis.report.svg import Drawing
from knockout.design import Variant


def estimate(mean: float, half: float | None, *, n: int = 10) -> EffectEstimate:
    bounds = (None, None) if half is None else (mean - half, mean + half)
    return EffectEstimate(n=n, difference=mean, low=bounds[0], high=bounds[1], sd=None, d_z=None, g_z=None, t=None)


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (-0.00002, 0.00001, "−0.000020 [−0.000030, −0.000010]"),
        (-0.00002, 0.5, "−0.00 [−0.50, +0.50]"),
        (-0.00002, None, "−0.000020 no spread"),
        (0.004, 0.0031, "+0.0040 [+0.0009, +0.0071]"),
        (0.51, 0.012, "+0.51 [+0.50, +0.52]"),
        (-1.2, 0.35, "−1.20 [−1.55, −0.85]"),
        (0.0, None, "+0.00 no spread"),
        (-1e-17, 0.3, "+0.00 [−0.30, +0.30]"),
    ],
)
def test_a_difference_has_its_sign_and_the_digits_of_its_interval(mean: float, half: float | None, text: str) -> None:
    made = estimate(mean, half)
    assert f"{difference(made)} {interval(made)}" == text


@pytest.mark.parametrize("exponent", range(-7, 3))
@pytest.mark.parametrize("digits", [2, 4])
def test_what_is_printed_is_within_a_quarter_of_the_interval(exponent: int, digits: int) -> None:
    for mantissa in (-7.77, -1.234, 0.4321, 3.3):
        made = estimate(mantissa * 10.0**exponent, 2.2 * 10.0**exponent)
        read = float(difference(made, digits).replace("−", "-"))
        assert math.copysign(1, read) == math.copysign(1, mantissa)
        assert abs(read - made.difference) <= 0.25 * 4.4 * 10.0**exponent
    assert difference(dataclasses.replace(made, n=2, low=None, high=None, difference=-0.001)) == "−0.00"


def test_levels_have_no_sign_of_a_rounded_zero() -> None:
    assert (number(-0.001), signed(None), difference(None)) == ("0.00", "–", "–")


def test_names_that_the_font_lacks_give_no_warning_and_stay_text() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = Drawing(lambda figure: _label(figure, "無残差 🚀"), name="x", width=2, height=1).svg()
    assert "無残差 🚀" in svg


def _label(figure: Figure, text: str) -> None:
    figure.subplots().set_title(text)


def test_the_initialisation_is_named_where_a_verdict_depends_on_it() -> None:
    def variant(**changes: tuple[object, object]) -> Variant:
        return Variant(factors={"initialisation": "normal_02"}, changes=changes, papers=())

    described = {
        "baseline": variant(),
        "no_scale": variant(scale=("sqrt_dk", "none")),
        "heads_1": variant(num_heads=(8, 1)),
    }
    said = starting_weights(described, "baseline")
    assert said == "Weights start as normal_02: with another initialisation the verdict on no_scale may differ."
    assert starting_weights({k: v for k, v in described.items() if k != "no_scale"}, "baseline") == ""
    own = {"baseline": Variant(factors={"scale": 1}, changes={}, papers=()), "b": variant(scale=(1, 2))}
    assert starting_weights(own, "baseline") == ""  # a trainer without the factor
