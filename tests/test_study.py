"""Study files and plans: what is refused, the error messages, and the runs that a study consists of."""

import dataclasses
import hashlib
import json
import sys
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knockout.ledger import read_ledger
from knockout.plan import FIXED, build_plan
from knockout.seeds import placebo_streams
from knockout.strict import Fault, FaultsError
from knockout.study import (
    SCHEMA,
    Plan,
    Run,
    Study,
    default_plan_text,
    design,
    read_copy,
    read_plan,
    read_study,
    run_id,
)
from knockout.trainers import DEFAULT_TRAINER, builtin_trainer
from knockout.variants import VARIANTS, VERSION, Factors

WriteStudy = Callable[..., Path]

REPOSITORY = Path(__file__).parents[1]
ABLATIONS = sorted((REPOSITORY / "ablations").glob("*.toml"))
DATA = '[data]\nsource = "rotten_tomatoes"\n'
DATA_ID = "d" * 64


def study_text(
    *,
    question: str = '"What matters?"',
    variants: str = '["heads_1", "no_scale"]',
    seeds: str = "3",
    top: str = "",
    data: str = DATA,
    rest: str = "",
) -> str:
    """TOML of a study without a fault; each part may be replaced. An empty part leaves the key out."""
    lines = [f"{k} = {v}\n" for k, v in (("question", question), ("variants", variants), ("seeds", seeds)) if v]
    return "".join(lines) + top + "\n" + data + rest


def faults_of(path: Path) -> tuple[Fault, ...]:
    with pytest.raises(FaultsError) as caught:
        read_study(path)
    return caught.value.faults


# --- what is in the repository ------------------------------------------------------------------------------------


def test_there_are_study_files() -> None:
    assert ABLATIONS


@pytest.mark.parametrize("path", ABLATIONS, ids=lambda p: p.stem)
def test_every_study_of_the_repository_reads_without_fault(path: Path) -> None:
    study = read_study(path)
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    assert study.name == path.stem
    assert list(study.variants) == raw["variants"]
    assert [claim.id for claim in study.claims] == [claim["id"] for claim in raw.get("claims", [])]
    assert len(design(study, data_id=DATA_ID)) == len(study.seeds) * (len(raw["variants"]) + 1)


def test_the_packaged_plan_is_the_plan_of_the_repository() -> None:
    assert (REPOSITORY / "analysis" / "plan.toml").read_text(encoding="utf-8") == default_plan_text()


def test_the_defaults_of_a_plan_are_the_packaged_plan() -> None:
    packaged = tomllib.loads(default_plan_text())
    assert dataclasses.asdict(Plan()) == {**packaged, "secondary": tuple(packaged["secondary"])}


# --- a study without a fault --------------------------------------------------------------------------------------


def test_a_whole_study(write_study: WriteStudy) -> None:
    rest = """
[model]
d_model = 32
[train]
learning_rate = 1
[run]
workers = 2
[budget]
hours = 1
[variant.heads_4]
num_heads = 4
[[claims]]
id = "X1"
variant = "heads_4"
says = "equal"
"""
    path = write_study(study_text(variants='["no_scale", "heads_4"]', seeds="[7, 0]", rest=rest))
    study = read_study(path)
    assert list(study.compared) == ["baseline", "no_scale", "heads_4"]
    assert study.variants == ("no_scale", "heads_4")
    assert study.compared["heads_4"].factors == Factors(num_heads=4)
    assert study.seeds == (7, 0)
    assert (study.baseline.recipe.d_model, study.baseline.recipe.num_layers) == (32, 2)
    assert type(study.baseline.recipe.learning_rate) is float
    assert study.claims[0].metric == "accuracy"
    assert study.text == path.read_text(encoding="utf-8")
    assert study.plan == Plan()
    assert study.overridden == ()


def test_a_number_of_seeds_counts_from_zero(write_study: WriteStudy) -> None:
    assert read_study(write_study(study_text(seeds="4"))).seeds == (0, 1, 2, 3)


@pytest.mark.parametrize("seed", [0, 1, 2**53 - 1])
def test_the_ends_of_the_range_of_seeds_are_seeds(seed: int, write_study: WriteStudy) -> None:
    assert read_study(write_study(study_text(seeds=f"[{seed}]"))).seeds == (seed,)


def test_the_longest_name_and_a_byte_order_mark(write_study: WriteStudy) -> None:
    path = write_study("\ufeff" + study_text(), "a" * 64)
    assert read_study(path).question == "What matters?"


def test_a_plan_beside_the_study(write_study: WriteStudy) -> None:
    write_study("margin = 2.5\nalpha = 0.01\n", "strict")
    study = read_study(write_study(study_text(top='plan = "strict.toml"')))
    assert study.plan == Plan(margin=2.5, alpha=0.01)
    assert study.plan_text == "margin = 2.5\nalpha = 0.01\n"
    assert study.overridden == ()


def test_a_study_may_override_the_margin(write_study: WriteStudy) -> None:
    write_study("margin = 2.5\nalpha = 0.01\n", "strict")
    study = read_study(write_study(study_text(top='plan = { file = "strict.toml", margin = 1 }')))
    assert study.plan == Plan(margin=1.0, alpha=0.01)
    assert study.overridden == ("margin",)
    only = read_study(write_study(study_text(rest="[plan]\nmargin = 3.0\n")))
    assert only.plan == Plan(margin=3.0)
    assert only.plan_text == default_plan_text()


CROSSED = '["post_norm", "heads_1", "no_warmup"]'


def test_a_crossing_adds_the_cells_that_are_missing(write_study: WriteStudy) -> None:
    study = read_study(write_study(study_text(variants=CROSSED, top='cross = [["post_norm", "no_warmup"]]')))
    assert study.cross == (("post_norm", "no_warmup"),)
    assert study.variants == ("post_norm", "heads_1", "no_warmup", "post_norm__and__no_warmup")
    assert study.compared["post_norm__and__no_warmup"].factors == Factors(norm="post", warmup=0.0)
    assert len(design(study, data_id=DATA_ID)) == 3 * 5


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_crossing_runs_every_combination_once(size: int, write_study: WriteStudy) -> None:
    axes = ["post_norm", "heads_1", "no_warmup", "no_scale", "d"][:size]
    changed = {"norm": "post", "num_heads": 1, "warmup": 0.0, "scale": "none", "dropout": 0.5}
    short = "[variant.d]\ndropout = 0.5\n" if size == 5 else ""
    study = read_study(
        write_study(study_text(variants=json.dumps(axes), top=f"cross = {json.dumps([axes])}", rest=short))
    )
    cells = [
        Factors(**{f: v for (f, v), level in zip(changed.items(), levels, strict=False) if level})  # type: ignore[arg-type]
        for levels in product((0, 1), repeat=size)
    ]
    assert len(study.compared) == len(cells) == 2**size
    assert {arm.factors for arm in study.compared.values()} == set(cells)
    assert list(study.variants)[:size] == axes
    counts = [name.count("__and__") for name in study.variants]
    assert counts == sorted(counts)
    assert all(len(name) <= 64 for name in study.variants)


def test_a_cell_that_is_declared_under_another_name_is_used(write_study: WriteStudy) -> None:
    variants = '["post_norm", "post_norm_no_warmup", "no_warmup", "heads_1", "mine"]'
    study = read_study(
        write_study(
            study_text(
                variants=variants,
                top='cross = [["no_warmup", "post_norm", "heads_1"], ["heads_1", "no_warmup"]]',
                rest='[variant.mine]\nnorm = "post"\nnum_heads = 1\n',
            )
        )
    )
    assert study.variants[:5] == tuple(json.loads(variants))
    assert study.variants[5:] == ("no_warmup__and__heads_1", "no_warmup__and__post_norm__and__heads_1")
    assert study.cross == (("no_warmup", "post_norm", "heads_1"), ("heads_1", "no_warmup"))


def test_variants_that_change_several_factors_are_crossed_as_one(write_study: WriteStudy) -> None:
    text = study_text(variants='["post_norm_no_warmup", "heads_1"]', top='cross = [["post_norm_no_warmup", "heads_1"]]')
    study = read_study(write_study(text))
    assert study.variants[2:] == ("post_norm_no_warmup__and__heads_1",)
    assert study.compared[study.variants[2]].factors == Factors(norm="post", warmup=0.0, num_heads=1)


def test_no_crossing_is_asked_for_by_default(write_study: WriteStudy) -> None:
    for top in ("", "cross = []"):
        study = read_study(write_study(study_text(top=top)))
        assert (study.cross, study.variants) == ((), ("heads_1", "no_scale"))


def test_an_added_cell_has_the_id_of_the_same_factors_under_any_name(write_study: WriteStudy) -> None:
    crossed = read_study(write_study(study_text(variants=CROSSED, top='cross = [["post_norm", "no_warmup"]]')))
    named = read_study(write_study(study_text(variants='["post_norm_no_warmup"]')))
    assert run_id(crossed, variant="post_norm__and__no_warmup", seed=1, data_id=DATA_ID) == run_id(
        named, variant="post_norm_no_warmup", seed=1, data_id=DATA_ID
    )


def test_a_claim_may_be_on_an_added_cell(write_study: WriteStudy) -> None:
    claim = CLAIM.replace('"heads_1"', '"heads_1__and__no_scale"')
    study = read_study(write_study(study_text(top='cross = [["heads_1", "no_scale"]]', rest=claim)))
    assert study.claims[0].variant == study.variants[-1] == "heads_1__and__no_scale"


def test_a_recipe_that_cannot_be_combined_is_a_fault_that_names_its_value(write_study: WriteStudy) -> None:
    with pytest.raises(FaultsError) as caught:
        read_study(write_study(study_text(rest="[train]\nbatch_size = 64\ninitial_batch_size = 24")))
    assert "baseline: initial_batch_size = 24 does not double to batch_size = 64" in str(caught.value)


# --- bad studies: one fault each ----------------------------------------------------------------------------------

HUGE = "0x" + "f" * 6000
DEEP_KEY = ".".join("a" * 2000)
DECLARED = '["heads_1", "mine"]'
CLAIM = '[[claims]]\nid = "A"\nvariant = "heads_1"\nsays = "worse"\n'
SEEDS_ALLOWED = "from 1 to 10000"

# id, text, key, part of `got`, part of `allowed`, nearest
BAD: list[tuple[str, str, str, str, str, str]] = [
    # unknown keys, in every table
    ("unknown_top", study_text(top="sedes = 3"), "sedes", "unknown key", "seeds", "seeds"),
    ("unknown_far", study_text(top="zzz = 3"), "zzz", "unknown key", "question, trainer, variants", ""),
    ("unknown_data", study_text(rest="max_lenght = 9"), "data.max_lenght", "unknown key", "tokens", "max_length"),
    ("unknown_model", study_text(rest="[model]\nd_modle = 8"), "model.d_modle", "unknown key", "num_layers", "d_model"),
    ("unknown_train", study_text(rest="[train]\nepoch = 8"), "train.epoch", "unknown key", "batch_size", "epochs"),
    ("unknown_run", study_text(rest="[run]\nworker = 8"), "run.worker", "unknown key", "threads", "workers"),
    ("unknown_budget", study_text(rest="[budget]\nhour = 8"), "budget.hour", "unknown key", "hours", "hours"),
    ("unknown_plan", study_text(rest="[plan]\nmargins = 8"), "plan.margins", "unknown key", "metric", "margin"),
    ("plan_alpha", study_text(rest="[plan]\nalpha = 0.1"), "plan.alpha", "unknown key", "margin, metric, file", ""),
    (
        "unknown_variant_key",
        study_text(variants=DECLARED, rest="[variant.mine]\nnum_head = 4"),
        "variant.mine.num_head", "unknown key", "num_heads", "num_heads",
    ),
    ("unknown_claim", study_text(rest=CLAIM + "txt = 'a'"), "claims 1.txt", "unknown key", "says", "text"),
    ("wrong_table", study_text(rest="[model]\nepochs = 2"), "model.epochs", "unknown key", "d_model", "train.epochs"),
    ("wrong_table_2", study_text(rest="[train]\nd_ff = 2"), "train.d_ff", "unknown key", "epochs", "model.d_ff"),
    # wrong types
    ("string_for_int", study_text(rest='[model]\nd_model = "64"'), "model.d_model", '"64"', "integer", ""),
    ("bool_for_int", study_text(rest="[train]\nepochs = true"), "train.epochs", "got true", "integer", ""),
    ("bool_for_float", study_text(rest="[train]\nlearning_rate = true"), "train.learning_rate", "true", "number", ""),
    ("float_for_int", study_text(rest="[train]\nepochs = 3.0"), "train.epochs", "3.0", "integer", ""),
    (
        "int_for_bool",
        study_text(variants=DECLARED, rest="[variant.mine]\nresidual = 0"),
        "variant.mine.residual", "got 0", "boolean", "",
    ),
    ("date_for_int", study_text(rest="[train]\nepochs = 2020-01-01"), "train.epochs", "2020-01-01", "integer", ""),
    ("int_for_string", study_text(data="[data]\nsource = 3"), "data.source", "got 3", "string", ""),
    ("choice", study_text(rest='tokens = "wrod"'), "data.tokens", '"wrod"', '"word", "char", "bpe"', "word"),
    ("choice_type", study_text(rest="tokens = 1"), "data.tokens", "got 1", '"word", "char", "bpe"', ""),
    ("device", study_text(rest='[run]\ndevice = "gpu"'), "run.device", '"gpu"', '"cuda"', "cpu"),
    ("table_for_value", study_text(top="model = 3"), "model", "got 3", "a table, [model]", ""),
    ("variant_value", study_text(rest="[variant]\nmine = 3"), "variant.mine", "got 3", "a table, [variant.mine]", ""),
    ("claims_value", study_text(top="claims = 3"), "claims", "got 3", "[[claims]]", ""),
    ("claims_table", study_text(rest="[claims]\nid = 'a'"), "claims", '"id"', "[[claims]]", ""),
    # numbers that are none, and bounds
    ("nan", study_text(rest="[train]\nlearning_rate = nan"), "train.learning_rate", "NaN", "finite", ""),
    ("inf", study_text(rest="[train]\nlearning_rate = inf"), "train.learning_rate", "Infinity", "finite", ""),
    ("inf_hours", study_text(rest="[budget]\nhours = inf"), "budget.hours", "Infinity", "finite", ""),
    ("nan_margin", study_text(rest="[plan]\nmargin = nan"), "plan.margin", "NaN", "finite", ""),
    ("rate_0", study_text(rest="[train]\nlearning_rate = 0"), "train.learning_rate", "got 0", "> 0", ""),
    ("rate_11", study_text(rest="[train]\nlearning_rate = 11"), "train.learning_rate", "11", "<= 10", ""),
    ("epochs_0", study_text(rest="[train]\nepochs = 0"), "train.epochs", "got 0", ">= 1", ""),
    ("threads_0", study_text(rest="[run]\nthreads = 0"), "run.threads", "got 0", ">= 1", ""),
    ("hours_-1", study_text(rest="[budget]\nhours = -1"), "budget.hours", "-1", ">= 0", ""),
    ("margin_0", study_text(rest="[plan]\nmargin = 0"), "plan.margin", "got 0", "> 0", ""),
    (
        "dropout_1",
        study_text(variants=DECLARED, rest="[variant.mine]\ndropout = 1"),
        "variant.mine.dropout", "got 1", "< 1", "",
    ),
    ("long_hexadecimal", study_text(rest=f"[train]\nepochs = {HUGE}"), "train.epochs", "too large", "<= 10000", ""),
    ("long_choice", study_text(rest=f"tokens = {HUGE}"), "data.tokens", "too large", '"word"', ""),
    # seeds
    ("seeds_missing", study_text(seeds=""), "seeds", "missing", SEEDS_ALLOWED, ""),
    ("seeds_0", study_text(seeds="0"), "seeds", "got 0", SEEDS_ALLOWED, ""),
    ("seeds_negative", study_text(seeds="-3"), "seeds", "got -3", SEEDS_ALLOWED, ""),
    ("seeds_billion", study_text(seeds="1000000000"), "seeds", "got 1000000000", SEEDS_ALLOWED, ""),
    ("seeds_10001", study_text(seeds="10001"), "seeds", "got 10001", SEEDS_ALLOWED, ""),
    ("seeds_list_10001", study_text(seeds=str(list(range(10001)))), "seeds", "got 10001 seeds", SEEDS_ALLOWED, ""),
    ("seeds_bool", study_text(seeds="true"), "seeds", "got true", SEEDS_ALLOWED, ""),
    ("seeds_float", study_text(seeds="3.0"), "seeds", "got 3.0", SEEDS_ALLOWED, ""),
    ("seeds_nan", study_text(seeds="nan"), "seeds", "got NaN", SEEDS_ALLOWED, ""),
    ("seeds_text", study_text(seeds='"3"'), "seeds", 'got "3"', SEEDS_ALLOWED, ""),
    ("seeds_empty", study_text(seeds="[]"), "seeds", "got []", SEEDS_ALLOWED, ""),
    ("seed_negative", study_text(seeds="[1, -1]"), "seeds", "got [-1]", "0 to 2^53 - 1", ""),
    ("seed_2^53", study_text(seeds="[0, 9007199254740992]"), "seeds", "[9007199254740992]", "2^53 - 1", ""),
    ("seed_float", study_text(seeds="[1, 2.0]"), "seeds", "got [2.0]", "different integers", ""),
    ("seed_bool", study_text(seeds="[true, 2]"), "seeds", "got [true]", "different integers", ""),
    ("seed_text", study_text(seeds='[1, "2"]'), "seeds", 'got ["2"]', "different integers", ""),
    ("seed_twice", study_text(seeds="[5, 1, 5, 2, 1]"), "seeds", "twice: [1, 5]", "different integers", ""),
    ("seed_long", study_text(seeds=f"[{HUGE}]"), "seeds", "too large", "2^53 - 1", ""),
    # variants
    ("variants_missing", study_text(variants=""), "variants", "missing", "heads_1, heads_16", ""),
    ("variants_empty", study_text(variants="[]"), "variants", "got []", "heads_1", ""),
    ("variants_text", study_text(variants='"heads_1"'), "variants", 'got "heads_1"', "a list of names", ""),
    ("variants_nested", study_text(variants='[["heads_1"]]'), "variants", '[["heads_1"]]', "a list of names", ""),
    ("variant_unknown", study_text(variants='["heads_l"]'), "variants", '"heads_l"', "no_scale", "heads_1"),
    ("variant_far", study_text(variants='["heads_1", "xyzzy"]'), "variants", '"xyzzy"', "no_scale", ""),
    ("variant_path", study_text(variants='["heads_1", "../x"]'), "variants", '"../x"', "no_scale", ""),
    ("variant_twice", study_text(variants='["heads_1", "no_scale", "heads_1"]'), "variants", "2 times", "once", ""),
    ("baseline", study_text(variants='["baseline", "heads_1"]'), "variants", "always run", "heads_1", ""),
    (
        "registered",
        study_text(rest="[variant.heads_1]\nnum_heads = 2"),
        "variant.heads_1", '"heads_1" is a registered variant', "your own", "",
    ),
    (
        "declared_baseline",
        study_text(rest="[variant.baseline]\nnum_heads = 2"),
        "variant.baseline", "registered", "your own", "",
    ),
    (
        "changes_nothing",
        study_text(variants=DECLARED, rest="[variant.mine]\nnum_heads = 8"),
        "variant mine", "changes nothing", "differs from every other", "",
    ),
    ("empty", study_text(variants=DECLARED, rest="[variant.mine]"), "variant mine", "changes nothing", "differs", ""),
    (
        "same_as_another",
        study_text(variants=DECLARED, rest="[variant.mine]\nnum_heads = 1"),
        "variant mine", 'the same as "heads_1"', "differs from every other", "",
    ),
    (
        "heads_5",
        study_text(variants=DECLARED, rest="[variant.mine]\nnum_heads = 5"),
        "variant mine", "num_heads = 5 does not divide d_model = 64; allowed: 1, 2, 4, 8, 16, 32, 64", "", "",
    ),
    ("name_path", study_text(rest='[variant."../x"]'), "variant.../x", "a bad name", "a-z, 0-9", ""),
    ("name_capital", study_text(rest="[variant.CON]"), "variant.CON", "a bad name", "a-z, 0-9", ""),
    ("name_long", study_text(rest=f"[variant.{'x' * 65}]"), f"variant.{'x' * 65}", "a bad name", "1 to 64", ""),
    ("name_empty", study_text(rest='[variant.""]'), "variant.", "a bad name", "1 to 64", ""),
    # crossings
    ("cross_text", study_text(top='cross = "heads_1"'), "cross", 'got "heads_1"', "lists of 2 to 5", ""),
    ("cross_flat", study_text(top='cross = ["heads_1", "no_scale"]'), "cross", '["heads_1", ', "lists of 2 to 5", ""),
    ("cross_table", study_text(rest="[cross]\na = 1"), "cross", '{"a": 1}', "lists of 2 to 5", ""),
    ("cross_one", study_text(top='cross = [["heads_1"]]'), "cross 1", '["heads_1"]', "lists of 2 to 5", ""),
    ("cross_number", study_text(top='cross = [["heads_1", 3]]'), "cross 1", "3]", "lists of 2 to 5", ""),
    ("cross_nested", study_text(top='cross = [[["heads_1"], "no_scale"]]'), "cross 1", "[[", "lists of 2 to 5", ""),
    ("cross_six", study_text(top=f"cross = [{list('abcdef')}]"), "cross 1", '"f"]', "lists of 2 to 5", ""),
    ("cross_doubled", study_text(top='cross = [["no_scale", "no_scale"]]'), "cross 1", "no_scale", "different", ""),
    (
        "cross_twice",
        study_text(top='cross = [["no_scale", "heads_1"], ["heads_1", "no_scale"]]'),
        "cross 2", "crossed twice", "once", "",
    ),
    (
        "cross_unknown",
        study_text(top='cross = [["no_scale", "heads_l"]]'),
        "cross 1", '"heads_l" is not among', "heads_1, no_scale", "heads_1",
    ),
    (
        "cross_not_listed",
        study_text(top='cross = [["no_scale", "pool_max"]]'),
        "cross 1", '"pool_max" is not among', "heads_1, no_scale", "",
    ),
    (
        "cross_baseline",
        study_text(top='cross = [["no_scale", "baseline"]]'),
        "cross 1", "the baseline is a cell of every", "heads_1, no_scale", "",
    ),
    (
        "cross_unknown_and_listed",  # told once, where it is listed
        study_text(variants='["no_scale", "heads_l"]', top='cross = [["no_scale", "heads_l"]]'),
        "variants", '"heads_l"', "heads_1", "heads_1",
    ),
    (
        "cross_same_factor",
        study_text(variants='["heads_1", "heads_16"]', top='cross = [["heads_1", "heads_16"]]'),
        "cross 1", '"heads_1" and "heads_16" both change num_heads', "different factors", "",
    ),
    (
        "cross_with_a_part_of_it",
        study_text(
            variants='["post_norm", "post_norm_no_warmup"]', top='cross = [["post_norm", "post_norm_no_warmup"]]',
        ),
        "cross 1", "both change norm", "different factors", "",
    ),
    (
        "cross_long_name",
        study_text(
            variants=f'["heads_1", "{"x" * 60}"]', top=f'cross = [["heads_1", "{"x" * 60}"]]',
            rest=f"[variant.{'x' * 60}]\nresidual = false",
        ),
        "cross 1", "has 74 characters", "[variant.NAME] of your own with the changes of heads_1 and x", "",
    ),
    (
        "cross_taken_name",
        study_text(
            variants='["heads_1", "no_scale", "heads_1__and__no_scale"]', top='cross = [["heads_1", "no_scale"]]',
            rest="[variant.heads_1__and__no_scale]\nresidual = false",
        ),
        "cross 1", 'no_scale", is a variant that changes something else', "[variant.NAME] of your own", "",
    ),
    # claims
    (
        "claim_unknown",
        study_text(rest=CLAIM.replace("heads_1", "heads_l")),
        "claims 1.variant", '"heads_l", which is no variant', "heads_1, no_scale", "heads_1",
    ),
    (
        "claim_baseline",
        study_text(rest=CLAIM.replace("heads_1", "baseline")),
        "claims 1.variant", '"baseline"', "heads_1, no_scale", "",
    ),
    ("claim_twice", study_text(rest=CLAIM + CLAIM), "claims 2.id", '"A" stands here twice', "once", ""),
    (
        "claim_says",
        study_text(rest=CLAIM.replace("worse", "wrose")),
        "claims 1.says", '"wrose"', '"better", "worse", "equal"', "worse",
    ),
    (
        "claim_without_id",
        study_text(rest=CLAIM.replace('id = "A"\n', "")),
        "claims 1.id", "missing", "must be given", "",
    ),
    # data
    ("source_missing", study_text(data=""), "data.source", "missing", "rotten_tomatoes", ""),
    ("source_empty", study_text(data='[data]\nsource = ""\n'), "data.source", "missing", "rotten_tomatoes", ""),
    ("split_sum", study_text(rest="split = [0.7, 0.1, 0.1]"), "data.split", "[0.7, 0.1, 0.1]", "add up to 1", ""),
    ("split_negative", study_text(rest="split = [1.2, -0.1, -0.1]"), "data.split", "-0.1", "above 0", ""),
    ("split_zero", study_text(rest="split = [0.8, 0.0, 0.2]"), "data.split", "0.0", "above 0", ""),
    ("split_nan", study_text(rest="split = [nan, 0.5, 0.5]"), "data.split", "nan", "add up to 1", ""),
    ("split_two", study_text(rest="split = [0.5, 0.5]"), "data.split.2", "missing", "must be given", ""),
    ("split_four", study_text(rest="split = [0.4, 0.2, 0.2, 0.2]"), "data.split", "[0.4, 0.2, 0.2, 0.2]", "3", ""),
    ("split_text", study_text(rest='split = "7:1:2"'), "data.split", '"7:1:2"', "tuple", ""),
    ("split_bool", study_text(rest="split = [true, 0.5, 0.5]"), "data.split.0", "true", "number", ""),
    ("max_length_0", study_text(rest="max_length = 0"), "data.max_length", "got 0", ">= 1", ""),
    # question
    ("question_missing", study_text(question=""), "question", '""', "in words", ""),
    ("question_blank", study_text(question='"  "'), "question", '"  "', "in words", ""),
    ("question_number", study_text(question="3"), "question", "got 3", "in words", ""),
    ("question_long", study_text(question=f'"{"x" * 2001}"'), "question", "xxx...", "in words", ""),
    ("question_deep", study_text(question="", top=f"question.{DEEP_KEY} = 1"), "question", "too large", "in words", ""),
    ("source_deep", study_text(data=f"[data]\nsource.{DEEP_KEY} = 1\n"), "data.source", "too large", "string", ""),
    ("seeds_deep", study_text(seeds="", top=f"seeds.{DEEP_KEY} = 1"), "seeds", "too large", SEEDS_ALLOWED, ""),
    # trainers
    ("trainer_number", study_text(top="trainer = 3"), "trainer", "got 3", '"module:function"', ""),
    ("trainer_no_colon", study_text(top='trainer = "knockout.train"'), "trainer", "knockout.train", "module:fun", ""),
    ("trainer_path", study_text(top='trainer = "../x.py:train"'), "trainer", "../x.py", "module:function", ""),
    ("trainer_code", study_text(top='trainer = "os:system(1)"'), "trainer", "os:system(1)", "module:function", ""),
    ("trainer_absent", study_text(top='trainer = "no_such_m:train"'), "trainer", "ModuleNotFoundError", "module:", ""),
    ("trainer_lacks", study_text(top='trainer = "json:loads"'), "trainer", "has no Factors, VERSION", "model.md", ""),
    # the plan
    ("plan_number", study_text(top="plan = 3"), "plan", "got 3", "a path", ""),
    ("plan_metric", study_text(rest='[plan]\nmetric = "accurcy"'), "plan.metric", "accurcy", "accuracy", "accuracy"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "got", "allowed", "near"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_study_has_one_fault_that_says_the_way_on(
    text: str, key: str, got: str, allowed: str, near: str, write_study: WriteStudy
) -> None:
    path = write_study(text)
    with pytest.raises(FaultsError) as caught:
        read_study(path)
    (fault,) = caught.value.faults
    assert fault.key == key
    assert got in fault.got
    assert allowed in fault.allowed
    assert fault.nearest == near
    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ")
    assert got in message
    assert (f'(did you mean "{near}"?)' in message) == bool(near)
    assert ("\n    allowed: " in message) == bool(fault.allowed)
    assert message.count("\n") <= 1
    assert len(fault.got) <= 160


def test_variants_left_out_are_no_fault_and_are_named(write_study: WriteStudy) -> None:
    rest = "[variant.mine]\nnum_heads = 2\n" + CLAIM.replace("heads_1", "heads_16") + CLAIM.replace('"A"', '"B"')
    study = read_study(write_study(study_text(rest=rest + CLAIM.replace('"A"', '"C"').replace("heads_1", "mine"))))
    assert study.variants == ("heads_1", "no_scale")
    assert [claim.id for claim in study.claims] == ["B"]
    assert study.unused == (
        "[variant.mine] is not run: add mine to the list `variants`",
        "claim A is not judged: it is on heads_16, which is not in the list `variants`",
        "claim C is not judged: it is on mine, which is not in the list `variants`",
    )
    assert read_study(write_study(study_text(rest=CLAIM))).unused == ()


# --- values set on the command line -------------------------------------------------------------------------------


def test_what_is_set_replaces_the_file_and_changes_the_digest(write_study: WriteStudy) -> None:
    path = write_study(study_text(rest="[train]\nepochs = 9\n", top='plan = "plan.toml"'))
    (path.parent / "plan.toml").write_text(default_plan_text(), encoding="utf-8")
    given = ["train.epochs=1", "model.d_model = 32", "data.tokens=char", "variants=['no_scale']", "plan.margin=2"]
    study = read_study(path, given)
    assert (study.baseline.recipe.epochs, study.baseline.recipe.d_model, study.variants) == (1, 32, ("no_scale",))
    assert study.data is not None
    assert (study.data.tokens, study.plan.margin, study.overridden) == ("char", 2.0, ("margin",))
    assert study.text.endswith(
        '# set: train.epochs = 1\n# set: model.d_model = 32\n# set: data.tokens = "char"\n'
        "# set: variants = ['no_scale']\n# set: plan.margin = 2\n"
    )
    assert study.text.startswith(read_study(path).text)
    assert read_study(path, ["train.epochs=2", "train.epochs=1"]).baseline.recipe.epochs == 1  # the last one counts


def test_the_copy_of_a_study_says_what_was_set(write_study: WriteStudy, tmp_path: Path) -> None:
    path = write_study(study_text(rest="[train]\nepochs = 9\n"))
    study = read_study(path, ["train.epochs=1", "plan.margin=2"])
    copy, plan = tmp_path / "copy.toml", tmp_path / "plan.first.toml"
    copy.write_text(study.text, encoding="utf-8")
    plan.write_text(study.plan_text, encoding="utf-8")
    again = read_copy(copy, name="study", plan=plan, folders=())
    assert (again.baseline.recipe, again.plan, again.text) == (study.baseline.recipe, study.plan, study.text)
    (fault,) = faults_of(copy)  # as a study file it would run without what was set
    assert "a copy from a results folder" in fault.got


@pytest.mark.parametrize(
    ("given", "key", "got", "near"),
    [
        ("train.epoch=1", "train.epoch", "unknown key", "epochs"),
        ("trian.epochs=1", "trian", "unknown key", "train"),
        ("train.epochs=0", "train.epochs", "got 0", ""),
        ("train.epochs=many", "train.epochs", 'got "many"', ""),
        ("seeds=-2", "seeds", "got -2", ""),
        ("train=3", "train", "got 3", ""),
        ("question.x=1", "question.x", "question is", ""),
        ("train.epochs", "", 'got "train.epochs"', ""),
        ("=1", "", 'got "=1"', ""),
        ("train.epochs=", "", "got", ""),
        ("train.epochs=1\nseeds = 9", "", "got", ""),
        ("train epochs=1", "", "got", ""),
        ("train.epochs=[1", "", "got", ""),
        (f"{DEEP_KEY}=1", "", "got", ""),
    ],
)
def test_what_cannot_be_set(given: str, key: str, got: str, near: str, write_study: WriteStudy) -> None:
    with pytest.raises(FaultsError) as caught:
        read_study(write_study(study_text()), [given])
    (fault,) = caught.value.faults
    assert (fault.key, fault.nearest) == (key, near)
    assert got in fault.got
    assert key or (fault.file == "--set" and "train.epochs=1" in fault.allowed)


def test_the_text_of_a_message(write_study: WriteStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(study_text(rest='tokens = "wrod"\n[budget]\nhour = 8'))
    monkeypatch.chdir(path.parent)
    with pytest.raises(FaultsError) as caught:
        read_study(path)
    assert str(caught.value) == (
        'study.toml: data.tokens: got "wrod" (did you mean "word"?)\n'
        '    allowed: "word", "char", "bpe"\n'
        'study.toml: budget.hour: unknown key (did you mean "hours"?)\n'
        "    allowed: hours"
    )


def test_all_faults_of_a_file_are_told_at_once(write_study: WriteStudy) -> None:
    text = study_text(
        question='""',
        variants='["heads_1", "no_scal"]',
        seeds="[1, 1]",
        top="sedes = 3",
        rest='max_lenght = 1\n[model]\nd_model = "a"\n[train]\nepochs = true\n' + CLAIM.replace("heads_1", "heads_l"),
    )
    found = faults_of(write_study(text))
    assert sorted(f.key for f in found) == [
        "claims 1.variant",
        "data.max_lenght",
        "model.d_model",
        "question",
        "sedes",
        "seeds",
        "train.epochs",
        "variants",
    ]


def test_faults_of_the_plan_and_of_the_study_are_told_together(write_study: WriteStudy) -> None:
    plan = write_study('margins = 1\nalpha = 0.5\ntest = "t"\n', "other")
    found = faults_of(write_study(study_text(seeds="0", top='plan = "other.toml"')))
    by_key = {f.key: f for f in found}
    assert set(by_key) == {"seeds", "margins", "alpha", "test"}
    assert by_key["margins"].nearest == "margin"
    assert by_key["alpha"].allowed == "a number < 0.5"
    assert by_key["test"].file == str(plan)
    assert by_key["test"].got == 'got "t"'
    assert by_key["test"].allowed == '"paired_t", the only choice: the key can be left out'


def test_a_plan_of_an_earlier_version_is_read(write_study: WriteStudy) -> None:
    """Its keys with one value were a setting that could not be set."""
    write_study("".join(f'{key} = "{value}"\n' for key, value in FIXED.items()) + "margin = 2.5\n", "older")
    study = read_study(write_study(study_text(top='plan = "older.toml"')))
    assert study.plan == Plan(margin=2.5)
    published = REPOSITORY / "results" / "reference" / "quick"
    assert read_plan(published / "plan.toml")[0] == Plan()
    design_json = json.loads((published / "design.json").read_text(encoding="utf-8"))
    assert build_plan(design_json["now"]["plan"], "design.json", "now.plan") == (Plan(margin=1.0), [])


@pytest.mark.parametrize("key", FIXED)
@pytest.mark.parametrize("value", ['"none"', "1", "[]", "true"])
def test_a_key_of_an_earlier_plan_has_no_other_value(key: str, value: str, write_study: WriteStudy) -> None:
    path = write_study(f"{key} = {value}\n", "older")
    with pytest.raises(FaultsError) as caught:
        read_plan(path)
    (fault,) = caught.value.faults
    assert (fault.file, fault.key) == (str(path), key)
    assert fault.allowed.startswith(f'"{FIXED[key]}", the only choice')


def test_a_size_that_no_variant_fits_is_told_for_each(write_study: WriteStudy) -> None:
    found = faults_of(write_study(study_text(rest="[model]\nd_model = 63")))
    assert [(f.key, f.got.split(" ")[0]) for f in found] == [
        ("baseline", "num_heads"),
        ("baseline", "position"),
        ("variant heads_1", "position"),
        ("variant no_scale", "num_heads"),
        ("variant no_scale", "position"),
    ]


# --- files --------------------------------------------------------------------------------------------------------


def test_a_missing_file_names_the_nearest(write_study: WriteStudy) -> None:
    path = write_study(study_text(), "quick")
    (fault,) = faults_of(path.with_name("qiuck.toml"))
    assert (fault.got, fault.nearest) == ("no such file", "quick.toml")
    assert "quick.toml" in fault.allowed


def test_a_folder_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "study.toml").mkdir()
    (fault,) = faults_of(tmp_path / "study.toml")
    assert fault.got == "is a folder"


def test_a_missing_plan_names_the_nearest(write_study: WriteStudy) -> None:
    write_study("margin = 1.0\n", "plan")
    (fault,) = faults_of(write_study(study_text(top='plan = "plna.toml"')))
    assert (fault.got, fault.nearest) == ("no such file", "plan.toml")
    assert fault.file.endswith("plna.toml")


@pytest.mark.parametrize("name", ["x\\u0000y", "p" * 300])
def test_a_plan_path_that_no_file_can_have(name: str, write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(study_text(top=f'plan = "{name}"')))
    assert fault.got in ("no such file", "not readable: File name too long")


def test_no_toml(write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study("question = what\n"))
    assert fault.got.startswith("no TOML: ")
    assert "line 1" in fault.got


@pytest.mark.parametrize("text", ["seeds = 3\nseeds = 4\n", "[data]\n[data]\n", "[data]\nsource = 'a'\nsource = 'b'\n"])
def test_a_key_that_stands_twice_is_no_toml(text: str, write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(text))
    assert fault.got.startswith("no TOML: ")


def test_a_number_of_too_many_digits(write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(study_text(seeds="1" * 5000)))
    assert fault.got == "no TOML: a number has too many digits"


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b'question = "caf\xe9"\n')
    (fault,) = faults_of(path)
    assert (fault.got, fault.allowed) == ("no UTF-8 at byte 15", "TOML in UTF-8")


def test_a_file_that_is_too_large(write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(study_text() + "#" * 1_000_000))
    assert fault.allowed == "at most 1000000 bytes"


@pytest.mark.parametrize("key", ["question", "seeds", "variants", "plan", "trainer", "claims", "data", "cross", "zzz"])
@pytest.mark.parametrize("depth", [100, 450, 490, 2000])
def test_deep_nesting_is_refused_and_never_breaks_the_reader(key: str, depth: int, write_study: WriteStudy) -> None:
    for value in ("[" * depth + "]" * depth, "{a=" * depth + "1" + "}" * depth):
        assert faults_of(write_study(f"{key} = {value}\n"))
    assert faults_of(write_study(f"{key}.{'.'.join('a' * depth)} = 1\n"))


@pytest.mark.parametrize(
    "name", ["CON", "con", "nul", "com1", "Study", "a b", "a-b", "a.b", "é", "a" * 65, "\u202excod"]
)
def test_bad_file_names(name: str, write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(study_text(), name))
    assert fault.key == "file name"
    assert "a-z, 0-9 and _" in fault.allowed
    assert "\u202e" not in str(fault)


@pytest.mark.parametrize("name", ["benchmarks", "calibration", "reliability", "reference"])
def test_reserved_file_names(name: str, write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(study_text(), name))
    assert "reserved" in fault.got


def test_a_file_name_of_300_characters(tmp_path: Path) -> None:
    found = faults_of(tmp_path / f"{'a' * 300}.toml")
    assert found[0].key == "file name"


def toml_string(text: str) -> str:
    """A basic string of TOML, every character escaped."""
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Lu"]), min_size=1, max_size=20))
def test_control_characters_never_reach_a_message(text: str, write_study: WriteStudy) -> None:
    bad = toml_string(text + "\x1b[31m\u202e\n    allowed: anything")
    study = study_text(
        variants=f"['heads_1', {bad}]",
        seeds=bad,
        top=f"{bad} = 1\ntrainer = {bad}\nplan = {bad}",
        rest=f"{bad} = 1\ntokens = {bad}\n[variant.{bad}]\n[variant.x]\n{bad} = 1\n",
    )
    for content in (study, study.replace(f"trainer = {bad}", ""), f"question = '{text}\x1b'"):
        with pytest.raises(FaultsError) as caught:
            read_study(write_study(content))
        for fault in caught.value.faults:
            lines = str(fault).split("\n")
            assert len(lines) <= 2
            assert all(line.isprintable() for line in lines)


# --- trainers -----------------------------------------------------------------------------------------------------

TRAINER = """
from dataclasses import dataclass

VERSION = 4

@dataclass(frozen=True, kw_only=True)
class Factors:
    depth: int = 3
    slope: float = 1.0

def train(job):
    return []
"""


@pytest.fixture
def write_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes an importable module and returns its name."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(text: str) -> str:
        name = f"own_trainer_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


def own_study(module: str, *, function: str = "train", values: str = "depth = 5", rest: str = "") -> str:
    return study_text(
        variants='["deep"]', top=f'trainer = "{module}:{function}"', data="", rest=f"[variant.deep]\n{values}\n{rest}"
    )


def test_a_trainer_of_ones_own(write_study: WriteStudy, write_trainer: Callable[[str], str]) -> None:
    name = write_trainer(TRAINER)
    study = read_study(write_study(own_study(name)))
    assert study.trainer.path == f"{name}:train"
    assert study.trainer.version == 4
    assert study.compared["deep"].factors.depth == 5
    assert study.data is None
    assert study.baseline.recipe is None


@pytest.mark.parametrize(
    ("before", "after", "got"),
    [
        ("VERSION = 4", "", "has no VERSION"),
        ("class Factors", "class Facts", "has no Factors"),
        ("VERSION = 4", 'VERSION = "4"', "VERSION is no integer"),
        ("VERSION = 4", "VERSION = True", "VERSION is no integer"),
        ("VERSION = 4", "raise RuntimeError('boom\\n\\x1b[31m')", "RuntimeError: boom"),
        ("VERSION = 4", "raise SystemExit(0)", "SystemExit: 0"),
        ("VERSION = 4", "VERSION = (", "SyntaxError"),
        ("@dataclass(frozen=True, kw_only=True)", "", "Factors is no frozen dataclass"),
        ("frozen=True, ", "", "Factors is no frozen dataclass"),
        ("depth: int = 3", "depth: int", "with defaults for all fields"),
        ("def train(job):\n    return []", "train = 3", '"train" is no function'),
    ],
)
def test_a_trainer_that_does_not_keep_the_contract(
    before: str, after: str, got: str, write_study: WriteStudy, write_trainer: Callable[[str], str]
) -> None:
    assert before in TRAINER
    (fault,) = faults_of(write_study(own_study(write_trainer(TRAINER.replace(before, after)))))
    assert fault.key == "trainer"
    assert got in fault.got
    assert "\x1b" not in str(fault)


def test_a_misspelt_function_names_the_nearest(write_study: WriteStudy, write_trainer: Callable[[str], str]) -> None:
    (fault,) = faults_of(write_study(own_study(write_trainer(TRAINER), function="trian")))
    assert (fault.key, fault.nearest) == ("trainer", "train")


FAULTS = """
VARIANTS = {"deep": Factors(depth=5), "steep": Factors(slope=2.0), "flat": Factors(slope=-1.0)}

def faults(factors, recipe):
    found = {"depth": "is too deep for this slope"} if factors.depth * factors.slope > 9 else {}
    return found | ({"slope": "is below 0"} if factors.slope < 0 else {})
"""


def test_a_cell_that_cannot_be_built_is_a_fault(write_study: WriteStudy, write_trainer: Callable[[str], str]) -> None:
    name = write_trainer(TRAINER + FAULTS)
    top = f'trainer = "{name}:train"\ncross = [["deep", "steep"], ["deep", "flat"]]'
    found = faults_of(write_study(study_text(variants='["deep", "steep", "flat"]', top=top, data="")))
    assert [(f.key, f.got) for f in found] == [
        ("variant flat", "slope = -1.0 is below 0"),  # once, and not again for its cell
        ("variant deep__and__steep", "depth = 5 is too deep for this slope"),
    ]


def test_factors_of_ones_own_are_read_as_strictly(write_study: WriteStudy, write_trainer: Callable[[str], str]) -> None:
    name = write_trainer(TRAINER)
    found = faults_of(write_study(own_study(name, values='dept = 5\nslope = "a"', rest="[train]\nepochs = 3\n")))
    assert [(f.key, f.nearest) for f in found] == [
        ("train.epochs", ""),
        ("variant.deep.dept", "depth"),
        ("variant.deep.slope", ""),
    ]


def test_the_trainer_of_the_house_is_described_without_importing_it() -> None:
    trainer = builtin_trainer()
    assert (trainer.path, trainer.version, trainer.factors) == (DEFAULT_TRAINER, VERSION, Factors)
    assert trainer.variants is VARIANTS


# --- the design and the ids ---------------------------------------------------------------------------------------


@pytest.fixture
def read(write_study: WriteStudy) -> Callable[..., Study]:
    """Write a study and read it."""

    def written(text: str, name: str = "study") -> Study:
        return read_study(write_study(text, name))

    return written


def independent_id(**identity: object) -> str:
    """The documented form, written down once more: sha256 over canonical JSON."""
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def test_the_design_goes_seed_by_seed(read: Callable[..., Study]) -> None:
    study = read(study_text(variants='["no_scale", "heads_1", "pool_max"]', seeds="[9, 0, 4]"))
    runs = design(study, data_id=DATA_ID)
    order = ("baseline", "no_scale", "heads_1", "pool_max")
    assert [(run.seed, run.variant) for run in runs] == list(product((9, 0, 4), order))
    assert len({run.id for run in runs}) == len(runs) == 3 * (3 + 1)
    assert all(run.id == run_id(study, variant=run.variant, seed=run.seed, data_id=DATA_ID) for run in runs)


def test_any_stop_of_the_design_leaves_complete_blocks(read: Callable[..., Study]) -> None:
    runs = design(read(study_text(seeds="5")), data_id=DATA_ID)
    for stop in range(len(runs) + 1):
        counts = [sum(run.seed == seed for run in runs[:stop]) for seed in range(5)]
        assert sum(0 < count < 3 for count in counts) <= 1


def test_an_id_recomputed(read: Callable[..., Study]) -> None:
    study = read(study_text(rest="[model]\nd_model = 32\n[train]\nlearning_rate = 0.01\n[run]\nthreads = 2\n"))
    assert run_id(study, variant="heads_1", seed=7, data_id=DATA_ID) == independent_id(
        schema=SCHEMA,
        trainer="knockout.train:train",
        version=VERSION,
        factors={"num_heads": 1},
        recipe={"d_model": 32, "learning_rate": 0.01},
        data=DATA_ID,
        threads=2,
        seed=7,
    )


def test_the_id_of_the_baseline_names_no_default(read: Callable[..., Study]) -> None:
    written_out = "[model]\nd_model = 64\nnum_layers = 2\nd_ff = 256\n[train]\nepochs = 3\nbatch_size = 64\n"
    expected = independent_id(
        schema=SCHEMA, trainer="knockout.train:train", version=VERSION, factors={}, recipe={}, data=DATA_ID, threads=1,
        seed=0,
    )  # fmt: skip
    for rest in ("", written_out):
        assert run_id(read(study_text(rest=rest)), variant="baseline", seed=0, data_id=DATA_ID) == expected


MINE = "[variant.mine]\nnum_heads = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        study_text(question='"Something else?"'),
        study_text(variants='["pool_max", "heads_1"]'),
        study_text(seeds="[0, 17]"),
        study_text(rest="[plan]\nmargin = 5.0\n"),
        study_text(rest=CLAIM),
        study_text(rest="[budget]\nhours = 3.0\n"),
        study_text(rest='[run]\nworkers = 7\ndevice = "cpu"\ntimeout_minutes = 5\n'),
        study_text() + "# a comment\n",
    ],
    ids=["question", "other variants", "other seeds", "plan", "claims", "budget", "execution", "comment"],
)
def test_what_is_not_in_the_id(text: str, read: Callable[..., Study]) -> None:
    before = run_id(read(study_text()), variant="heads_1", seed=0, data_id=DATA_ID)
    assert run_id(read(text, "another_name"), variant="heads_1", seed=0, data_id=DATA_ID) == before


def test_the_name_of_a_variant_is_not_in_the_id(read: Callable[..., Study]) -> None:
    before = run_id(read(study_text()), variant="heads_1", seed=0, data_id=DATA_ID)
    own = read(study_text(variants='["mine"]', rest=MINE))
    assert run_id(own, variant="mine", seed=0, data_id=DATA_ID) == before


@pytest.mark.parametrize(
    "rest",
    [
        "[model]\nd_model = 32\n",
        "[model]\nnum_layers = 3\n",
        "[model]\nd_ff = 128\n",
        "[train]\nepochs = 4\n",
        "[train]\nbatch_size = 32\n",
        "[train]\nlearning_rate = 0.002\n",
        "[train]\nweight_decay = 0.0\n",
        '[train]\nweights = "best_validation"\n',
        "[run]\nthreads = 2\n",
    ],
)
def test_a_changed_recipe_or_number_of_threads_changes_every_id(rest: str, read: Callable[..., Study]) -> None:
    before = design(read(study_text()), data_id=DATA_ID)
    after = design(read(study_text(rest=rest)), data_id=DATA_ID)
    assert not {run.id for run in before} & {run.id for run in after}


def test_seed_factor_data_version_and_trainer_change_the_id(read: Callable[..., Study]) -> None:
    study = read(study_text())
    newer = dataclasses.replace(study, trainer=dataclasses.replace(study.trainer, version=VERSION + 1))
    other = dataclasses.replace(study, trainer=dataclasses.replace(study.trainer, path="other:train"))
    ids = [
        run_id(study, variant="heads_1", seed=0, data_id=DATA_ID),
        run_id(study, variant="heads_1", seed=1, data_id=DATA_ID),
        run_id(study, variant="no_scale", seed=0, data_id=DATA_ID),
        run_id(study, variant="baseline", seed=0, data_id=DATA_ID),
        run_id(study, variant="heads_1", seed=0, data_id="e" * 64),
        run_id(newer, variant="heads_1", seed=0, data_id=DATA_ID),
        run_id(other, variant="heads_1", seed=0, data_id=DATA_ID),
    ]
    assert len(set(ids)) == len(ids)


def test_every_registered_variant_has_its_own_id(read: Callable[..., Study]) -> None:
    names = [name for name in VARIANTS if name not in ("baseline", "trained_padding")]  # that one is refused here
    runs = design(read(study_text(variants=json.dumps(names), seeds="2")), data_id=DATA_ID)
    assert len({run.id for run in runs}) == 2 * (len(names) + 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [("clip_norm = 2", "clip_norm = 2.0"), ("warmup = 0", "warmup = 0.0"), ("warmup = 0.0", "warmup = -0.0")],
)
def test_two_spellings_of_a_number_give_one_id(one: str, other: str, read: Callable[..., Study]) -> None:
    ids = {
        run_id(
            read(
                study_text(variants='["mine"]', rest=f"[variant.mine]\n{spelling}\n[train]\nlearning_rate = {rate}\n")
            ),
            variant="mine",
            seed=0,
            data_id=DATA_ID,
        )
        for spelling, rate in ((one, "1"), (other, "1.0"))
    }
    assert len(ids) == 1


def test_a_new_factor_with_a_neutral_default_orphans_nothing(
    read: Callable[..., Study], write_trainer: Callable[[str], str]
) -> None:
    old = read(own_study(write_trainer(TRAINER)))
    new = read(own_study(write_trainer(TRAINER.replace("slope:", "added: bool = False\n    slope:"))))
    new = dataclasses.replace(new, trainer=dataclasses.replace(new.trainer, path=old.trainer.path))
    assert [run.id for run in design(old, data_id="")] == [run.id for run in design(new, data_id="")]


# --- placebo arms, and seeds that are added until all is decided --------------------------------------------------


def test_placebos_are_the_baseline_on_streams_of_their_own(write_study: WriteStudy) -> None:
    study = read_study(write_study(study_text(seeds="3", top="placebo = 2")))
    assert study.variants == ("heads_1", "no_scale")
    assert study.placebos == ("placebo_1", "placebo_2")
    assert list(study.arms) == ["baseline", "heads_1", "no_scale", "placebo_1", "placebo_2"]
    assert study.arms["placebo_2"] == study.baseline
    runs = design(study, data_id=DATA_ID)
    assert [(r.seed, r.variant) for r in runs] == [(s, v) for s in range(3) for v in study.arms]
    assert len({r.id for r in runs}) == len({(r.variant, r.training_seed) for r in runs}) == 15
    for run in runs:
        placebo = run.variant in study.placebos
        assert (run.stream is None) != placebo
        assert (run.training_seed == run.seed) != placebo
        variant = "baseline" if placebo else run.variant
        assert run.id == run_id(study, variant=variant, seed=run.training_seed, data_id=DATA_ID)


def test_placebos_move_no_other_run_and_one_more_moves_none_before_it(write_study: WriteStudy) -> None:
    def runs(placebo: int) -> set[Run]:
        return set(design(read_study(write_study(study_text(top=f"placebo = {placebo}"))), data_id=DATA_ID))

    assert read_study(write_study(study_text())).placebos == ()
    assert runs(0) < runs(1) < runs(2) < runs(20)


def test_the_stream_of_a_placebo_is_the_first_that_nothing_else_has() -> None:
    """By hand, from sha256 of arm/seed/tries."""
    first, second = (
        int(hashlib.sha256(f"placebo_1/7/{tries}".encode()).hexdigest()[:16], 16) % 2**53 for tries in (0, 1)
    )
    assert placebo_streams(["placebo_1"], [7]) == {("placebo_1", 7): first}
    assert placebo_streams(["placebo_1"], [7, first])["placebo_1", 7] == second
    many = placebo_streams([f"placebo_{i}" for i in range(1, 101)], range(20))
    assert len(set(many.values())) == 2000
    assert all(0 <= stream < 2**53 for stream in many.values())


@pytest.mark.parametrize("value", ["-1", "1001", "true", "1.0", '"2"', "[1]"])
def test_a_number_of_placebos_is_from_0_to_1000(value: str, write_study: WriteStudy) -> None:
    (fault,) = faults_of(write_study(study_text(top=f"placebo = {value}")))
    assert (fault.key, fault.allowed) == ("placebo", "a number of placebo arms from 0 to 1000")


def test_names_of_placebos_are_reserved_where_there_are_some(write_study: WriteStudy) -> None:
    rest = "[variant.placebo_1]\nnum_heads = 4\n"
    text = study_text(variants='["no_scale", "placebo_1"]', rest=rest)
    assert read_study(write_study(text)).variants == ("no_scale", "placebo_1")
    (fault,) = faults_of(write_study(study_text(variants='["no_scale", "placebo_1"]', top="placebo = 9", rest=rest)))
    assert (fault.key, fault.got) == ("variants", '"placebo_1" is a name of a placebo arm')


def test_seeds_until_all_is_decided(write_study: WriteStudy) -> None:
    study = read_study(write_study(study_text(seeds='"anytime"\nmax_seeds = 40')))
    assert study.seeds == tuple(range(40))
    assert study.anytime == "sign"
    write_study('anytime = "t"\n', "other")
    assert read_study(write_study(study_text(seeds='"anytime"\nmax_seeds = 4\nplan = "other.toml"'))).anytime == "t"
    assert read_study(write_study(study_text(seeds="3"))).anytime is None


@pytest.mark.parametrize(
    ("seeds", "key", "got"),
    [
        ('"anytime"', "max_seeds", 'missing, beside seeds = "anytime"'),
        ('"anytime"\nmax_seeds = 0', "max_seeds", "got 0"),
        ('"anytime"\nmax_seeds = true', "max_seeds", "got true"),
        ('"anytime"\nmax_seeds = 10001', "max_seeds", "got 10001"),
        ("3\nmax_seeds = 40", "max_seeds", "the number of seeds is fixed"),
        ('"anytine"', "seeds", 'got "anytine"'),
    ],
)
def test_max_seeds_stands_beside_anytime_and_nowhere_else(
    seeds: str, key: str, got: str, write_study: WriteStudy
) -> None:
    (fault,) = faults_of(write_study(study_text(seeds=seeds)))
    assert (fault.key, fault.got) == (key, got)
    assert fault.nearest == ("anytime" if key == "seeds" else "")


def test_the_runs_of_the_published_study_keep_their_ids() -> None:
    root = REPOSITORY / "results" / "reference" / "quick"
    planned = json.loads((root / "design.json").read_text(encoding="utf-8"))
    runs = design(read_study(REPOSITORY / "ablations" / "quick.toml"), data_id=planned["data"]["id"])
    assert [(r.id, r.variant, r.seed) for r in runs] == [(r["id"], r["variant"], r["seed"]) for r in planned["runs"]]
    assert {r.id for r in runs} == set(read_ledger(root).records)
