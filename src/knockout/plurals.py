"""Numbers of things in words."""


def plural(n: int, noun: str) -> str:
    """The number and its noun, such as "1 run" and "1,200 runs"; of nouns that end in -s or -sh, add -es."""
    ending = "es" if noun.endswith(("s", "sh")) else "s"
    return f"{n:,} {noun}{'' if n == 1 else ending}"
