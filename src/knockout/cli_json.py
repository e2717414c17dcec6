"""`--json`: one object on standard output, and nothing else there."""

from collections.abc import Sequence

from knockout.schema import VERSION, Document, Error, Failure, document_text
from knockout.screen import stdout

OPTION = "--json"


def asked_for_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON: known before it is read, so that its own faults are JSON as well."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return OPTION in options


def print_document(document: Document) -> None:
    """Print the object of a command."""
    stdout.write(document_text(document))
    stdout.flush()


def print_failure(message: str, arguments: Sequence[str]) -> None:
    """Print what the user can mend, as the object of the command that the arguments name."""
    command = next((given for given in arguments if not given.startswith("-")), "")
    print_document(Failure(schema=VERSION, command=command, error=Error(message=message)))
