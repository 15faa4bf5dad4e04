"""What threshold tests without a cut-off reveal: tables 3.2 and 3.3 of Chen 2018, and the same attack on this product.

The flawed variants are those of ``tests/support/flawed``: nothing that is installed can express them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from benchmarks._real_histograms import MISSING, real_histograms
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import Int64Array
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.reconstruction import ZIPF, Success, attack, attack_shipped, reconstruct, success

EPSILONS = (1.0, 0.5, 0.1)
PUBLISHED = {1.0: (0.994, 0.999), 0.5: (0.991, 0.997), 0.1: (0.981, 0.992)}
"""Tables 3.2 and 3.3 for Adult: of all cells, of cells with 0 to 5 rows."""
COLUMNS = ("histogram", "answers from", "epsilon", "all cells", "cells with 0 to 5 rows", "cells with 1 to 5 rows")
FLAWED = ("Stoddard et al.", "Chen et al.", "Lee, Clifton")
CUTOFFS = (1, 100)


def main() -> int:
    """Print the tables of docs/contributing/benchmarks/svt-attack.md."""
    parser = arguments(str(__doc__).splitlines()[0])
    options = parser.parse_args()
    real = real_histograms()
    if not real:
        progress(MISSING)
    histograms = {"Zipf": ZIPF} if options.quick else {**real, "Zipf": ZIPF}
    repetitions = 2 if options.quick else options.repetitions
    successes: dict[tuple[str, str, float], Success] = {}
    for histogram, counts in histograms.items():
        progress(f"{histogram}: {counts.size} cells, {counts.sum()} rows, {(counts <= 5).sum()} cells of 0 to 5 rows")
        for epsilon in EPSILONS:
            for name, run in attacks(counts, epsilon).items():
                successes[histogram, name, epsilon] = mean([run(seed) for seed in range(repetitions)])
    return publish(
        Report(
            name="svt_attack",
            columns=COLUMNS,
            rows=[(*key[:2], f"{key[2]:g}", *rates(one)) for key, one in successes.items()],
            targets=() if options.quick else targets(successes),
            figures={" / ".join(map(str, key)): asdict(one) for key, one in successes.items()},
        ),
        options.json,
    )


def attacks(counts: Int64Array, epsilon: float) -> dict[str, Callable[[int], Success]]:
    """Mechanism -> seed -> what the attack reveals, at a claimed total cost of epsilon."""

    def flawed(name: str) -> Callable[[int], Success]:
        return lambda seed: attack(
            counts, name, epsilon=epsilon, noise=SeededNoise(seed), draw=np.random.default_rng(seed)
        )

    def here(cutoff: int) -> Callable[[int], Success]:
        return lambda seed: attack_shipped(counts, epsilon=epsilon, cutoff=cutoff, noise=SeededNoise(seed))

    def nobody(seed: int) -> Success:
        one_class = np.zeros(counts.size, dtype=np.int64)
        return success(counts, reconstruct(counts, one_class, epsilon=epsilon / 2, noise=SeededNoise(seed)))

    return {
        **{name: flawed(name) for name in FLAWED},
        **{f"above_threshold, cut-off {cutoff}": here(cutoff) for cutoff in CUTOFFS},
        "nobody (the noisy total alone)": nobody,
    }


def mean(runs: list[Success]) -> Success:
    """The mean of several runs."""
    return Success(**{name: float(np.mean([getattr(run, name) for run in runs])) for name in asdict(runs[0])})


def rates(one: Success) -> tuple[str, str, str]:
    """The three parts, as text."""
    return f"{one.cells:.3f}", f"{one.small:.3f}", f"{one.occupied:.3f}"


def targets(successes: dict[tuple[str, str, float], Success]) -> list[Target]:
    """Adult as published; the product's mechanisms reveal no more than the noisy total does."""
    results = []
    for epsilon, (cells, small) in PUBLISHED.items():
        if ("Adult", FLAWED[0], epsilon) in successes:
            success = successes["Adult", FLAWED[0], epsilon]
            results.append(
                Target(
                    what=f"Adult, epsilon {epsilon:g}: cells, and cells with 0 to 5 rows, revealed exactly",
                    target=f"{cells:.3f} and {small:.3f} within 0.01 (tables 3.2, 3.3)",
                    outcome=f"{success.cells:.3f} and {success.small:.3f}",
                    met=abs(success.cells - cells) <= 0.01 and abs(success.small - small) <= 0.01,
                )
            )
    # a class or two beside the one of everything may move the mean, and a guess with it, by chance
    excess = max(
        one.small - successes[key[0], "nobody (the noisy total alone)", key[2]].small
        for key, one in successes.items()
        if key[1].startswith("above_threshold")
    )
    results.append(
        Target(
            what="above_threshold under the same attack: small counts beyond those that the noisy total reveals",
            target="at most 0.02",
            outcome=f"{excess:.3f}",
            met=excess <= 0.02,
        )
    )
    return results


if __name__ == "__main__":
    sys.exit(main())
