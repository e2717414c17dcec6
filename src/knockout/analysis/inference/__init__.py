"""From runs to verdicts: pairs, contrasts, the planned test, the verdict, and what stands beside it."""
