"""The pages that messages refer to: carried by the wheel, and in the repository for who works there."""

from pathlib import Path

PACKAGE = Path(__file__).parent


def page(name: str) -> Path:
    """Where a page lies, such as "docs/your-own-model.md"."""
    carried = PACKAGE / "pages" / name
    return carried if carried.is_file() else PACKAGE.parents[1] / name
