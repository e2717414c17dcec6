"""Numbers of things in words."""

from knockout.language import current_language, tr


def plural(n: int, noun: str) -> str:
    """The number and its noun, such as "1 run" and "1,200 runs"; of nouns that end in -s or -sh, add -es.

    In a language without plural forms the noun's translation stands after the number as it is.
    """
    if current_language() != "en":
        return f"{n:,} {tr(noun)}"
    ending = "es" if noun.endswith(("s", "sh")) else "s"
    return f"{n:,} {noun}{'' if n == 1 else ending}"
