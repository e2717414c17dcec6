"""`make calibrate`: does the plan keep its error rates? Writes `results/calibration/calibration.{csv,md}`.

`python -m analysis.calibration [--quick] [--only START] [--into FOLDER]`. `--quick` runs a hundredth of the
repetitions. That shows only that everything runs; it prints the page unless a folder is named. `--only` runs the cases
whose ids begin so, and keeps the other rows as they were written before. Results repeat exactly on any number of
processes: the random numbers of a case come from its id, and each 250 repetitions have their own.
"""

import argparse
import csv
import itertools
import math
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

from analysis.calibration.settings import FAMILIES, FAMILY_SEEDS, LAWS, Case, cases
from analysis.calibration.simulate import PLAN, SPREAD, TEXTS, repeat

TARGET = Path(__file__).parents[2] / "results" / "calibration"
ENTROPY = 20260101
CHUNK = 250
FIGURE_REPETITIONS = 2000
"""A number in the specification (analysis/RULES.md) is itself an estimate, from at least this many repetitions."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One simulated case. The CSV holds these, and the page is made from them alone."""

    id: str
    part: str
    setting: str
    what: str
    claim: str
    nominal: str
    estimate: str
    se: str
    """Monte-Carlo standard error of the estimate"""
    repetitions: str
    within: str
    """yes or no"""
    deviation: str
    """in words, where not within"""


def judged(case: Case, values: Sequence[float]) -> Row:
    """A row that compares the mean of the repetitions with the claim."""
    estimate = float(np.mean(values))
    se = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    low, high = _allowed(case, se)
    within = low <= estimate <= high
    words = ""
    if not within:
        bound = case.nominal if estimate < low or case.upper is None else case.upper
        side, far = ("below", bound - estimate) if estimate < low else ("above", estimate - bound)
        far_in_se = f", {far / se:.0f} standard errors" if se else ""
        words = f"{side} {bound:.3g} by {far:.3f}{far_in_se}: {case.because or 'not explained'}"
    nominal = f"{case.nominal:.3g}" + ("" if case.upper is None else f" to {case.upper:.3g}")
    return Row(
        id=case.id,
        part=case.part,
        setting=case.setting,
        what=case.what,
        claim=case.claim,
        nominal=nominal,
        estimate=f"{estimate:.4f}",
        se=f"{se:.4f}",
        repetitions=str(len(values)),
        within="yes" if within else "no",
        deviation=words,
    )


def _allowed(case: Case, se: float) -> tuple[float, float]:
    slack = 3 * se
    if case.claim == "about":
        digit = 10.0 ** -max(2, len(f"{case.nominal:.3g}") - 2) / 2
        slack = 3 * math.hypot(se, math.sqrt(case.nominal * (1 - case.nominal) / FIGURE_REPETITIONS)) + digit
    low = -math.inf if case.claim == "at most" else case.nominal - slack
    return low, (case.nominal if case.upper is None else case.upper) + slack


def run(chosen: Sequence[Case], *, scale: float = 1.0, processes: int = 2) -> list[Row]:
    """The rows of these cases, in their order. `scale` times their repetitions, and 20 at least."""
    tasks = [(i, seeds, size) for i, c in enumerate(chosen) for seeds, size in _chunks(c.id, _repetitions(c, scale))]
    values: list[list[float]] = [[] for _ in chosen]
    started = time.perf_counter()
    with parallel_config("loky", inner_max_num_threads=1):  # BLAS with threads of its own would share our cores
        found = Parallel(n_jobs=processes, return_as="generator")(
            delayed(repeat)(chosen[i].simulate, seeds, size) for i, seeds, size in tasks
        )
        for done, ((i, _, _), told) in enumerate(zip(tasks, found, strict=True), 1):
            values[i] += told
            if done % 50 == 0:
                spent = time.perf_counter() - started
                print(f"{done} of {len(tasks)} parts after {spent:.0f} s", file=sys.stderr, flush=True)
    return [judged(c, v) for c, v in zip(chosen, values, strict=True)]


def _repetitions(case: Case, scale: float) -> int:
    return max(20, round(case.repetitions * scale))


def _chunks(name: str, repetitions: int) -> list[tuple[np.random.SeedSequence, int]]:
    own = np.random.SeedSequence(ENTROPY, spawn_key=(zlib.crc32(name.encode()),))
    sizes = [min(CHUNK, repetitions - start) for start in range(0, repetitions, CHUNK)]
    return list(zip(own.spawn(len(sizes)), sizes, strict=True))


def page(rows: Sequence[Row]) -> str:
    """The page, of the rows alone."""
    missed = [r for r in rows if r.within == "no"]
    made = (
        "Written by `make calibrate` (`analysis/calibration/`), which simulates studies and has the product's own code"
        " judge them; every number here is from [calibration.csv](calibration.csv)."
    )
    how = (
        f"Runs are counts of {TEXTS} texts that share the effect of their seed and, within a study, one baseline; the"
        f" sd of paired differences and the margin are {SPREAD:g} texts ({PLAN.margin:g} points) each. alpha is"
        f" {PLAN.alpha:g}. Within: `at most`, no more than 3 Monte-Carlo standard errors (se) above the nominal value;"
        " `is`, no further than 3 se from it; `between`, no further than 3 se outside; `about`, a figure of the"
        " [specification](../../analysis/RULES.md#specification-of-the-simulations) that was itself simulated: 3"
        " standard errors of the difference of two estimates (the other"
        f" taken as of {FIGURE_REPETITIONS} repetitions) and half a unit of its last digit."
    )
    laws = (
        "`normal`: runs add normal noise. `skewed arms`: all arms add exponential noise, and the difference of two such"
        " arms is symmetric. `skewed differences`: variants add exponential noise (skewness 2) and the baseline none;"
        " `very skewed`: lognormal noise (6.2); so every difference is skewed to one side. `every run fails`: of all"
        " arms alike, which is a null; `one variant fails`: it alone does, which is an effect, so its own verdict is"
        " not counted. A false verdict is `better`, `worse` or `trivial`: p <= alpha after Holm."
    )
    unpaired = (
        "Runs without seeds are independent normal values, and share nothing but the baseline of their study, whose sd"
        f" is {SPREAD:g} texts. The power there is at the minimum detectable difference of the true sds."
    )
    count = f"{len(rows)} rows, of which {len(rows) - len(missed)} are within and {len(missed)} are not."
    lines = [
        "# Does the plan keep its error rates?",
        "",
        made,
        "",
        how,
        "",
        laws,
        "",
        unpaired,
        "",
        count,
        "",
        "## What is not within",
        "",
    ]
    lines += [f"- {r.part}; {r.setting}: {r.what}: {r.estimate}, {r.deviation}." for r in missed] or ["Nothing."]
    for part, members in itertools.groupby(rows, lambda r: r.part):
        of_part = list(members)
        lines += ["", f"## {part}", ""]
        if any(r.id.startswith("family/") for r in of_part):
            lines += _matrix(of_part)
        lines += [
            "| setting | what | nominal | estimate | se | repetitions | within |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {r.setting} | {r.what} | {r.claim} {r.nominal} | {r.estimate} | {r.se} | {r.repetitions}"
            f" | {r.deviation or 'within'} |"
            for r in of_part
        ]
    return "\n".join(lines) + "\n"


def _matrix(rows: Sequence[Row]) -> list[str]:
    """Family-wise error at a glance: a row per law and K, a column per n; bold is not within."""
    told = {r.id: f"**{r.estimate}**" if r.within == "no" else r.estimate for r in rows}
    lines = [
        "| differences | K | " + " | ".join(f"n = {n}" for n in FAMILY_SEEDS) + " |",
        "|---|---|" + "---|" * len(FAMILY_SEEDS),
    ]
    for law, k in itertools.product(LAWS, FAMILIES):
        found = [told.get(f"family/{law.replace(' ', '-')}/n{n}/k{k}", "") for n in FAMILY_SEEDS]
        if any(found):
            lines.append(f"| {law} | {k} | " + " | ".join(found) + " |")
    return [*lines, ""]


def write(rows: Sequence[Row], folder: Path) -> None:
    """`calibration.csv`, and `calibration.md` from what the csv holds."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "calibration.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(r) for r in rows)
    (folder / "calibration.md").write_text(page(read(path)), encoding="utf-8")


def read(path: Path) -> list[Row]:
    """The rows of a csv that `write` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**record) for record in csv.DictReader(file)]


def kept(folder: Path, defined: Sequence[Case], chosen: Sequence[Case]) -> list[Row]:
    """The rows in a folder of the cases that do not run again.

    Raises `SystemExit` where one of them is not there, or is of other claims or repetitions than the case has now.
    """
    path = folder / "calibration.csv"
    there = {r.id: r for r in read(path)} if path.is_file() else {}
    rows = []
    for case in [c for c in defined if c not in chosen]:
        row = there.get(case.id)
        if row is None or _described(row) != (
            *(case.part, case.setting, case.what, case.claim),
            str(case.repetitions),
        ):
            raise SystemExit(f"{path}: the row of {case.id} is not there, or of an earlier setting: run it too")
        rows.append(row)
    return rows


def _described(row: Row) -> tuple[str, ...]:
    return row.part, row.setting, row.what, row.claim, row.repetitions


def in_order(rows: Sequence[Row], defined: Sequence[Case]) -> list[Row]:
    """The rows in the order in which their cases are defined."""
    place = {c.id: i for i, c in enumerate(defined)}
    return sorted(rows, key=lambda r: place[r.id])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, and write it."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.calibration", description="Does the plan keep its error rates?"
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the repetitions: shows only that it runs")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help=f"where to write; {TARGET} unless --quick is given")
    parser.add_argument(
        "--only", default="", metavar="START", help="run the cases whose ids begin so, and keep the rows of all others"
    )
    told = parser.parse_args(arguments)
    defined = cases()
    chosen = [c for c in defined if c.id.startswith(told.only)]
    if not chosen:
        parser.error(f'no case whose id begins with "{told.only}"')
    folder = told.into or (None if told.quick else TARGET)
    before = [] if folder is None or not told.only else kept(folder, defined, chosen)
    rows = in_order([*before, *run(chosen, scale=0.01 if told.quick else 1.0)], defined)
    if folder is None:
        print(page(rows), end="")
    else:
        write(rows, folder)
        print(
            f"{sum(r.within == 'no' for r in rows)} of {len(rows)} rows are not within: see {folder / 'calibration.md'}"
        )


if __name__ == "__main__":
    main()
