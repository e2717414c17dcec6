"""What `knockout init` writes: a study and plan, every key commented; with a trainer of one's own if asked for."""

from importlib import resources
from pathlib import Path

from knockout.files import replace_text
from knockout.strict import Fault, FaultsError
from knockout.study import default_plan_text

STUDY, PLAN, TRAINER = "first_study.toml", "plan.toml", "my_trainer.py"


def write_starter(folder: Path, *, trainer: bool = False) -> list[Path]:
    """Write the example study and plan into a folder, created if missing, and return their paths.

    `trainer`: the study is of a trainer that is written beside it. Raises `FaultsError` where one of the files exists:
    nothing is overwritten. `OSError` when the disk refuses.
    """
    texts = {STUDY: _packaged("starter_trainer.toml" if trainer else "starter.toml"), PLAN: default_plan_text()}
    texts |= {TRAINER: _packaged("starter_trainer.py")} if trainer else {}
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


def _packaged(name: str) -> str:
    return (resources.files("knockout") / name).read_text(encoding="utf-8")
