"""WARNING: promises a delta that the noise does not keep. For tests alone.

Code published with Alabi, McMillan, Sarathy, Smith, Vadhan, *Differentially private simple linear regression* (PoPETs
2022): the helper ``convertApproxDPtoCDP`` takes the logarithm of base 10 for the natural one.
"""

from __future__ import annotations

import math


def rho_within(epsilon: float, delta: float) -> float:
    """The rho that is said to be within ``(epsilon, delta)``."""
    chance = math.log10(1 / delta)
    return (math.sqrt(chance + epsilon) - math.sqrt(chance)) ** 2
