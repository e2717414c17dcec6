"""Comparisons and contrasts that print themselves: what `compare` returns."""

from dataclasses import dataclass, fields

import pandas as pd

from knockout.analysis.inference import comparison, contrasts
from knockout.analysis.report.sentences import effect_sentence, secondary_sentence, sentence, title
from knockout.analysis.report.tables import contrast_table


@dataclass(frozen=True, kw_only=True)
class Contrast(contrasts.Contrast):
    """A contrast. Printed, it is one sentence."""

    def __str__(self) -> str:
        return sentence(self)


@dataclass(frozen=True, kw_only=True)
class Comparison(comparison.Comparison):
    """What `compare` returns. Printed, it is one sentence per contrast."""

    contrasts: tuple[Contrast, ...]

    def __getitem__(self, variant: str) -> Contrast:
        """The contrast of a variant. Raises `KeyError` for a name that was not compared."""
        for contrast in self.contrasts:
            if contrast.variant == variant:
                return contrast
        raise KeyError(variant)

    def sentences(self) -> list[str]:
        """One sentence for each contrast, with its verdict, its numbers and what limits it."""
        return [sentence(c) for c in self.contrasts]

    def table(self) -> pd.DataFrame:
        """Every number of every contrast, one row per variant: what `contrasts.csv` holds."""
        return contrast_table(self.contrasts, {})

    def __str__(self) -> str:
        head = (
            f"{title(self.metric)} ({self.metric.better} is better) against {self.baseline}, {len(self.seeds)} seeds,"
            f" margin {self.metric.size(self.plan.margin)}"
        )
        effects = [effect_sentence(e, self.metric) for crossing in self.crossings for e in crossing.effects]
        others = [secondary_sentence(s) for s in self.secondary]
        return "\n".join([head, *self.sentences(), *effects, *others, *self.notes])


def printed(computed: comparison.Comparison) -> Comparison:
    """The same comparison with the methods that print it."""
    values = {f.name: getattr(computed, f.name) for f in fields(computed)}
    own = tuple(Contrast(**{f.name: getattr(c, f.name) for f in fields(c)}) for c in computed.contrasts)
    return Comparison(**values | {"contrasts": own})
