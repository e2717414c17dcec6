"""The words of the page itself: headings of its parts, labels of its buttons and fields, what is read aloud."""

from collections.abc import Mapping

from knockout.analysis.report.blocks import Part

PARTS: Mapping[Part, tuple[str, str]] = {
    "answer": ("The answer", ""),
    "limits": ("What limits it", ""),
    "figures": ("Figures", ""),
    "variants": ("Variant by variant", "Each line opens: the verdict in words, its numbers, what it depends on."),
    "details": ("For the specialist", "Each line opens: other tests, sizes, costs, provenance, the glossary."),
}
"""part -> its heading, and a line under it"""

WORDS: Mapping[str, str] = {
    "language": "en",
    "skip": "Skip to the verdicts",
    "contents": "Contents",
    "question": "Question",
    "answer": "Answer",
    "floor": "Floor",
    "note": "Note",
    "theme": "Light or dark",
    "link": "Link to this section",
    "terms": "Terms",
    "data": "Data",
    "in full": "The answer in full sentences, with intervals and marks",
    "filter": "Show variants with",
    "filter hint": "name or change",
    "verdict": "Verdict",
    "all": "all",
    "rows": "{shown} of {all} variants shown",
    "sorted": "Sorted by {column}, {direction}",
    "ascending": "ascending",
    "descending": "descending",
    "baseline": "baseline",
    "copy": "Copy",
    "copy csv": "Copy as CSV",
    "copy tsv": "Copy as TSV",
    "copied": "Copied",
    "not copied": "Not copied: press Ctrl+C",
    "downloads": "Files in this page",
    "table": "Table",
    "figure": "Figure",
    "figures": "Figures",
    "more": "More",
    "whole": "The whole report, to open in a browser",
    "details": "The same as text: each variant in words, all tables, the methods, the glossary",
    "contrasts": "Every number of every contrast",
}
"""what it is -> the words"""
