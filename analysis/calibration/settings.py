"""What is simulated, in which settings, and the claim that each is compared with.

"The specification" is the section of that name in analysis/RULES.md.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from analysis.calibration import simulate as sim
from analysis.calibration import unpaired
from analysis.calibration.simulate import FAILS, PLAN, SPREAD, Law, Simulation
from analysis.calibration.unpaired import Sizes
from knockout.analysis.stats.e_process import Process
from knockout.analysis.stats.power import t_power, tost_power

Claim = Literal["at most", "is", "about", "between"]
FAMILY_SEEDS = (3, 5, 8, 10, 20)
FAMILIES = (1, 5, 10)
LAWS: Mapping[Law, str] = {
    "normal": "",
    "skewed arms": "",
    "skewed differences": "t takes differences for normal, and these have a skewness of 2",
    "very skewed differences": "t takes differences for normal, and these have a skewness of 6.2",
    "one variant with 5 times the sd": "",
    "every run fails at .2": "",
    "one variant fails at .2": "",
}
"""each with the reason why the plan may miss its nominal error there"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing that is claimed, in one setting."""

    id: str
    part: str
    setting: str
    what: str
    claim: Claim
    """at most, is: the nominal value. about: a simulated figure of the specification. between: nominal and upper."""
    nominal: float
    upper: float | None = None
    repetitions: int
    simulate: Simulation
    because: str = ""
    """what is to be said if the estimate does not fit the claim"""


def cases() -> list[Case]:
    """Everything that is simulated."""
    found = [*_family(), *_coverage(), *_power(), *_intervals(), *_peeking(), *_tost(), *_two_source(), *_worst_rank()]
    found += _unpaired()
    assert len({c.id for c in found}) == len(found)
    return found


def _family() -> Iterable[Case]:
    part, what = "Family-wise error of the verdicts", "any of them better, worse or trivial where none differs"
    for law, n, k in itertools.product(LAWS, FAMILY_SEEDS, FAMILIES):
        counted = what
        if law == "one variant fails at .2":
            if k == 1:
                continue
            counted = "any of the others better, worse or trivial where none of them differs"
        yield Case(
            id=f"family/{law.replace(' ', '-')}/n{n}/k{k}",
            part=part,
            setting=f"{law}, n = {n}, K = {k}",
            what=counted,
            claim="at most",
            nominal=PLAN.alpha,
            repetitions=4000 if k == 1 else 2000,
            simulate=partial(sim.family_error, law=law, n=n, k=k),
            because=LAWS[law],
        )
    yield Case(
        id="family/touched",
        part=part,
        setting="one variant fails at .2, n = 8, K = 5",
        what="its failures change a test or a raw p of any other contrast",
        claim="is",
        nominal=0.0,
        repetitions=1000,
        simulate=partial(sim.touched, n=8, k=5),
    )


def _coverage() -> Iterable[Case]:
    laws: tuple[Law, ...] = ("normal", "skewed arms", "skewed differences", "very skewed differences")
    for law, n in itertools.product(laws, (3, 5, 10, 20)):
        heavy = "the differences have heavier tails than normal ones, which makes t cautious"
        yield Case(
            id=f"coverage/{law.replace(' ', '-')}/n{n}",
            part="Coverage of the 95 % t interval of the mean difference",
            setting=f"{law}, n = {n}",
            what="the interval holds the truth",
            claim="is",
            nominal=0.95,
            repetitions=8000 if law == "normal" else 4000,
            simulate=partial(sim.coverage, law=law, n=n),
            because=heavy if law == "skewed arms" else LAWS[law],
        )


def _power() -> Iterable[Case]:
    part, what = "Power: K = 5, two variants are better", "a variant that is better is called so (mean of the two)"
    for n, figure in ((5, 0.22), (8, 0.59), (10, 0.79)):
        yield Case(
            id=f"power/arm-sd/n{n}",
            part=part,
            setting=f"by 1.5 sd of an arm, arms correlate at .3 (so d_z = 1.27), n = {n}",
            what=what,
            claim="about",
            nominal=figure,
            repetitions=3000,
            simulate=partial(sim.power, n=n, k=5, true=2, effect=1.5 / math.sqrt(2 * 0.7), correlation=0.3),
        )
        yield Case(
            id=f"power/d_z/n{n}",
            part=part,
            setting=f"by 1.5 sd of differences (d_z = 1.5), n = {n}; the product's power at alpha / 5 and at alpha",
            what=what,
            claim="between",
            nominal=t_power(1.5, n=n, alpha=PLAN.alpha / 5),
            upper=t_power(1.5, n=n, alpha=PLAN.alpha),
            repetitions=1500,
            simulate=partial(sim.power, n=n, k=5, true=2, effect=1.5, correlation=0.5),
        )


def _intervals() -> Iterable[Case]:
    part, setting = "Verdicts, and what is read off unadjusted intervals instead", "normal, n = 8, K = 10"
    verdicts = partial(sim.family_error, law="normal", n=8, k=10)
    unadjusted = partial(sim.unadjusted_error, n=8, k=10)
    yield Case(
        id="intervals/verdicts",
        part=part,
        setting=setting,
        what="a false verdict",
        claim="about",
        nominal=0.034,
        repetitions=3000,
        simulate=verdicts,
    )
    yield Case(
        id="intervals/unadjusted",
        part=part,
        setting=setting,
        what="any of the ten 95 % intervals leaves out 0 (not what the plan does)",
        claim="about",
        nominal=0.31,
        repetitions=3000,
        simulate=unadjusted,
    )


def _peeking() -> Iterable[Case]:
    part = "Looking after every seed"
    yield Case(
        id="peeking/naive",
        part=part,
        setting="paired t from 3 to 20 seeds, K = 1",
        what="p <= .05 at any look (not what the plan does)",
        claim="about",
        nominal=0.23,
        repetitions=4000,
        simulate=partial(sim.naive_peeking, first=3, last=20),
    )
    process: Process
    for process in ("sign", "t"):
        yield Case(
            id=f"peeking/{process}",
            part=part,
            setting=f"{process} e-process to 40 seeds, K = 1",
            what="e >= 1 / alpha at any look",
            claim="at most",
            nominal=PLAN.alpha,
            repetitions=20_000,
            simulate=partial(sim.peeking, process=process, last=40),
        )
        yield Case(
            id=f"peeking/{process}/family",
            part=part,
            setting=f"{process} e-process with e-Holm to 40 seeds, K = 5",
            what="any is rejected at any look",
            claim="at most",
            nominal=PLAN.alpha,
            repetitions=8000,
            simulate=partial(sim.peeking_family, process=process, last=40, k=5),
        )
    yield Case(
        id="peeking/t/figure",
        part=part,
        setting="t e-process to 40 seeds, K = 1; the range that the specification tells",
        what="e >= 1 / alpha at any look",
        claim="between",
        nominal=0.016,
        upper=0.026,
        repetitions=20_000,
        simulate=partial(sim.peeking, process="t", last=40),
    )
    for law in ("skewed differences", "very skewed differences"):
        for process in ("sign", "t"):
            median = "the process asks whether wins and losses are as likely, and of these the median is not 0"
            yield Case(
                id=f"peeking/{process}/{law.replace(' ', '-')}",
                part=part,
                setting=f"{process} e-process to 40 seeds, K = 1, {law}",
                what="e >= 1 / alpha at any look, mean difference 0",
                claim="at most",
                nominal=PLAN.alpha,
                repetitions=4000,
                simulate=partial(sim.peeking, process=process, last=40, law=law),
                because=median if process == "sign" else LAWS[law],
            )


def _tost() -> Iterable[Case]:
    part = "Equivalence (TOST), margin 1 sd of differences"
    for n, k in itertools.product((5, 11, 20), (1, 5)):
        yield Case(
            id=f"tost/size/n{n}/k{k}",
            part=part,
            setting=f"every difference exactly at the margin, n = {n}, K = {k}",
            what="any is called equivalent or trivial",
            claim="at most",
            nominal=PLAN.alpha,
            repetitions=4000 if k == 1 else 2000,
            simulate=partial(sim.called_alike, n=n, k=k, effect=1.0),
        )
    for n in (10, 11):
        yield Case(
            id=f"tost/power/n{n}",
            part=part,
            setting=f"no difference, n = {n}, K = 1; the product's power (11 seeds are the fewest for .80)",
            what="called equivalent or trivial",
            claim="is",
            nominal=tost_power(n, 1.0, PLAN.alpha),
            repetitions=6000,
            simulate=partial(sim.called_alike, n=n, k=1, effect=0.0),
        )


def _two_source() -> Iterable[Case]:
    part = "Two sources of variance: the mean over seeds and texts, nominal 95 %"
    sds = {"seeds .1, texts 8.5": (0.001, 0.085), "seeds 2, texts 10": (0.02, 0.1), "seeds 5, texts 2": (0.05, 0.02)}
    for (named, (seed_sd, text_sd)), (s, n) in itertools.product(
        sds.items(), ((3, 500), (5, 2000), (10, 500), (20, 2000))
    ):
        yield Case(
            id=f"two-source/{named.replace(', ', '-').replace(' ', '')}/{s}x{n}",
            part=part,
            setting=f"sd in points: {named}; {s} seeds, {n} texts",
            what="the interval over both holds the truth",
            claim="between",
            nominal=0.93,
            upper=0.96,
            repetitions=3000,
            simulate=partial(sim.two_source_coverage, seeds=s, texts=n, seed_sd=seed_sd, text_sd=text_sd),
            because="3 seeds leave 2 degrees of freedom, from which Satterthwaite's are guessed" if s == 3 else "",
        )
    for text_sd in (0.085, 0.15):
        spec = text_sd == 0.085
        yield Case(
            id=f"two-source/seeds-only/{100 * text_sd:g}",
            part=part,
            setting=f"sd in points: seeds .1, texts {100 * text_sd:g}; 20 seeds, 2000 texts",
            what="the t interval over seeds alone holds the truth (it answers for this test set only)",
            claim="about" if spec else "is",
            nominal=0.87 if spec else 0.95,
            repetitions=3000,
            simulate=partial(sim.seeds_only_coverage, seeds=20, texts=2000, seed_sd=0.001, text_sd=text_sd),
            because="" if spec else "no interval over seeds counts the variance of texts, which is most of it here",
        )
    yield Case(
        id="two-source/mcnemar",
        part=part,
        setting="sd in points: seeds 2; one seed, 2000 texts, a tenth discordant",
        what="McNemar's test of one seed does not reject (it answers for this seed only)",
        claim="about",
        nominal=0.5,
        repetitions=4000,
        simulate=partial(sim.mcnemar_coverage, texts=2000, seed_sd=0.02),
    )


def _worst_rank() -> Iterable[Case]:
    for n in (6, 8, 10):
        yield Case(
            id=f"worst-rank/n{n}",
            part="Worst ranks: size of the exact test",
            setting=f"every run fails at {FAILS:g}, n = {n}",
            what="p <= .05",
            claim="at most",
            nominal=PLAN.alpha,
            repetitions=6000,
            simulate=partial(sim.worst_rank_size, n=n),
        )


UNPAIRED = (
    Sizes(variant=3, baseline=3),
    Sizes(variant=5, baseline=5),
    Sizes(variant=10, baseline=10),
    Sizes(variant=5, baseline=20),
    Sizes(variant=3, baseline=3, ratio=3),
    Sizes(variant=5, baseline=5, ratio=3),
    Sizes(variant=10, baseline=10, ratio=3),
    Sizes(variant=5, baseline=20, ratio=3),
    Sizes(variant=20, baseline=5, ratio=3),
)
"""with equal and unequal sds and sizes; where both are unequal, the smaller arm is the noisy one or the quiet one"""


def _unpaired() -> Iterable[Case]:
    part = "Runs without seeds: Welch's test, unpaired"
    guessed = "Welch's degrees of freedom are themselves estimated, from few runs"
    for sizes in UNPAIRED:
        name = f"{sizes.variant}v{sizes.baseline}" + ("" if sizes.ratio == 1 else f"-sd{sizes.ratio:g}")
        sds = "equal sds" if sizes.ratio == 1 else f"sd {sizes.ratio:g} times the baseline's"
        setting = f"{sizes.variant} runs against {sizes.baseline}, {sds}"
        for k in (1, 5):
            yield Case(
                id=f"unpaired/error/{name}/k{k}",
                part=part,
                setting=f"{setting}, K = {k}",
                what="any of them better, worse or trivial where none differs",
                claim="at most",
                nominal=PLAN.alpha,
                repetitions=8000 if k == 1 else 4000,
                simulate=partial(unpaired.unpaired_error, sizes=sizes, k=k),
                because=guessed,
            )
        yield Case(
            id=f"unpaired/coverage/{name}",
            part=part,
            setting=setting,
            what="the 95 % interval holds the truth",
            claim="is",
            nominal=0.95,
            repetitions=8000,
            simulate=partial(unpaired.unpaired_coverage, sizes=sizes),
            because=guessed,
        )
        yield Case(
            id=f"unpaired/tost/{name}",
            part=part,
            setting=f"{setting}; the baseline's is a sixth of the margin; exactly at the margin, K = 1",
            what="called equivalent or trivial",
            claim="at most",
            nominal=PLAN.alpha,
            repetitions=8000,
            simulate=partial(unpaired.unpaired_alike, sizes=replace(sizes, sd=SPREAD / 6), k=1, effect=1.0),
            because=guessed,
        )
        yield Case(
            id=f"unpaired/power/{name}",
            part=part,
            setting=f"{setting}, better by the minimum detectable difference",
            what="p <= .05, tested alone",
            claim="is",
            nominal=PLAN.power,
            repetitions=8000,
            simulate=partial(unpaired.unpaired_power, sizes=sizes),
            because=guessed,
        )
