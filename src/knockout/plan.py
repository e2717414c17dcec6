"""The plan: how results are judged, fixed before they exist. The record, its strict reader and the packaged default."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from knockout.strict import Fault, Faults, FaultsError, build, got_text, load_toml, shown, unknown_keys

FIXED = {
    "test": "paired_t",
    "failures": "worst_rank",
    "equivalence": "tost",
    "correction": "holm",
    "secondary_correction": "benjamini_hochberg",
}
"""Keys of earlier plans, each with the one value that it could have. A plan that has one with this value is read."""

OVERRIDES = ("margin", "metric")
"""The keys of a plan that a study may set in its own `[plan]`."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How results are judged. `margin` and `planned_sd` are in points (hundredths), for log_loss in nats."""

    metric: Literal["accuracy", "macro_f1", "log_loss"] = "accuracy"
    alpha: float = field(default=0.05, metadata={"gt": 0.0, "lt": 0.5})
    margin: float = field(default=0.5, metadata={"gt": 0.0, "lt": 100.0})
    power: float = field(default=0.8, metadata={"gt": 0.0, "lt": 1.0})
    planned_sd: float = field(default=1.0, metadata={"gt": 0.0, "lt": 100.0})
    dead_standard_errors: float = field(default=2.0, metadata={"ge": 0.0})
    secondary: tuple[Literal["accuracy", "macro_f1", "log_loss"], ...] = ("macro_f1", "log_loss")
    draws: int = field(default=10_000, metadata={"ge": 1000, "le": 1_000_000})
    random_seed: int = field(default=0, metadata={"ge": 0, "lt": 2**63})
    anytime: Literal["sign", "t"] = "sign"


@dataclass(frozen=True, kw_only=True)
class StatedPlan:
    """The plan of a study."""

    plan: Plan
    text: str
    """the TOML of the plan's file"""
    overridden: tuple[str, ...]
    """the keys that the study's own `[plan]` sets"""


def default_plan_text() -> str:
    """The packaged plan, as TOML."""
    return (resources.files("knockout") / "plan.toml").read_text(encoding="utf-8")


def build_plan(raw: Mapping[str, Any], file: str, table: str) -> tuple[Plan | None, list[Fault]]:
    """The plan of a TOML table, or `None` and its faults. Keys of `FIXED` are left out where they have their value."""
    faults = Faults()
    for key, value in FIXED.items():
        if key in raw and raw[key] != value:
            allowed = f'"{value}", the only choice: the key can be left out'
            name = f"{table}.{key}" if table else key
            faults.append(Fault(file=file, key=name, got=f"got {got_text(raw[key])}", allowed=allowed))
    plan = faults.take(build(Plan, {k: v for k, v in raw.items() if k not in FIXED}, file, table))
    return (None if faults else plan), faults


def read_plan(path: Path) -> tuple[Plan, frozenset[str]]:
    """The plan in a file, and the keys that the file sets. Raises `FaultsError` with every fault."""
    raw, _, faults = load_toml(path)
    plan, wrong = build_plan(raw or {}, shown(path), "")
    if faults or plan is None:
        raise FaultsError([*faults, *wrong])
    return plan, frozenset(raw or {})


def read_study_plan(raw: object, study_path: Path, file: str) -> tuple[StatedPlan | None, list[Fault]]:
    """The plan that a study names: a path, a table with `file`, `margin` and `metric`, or the packaged plan."""
    faults = Faults()
    override: dict[str, Any] = {}
    plan_file, text = "the packaged plan", default_plan_text()
    if isinstance(raw, dict):
        faults += unknown_keys({k: v for k, v in raw.items() if k != "file"}, (*OVERRIDES, "file"), file, "plan")
        override = {k: v for k, v in raw.items() if k in OVERRIDES}
        raw = raw.get("file")
    if raw is not None and not isinstance(raw, str):
        faults.append(Fault(file=file, key="plan", got=f"got {got_text(raw)}", allowed="a path, or a table [plan]"))
    base: dict[str, Any] | None = tomllib.loads(text)
    if isinstance(raw, str):
        plan_path = study_path.parent / raw
        plan_file = shown(plan_path)
        base, text, unreadable = load_toml(plan_path)
        faults += unreadable
    if base is None:
        return None, faults
    faults.take(build_plan(base, plan_file, ""))
    faults.take(build(Plan, override, file, "plan"))
    faults += _margin_faults(base, override, file)
    if faults:
        return None, faults
    plan = faults.take(build_plan({**base, **override}, file, "plan"))
    return (StatedPlan(plan=plan, text=text, overridden=tuple(override)) if plan else None), faults


def _margin_faults(base: Mapping[str, Any], override: Mapping[str, Any], file: str) -> list[Fault]:
    """A margin in points is no margin for log_loss, which is in nats."""
    stated = {**base, **override}
    if stated.get("metric") == "log_loss" and "margin" not in stated:
        got = "missing, where the metric is log_loss"
        return [Fault(file=file, key="plan.margin", got=got, allowed="the margin in nats: the default is in points")]
    if override.get("metric") == "log_loss" and base.get("metric") != "log_loss" and "margin" not in override:
        got = f"the plan's {base['margin']:g} is in points of another metric"
        return [Fault(file=file, key="plan.margin", got=got, allowed="a margin in nats beside the metric log_loss")]
    return []
