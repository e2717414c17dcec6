"""The Optuna study is a mirror: it never decides, and can always be rebuilt."""

from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from knockout.ledger import read_ledger
from knockout.study import design, read_study
from knockout.sweep.allocate import JOURNAL, Allocation, repair_tail
from knockout.sweep.answer import Answer, Objective

from .conftest import WriteToy, numbers, root_of, run


def open_allocation(study_file: Path) -> Allocation:
    study = read_study(study_file)
    root = root_of(study_file)
    root.mkdir(parents=True, exist_ok=True)
    runs = design(study, data_id="")
    ledger = read_ledger(root)
    return Allocation(root, study.name, runs=runs, ledger=ledger, todo=ledger.missing(runs))


def mirrored(allocation: Allocation) -> dict[tuple[str, int], tuple[str, float | None]]:
    """(variant, seed) -> (state, value) of the trials that stand for records."""
    return {
        (t.user_attrs["variant"], t.user_attrs["seed"]): (t.state.name, t.value)
        for t in allocation.study.get_trials()
        if t.user_attrs.get("status") in ("finished", "diverged")
    }


def expected(study_file: Path) -> dict[tuple[str, int], tuple[str, float | None]]:
    out: dict[tuple[str, int], tuple[str, float | None]] = {}
    for record in read_ledger(root_of(study_file)).records.values():
        told = record.outcome["metrics"].get("validation")
        value = told["correct"] / told["count"] if told else None
        out[record.config["variant"], record.config["seed"]] = ("COMPLETE" if told else "FAIL", value)
    return out


def test_cells_are_asked_in_order_each_once_and_told(toy: WriteToy) -> None:
    study = toy(seeds=2)
    allocation = open_allocation(study)
    asked = [allocation.ask() for _ in range(len(allocation))]
    assert [(a.run.variant, a.run.seed) for a in asked] == [(v, s) for s in (0, 1) for v in ("baseline", "up", "down")]
    assert [a.trial.number for a in asked] == list(range(6))
    objective = Objective(value=0.7, split="validation")
    allocation.tell(
        asked[0], Answer(run=asked[0].run, status="finished", objective=objective, epochs=((1, 0.6), (2, 0.7)))
    )
    allocation.tell(asked[1], Answer(run=asked[1].run, status="diverged", reason="loss not finite at step 3"))
    first, second = allocation.study.get_trials()[:2]
    assert (first.state.name, first.value, first.intermediate_values) == ("COMPLETE", 0.7, {1: 0.6, 2: 0.7})
    assert (second.state.name, second.user_attrs["reason"]) == ("FAIL", "loss not finite at step 3")
    with pytest.raises(IndexError):
        allocation.ask()  # never an invented trial


def test_the_study_mirrors_the_ledger_and_is_rebuilt_when_lost(toy: WriteToy) -> None:
    study = toy(variants=("up", "diverges"), seeds=2)
    run(study)
    assert mirrored(open_allocation(study)) == expected(study)
    assert len(expected(study)) == 6
    (root_of(study) / JOURNAL).unlink()
    assert mirrored(open_allocation(study)) == expected(study)


def test_a_wanted_run_is_brought_forward_and_the_others_keep_their_order(toy: WriteToy) -> None:
    allocation = open_allocation(toy(variants=("up",), seeds=3))
    assert not allocation.bring_forward(lambda run: run.seed == 7)
    assert allocation.bring_forward(lambda run: run.seed == 1)
    asked = [(a.run.variant, a.run.seed) for a in (allocation.ask() for _ in range(len(allocation)))]
    assert asked == [("baseline", 1), ("baseline", 0), ("up", 0), ("up", 1), ("baseline", 2), ("up", 2)]


def test_a_placebo_is_mirrored_with_the_seed_that_it_pairs_with(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=2, extra="placebo = 1")
    run(study)
    told = mirrored(open_allocation(study))
    assert set(told) == {(v, s) for v in ("baseline", "up", "placebo_1") for s in (0, 1)}
    trials = open_allocation(study).study.get_trials()
    (own,) = (t for t in trials if t.user_attrs["variant"] == "placebo_1" and t.user_attrs["seed"] == 1)
    assert own.user_attrs["stream"] > 1
    assert not list(root_of(study).glob(f"{JOURNAL}.unreadable-*"))
    (root_of(study) / JOURNAL).unlink()
    assert mirrored(open_allocation(study)) == told


@pytest.mark.long
def test_a_torn_tail_at_every_byte_is_repaired(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=1)
    run(study)
    journal = root_of(study) / JOURNAL
    whole = journal.read_bytes()
    want = expected(study)
    last_lines = whole.rfind(b"\n", 0, len(whole) - 1) + 1
    for end in (*range(last_lines - 40, len(whole)), *range(0, last_lines, 97)):
        journal.write_bytes(whole[:end])
        assert mirrored(open_allocation(study)) == want, end
        assert mirrored(open_allocation(study)) == want, end
    assert any(p.name.startswith(f"{JOURNAL}.torn-") for p in root_of(study).iterdir())


def test_a_lost_line_does_not_shift_results_to_other_cells(toy: WriteToy) -> None:
    study = toy(seeds=2)
    run(study)
    journal = root_of(study) / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    want = expected(study)
    for lost in range(len(lines)):
        journal.write_bytes(b"".join(lines[:lost] + lines[lost + 1 :]))
        assert mirrored(open_allocation(study)) == want, lost


@pytest.mark.parametrize("garbage", [b"not json\n", b"\x00\xff\n", b"{}\n", b'{"op_code": 99}\n'])
def test_a_journal_that_cannot_be_read_is_kept_and_made_again(toy: WriteToy, garbage: bytes) -> None:
    study = toy(seeds=1)
    run(study)
    journal = root_of(study) / JOURNAL
    journal.write_bytes(garbage + journal.read_bytes())
    assert mirrored(open_allocation(study)) == expected(study)
    kept = [p for p in root_of(study).iterdir() if ".unreadable-" in p.name]
    assert [p.read_bytes()[: len(garbage)] for p in kept] == [garbage]


def test_a_lock_that_optuna_would_wait_for_holds_nothing_up(toy: WriteToy) -> None:
    study = toy(seeds=1)
    run(study)
    (root_of(study) / f"{JOURNAL}.lock").symlink_to("nowhere")
    assert len(mirrored(open_allocation(study))) == 3


def test_optuna_itself_can_read_the_journal(toy: WriteToy) -> None:
    study = toy(seeds=1)
    run(study)
    storage = JournalStorage(JournalFileBackend(str(root_of(study) / JOURNAL)))
    (name,) = optuna.get_all_study_names(storage)
    trials = optuna.load_study(study_name=name, storage=storage).get_trials()
    assert [t.user_attrs["status"] for t in trials] == ["finished"] * 3


def test_trials_of_a_coordinator_that_died_are_closed(toy: WriteToy) -> None:
    study = toy(seeds=1)
    allocation = open_allocation(study)
    allocation.ask()
    allocation.study.ask()  # died before it could say which cell
    again = open_allocation(study)
    assert [t.state.name for t in again.study.get_trials()] == ["FAIL", "FAIL"]
    assert len(again) == 3


def test_added_variants_get_new_cells_and_old_ones_keep_theirs(toy: WriteToy) -> None:
    study = toy(variants=("up",), seeds=2)
    run(study)
    before = dict(open_allocation(study).cells)
    toy(variants=("down", "up"), seeds=3)
    after = open_allocation(study).cells
    assert before.items() <= after.items()
    assert sorted(after.values()) == list(range(9))


def test_ten_seeds_by_hand(toy: WriteToy) -> None:
    """The numbers in the mirror are those of the ledger for a study of some size."""
    study = toy(seeds=10)
    run(study, "--workers", "3")
    assert len(numbers(study)) == 30
    assert mirrored(open_allocation(study)) == expected(study)


def test_no_tail_no_repair(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    assert repair_tail(path) == b""
    path.write_bytes(b'{"a": 1}\n{"b"')
    assert repair_tail(path) == b'{"b"'
    assert path.read_bytes() == b'{"a": 1}\n'
