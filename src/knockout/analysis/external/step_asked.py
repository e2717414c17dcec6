"""What `knockout curves` is asked to do, as data and as the command that asks it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from knockout.analysis.external.asked import option, options
from knockout.analysis.external.step_points import QUANTITIES, StepColumns


@dataclass(frozen=True, kw_only=True)
class CurvesAsked:
    """Files of step logs with all options of `knockout curves`."""

    sources: tuple[Path, ...]
    """files and folders"""
    columns: StepColumns = field(default_factory=StepColumns)
    baseline: str = ""
    """empty where none was named"""
    statuses: Mapping[str, str] = field(default_factory=dict)
    clip_norm: float | None = None
    same_batches: bool = True
    plan: Path | None = None
    target: Path | None = None
    """the report's folder; None: beside the first file"""

    @property
    def folder(self) -> Path:
        """Where the report goes."""
        first = self.sources[0].resolve() if self.sources[0].name in ("", "..") else self.sources[0]
        stem = first.name if first.is_dir() else first.stem
        return self.target or first.with_name(f"{stem}_curves")

    def command(self) -> str:
        """The command line that asks this, quoted for a POSIX shell. Options that have their default are left out."""
        usual, columns = StepColumns(), self.columns
        words = ["knockout", "curves"]
        words += [f"./{source}" if str(source).startswith("-") else str(source) for source in self.sources]
        words += option("--baseline", self.baseline)
        if columns.variant != usual.variant:
            words += options("--variant", columns.variant)
        words += ["--wide"] if columns.wide else []
        if columns.seed_pattern:
            words += option("--seed-pattern", columns.seed_pattern)
        elif columns.seed != usual.seed:
            words += options("--seed", columns.seed)
        words += option("--step", columns.step) if columns.step != usual.step else []
        for quantity in QUANTITIES:
            if columns.of(quantity) != usual.of(quantity):
                words += option(f"--{quantity.replace('_', '-')}", columns.of(quantity))
        if columns.status != usual.status:
            words += option("--status", columns.status) or ["--status="]
        words += [word for name, to in self.statuses.items() for word in ("--status", f"{name}={to}")]
        words += option("--clip-norm", "" if self.clip_norm is None else f"{self.clip_norm:g}")
        words += [] if self.same_batches else ["--other-batches"]
        words += option("--plan", "" if self.plan is None else str(self.plan))
        words += option("--to", "" if self.target is None else str(self.target))
        return shlex.join(words)
