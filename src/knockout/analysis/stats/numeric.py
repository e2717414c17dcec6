"""What every statistic takes for zero: the smallest p that is reported, and the rounding of real values."""

import math

SMALLEST_P = math.ulp(0.0)
"""The smallest double above 0. No p is ever 0: one that underflows is reported as this."""

SMALLEST_BINOMIAL_P = 1e-250
"""For p values of a binomial tail: scipy 1.17's underflows to 0 from 4e-254 on (38 of 1,075), long before doubles do:
the smallest double would be far too small a p."""

ROUNDING = 1e-12
"""Differences below this share of the largest value are rounding, taken as 0: .825 - .775 is not .375 - .325."""
