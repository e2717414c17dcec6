"""What several of the objects that `--json` prints have in common, made from a study's own."""

from collections.abc import Mapping, Sequence
from typing import Any

from knockout import schema
from knockout.job import Floor
from knockout.plan import Plan
from knockout.source_changes import SourceChange


def changes(differing: Mapping[str, tuple[Any, Any]]) -> list[schema.Change]:
    """The keys that differ, key -> (before, after)."""
    return [schema.Change(key=key, before=before, after=after) for key, (before, after) in differing.items()]


def floors(given: Sequence[Floor]) -> list[schema.Floor]:
    """What simpler models reach."""
    return [
        schema.Floor(
            name=floor.name,
            made=floor.made,
            accuracy=floor.scores.get("accuracy"),
            macro_f1=floor.scores.get("macro_f1"),
            log_loss=floor.scores.get("log_loss"),
        )
        for floor in given
    ]


def plan(given: Plan) -> schema.Plan:
    """How differences are judged."""
    return schema.Plan(alpha=given.alpha, margin=given.margin, power=given.power, planned_sd=given.planned_sd)


def trainer(change: SourceChange, *, path: str, version: int) -> schema.Trainer:
    """The trainer, and what has to be said of its sources, with the way on."""
    then = f"; {change.way_on}" if change.undeclared else ""
    return schema.Trainer(path=path, version=version, changes=[f"{line}{then}" for line in change.lines])
