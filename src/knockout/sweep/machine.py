"""This machine: the devices that runs are spread over, and how many workers train at once."""

import os
import sys
from dataclasses import dataclass

from knockout.errors import UserError
from knockout.study import Study
from knockout.sweep.work import torch_version


class RefusedError(UserError):
    """Cannot run here: no such device, a folder that cannot be written, or records from elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where runs are trained."""

    devices: tuple[str, ...]
    """such as "cpu", or "cuda:0" and "cuda:1"; never empty"""
    workers: int


def machine_of(study: Study, *, workers: int | None = None) -> Machine:
    """The devices and workers that a study gets here; `workers` overrides what the study says.

    Raises `RefusedError`.
    """
    devices = devices_of(study)
    return Machine(devices=tuple(devices), workers=workers or workers_of(study, devices))


def devices_of(study: Study) -> list[str]:
    """The devices to spread runs over. Torch is asked only where the study leaves a choice."""
    if study.run.device == "cpu" or (study.run.device == "auto" and not torch_version()):
        return ["cpu"]
    import torch  # seconds; a study on the CPU never gets here

    if study.run.device in ("auto", "cuda") and torch.cuda.is_available():
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if study.run.device in ("auto", "mps") and torch.backends.mps.is_available():
        return ["mps"]
    if study.run.device != "auto":
        raise RefusedError(
            f'run.device = "{study.run.device}", but torch {torch.__version__} sees none here; allowed: "cpu"'
        )
    return ["cpu"]


def workers_of(study: Study, devices: list[str]) -> int:
    """Worker processes: what the study says, or one for each GPU, or one for each core over the threads of each."""
    if study.run.workers:
        return study.run.workers
    if devices != ["cpu"]:
        return len(devices)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, cores // study.run.threads)
