"""The example study and plan that `knockout init` writes, every key commented."""

from importlib import resources
from pathlib import Path

from knockout.files import replace_text
from knockout.strict import Fault, FaultsError
from knockout.study import default_plan_text

STUDY, PLAN = "first_study.toml", "plan.toml"


def write_starter(folder: Path) -> list[Path]:
    """Write the example study and plan into a folder, created if missing, and return their paths.

    Raises `FaultsError` where either file exists: nothing is overwritten. `OSError` when the disk refuses.
    """
    texts = {
        STUDY: (resources.files("knockout") / "starter.toml").read_text(encoding="utf-8"),
        PLAN: default_plan_text(),
    }
    there = [name for name in texts if (folder / name).exists()]
    if there or (folder.exists() and not folder.is_dir()):
        got = f"already there: {', '.join(there)}" if there else "is a file"
        raise FaultsError([Fault(file=str(folder), got=got, allowed="an empty or a new folder")])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, text in texts.items():
            replace_text(folder / name, text)
    except OSError:  # half a starter would be in the way of the next try
        for name in texts:
            (folder / name).unlink(missing_ok=True)
        raise
    return [folder / name for name in texts]
