"""From runs to verdicts, figures and a report. Never imports torch, Optuna or datasets; matplotlib only to draw.

from knockout.analysis import compare
"""

from knockout.analysis.external.compare import compare
from knockout.analysis.external.frame import FrameError
from knockout.analysis.report.printed import Comparison, Contrast
from knockout.analysis.stats.trace import replay
from knockout.study import Plan

__all__ = ["Comparison", "Contrast", "FrameError", "Plan", "compare", "replay"]
