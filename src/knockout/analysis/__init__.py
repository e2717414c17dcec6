"""From runs to verdicts, figures and a report. Never imports torch, Optuna or datasets; matplotlib only to draw.

from knockout.analysis import compare
"""

from knockout.analysis.columns import FrameError
from knockout.analysis.compare import compare
from knockout.analysis.comparison import Comparison
from knockout.analysis.contrasts import Contrast
from knockout.study import Plan

__all__ = ["Comparison", "Contrast", "FrameError", "Plan", "compare"]
