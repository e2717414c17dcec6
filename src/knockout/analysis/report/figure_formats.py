"""The formats that figures are written in."""

from collections.abc import Sequence
from typing import Literal, get_args

from knockout.errors import UserError
from knockout.strict import printable

Format = Literal["svg", "pdf", "png"]
FORMATS: tuple[Format, ...] = get_args(Format)


def asked_formats(names: Sequence[str]) -> tuple[Format, ...]:
    """The formats by name, SVG first and always among them, each once.

    Raises `UserError` for a name that is none.
    """
    for name in names:
        if name not in FORMATS:
            raise UserError(
                f"figures cannot be written as {printable(name)[:40]!r}: the formats are {', '.join(FORMATS)}"
            )
    wanted = {"svg", *names}
    return tuple(form for form in FORMATS if form in wanted)
