"""What `knockout compare` is asked to do, as data and as the command that asks it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knockout.analysis.external.measured import Unit
from knockout.analysis.external.runs import RunColumns
from knockout.analysis.stats.metric import Better


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A file of runs with all options of `knockout compare`."""

    source: Path
    columns: RunColumns = field(default_factory=RunColumns)
    baseline: str = ""
    """empty where none was named"""
    statuses: Mapping[str, str] = field(default_factory=dict)
    margin: float | None = None
    unit: Unit | None = None
    better: Better | None = None
    plan: Path | None = None
    target: Path | None = None
    """the report's folder; None: beside the file"""
    formats: Sequence[str] = ()
    """of the figures, beside SVG"""

    @property
    def folder(self) -> Path:
        """Where the report goes."""
        return self.target or self.source.with_name(f"{self.source.stem}_report")

    def command(self) -> str:
        """The command line that asks this, quoted for a POSIX shell. Options that have their default are left out."""
        usual, columns = RunColumns(), self.columns
        source = str(self.source)
        source = f"./{source}" if source.startswith("-") else source
        words = ["knockout", "compare", source, *option("--baseline", self.baseline)]
        if columns.names != usual.names:
            words += options("--variant", columns.names)
        if columns.wide:
            words.append("--wide")
        if columns.seed_pattern:
            words += option("--seed-pattern", columns.seed_pattern)
        elif not columns.paired:
            words.append("--unpaired")
        elif columns.seed != usual.seed:
            words += options("--seed", columns.seed)
        for name, own, default in (
            ("--metric", columns.metric, usual.metric),
            ("--status", columns.status, usual.status),
            ("--count", columns.count, usual.count),
        ):
            if own != default or (name == "--metric" and columns.wide):
                words += [name, own] if not own.startswith("-") else [f"{name}={own}"]
        words += [word for name, to in self.statuses.items() for word in ("--status", f"{name}={to}")]
        words += option("--unit", self.unit or "")
        words += [f"--{self.better}-is-better"] if self.better else []
        words += option("--margin", "" if self.margin is None else f"{self.margin:g}")
        words += option("--plan", "" if self.plan is None else str(self.plan))
        words += options("--figures", self.formats)
        words += option("--to", "" if self.target is None else str(self.target))
        return shlex.join(words)


def options(name: str, values: Sequence[str]) -> list[str]:
    """The option once for each value."""
    return [word for value in values for word in option(name, value)]


def option(name: str, value: str) -> list[str]:
    """The option with its value; with an equals sign where the value looks like an option itself."""
    if not value:
        return []
    return [f"{name}={value}"] if value.startswith("-") else [name, value]
