"""Floors in words: what simpler models reach, and by how much a baseline lies below it."""

from collections.abc import Sequence

from knockout.job import Floor

TITLES = {"accuracy": "accuracy", "macro_f1": "macro-F1", "log_loss": "log-loss"}


def floor_lines(floors: Sequence[Floor], metric: str) -> list[str]:
    """The floors in at most two sentences: those of the study's texts, and those that its trainer states.

    `metric`: of the plan; a floor that has another one only is left out.
    """
    having = [floor for floor in floors if metric in floor.scores]
    lines = []
    for given, start in (
        ([f for f in having if f.made], "Without a deep model, the same training texts give"),
        ([f for f in having if not f.made], "Floors that the trainer states:"),
    ):
        if given:
            shown = [f"{score_text(metric, f.scores[metric])} ({f.name})" for f in _best_first(given, metric)]
            shown[0] = shown[0].replace(" (", f" {TITLES[metric]} (", 1)
            lines.append(f"{start} {' and '.join(shown) if len(shown) < 3 else ', '.join(shown)}.")
    return lines


def below_floor(floors: Sequence[Floor], metric: str, mean: float | None) -> str:
    """That the baseline's mean lies below the best floor, with the difference; empty where it does not.

    `mean`: in points, for log-loss in nats; `None` where no run of the baseline finished alive.
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
        f" ({score_text(metric, best.scores[metric])}{', and lower is better' if nats else ''})."
    )


def score_text(metric: str, value: float) -> str:
    """A score with its unit: "75.9 %", "0.5068 nats". `value`: a share from 0 to 1, or nats."""
    return f"{value:.4f} nats" if metric == "log_loss" else f"{100 * value:.1f} %"


def _best_first(floors: Sequence[Floor], metric: str) -> list[Floor]:
    return sorted(floors, key=lambda floor: floor.scores[metric], reverse=metric != "log_loss")
