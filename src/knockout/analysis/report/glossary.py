"""The terms of a report, each in one or two plain sentences: the report's last section, and docs/glossary.md."""

import re
from typing import NamedTuple


class Term(NamedTuple):
    """A term and what it means."""

    name: str
    meaning: str


GLOSSARY = tuple(
    Term(name, meaning)
    for name, meaning in (
        (
            "Seed",
            (
                "The number that fixes a run's randomness: initial weights, order of the data, dropout. Repeating a"
                " study over several seeds shows how much results vary by chance."
            ),
        ),
        ("Run", "One training of one variant with one seed."),
        ("Baseline", "The model with which every variant is compared."),
        ("Variant", "The baseline with one or more things changed, such as a part removed or replaced."),
        (
            "Contrast",
            (
                "One variant against the baseline: the differences between their runs of the same seed, variant minus"
                " baseline."
            ),
        ),
        ("Family", "All contrasts that are tested together. The correction for multiple tests covers the family."),
        (
            "Margin",
            (
                "The smallest difference that matters in practice, fixed before the study. A difference below it is"
                " treated as negligible."
            ),
        ),
        (
            "Confidence interval",
            (
                "A range computed so that, in repeated studies, 95 % of such ranges would contain the true difference."
                " The reports use the t interval over seeds, not adjusted for the number of variants."
            ),
        ),
        (
            "Paired t test",
            (
                "The planned test: whether the mean of the differences over seeds is 0. It assumes that the"
                " differences are roughly normal."
            ),
        ),
        (
            "Holm's correction",
            (
                "An adjustment of p values for testing several contrasts. It keeps the chance of even one false"
                " difference in the family at alpha or below."
            ),
        ),
        (
            "TOST (equivalence test)",
            (
                "Two one-sided tests. They show equivalence when the difference is significantly above minus the"
                " margin and significantly below plus the margin."
            ),
        ),
        (
            "Better, worse",
            (
                "Verdict: a difference is shown in that direction (p at most alpha after Holm's correction). It can be"
                " of any size unless the verdict is negligible."
            ),
        ),
        (
            "Negligible",
            (
                "Verdict: a difference is shown, and it is also shown to be smaller than the margin. CSV and JSON"
                " files call it `trivial`."
            ),
        ),
        (
            "Equivalent",
            "Verdict: no difference is shown, and a difference as large as the margin is ruled out by TOST.",
        ),
        (
            "Inconclusive",
            "Verdict: neither a difference nor equivalence is shown. This is no evidence that the two are equal.",
        ),
        (
            "Undecidable by design",
            (
                "Verdict: with this number of seeds no result could have given another one. If failed runs are the"
                " cause, the report says so."
            ),
        ),
        (
            "Worst-rank test",
            (
                "The test where runs failed. A failed run ranks below every finished one, and an exact signed-rank test"
                " compares the ranks."
            ),
        ),
        (
            "Sign-flip test",
            (
                "An exact test that compares the mean difference with those under every possible choice of signs. It"
                " needs no normal distribution, only symmetry."
            ),
        ),
        (
            "Max-T",
            (
                "A sign-flip test of all variants at once: it flips whole seeds together and compares each statistic"
                " with the largest of the family. It corrects for multiple tests by itself."
            ),
        ),
        (
            "Wilcoxon signed-rank test",
            "A test of paired differences that uses their ranks instead of their values. Here it is exact.",
        ),
        ("d_z", "Effect size: the mean difference divided by the standard deviation of the differences."),
        ("g_z", "d_z with Hedges' correction, which removes its upward bias at few seeds."),
        (
            "d_av",
            "Effect size: the mean difference divided by the average standard deviation of the two arms over seeds.",
        ),
        (
            "Cliff's delta",
            (
                "The chance that a run of the variant beats a run of the baseline minus the chance of the reverse,"
                " over all pairs of runs. It goes from -1 to +1."
            ),
        ),
        ("Win rate", "The share of seeds at which the variant is better than the baseline. Ties count half."),
        ("Welch's test", "A t test of two independent samples with unequal variances. It ignores the pairing by seed."),
        (
            "Pitman-Morgan test",
            (
                "A test whether paired values have the same variance: here, whether a variant varies more or less over"
                " seeds than the baseline. It assumes normal values."
            ),
        ),
        (
            "Minimum detectable effect",
            (
                "The smallest true difference that this number of seeds would show with the planned power, at the"
                " standard deviation seen."
            ),
        ),
        (
            "Leave-one-seed-out",
            (
                "A sensitivity analysis: the whole family is judged again without each seed in turn, to see whether a"
                " verdict changes."
            ),
        ),
        (
            "Crossed random effects",
            (
                "A model in which seeds and test examples are both random samples. Its interval covers other seeds and"
                " other test examples like these."
            ),
        ),
        (
            "McNemar's test",
            (
                "For one seed: whether the variant and the baseline are right on a different number of test examples."
                " It holds for that seed only."
            ),
        ),
        (
            "Benjamini-Hochberg",
            (
                "An adjustment of p values that bounds the expected share of false discoveries, and is less strict than"
                " Holm's."
            ),
        ),
        (
            "E-process",
            (
                "A sequential test: one may look after every seed and stop as soon as all is decided, and the error"
                " rate still holds."
            ),
        ),
        (
            "A/A arm",
            (
                "The baseline again with other random numbers, compared with the baseline. Any difference found is a"
                " false one, so A/A arms check the error rate."
            ),
        ),
        (
            "Normal theory only",
            (
                "Mark: the t test set the verdict, and at this number of seeds and variants no exact test could have"
                " confirmed it."
            ),
        ),
        (
            "Exploratory",
            (
                "Mark: something about the comparison was chosen after the first run, or it was never planned as a"
                " test. Confirm it in a new study."
            ),
        ),
        (
            "Dead run",
            (
                "A run that finished but, on the metric of the verdicts, did no better than a constant answer (always"
                " the most common class, or the class frequencies) or than chance. It counts as a failure."
            ),
        ),
        (
            "Probe",
            (
                "A fixed set of training examples on which the loss is measured at even steps, without dropout. It"
                " shows the curve without the noise of batches."
            ),
        ),
        (
            "Instability",
            (
                "How far training is from a steady descent: spikes, rises, jitter, flat lines, large gradients. Each"
                " measure is one number per run, and runs are compared by seed."
            ),
        ),
        (
            "Loss spike",
            (
                "A step whose loss is above the steps around it by 5 (or 7) robust standard deviations, on a"
                " logarithmic scale. Only upwards."
            ),
        ),
        (
            "Drawdown",
            (
                "The largest rise of the smoothed loss above its lowest value so far, as a share of the whole descent."
                " The excursion area is the mean of these rises over the run."
            ),
        ),
        (
            "Total variation",
            (
                "The length of the probe loss's way up and down over its descent: 1 if it only falls, 3 if it goes back"
                " as far as it falls."
            ),
        ),
        (
            "Short-term risk",
            "The mean of the largest 5 % of the changes from one step to the next, less the usual change. Nats.",
        ),
        (
            "Paired excess loss",
            (
                "The variant's training loss less the baseline's at the same step, seed and batch, so that the noise"
                " of the batch cancels."
            ),
        ),
        (
            "Plateau",
            (
                "A run whose lowest probe loss is above .98 of the entropy of the training labels: a flat line, however"
                " smooth it is."
            ),
        ),
        (
            "Early peak, early jitter",
            (
                "The largest loss of the first 20 steps over the first one; the jitter of the first 300 steps (or"
                " quarter) over that of the second half. Both show what a warmup is for."
            ),
        ),
        (
            "Gradient outliers",
            "The 99th percentile of the gradient's norm, before clipping, over its median.",
        ),
        (
            "Depth gradient ratio",
            (
                "The norm of the gradient in the last layer's feed-forward output over that in the first layer's. Far"
                " above 1 at the start of a Post-LN network."
            ),
        ),
        (
            "Attention entropy",
            (
                "How evenly attention is spread over the tokens: 1 if all get the same weight, 0 if one gets all. The"
                " attention logits are the numbers before the softmax."
            ),
        ),
        (
            "Rank residual",
            (
                "How far the vectors of a text's tokens are from all being the same, as a share of their size: 0 if"
                " they are the same."
            ),
        ),
        (
            "Time to a threshold",
            (
                "The step at which the accuracy on the probe reaches a threshold and stays there for three probes. Runs"
                " that never do so count with all their steps (censored)."
            ),
        ),
        (
            "Restricted mean, log-rank test",
            (
                "The mean time up to a limit, from the Kaplan-Meier curve; and a test whether two arms get there"
                " equally fast, in which censored runs count for as long as they were watched."
            ),
        ),
        (
            "Learning-rate sensitivity",
            (
                "The final validation loss, mean over learning rates, above the best that any arm reaches: 0 if every"
                " rate does equally well."
            ),
        ),
        ("Diverged", "A run whose loss became infinite or not a number. It counts as a failure."),
    )
)


def anchor(name: str) -> str:
    """The id of a term on a page: "term-holm-s-correction"."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def glossary_markdown() -> str:
    """The text of docs/glossary.md."""
    head = "# Glossary\n\nThe terms of Knockout's reports. Each report ends with the same list.\n"
    return head + "".join(f"\n**{term.name}.** {term.meaning}\n" for term in GLOSSARY)
