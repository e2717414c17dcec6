"""Tables in LaTeX: what is escaped, and that a real LaTeX compiles whatever a variant is called."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from knockout.analysis import compare
from knockout.analysis.report.blocks import Cell, table
from knockout.analysis.report.latex import latex_file, latex_text, tabular
from knockout.analysis.report.sections.methods import REFERENCES, cited, paragraph, tables_tex
from tests.analysis.frames import BASE, MOVED, tidy

HOSTILE = (
    *(r"\input{/etc/passwd}", "$x^2_1$ & 50 % #1 {", "}\\\\[9pt]", "[x]", "*", "~`'\"<>|", "注意力", "🙂", "é ñ ß"),
    *("a\nb", "^^M", "?`!`", "−1 ± 2 → 3 × 4 … “q”", "x" * 200),
)
COMPILERS = ("tectonic", "xelatex", "lualatex", "pdflatex")


@pytest.mark.parametrize(
    ("raw", "latex"),
    [
        ("no_x & 50 %", r"no\_x \& 50 \%"),
        ("\\", r"\textbackslash{}"),
        ("{}", r"\{\}"),
        ("[x]", "{[}x{]}"),
        ("注", r"\othercharacter{6CE8}{注}"),
        ("é", "é"),
        ("a\nb", "a b"),
    ],
)
def test_what_means_something_to_latex_is_escaped(raw: str, latex: str) -> None:
    assert latex_text(raw) == latex


def test_no_name_adds_a_column_or_a_row() -> None:
    text = tabular(table(("Variant", "#p"), [(Cell(text=name), ".05") for name in HOSTILE]))
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
    assert len(body) == len(HOSTILE)
    for line in body:
        assert line.endswith(r" & .05 \\")
        bare = re.sub(r"\\textbackslash|\\[&%#_{}$]", "", line.removesuffix(r"\\"))
        assert bare.count("&") == 1
        assert "%" not in bare
        assert bare.count("{") == bare.count("}")


@pytest.mark.long
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_file_compiles(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    rows = [(Cell(text=name, notes=(name,)), name) for name in HOSTILE]
    made = latex_file([("one", " ".join(HOSTILE[:-1]), table(("Variant", "#%_&"), rows))])
    (tmp_path / "tables.tex").write_text(made, encoding="utf-8")
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,textcomp}\n\\begin{document}\n"
        "\\input{tables}\n\\end{document}\n"
    )
    options = [] if compiler == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    done = subprocess.run([compiler, *options, "paper.tex"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 5_000


def test_the_tables_have_a_row_for_every_variant() -> None:
    found = compare(
        tidy({"base": BASE, "no_x": MOVED, "y%": [x - 0.001 for x in BASE]}), baseline="base", metric="accuracy"
    )
    text = tables_tex(found)
    assert text.count(r"\begin{table}") == text.count(r"\toprule") == text.count(r"\bottomrule") == 2
    assert text.count("\nno\\_x & ") == text.count("\ny\\% & ") == 2
    assert text.count("\nbase & ") == 1


def test_the_methods_change_with_the_numbers() -> None:
    """Each figure of the paragraph is that of the plan or of the runs."""
    few = compare(tidy({"base": BASE[:5], "no_x": MOVED[:5]}), baseline="base", metric="accuracy", margin=1)
    many = compare(
        tidy({"base": BASE, "no_x": [*MOVED[:7], "diverged"], "z": BASE}), baseline="base", metric="accuracy", margin=2
    )
    one, two = paragraph(few, late={}), paragraph(many, late={})
    assert "1 variant with the baseline “base” in accuracy (higher is better), on 5 random seeds (0 to 4)" in one
    assert "2 variants with the baseline “base” in accuracy (higher is better), on 8 random seeds (0 to 7)" in two
    assert "over all 1 contrast at" in one
    assert "over all 2 contrasts at" in two
    assert "a margin of ±1 point was" in one
    assert "a margin of ±2 points was" in two
    assert "No run failed." in one
    assert "Runs failed: 1 of 8 of no_x." in two


def test_only_what_the_paragraph_cites_is_listed() -> None:
    found = compare(tidy({"base": BASE, "no_x": MOVED}), baseline="base", metric="accuracy")
    text = paragraph(found, late={})
    for key, entry in REFERENCES.items():
        assert (entry in cited(text)) == (f"({key})" in text), key
    assert "Lachin" not in "".join(cited(text))  # no run failed
