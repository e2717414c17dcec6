import pytest

from knockout.analysis.stats.metric import better_by_name, is_share


@pytest.mark.parametrize(
    "name",
    [
        "accuracy",
        "val/Accuracy_top1",
        "top-1-accuracy",
        "test f1-score",
        "metrics.acc",
        "bleu",
        "train_acc_epoch",
        # `sklearn.metrics.get_scorer_names`
        "neg_log_loss",
        "test_neg_mean_squared_error",
        "metrics.neg_root_mean_squared_error",
        "val/neg_max_error",
        "neg_mean_absolute_percentage_error",
        "neg_brier_score",
        "neg_median_absolute_error",
    ],
)
def test_higher_is_better(name: str) -> None:
    assert better_by_name(name) == "higher"


@pytest.mark.parametrize("name", ["loss", "val/loss", "eval-perplexity", "RMSE", "cross_entropy", "test_error", "wer"])
def test_lower_is_better(name: str) -> None:
    assert better_by_name(name) == "lower"


@pytest.mark.parametrize(
    "name",
    [
        "neg_mean_loss",
        "accuracy_drop",
        "acc_gap",
        "score_std",
        "loss_improvement",
        "perplexity_reduction",
        "neg_loss",
        "negative_log_loss",
        "minus_accuracy",
        "-loss",
        "val/-loss",
        "1 - accuracy",
        "1-acc",
        "inverse_ppl",
        "Delta accuracy",
        "f1.diff",
        "f1_vs_baseline",
        "acc (sd)",
        "accuracy_variance",
        "bleu gain",
        "loss_increase",
        "epochs_to_accuracy",
        "time_until_loss",
        "loss_weight",
        "f1_threshold",
        "recall_negative",
        "neg_log_loss_drop",
        "accuracy_loss",
        "brier_score",
        "value",
        "x",
        "",
    ],
)
def test_a_name_that_says_nothing_or_two_things_is_asked_about(name: str) -> None:
    assert better_by_name(name) is None
    assert not is_share(name)
