from pathlib import Path

from knockout.analysis.report.glossary import GLOSSARY, glossary_markdown

DOCS = Path(__file__).parents[3] / "docs" / "glossary.md"


def test_the_page_of_the_docs_is_the_glossary_of_the_reports() -> None:
    assert DOCS.read_text(encoding="utf-8") == glossary_markdown()


def test_every_term_stands_once() -> None:
    names = [term.name for term in GLOSSARY]
    assert len(set(names)) == len(names)
