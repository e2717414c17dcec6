"""A study's own baseline, systems, and variants that change the recipe: the arms that are read, and their runs."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knockout.design import read_design, write_design
from knockout.strict import Fault, FaultsError
from knockout.study import Study, design, read_study, run_id
from knockout.variants import SYSTEMS, VARIANTS, Factors, Recipe

WriteStudy = Callable[..., Path]

DATA_ID = "d" * 64
HEAD = (
    'question = "What matters?"\nvariants = [{variants}]\nseeds = 2\n{top}\n[data]\nsource = "rotten_tomatoes"\n{rest}'
)


@pytest.fixture
def read(write_study: WriteStudy) -> Callable[..., Study]:
    """Write a study and read it."""

    def written(variants: str, top: str = "", rest: str = "", name: str = "study") -> Study:
        return read_study(write_study(HEAD.format(variants=variants, top=top, rest=rest), name))

    return written


@pytest.fixture
def faults(read: Callable[..., Study]) -> Callable[..., tuple[Fault, ...]]:
    """The faults of a study."""

    def caught(variants: str, top: str = "", rest: str = "") -> tuple[Fault, ...]:
        with pytest.raises(FaultsError) as error:
            read(variants, top, rest)
        return error.value.faults

    return caught


def test_variants_are_changes_of_the_studys_own_baseline(read: Callable[..., Study]) -> None:
    study = read(
        '"heads_1", "mine"',
        rest='[baseline]\nnorm = "post"\ndropout = 0.2\n[variant.mine]\nnorm = "none"\nposition = "rope"\n',
    )
    base = Factors(norm="post", dropout=0.2)
    assert study.baseline.factors == base
    assert study.compared["heads_1"].factors == dataclasses.replace(base, num_heads=1)
    assert study.compared["mine"].factors == dataclasses.replace(base, norm="none", position="rope")
    assert study.compared["heads_1"].differences(study.baseline) == {"num_heads": (8, 1)}


def test_a_variant_may_go_back_to_a_default(read: Callable[..., Study]) -> None:
    study = read('"pre"', rest='[baseline]\nnorm = "post"\n[variant.pre]\nnorm = "pre"\n')
    assert study.compared["pre"].factors == Factors()
    assert study.compared["pre"].differences(study.baseline) == {"norm": ("post", "pre")}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_a_baseline_with_its_own_sizes(name: str, read: Callable[..., Study]) -> None:
    study = read('"mine"', top=f'baseline = "{name}"', rest="[variant.mine]\nlearning_rate = 0.25\n")
    assert study.baseline.factors == SYSTEMS[name].factors
    assert study.baseline.recipe == Recipe(**SYSTEMS[name].recipe)
    assert study.baseline.system == name


def test_the_study_overrides_the_sizes_of_its_system(read: Callable[..., Study]) -> None:
    rest = '[baseline]\nsystem = "tutorial_b"\nattention_mask = true\n[model]\nd_model = 32\n[train]\nepochs = 1\n'
    study = read('"bilstm_attention"', rest=rest)
    assert study.baseline.factors == dataclasses.replace(SYSTEMS["tutorial_b"].factors, attention_mask=True)
    assert study.baseline.recipe == Recipe(d_model=32, num_layers=3, d_ff=1024, learning_rate=3e-4, epochs=1)
    other = study.compared["bilstm_attention"]  # whole, with its sizes, but trained as [train] says
    assert other.factors == SYSTEMS["bilstm_attention"].factors
    assert (other.recipe.d_model, other.recipe.d_ff, other.recipe.num_layers) == (200, 256, 1)
    assert other.recipe.epochs == 1


def test_a_variant_may_start_from_a_system(read: Callable[..., Study]) -> None:
    rest = '[variant.bag]\nsystem = "bag_of_embeddings"\nlearning_rate = 0.02\n'
    study = read('"bag"', top='baseline = "tutorial_b"', rest=rest)
    assert study.compared["bag"].factors == SYSTEMS["bag_of_embeddings"].factors
    assert study.compared["bag"].recipe == dataclasses.replace(study.baseline.recipe, learning_rate=0.02)


def test_a_registered_variant_is_a_baseline(read: Callable[..., Study]) -> None:
    assert read('"no_warmup"', top='baseline = "post_norm"').baseline.factors == VARIANTS["post_norm"]


def test_a_variant_may_change_any_field_of_the_recipe(read: Callable[..., Study]) -> None:
    values: dict[str, Any] = {
        "num_layers": 6, "d_model": 32, "d_ff": 64, "learning_rate": 0.01, "batch_size": 16, "epochs": 1,
        "max_length": 8, "train_length": 8, "weight_decay": 0.5,
    }  # fmt: skip
    text = "".join(f"[variant.v_{key}]\n{key} = {value}\n" for key, value in values.items())
    study = read(", ".join(f'"v_{key}"' for key in values), rest=text)
    for key, value in values.items():
        arm = study.compared[f"v_{key}"]
        assert arm.factors == Factors()
        assert arm.recipe == dataclasses.replace(Recipe(), **{key: value})
    runs = design(study, data_id=DATA_ID)
    assert len({run.id for run in runs}) == len(runs) == 2 * (len(values) + 1)


def test_the_id_of_a_run_is_that_of_what_is_trained(read: Callable[..., Study]) -> None:
    """However a study comes to a configuration, its runs are the same: results are never trained twice."""
    absolute = read('"deep"', rest='[variant.deep]\nnorm = "post"\nnum_layers = 6\n')
    relative = read('"deep"', rest='[baseline]\nnorm = "post"\n[variant.deep]\nnum_layers = 6\n', name="other")
    shared = read('"heads_1"', rest='[baseline]\nnorm = "post"\n[model]\nnum_layers = 6\n', name="third")
    ids = [
        run_id(study, variant=variant, seed=0, data_id=DATA_ID)
        for study, variant in ((absolute, "deep"), (relative, "deep"), (shared, "baseline"))
    ]
    assert len(set(ids)) == 1


def test_differences_name_factors_before_the_recipe(read: Callable[..., Study]) -> None:
    study = read('"mine"', rest='[variant.mine]\nepochs = 1\nd_model = 32\nnorm = "post"\n')
    assert list(study.compared["mine"].differences(study.baseline)) == ["norm", "d_model", "epochs"]


def test_crossings_may_hold_the_recipe(read: Callable[..., Study]) -> None:
    study = read('"deep", "heads_1"', top='cross = [["deep", "heads_1"]]', rest="[variant.deep]\nnum_layers = 6\n")
    cell = study.compared["deep__and__heads_1"]
    assert (cell.factors, cell.recipe.num_layers) == (Factors(num_heads=1), 6)


def test_the_design_says_where_batches_are_not_shared(read: Callable[..., Study], tmp_path: Path) -> None:
    rest = '[baseline]\nnorm = "post"\n[variant.small]\nbatch_size = 8\n[variant.deep]\nnum_layers = 3\n'
    study = read('"small", "deep", "sorted_by_class", "no_scale"', rest=rest)
    write_design(tmp_path, study, data_id=DATA_ID, data_summary={})
    written = read_design(tmp_path)
    assert written is not None
    assert {name: variant.own_batches for name, variant in written.described.items()} == {
        "baseline": (), "small": ("batch_size",), "deep": (), "sorted_by_class": ("order",), "no_scale": (),
    }  # fmt: skip
    assert written.described["baseline"].changes == {"norm": ("pre", "post")}
    assert written.described["deep"].changes == {"num_layers": (2, 3)}
    assert written.described["deep"].factors["num_layers"] == 3


def test_a_design_without_systems_names_none(read: Callable[..., Study], tmp_path: Path) -> None:
    """As older versions wrote it: the files of studies that use nothing new stay as they are."""
    write_design(tmp_path, read('"heads_1"'), data_id=DATA_ID, data_summary={})
    text = (tmp_path / "design.json").read_text(encoding="utf-8")
    assert "own_batches" not in text
    assert '"system"' not in text


@pytest.mark.parametrize(
    ("top", "rest", "key", "got", "near"),
    [
        ("", '[baseline]\nnorms = "post"\n', "baseline.norms", "unknown key", "norm"),
        ("", '[baseline]\nnorm = "posr"\n', "baseline.norm", 'got "posr"', "post"),
        ("", "[baseline]\nnum_layers = 0\n", "baseline.num_layers", "got 0", ""),
        ('baseline = "tutorial_d"', "", "baseline", 'unknown system "tutorial_d"', "tutorial_c"),
        ("", '[baseline]\nsystem = "post_nrm"\n', "baseline", 'unknown system "post_nrm"', "post_norm"),
        ("baseline = 3", "", "baseline", "got 3", ""),
        ("", "[baseline]\nepochs = 2\n[train]\nepochs = 2\n", "baseline.epochs", "also set in [train]", ""),
        ("", "[baseline]\nd_model = 32\n[model]\nd_model = 32\n", "baseline.d_model", "also set in [model]", ""),
        ("", "[baseline]\nnum_heads = 1\n", "variant heads_1", "changes nothing", ""),
        ("", "[baseline]\nmax_length = 65\n", "baseline", "max_length = 65, above data.max_length = 64", ""),
    ],
)
def test_what_a_bad_baseline_gets(
    top: str, rest: str, key: str, got: str, near: str, faults: Callable[..., tuple[Fault, ...]]
) -> None:
    found = faults('"heads_1"', top, rest)
    (fault,) = [f for f in found if f.key == key]
    assert got in fault.got
    if near:
        assert fault.nearest == near


@pytest.mark.parametrize(
    ("rest", "got", "near"),
    [
        ("[variant.mine]\nnum_layer = 3\n", "unknown key", "num_layers"),
        ("[variant.mine]\nbatch_size = 0\n", "got 0", ""),
        ('[variant.mine]\nepochs = "many"\n', 'got "many"', ""),
        ('[variant.mine]\nsystem = "bag_of_embedding"\n', "unknown system", "bag_of_embeddings"),
    ],
)
def test_what_a_bad_variant_gets(rest: str, got: str, near: str, faults: Callable[..., tuple[Fault, ...]]) -> None:
    (fault,) = faults('"mine"', rest=rest)
    assert fault.key.startswith("variant.mine.")
    assert got in fault.got
    assert fault.nearest == near


def test_a_system_has_a_name_of_its_own(faults: Callable[..., tuple[Fault, ...]]) -> None:
    (fault,) = faults('"heads_1"', rest="[variant.tutorial_b]\nnum_layers = 3\n")
    assert fault.got == '"tutorial_b" is a registered system'


def test_a_named_baseline_can_be_changed_on_the_command_line(write_study: WriteStudy) -> None:
    path = write_study(HEAD.format(variants='"heads_1"', top='baseline = "tutorial_b"', rest=""))
    study = read_study(path, ["baseline.dropout=0.3", "train.epochs=1"])
    assert study.baseline.factors == dataclasses.replace(SYSTEMS["tutorial_b"].factors, dropout=0.3)
    assert study.baseline.recipe.epochs == 1


def test_a_variant_without_effect_is_refused_with_the_reason(faults: Callable[..., tuple[Fault, ...]]) -> None:
    (fault,) = faults('"trained_padding"')
    assert fault.got == "changes nothing: padding_embedding: padding is left out everywhere"
    (fault,) = faults('"heads_1"', top='baseline = "bilstm_attention"')
    assert "num_heads" in fault.got


def test_what_is_without_effect_under_one_baseline_acts_under_another(read: Callable[..., Study]) -> None:
    study = read('"trained_padding"', top='baseline = "no_attention_mask"')
    assert study.compared["trained_padding"].factors.padding_embedding == "trained"
