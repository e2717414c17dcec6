"""When results count as those of one source of a trainer, and when a change of it is named."""

import pytest

from knockout.source_changes import SourceChange

A, B, C, D = (letter * 64 for letter in "abcd")


@pytest.mark.parametrize(
    ("recorded", "now", "same", "undeclared", "says"),
    [
        ({}, A, (), False, ""),  # nothing is trained yet
        ({A: 3}, A, (), False, ""),
        ({A: 3}, "", (), False, ""),  # the trainer is not on this machine
        ({A: 3}, B, (), True, "has changed since these results"),
        ({A: 3, B: 1}, B, (), True, "are mixed"),
        ({A: 3, B: 1}, "", (), True, "are mixed"),
        ({A: 3}, B, ((A, B),), False, "--same-trainer declared"),
        ({A: 3, B: 1}, B, ((A, B),), False, "--same-trainer declared"),
        ({A: 3}, C, ((B, C), (A, B)), False, "--same-trainer declared"),  # declared step by step
        ({A: 3}, D, ((A, B), (C, D)), True, "has changed since these results"),  # of two versions
        ({C: 3}, C, ((A, B),), False, ""),  # another version's
    ],
)
def test_what_is_said(
    recorded: dict[str, int], now: str, same: tuple[tuple[str, ...], ...], undeclared: bool, says: str
) -> None:
    change = SourceChange(trainer="mine:train", version=1, recorded=recorded, unrecorded=2, now=now, same=same)
    assert change.undeclared == undeclared
    assert bool(change.lines) == bool(says)
    assert says in "".join(change.lines)
    assert set(change.declared()) == ({*recorded, now} - {""} if undeclared else set())
