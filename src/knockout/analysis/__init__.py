"""From runs to verdicts, figures and a report. Never imports torch, Optuna or datasets; matplotlib only to draw.

from knockout.analysis import compare
"""

from knockout.analysis.external.compare import compare, compare_unpaired
from knockout.analysis.external.frame import FrameError
from knockout.analysis.external.step_curves import curves
from knockout.analysis.report.curves_alone import Curves
from knockout.analysis.report.printed import Comparison, Contrast
from knockout.analysis.report.unpaired import UnpairedComparison
from knockout.analysis.stats.trace import replay
from knockout.study import Plan

__all__ = [
    "Comparison",
    "Contrast",
    "Curves",
    "FrameError",
    "Plan",
    "UnpairedComparison",
    "compare",
    "compare_unpaired",
    "curves",
    "replay",
]
