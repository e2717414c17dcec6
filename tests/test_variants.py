"""The registry: what each variant changes, and which combinations can be built."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import MutableMapping
from itertools import combinations
from typing import Any, Literal, cast, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knockout.variants import BASELINE, PAPERS, SYSTEMS, VARIANTS, VERSION, Factors, Recipe, changes, faults, papers_of

# Written by hand from the names: variant -> factor -> (in the baseline, here).
EXPECTED: dict[str, dict[str, tuple[Any, Any]]] = {
    "baseline": {},
    "no_position": {"position": ("sinusoidal", "none")},
    "position_learned": {"position": ("sinusoidal", "learned")},
    "rope": {"position": ("sinusoidal", "rope")},
    "alibi": {"position": ("sinusoidal", "alibi")},
    "t5_bias": {"position": ("sinusoidal", "t5")},
    "position_by_row": {"position": ("sinusoidal", "sinusoidal_by_row")},
    "no_residual": {"residual": (True, False)},
    "no_scale": {"scale": ("sqrt_dk", "none")},
    "heads_1": {"num_heads": (8, 1)},
    "heads_16": {"num_heads": (8, 16)},
    "head_size_32": {"head_size": (0, 32)},
    "tied_qk": {"projections": ("separate", "tied_qk")},
    "shared_qkv": {"projections": ("separate", "shared")},
    "qk_norm": {"qk_norm": (False, True)},
    "no_attention": {"mixing": ("attention", "none")},
    "fourier": {"mixing": ("attention", "fourier")},
    "no_ffn": {"feed_forward": (True, False)},
    "gelu": {"activation": ("relu", "gelu")},
    "swiglu": {"activation": ("relu", "swiglu")},
    "pool_max": {"pooling": ("mean", "max")},
    "pool_cls": {"pooling": ("mean", "cls")},
    "pool_first": {"pooling": ("mean", "first")},
    "pool_last": {"pooling": ("mean", "last")},
    "pool_attention": {"pooling": ("mean", "attention")},
    "post_norm": {"norm": ("pre", "post")},
    "no_norm": {"norm": ("pre", "none")},
    "no_final_norm": {"final_norm": (True, False)},
    "rms_norm": {"norm_kind": ("layer", "rms")},
    "no_embedding_scale": {"embedding_scale": (True, False)},
    "init_torch": {"initialisation": ("glorot", "torch")},
    "init_torch_attention": {"initialisation": ("glorot", "torch_attention")},
    "init_normal": {"initialisation": ("glorot", "normal_02")},
    "no_attention_mask": {"attention_mask": (True, False)},
    "pool_over_padding": {"pooling_mask": (True, False)},
    "mask_1e9": {"mask_fill": ("minus_infinity", "minus_1e9")},
    "mask_after_softmax": {"mask_fill": ("minus_infinity", "after_softmax")},
    "trained_padding": {"padding_embedding": ("zero", "trained")},
    "no_dropout": {"dropout": (0.1, 0.0)},
    "no_embedding_dropout": {"embedding_dropout": (True, False)},
    "attention_dropout": {"attention_dropout": (False, True)},
    "ffn_dropout": {"ffn_dropout": (False, True)},
    "double_ffn_dropout": {"double_ffn_dropout": (False, True)},
    "pooled_dropout": {"pooled_dropout": (False, True)},
    "dropout_at_test": {"dropout_at_test": (False, True)},
    "no_warmup": {"warmup": (0.1, 0.0)},
    "no_clipping": {"clip_norm": (1.0, 0.0)},
    "onecycle": {"schedule": ("cosine", "onecycle")},
    "constant_rate": {"schedule": ("cosine", "constant")},
    "label_smoothing": {"label_smoothing": (0.0, 0.1)},
    "word_dropout": {"word_dropout": (0.0, 0.1)},
    "weight_averaging": {"weight_averaging": (0.0, 0.99)},
    "checkpointing": {"checkpointing": (False, True)},
    "shuffled": {"order": ("by_length", "shuffled")},
    "sorted_by_class": {"order": ("by_length", "by_class")},
    "drop_last": {"drop_last": (False, True)},
    "full_padding": {"padding": ("batch", "full")},
    "post_norm_no_warmup": {"norm": ("pre", "post"), "warmup": (0.1, 0.0)},
    "no_residual_no_scale": {"residual": (True, False), "scale": ("sqrt_dk", "none")},
}
INTERACTIONS = {"post_norm_no_warmup", "no_residual_no_scale"}


def test_the_expected_table_covers_the_registry() -> None:
    assert set(EXPECTED) == set(VARIANTS)
    assert next(iter(VARIANTS)) == BASELINE == "baseline"


@pytest.mark.parametrize("name", VARIANTS)
def test_changes_are_what_the_name_says(name: str) -> None:
    assert changes(VARIANTS[name]) == EXPECTED[name]


@pytest.mark.parametrize("name", VARIANTS)
def test_one_factor_each_and_two_in_a_named_interaction(name: str) -> None:
    fields = [f.name for f in dataclasses.fields(Factors)]
    differing = [f for f in fields if getattr(VARIANTS[name], f) != getattr(Factors(), f)]
    assert len(differing) == (0 if name == BASELINE else 2 if name in INTERACTIONS else 1)


@pytest.mark.parametrize("name", sorted(INTERACTIONS))
def test_an_interaction_joins_two_registered_variants(name: str) -> None:
    single = [v for v in VARIANTS if v not in INTERACTIONS and v != BASELINE]
    parts = [v for v in single if set(EXPECTED[v]) <= set(EXPECTED[name])]
    joined = {k: pair for part in parts for k, pair in EXPECTED[part].items() if EXPECTED[name][k] == pair}
    assert joined == EXPECTED[name]


def test_changes_against_another_baseline() -> None:
    found = changes(Factors(num_heads=1, norm="post"), Factors(num_heads=1, warmup=0.0))
    assert found == {"norm": ("pre", "post"), "warmup": (0.0, 0.1)}
    assert list(found) == ["norm", "warmup"]  # in the order of the fields


def test_changes_of_any_dataclass() -> None:
    assert changes(Recipe(epochs=5, d_model=32)) == {"d_model": (64, 32), "epochs": (3, 5)}


@pytest.mark.parametrize("name", VARIANTS)
def test_names_are_safe(name: str) -> None:
    assert re.fullmatch("[a-z0-9_]{1,64}", name)


def test_all_variants_differ_pairwise() -> None:
    for (a, first), (b, second) in combinations(VARIANTS.items(), 2):
        assert dataclasses.asdict(first) != dataclasses.asdict(second), (a, b)


def test_the_registry_is_read_only() -> None:
    with pytest.raises(TypeError):
        cast("MutableMapping[str, Factors]", VARIANTS)["new"] = Factors()
    with pytest.raises(TypeError):
        cast("MutableMapping[str, str]", PAPERS)["new"] = ""
    with pytest.raises(dataclasses.FrozenInstanceError):
        VARIANTS["heads_1"].num_heads = 2  # type: ignore[misc]  # that it fails is the point


def test_every_factor_has_a_paper_and_nothing_else_has() -> None:
    factors = {f.name for f in dataclasses.fields(Factors)}
    hints = get_type_hints(Factors)
    assert {key for key in PAPERS if "=" not in key} == factors
    for key in (key for key in PAPERS if "=" in key):
        factor, value = key.split("=")
        assert value in get_args(hints[factor]), key
    for factor, paper in PAPERS.items():
        assert re.search(r"\b(19|20)\d\d\b", paper), factor  # a source has a year


def test_a_level_has_its_own_paper_or_that_of_its_factor() -> None:
    papers = {"norm": "of the norm", "norm=none": "of none"}
    assert papers_of({"norm": "none", "unknown": 3}, papers) == ("of none",)
    assert papers_of({"norm": "post"}, papers) == ("of the norm",)


@pytest.mark.parametrize("cls", [Factors, Recipe])
def test_defaults_lie_within_the_declared_bounds_and_choices(cls: type[Factors | Recipe]) -> None:
    default = cls()
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        value, bounds = getattr(default, field.name), field.metadata
        if isinstance(value, str):
            assert value in get_args(hints[field.name])
        else:
            assert type(value) is hints[field.name]
        assert bounds.get("ge", value) <= value <= bounds.get("le", value)
        assert "gt" not in bounds or value > bounds["gt"]
        assert "lt" not in bounds or value < bounds["lt"]


def test_version_is_a_positive_integer() -> None:
    assert type(VERSION) is int
    assert VERSION >= 1


Position = Literal["sinusoidal", "learned", "none", "rope", "alibi", "t5", "sinusoidal_by_row"]


@given(
    d_model=st.integers(2, 512),
    num_heads=st.integers(1, 64),
    head_size=st.integers(0, 9),
    position=st.sampled_from(get_args(Position)),
)
def test_a_fault_exactly_where_the_encoder_cannot_be_built(
    d_model: int, num_heads: int, head_size: int, position: Position
) -> None:
    factors = Factors(num_heads=num_heads, head_size=head_size, position=position)
    found = faults(factors, Recipe(d_model=d_model))
    undivided = not head_size and d_model % num_heads != 0
    assert ("num_heads" in found) == undivided
    odd = {
        "sinusoidal": d_model % 2 == 1,
        "sinusoidal_by_row": d_model % 2 == 1,
        "rope": not undivided and (head_size or d_model // num_heads) % 2 == 1,
    }
    assert ("position" in found) == odd.get(position, False)
    assert set(found) <= {"num_heads", "position"}
    if "num_heads" in found:
        offered = [int(h) for h in found["num_heads"].split("allowed: ")[1].split(", ")]
        assert offered == [h for h in range(1, d_model + 1) if d_model // h * h == d_model]
        assert f"d_model = {d_model}" in found["num_heads"]


@pytest.mark.parametrize("position", ["rope", "alibi", "t5"])
@pytest.mark.parametrize(("field", "value"), [("mixing", "none"), ("mixing", "fourier"), ("encoder", "bilstm")])
def test_positions_inside_attention_need_attention(position: Position, field: str, value: str) -> None:
    without = {"mixing": Factors(position=position, mixing=cast("Any", value))}
    without["encoder"] = Factors(position=position, encoder="bilstm")
    found = faults(without[field], Recipe())
    assert found == {"position": f'"{position}" acts inside attention, and {field} = "{value}" has none'}
    assert faults(dataclasses.replace(without[field], position="none"), Recipe()) == {}


def test_rope_names_the_odd_size_of_its_heads() -> None:
    found = faults(Factors(position="rope", head_size=3), Recipe())
    assert found == {"position": "rope turns pairs of numbers, and the size of a head is odd: 3"}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_built_and_its_parts_have_their_types(name: str) -> None:
    system = SYSTEMS[name]
    assert isinstance(system.factors, Factors)
    assert set(system.recipe) <= {f.name for f in dataclasses.fields(Recipe)}
    assert faults(system.factors, Recipe(**system.recipe)) == {}
    assert name not in VARIANTS
    assert system.source


@pytest.mark.parametrize("name", VARIANTS)
def test_every_registered_variant_can_be_built_at_the_default_sizes(name: str) -> None:
    assert faults(VARIANTS[name], Recipe()) == {}


@pytest.mark.parametrize("module", ["knockout.variants", "knockout.job"])
def test_it_needs_the_standard_library_only(module: str) -> None:
    code = (
        f"import sys, json; before = set(sys.modules); import {module}; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = {name.split(".")[0] for name in json.loads(shown)}
    assert "knockout" in loaded
    assert loaded - {"knockout"} <= set(sys.stdlib_module_names)
