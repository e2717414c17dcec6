"""Two studies, or one before and after a change, paired by variant and seed: what moved, with verdicts."""
