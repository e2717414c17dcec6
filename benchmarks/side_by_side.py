"""`python -m benchmarks.side_by_side`: the answers of four other tools and Knockout to small inputs.

Writes `results/benchmarks/side_by_side.md`. The four tools are not dependencies of Knockout. Make an environment for
each, anywhere:

    for tool in autorank==1.3.0 scikit-posthocs==0.17.1 'rliable==1.2.0 pandas<3' deepsig==1.2.8; do
        name=${tool%%==*}; python3 -m venv rivals/$name; rivals/$name/bin/pip install $tool
    done
    python -m benchmarks.side_by_side $(for name in autorank scikit-posthocs rliable deepsig; do
        echo --python $name=rivals/$name/bin/python; done)

(rliable needs arch, of which 7.2.0 cannot be imported with pandas 3.) A tool without an interpreter is listed as not
there, and no number is kept for it. Each tool reads each input in a process of its own, so one that raises or hangs
stops nothing else. It takes about five minutes, nearly all of them deepsig's.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs import BASE, CASES, MARGIN, NOTHING, Case, Input

REPOSITORY = Path(__file__).parents[1]
TARGET = REPOSITORY / "results" / "benchmarks" / "side_by_side.md"
RIVALS = REPOSITORY / "benchmarks" / "rivals.py"
TOOLS = ("autorank", "scikit-posthocs", "rliable", "deepsig", "knockout")
PATIENCE = 600
"""Seconds that one tool may take for one input."""

Answer = dict[str, Any]
Answers = Mapping[tuple[int, int, str], Answer]
"""(case, input, tool) -> what was said"""


def main() -> None:
    """Run all tools on all inputs and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--python", action="append", default=[], metavar="TOOL=PATH", help="the interpreter that has a tool"
    )
    pythons = {"knockout": sys.executable}
    for given in parser.parse_args().python:
        name, _, path = given.partition("=")
        if name not in TOOLS or not Path(path).is_file():
            parser.error(f"--python {given}: TOOL=PATH is needed, with a tool of {', '.join(TOOLS)} and a file")
        pythons[name] = path
    answers: dict[tuple[int, int, str], Answer] = {}
    for i, case in enumerate(CASES):
        for j, given_input in enumerate(case.inputs):
            for tool in TOOLS:
                answers[i, j, tool] = asked(tool, case, given_input, pythons.get(tool))
        print(f"{i + 1} of {len(CASES)}: {case.title}", file=sys.stderr, flush=True)
    TARGET.write_text(page(answers), encoding="utf-8")
    print(TARGET)


def asked(tool: str, case: Case, given: Input, python: str | None) -> Answer:
    """What the tool says of the input: a version and a list of `call`, `says`, `verdict`, `instead`."""
    if python is None:
        return {"version": None, "said": [{"call": "", "says": "", "verdict": "not there", "instead": False}]}
    question = {
        "rows": given.rows(),
        "baseline": BASE,
        "target": case.target,
        "margin": MARGIN,
        "instead": case.instead,
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or tool == "knockout"}
    environment["PYTHONSAFEPATH"] = "1"  # a script's own folder is not searched: no file here hides an installed module
    try:
        done = subprocess.run(
            [python, str(RIVALS), tool],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            check=True,
        )
        answer: Answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"version": None, "said": [_failed(f"no answer in {PATIENCE} seconds")]}
    except subprocess.CalledProcessError as error:
        return {"version": None, "said": [_failed((error.stderr.strip() or "no text").splitlines()[-1])]}
    return answer


def _failed(text: str) -> dict[str, Any]:
    """Of a process that did not come to an answer: an import that fails, a crash, a hang."""
    print(f"did not run: {text}", file=sys.stderr)
    return {"call": "", "says": text, "verdict": "did not run", "instead": False}


def page(answers: Answers) -> str:
    """The table, then every case with its input and everything that was said."""
    versions = {
        t: next((a["version"] for (_, _, tool), a in answers.items() if tool == t and a["version"]), None)
        for t in TOOLS
    }
    beside = {
        tool: ", ".join(f"{name} {v}" for name, v in a["beside"].items())
        for (_, _, tool), a in answers.items()
        if a["version"]
    }
    lines = [
        "# Five tools, side by side",
        "",
        "Written by `python -m benchmarks.side_by_side`; the inputs and the right answers are in",
        "`benchmarks/inputs.py`, the calls in `benchmarks/rivals.py`. Each tool is called as its README or docstring",
        "shows, with its defaults; other settings are tried below the table.",
        "",
        f"These {len(CASES)} cases were chosen because some tool goes wrong there: they show what to look out for, and",
        "are no measure of how often. Each of the four is right in other places, and does things that we do not. Ours",
        'has limits of its own: from three seeds on it lets a t test decide, and says "normal theory only" where no',
        "exact test could.",
        "",
        f"Asked is always about `{BASE}` and one variant; higher is better, alpha is .05. What is right is computed",
        "with scipy or by counting all cases. *right*: the verdict is among the right ones; **wrong**: it claims what",
        "those do not; *misses*: it does not find what is there; *in part*: it is true, and leaves something out; what",
        "raises (stops) or gives no verdict is none of these. A verdict is read off p <= .05; of rliable, an",
        "interval of P(improvement) without .5; of deepsig, eps_min < .2, as its README recommends; of autorank, the",
        "last sentence of its report.",
        "",
        *(f"- {t} {versions[t]} with {beside[t]}" for t in TOOLS[:-1] if versions[t]),
        "",
        "| | "
        + " | ".join(f"{t} {versions[t]}" if versions[t] else f"{t} (not there)" for t in TOOLS[:-1])
        + " | Knockout |",
        "|---|" + "---|" * len(TOOLS),
    ]
    for i, case in enumerate(CASES):
        cells = [f"{i + 1}. {case.title}"]
        for tool in TOOLS:
            told = []
            for j, given in enumerate(case.inputs):
                label = f"{given.label} " if given.label else ""
                told += [
                    label + _short(s, given)
                    for s in answers[i, j, tool]["said"]
                    if not s["instead"] and s["verdict"] != "describes"
                ]
            cells.append("<br>".join(told))
        lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
    lines.append("")
    for i, case in enumerate(CASES):
        lines += _section(i, case, answers)
    return "\n".join(lines).rstrip() + "\n"


def _short(said: Mapping[str, Any], given: Input) -> str:
    """Verdict, number and mark, in one line."""
    if said["verdict"] == "not there":
        return "not there"
    number = str(said["says"]).partition(": ")[0].partition("; ")[0]
    name = (
        str(said["call"]).partition("(")[0].removeprefix("posthoc_") if str(said["call"]).startswith("posthoc") else ""
    )
    return f"{name + ': ' if name else ''}{said['verdict']}, {number}{_mark(said['verdict'], given)}"


def _mark(verdict: str, given: Input) -> str:
    word = verdict.partition(" (")[0]
    if word in ("did not run", "stops", "no verdict", "describes"):
        return ""
    if word in given.right:
        return " (*right*)"
    return " (*in part*)" if word in given.in_part else " (*misses*)" if word in NOTHING else " (**wrong**)"


def _section(i: int, case: Case, answers: Answers) -> list[str]:
    lines = [f"## {i + 1}. {case.title}", ""]
    for given in case.inputs:
        lines += ["```text", *([given.label] if given.label else []), *_table(given), "```", ""]
    asked_about = "" if case.target == "variant" else f"Asked about `{case.target}`. "
    lines += [f"**Right**: {asked_about}{case.answer()}", "", case.why, ""]
    lines += ["| tool | call | says | verdict |", "|---|---|---|---|"]
    for j, given in enumerate(case.inputs):
        for tool in TOOLS:
            for said in answers[i, j, tool]["said"]:
                name = f"{tool} {given.label}".strip()
                call = f"`{said['call']}`" if said["call"] else ""
                verdict = f"{said['verdict']}{_mark(said['verdict'], given)}"
                told = [name, call + (" (another setting)" if said["instead"] else ""), said["says"], verdict]
                lines.append("| " + " | ".join(_cell(c) for c in told) + " |")
    return [*lines, ""]


def _table(given: Input) -> list[str]:
    """One line per arm, with the seeds where they are not 1, 2, ..."""
    width = max(len(name) for name in given.arms)
    lines = []
    for name, values in given.arms.items():
        told = "  ".join("diverged" if x is None else f"{x:.3f}" for x in values)
        seeds: Sequence[int] = given.seeds.get(name, ())
        lines.append(f"{name:{width}}  {told}" + (f"   seeds {', '.join(map(str, seeds))}" if seeds else ""))
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
