"""`python -m benchmarks [NAME ...]`: run the benchmarks and write `results/benchmarks/<machine>.{json,md}`.

Figures are ratios of times measured within the same minutes on the same machine. Absolute times on a shared machine
mean little; they stand beside the ratios only to show what these are computed from. With names (of functions, such as
`training`), only these run, and their rows replace the old ones on this machine's page, which says so.
"""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.measuring import measuring
from benchmarks.studies import REPOSITORY, evaluation, overhead_per_run, start_up, whole_study
from benchmarks.tokenising import tokenising
from benchmarks.training import training
from benchmarks.verdicts import statistics

BENCHMARKS: tuple[Callable[[Path], list[Figure]], ...] = (
    training, measuring, whole_study, evaluation, tokenising, overhead_per_run, start_up, statistics,
)  # fmt: skip
PACKAGES = ("torch", "numpy", "scipy", "pandas", "statsmodels", "optuna", "tokenizers", "transformers")


def main() -> None:
    """Run what was asked for, print it, and write it where all was run."""
    chosen = [b for b in BENCHMARKS if b.__name__ in sys.argv[1:]] or list(BENCHMARKS)
    started = time.perf_counter()
    figures: list[Figure] = []
    for benchmark in chosen:
        with tempfile.TemporaryDirectory() as folder:
            figures += benchmark(Path(folder))
        print(f"{benchmark.__name__}: done after {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    facts: dict[str, object] = {
        "machine": re.sub(r"[^a-z0-9]+", "-", f"{platform.system()} {_processor()} {os.cpu_count()} cores".lower()),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads of each process": 1,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "commit": _git("rev-parse", "HEAD") + ("+" if _git("status", "--porcelain", "src", "benchmarks") else ""),
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - started),
    }
    target = REPOSITORY / "results" / "benchmarks"
    target.mkdir(parents=True, exist_ok=True)
    kept = target / f"{facts['machine']}.json"
    if len(chosen) < len(BENCHMARKS):
        figures, facts = _beside(figures, facts, [b.__name__ for b in chosen], kept)
    page = _page(figures, facts)
    print(page)
    kept.with_suffix(".md").write_text(page, encoding="utf-8")
    told = {"facts": facts, "figures": [{**asdict(f), "met": f.met} for f in figures]}
    kept.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _beside(
    figures: list[Figure], facts: dict[str, object], names: list[str], kept: Path
) -> tuple[list[Figure], dict[str, object]]:
    """New rows among the old ones of this machine, and the facts of the old ones with when the new were measured."""
    if not kept.is_file():
        return figures, facts
    old = json.loads(kept.read_text(encoding="utf-8"))
    new = {f.what: f for f in figures}
    rows = [Figure(**{k: v for k, v in row.items() if k != "met"}) for row in old["figures"]]
    merged = [new.pop(f.what, f) for f in rows] + list(new.values())
    versions = ", ".join(f"{name} {facts[name]}" for name in ("numpy", "scipy", "pandas", "statsmodels"))
    when = {f"{name}, measured apart": f"{facts['date']}, commit {facts['commit']}, {versions}" for name in names}
    return merged, {**old["facts"], **when}


def _page(figures: list[Figure], facts: Mapping[str, object]) -> str:
    lines = [
        f"# Benchmarks on {facts['machine']}",
        "",
        "Written by `make bench`. Times are in seconds. Of a bar that is missed docs/speed.md says more.",
        "",
    ]
    lines += ["| what | figure | bar | met | made of |", "|---|---|---|---|---|"]
    for f in figures:
        bar = "" if f.bar is None else f"{'>=' if f.least else '<='} {f.bar:g} {f.unit}".rstrip()
        met = {None: "", True: "yes", False: "**no**"}[f.met]
        parts = ", ".join(f"{name}: {value:.4g}" for name, value in f.parts.items())
        lines.append(f"| {f.what} | {f'{f.value:.3g} {f.unit}'.rstrip()} | {bar} | {met} | {parts} |")
    lines += ["", *(f"- {name}: {value}" for name, value in facts.items() if name != "machine"), ""]
    return "\n".join(lines)


def _processor() -> str:
    """The name that the processor gives itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
