"""The language of reports: English as the code has it, others from the catalogues in `knockout/locale`.

A text that a reader sees is wrapped where it is made: `tr("{n} of {m} runs failed", n=3, m=5)`. A module's constant is
marked with `marked`, and translated where it is shown: `tr(TITLE)`. `make messages` collects both.
"""

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.resources import files

from knockout.errors import UserError

LANGUAGES = {"en": "English", "zh": "中文"}
"""code -> what a language calls itself"""

_speaking: ContextVar[str] = ContextVar("language", default="en")
_catalogues: dict[str, gettext.NullTranslations] = {"en": gettext.NullTranslations()}


def tr(message: str, /, **values: object) -> str:
    """The message in the language of the report, with the values in its braces, as `str.format` sets them."""
    text = _catalogue(_speaking.get()).gettext(message)
    return text.format(**values) if values else text


def marked(message: str) -> str:
    """The message itself, marked as one to translate later."""
    return message


def current_language() -> str:
    """The code of the language spoken now, such as "en"."""
    return _speaking.get()


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Within the block, `tr` speaks this language. Raises `UserError` for one that Knockout does not know."""
    if code not in LANGUAGES:
        known = " and ".join(f"{known} ({name})" for known, name in LANGUAGES.items())
        raise UserError(f"--lang {code}: reports are written in {known}")
    token = _speaking.set(code)
    try:
        yield
    finally:
        _speaking.reset(token)


def _catalogue(code: str) -> gettext.NullTranslations:
    if code not in _catalogues:
        with (files("knockout") / "locale" / code / "LC_MESSAGES" / "knockout.mo").open("rb") as compiled:
            _catalogues[code] = gettext.GNUTranslations(compiled)
    return _catalogues[code]
