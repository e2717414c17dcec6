"""The audit trail of an analysis, `analysis.json`: every number with its call, its inputs' hash, its library."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Protocol

from knockout.analysis.inference.comparison import Comparison
from knockout.analysis.inference.pairing import pairing_numbers
from knockout.analysis.report.sentences import sentence
from knockout.analysis.stats.metric import Metric
from knockout.analysis.stats.numeric import ROUNDING
from knockout.analysis.stats.trace import Trace, sha256_of
from knockout.study import Plan

LIBRARIES = ("knockout", "numpy", "scipy", "statsmodels", "pandas")


class Accounted(Protocol):
    """A comparison, paired or not, as far as its account needs it."""

    @property
    def metric(self) -> Metric: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def baseline(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def trace(self) -> Trace: ...


def account(comparison: Comparison) -> str:
    """The text of `analysis.json`, one number or call to a line.

    `numbers`: of what, name, value, and the index of the call. `calls`: the function of Knockout, the library function
    that does its work with its version, the arguments (large arrays by shape and hash), and the hash of them all.
    `knockout.analysis.replay` makes a call again.
    """
    verdicts = [
        {
            "variant": c.variant,
            "verdict": c.label,
            "reason": c.reason,
            "sentence": sentence(c),
            "left_out_flips": [x.seed for x in c.left_out if x.flips],
        }
        for c in comparison.contrasts
    ]
    paired = pairing_numbers(comparison.contrasts)
    of = {
        "seeds": list(comparison.seeds),
        "family": comparison.contrasts[0].family,
        **({} if paired is None else {"pairing": asdict(paired)}),
    }
    return account_of(comparison, verdicts, of)


def account_of(comparison: Accounted, verdicts: Sequence[Mapping[str, object]], of: Mapping[str, Any]) -> str:
    """As `account`, with the verdicts given. `of`: what was compared, beside the baseline."""
    plan = asdict(comparison.plan)
    head: dict[str, Any] = {
        "metric": {k: v for k, v in asdict(comparison.metric).items() if (k, v) != ("rounding", ROUNDING)},
        "plan": plan,
        "plan_sha256": sha256_of(json.loads(json.dumps(plan))),
        "baseline": comparison.baseline,
        **of,
        "libraries": {name: version(name) for name in LIBRARIES},
        "verdicts": verdicts,
        "notes": list(comparison.notes),
    }
    numbers = [{"of": list(n.of), "name": n.name, "value": n.value, "call": n.call} for n in comparison.trace.numbers]
    calls = [
        {
            "call": i,
            "function": c.function,
            "made_with": c.made_with,
            "library": c.library,
            "inputs_sha256": c.inputs_sha256,
            "arguments": dict(c.arguments),
        }
        for i, c in enumerate(comparison.trace.calls)
    ]
    parts = [f"{_json(k)}: {_json(v)}" for k, v in head.items()]
    parts += [f'"{name}": [\n{_lines(rows)}\n]' for name, rows in (("numbers", numbers), ("calls", calls))]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows: list[dict[str, Any]]) -> str:
    return ",\n".join(_json(row) for row in rows)


def _json(value: Any) -> str:
    # No NaN and no infinity: whoever reads it need not be Python. < is escaped, so that it can stand in a page.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
