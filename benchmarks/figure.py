"""One figure of the benchmarks."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`value` is compared with the target `bar`; `parts` are what it was computed from (seconds by default)."""

    what: str
    value: float
    unit: str
    parts: dict[str, float]
    bar: float | None = None
    least: bool = True
    """whether the target is the smallest value that passes, or the largest"""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; `None` where there is none."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.least else self.value <= self.bar
