"""Floors in words: what simpler models reach, and by how much a baseline lies below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knockout.job import Floor

TITLES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "log_loss": "log-loss"}


@dataclass(frozen=True, kw_only=True)
class Distance:
    """A baseline's mean minus a floor, in points or nats, with the ends of its 95 % t interval over `runs` seeds."""

    difference: float
    low: float | None
    high: float | None
    runs: int


def floor_lines(floors: Sequence[Floor], metric: str, away: Mapping[str, Distance] | None = None) -> list[str]:
    """The floors in at most three sentences: those of the study's texts, those that its trainer states, and what the
    intervals are.

    `metric`: of the plan; a floor that has another one only is left out. `away`: name of a floor -> the baseline's
    distance to it, where there is a baseline.
    """
    having = [floor for floor in floors if metric in floor.scores]
    lines = []
    for given, start in (
        ([f for f in having if f.made], "Without a deep model, the same training texts give"),
        ([f for f in having if not f.made], "Floors that the trainer states:"),
    ):
        if given:
            shown = [
                f"{score_text(metric, f.scores[metric])} ({'; '.join([f.name, *_away(metric, away, f)])})"
                for f in _best_first(given, metric)
            ]
            shown[0] = shown[0].replace(" (", f" {TITLES[metric]} (", 1)
            lines.append(f"{start} {' and '.join(shown) if len(shown) < 3 else ', '.join(shown)}.")
    known = [(away or {})[f.name] for f in having if f.name in (away or {})]
    if lines and any(distance.low is not None for distance in known):
        lines.append(
            f"In brackets: the baseline minus the floor, with a 95 % t interval over {known[0].runs} seeds (null: its"
            " mean is the floor), on this test set."
        )
    return lines


def _away(metric: str, away: Mapping[str, Distance] | None, floor: Floor) -> list[str]:
    distance = (away or {}).get(floor.name)
    if distance is None:
        return []
    size = f"baseline {_signed(metric, distance.difference)} {'nats' if metric == 'log_loss' else 'points'}"
    if distance.low is None or distance.high is None:
        return [size]
    return [f"{size} [{_signed(metric, distance.low)}, {_signed(metric, distance.high)}]"]


def _signed(metric: str, value: float) -> str:
    return f"{value:+.{4 if metric == 'log_loss' else 2}f}".replace("-", "\N{MINUS SIGN}")


def below_floor(
    floors: Sequence[Floor], metric: str, mean: float | None, away: Mapping[str, Distance] | None = None
) -> str:
    """That the baseline's mean lies below the best floor, with the difference; empty where it does not.

    `mean`: in points, for log-loss in nats; `None` where no run of the baseline finished alive. `away`: as in
    `floor_lines`; the sentence says whether the interval also lies below.
    """
    having = _best_first([floor for floor in floors if metric in floor.scores], metric)
    if mean is None or not having:
        return ""
    best = having[0]
    nats = metric == "log_loss"
    floor = best.scores[metric] * (1 if nats else 100)
    gap = mean - floor if nats else floor - mean
    if gap <= 0:
        return ""
    least, digits, unit = (0.0001, 4, "nats") if nats else (0.1, 1, "points")
    size = f"{gap:.{digits}f}" if gap >= least / 2 else f"less than {least:g}"
    same = " with the same training texts" if best.made else ""
    return (
        f"The baseline's mean {TITLES[metric]}, {score_text(metric, mean if nats else mean / 100)}, is {size} {unit}"
        f" {'above' if nats else 'below'} what {best.name} reaches{same}"
        f" ({score_text(metric, best.scores[metric])}{', and lower is better' if nats else ''})"
        f"{_doubt(nats, (away or {}).get(best.name))}."
    )


def _doubt(nats: bool, distance: Distance | None) -> str:
    """That a baseline on the wrong side of its floor may be on the other one for other seeds."""
    if distance is None or distance.low is None or distance.high is None:
        return ""
    sure = distance.low > 0 if nats else distance.high < 0
    return "" if sure else "; other seeds may reach it, as the interval below shows"


def score_text(metric: str, value: float) -> str:
    """A score with its unit: "75.9 %", "0.5068 nats". `value`: a share from 0 to 1, or nats."""
    return f"{value:.4f} nats" if metric == "log_loss" else f"{100 * value:.1f} %"


def _best_first(floors: Sequence[Floor], metric: str) -> list[Floor]:
    return sorted(floors, key=lambda floor: floor.scores[metric], reverse=metric != "log_loss")
