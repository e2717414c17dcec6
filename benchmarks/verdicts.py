"""The time and memory of the statistics of a large study, and of importing them."""

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figure import Figure

VARIANTS, SEEDS, EXAMPLES = 16, 30, 25_000

COMPARED = """
import json, resource, sys, time
import numpy as np, pandas as pd
from knockout.analysis import compare
from knockout.analysis.report.audit_trail import account
variants, seeds, examples = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
easy = rng.normal(1.1, 1.2, examples)  # how easy each text is, for every run
rows = []
for v in range(variants + 1):
    for s in range(seeds):
        right = easy + rng.normal(0, 0.7, examples) + rng.normal(0, 0.03) - 0.02 * (v == 3) > 0
        rows.append({"variant": f"v{v}", "seed": s, "correct": right})
frame = pd.DataFrame(rows)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
found = compare(frame, baseline="v0")
account(found)
seconds = time.perf_counter() - started
assert all(c.two_source is not None and len(c.left_out) == seeds for c in found.contrasts)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "peak": peak / 2**20, "before": before / 2**20}))
"""

IMPORTS = {"pandas and scipy.stats": "import pandas, scipy.stats", "knockout.analysis": "import knockout.analysis"}
REPEATS = 5


def statistics(folder: Path) -> list[Figure]:  # noqa: ARG001
    """`compare` with everything that it says, and the account of it, of 16 variants, 30 seeds and 25,000 examples; and
    `import knockout.analysis` over importing pandas and scipy.stats, the best of five fresh processes each."""
    told = json.loads(_run(COMPARED, str(VARIANTS), str(SEEDS), str(EXAMPLES)))
    best = dict.fromkeys(IMPORTS, float("inf"))
    for _ in range(REPEATS):
        for name, program in IMPORTS.items():
            started = time.perf_counter()
            _run(program)
            best[name] = min(best[name], time.perf_counter() - started)
    what = f"statistics of {VARIANTS} variants x {SEEDS} seeds x {EXAMPLES:,} examples"
    return [
        Figure(what=what, value=told["seconds"], unit="s", parts={}, bar=10.0, least=False),
        Figure(
            what=f"{what}: memory of the process",
            value=told["peak"],
            unit="GiB",
            parts={"before": told["before"]},
            bar=2.0,
            least=False,
        ),
        Figure(
            what="import knockout.analysis over pandas and scipy.stats",
            value=best["knockout.analysis"] / best["pandas and scipy.stats"],
            unit="x",
            parts=best,
            bar=1.3,
            least=False,
        ),
    ]


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
