"""Numbers with a Beta distribution, made from uniform ones.

Both parameters of the distribution are `alpha`. A Beta number is G / (G + H), where G and H have a
Gamma distribution. Source of the latter: G. Marsaglia and W. W. Tsang, "A simple method for
generating gamma variables", ACM TOMS 26(3), 2000.
"""

import math
from collections.abc import Sequence

_ATTEMPTS = 8  # of which one suffices for 95 % of all numbers
HALF = 1 + 3 * _ATTEMPTS  # uniform numbers for each Gamma number
DRAWS = 2 * HALF  # uniform numbers for each Beta number


def beta(uniforms: Sequence[float], alpha: float) -> float:
    """Return a number in [0, 1], from `DRAWS` uniform numbers in [0, 1).

    Examples
    --------
    >>> from visops.transforms.mixing.beta import DRAWS, beta
    >>> beta([0.25] * DRAWS, 1.0)
    0.5
    """
    difference = log_gamma(uniforms[:HALF], alpha) - log_gamma(uniforms[HALF:], alpha)
    # G / (G + H), where neither may underflow.
    return 0.5 + 0.5 * math.tanh(0.5 * difference)


def log_gamma(uniforms: Sequence[float], alpha: float) -> float:
    """Return the logarithm of a number with a Gamma distribution, from `HALF` uniform numbers."""
    first, *rest = uniforms
    if alpha < 1.0:
        return log_gamma([first, *rest], alpha + 1.0) + math.log(1.0 - first) / alpha
    d = alpha - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(_ATTEMPTS):
        radius, angle, u = rest[3 * attempt : 3 * attempt + 3]
        x = math.sqrt(-2.0 * math.log(1.0 - radius)) * math.cos(2.0 * math.pi * angle)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        if math.log(1.0 - u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return math.log(d * v)
    return math.log(d)  # once in 10^10
