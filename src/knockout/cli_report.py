"""`knockout report`: the judgement of a study."""

from rich.markup import escape

from knockout.browser import show_page
from knockout.cli_json import print_document
from knockout.console import print_change, print_damaged, print_report_path, print_verdicts
from knockout.parameters import Figures, Json, Open, Quiet, StudyFolder
from knockout.terminal import hushed, out, say, working


def report(
    folder: StudyFolder, figures: Figures = None, quiet: Quiet = False, open_page: Open = False, as_json: Json = False
) -> None:
    """Judge what a study has so far: verdicts, report.html, report.md, figures and tables."""
    from knockout.analysis import history
    from knockout.analysis.report.documents import report_document
    from knockout.analysis.report.write import write_report
    from knockout.design import dropped_line

    with working(f"judging {folder} and drawing its figures", quiet=quiet):
        written = write_report(folder, formats=figures or ())
    page = written.paths["report.html"]
    if as_json:
        print_document(report_document(written))
        show_page(page, wanted=open_page)
        return
    with hushed(quiet):
        late = history.exploratory(written.results)
        print_verdicts(written.comparison, written.results.design.described, late)
        if written.results.design.dropped:
            say(escape(dropped_line(written.results.design.dropped)))
        for line in written.answer:
            say(escape(line))
    with hushed(quiet and not written.results.change.undeclared):
        print_change(written.results.change)
    with hushed(quiet):
        out.print()
    print_damaged(written.results.damaged)
    print_report_path(written.comparison, page, quiet=quiet)
    show_page(page, wanted=open_page)
