"""WARNING: none of this is differentially private, at any epsilon. For tests, benchmarks and warnings alone.

Published threshold tests that claim ``epsilon`` and answer any number of queries "above" for it, as their papers print
them but for integer noise in place of Laplace noise (queries are integers; the losses are the same in kind, and the
tests compute both):

- Lee, Clifton, *Top-k frequent itemsets via differentially private FP-trees*, KDD 2014;
- Stoddard, Chen, Machanavajjhala, *Differentially private algorithms for empirical machine learning*, 2014;
- Chen, Xiao, Zhang, Xu, *Differentially private high-dimensional data publication via sampling-based inference*,
  KDD 2015;
- "generalised private threshold testing", which holds the three: Chen, *Applying differential privacy with sparse
  vector technique*, 2018, algorithm 5; algorithms 2 to 4 there are the three above;
- the generalised sparse vector technique of the same text, algorithm 8, whose line 3 sets the count of passing queries
  back to 0 for every query, so that a cut-off of 2 or more is never reached;
- Roth, lecture notes of 2011: the noisy values of passing queries are released, from the noise that made them pass
  (algorithm 3 of Lyu, Su, Li, VLDB 2017).

The claimed proofs cancel the noise of queries "above" and "below" against two different shifts of one threshold.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHARES: dict[str, tuple[Decimal, Decimal | None]] = {
    "Lee, Clifton": (Decimal("0.25"), Decimal("0.75")),
    "Stoddard et al.": (Decimal(1), None),
    "Chen et al.": (Decimal("0.5"), Decimal("0.5")),
}
"""The part of epsilon that the noise of the threshold and of each query is made for; None: queries have no noise."""


def published(name: str, queries: ArrayLike, *, epsilon: Any, noise: Any, threshold: int = 0) -> NDArray[np.bool_]:
    """The variant of this name: which queries pass, all of them answered."""
    for_threshold, for_queries = (None if share is None else Decimal(epsilon) * share for share in SHARES[name])
    return gptt(queries, threshold=threshold, epsilon1=for_threshold, epsilon2=for_queries, noise=noise)


def gptt(
    queries: ArrayLike, *, epsilon1: Any, epsilon2: Any | None, noise: Any, threshold: int = 0
) -> NDArray[np.bool_]:
    """Generalised private threshold testing of queries of sensitivity 1; ``epsilon2`` None is infinite."""
    exact = np.asarray(queries, dtype=np.int64)
    level = noise.laplace(np.array([threshold]), epsilon=epsilon1, l1_sensitivity=1)[0]
    noisy = exact if epsilon2 is None else noise.laplace(exact, epsilon=epsilon2, l1_sensitivity=1)
    return noisy >= level


def generalised_as_printed(
    queries: ArrayLike, thresholds: ArrayLike, *, cutoff: int, epsilon: Any, noise: Any, sensitivities: tuple[int, int]
) -> list[bool]:
    """Algorithm 8: the count is set to 0 inside the loop, so it is 1 at most."""
    reach = sum(sensitivities)
    half = Decimal(epsilon) / 2
    level = noise.laplace(np.zeros(1, np.int64), epsilon=half, l1_sensitivity=reach)[0]
    answers = []
    for query, threshold in zip(np.asarray(queries), np.asarray(thresholds), strict=True):
        count = 0
        noisy = noise.laplace(np.array([query]), epsilon=half, l1_sensitivity=2 * cutoff * reach)[0]
        answers.append(bool(noisy >= threshold + level))
        if answers[-1]:
            count += 1
        if count == cutoff:
            break
    return answers


def value_of_the_noise_that_passed(
    queries: ArrayLike, *, epsilon: Any, noise: Any, threshold: int = 0
) -> tuple[int, int] | None:
    """Cut-off 1, ``epsilon / 2`` each for threshold and query; the index that passed, and the noisy value it had."""
    half = Decimal(epsilon) / 2
    level = noise.laplace(np.array([threshold]), epsilon=half, l1_sensitivity=1)[0]
    noisy = noise.laplace(np.asarray(queries, dtype=np.int64), epsilon=half, l1_sensitivity=1)
    passing = np.flatnonzero(noisy >= level)
    return (int(passing[0]), int(noisy[passing[0]])) if passing.size else None
