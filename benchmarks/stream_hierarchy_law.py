"""The regret of methods for hierarchies on streams of a law: ``python -m benchmarks.stream_hierarchy_law [--quick]``.

Drawn at random: 4 to 256 states in groups of about their square root, rates of states that are lognormal about one of
0.01 to 100 events a step, with or without a day of 24 steps; 480 steps. Regret is over the best method on a stream.
Rules take PHS-PGS where the mean number of events of a state and step, times epsilon, is below a bound, and
``local_level`` elsewhere: they show whether that number, which a requester may know roughly, would help.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np

from benchmarks.harness import Report, arguments, progress, publish
from benchmarks.stream_hierarchies import ADDED, filtered, local_level
from spark_jobs.arrays import Int64Array
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.streams.hierarchy import HierarchyShape, HierarchyState, aggregate, release_hierarchy

STEPS, STREAMS, EPSILONS = 480, 180, ("1", "0.1", "0.01")
BOUNDS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1)
"""Of events of a state and step times epsilon, below which a rule takes PHS-PGS."""
FILTERED, STATES = "local_level", "local_level on the states alone, added up"
PRUNED, ALL = "PHS-PGS", "HS-PGS, adding up"


def drawn_stream(random: np.random.Generator) -> tuple[Int64Array, Hierarchy]:
    """The counts of the states and their hierarchy."""
    states = round(2 ** random.uniform(2, 8))
    width = round(states**0.5)
    sizes = np.diff(np.append(np.arange(0, states, width), states))
    rates = 10 ** random.uniform(-2, 2) * random.lognormal(0, random.uniform(0, 2), states)
    day = 1 + random.choice([0.0, 0.9]) * np.sin(2 * np.pi * np.arange(STEPS) / 24)
    counts = random.poisson(rates * day[:, None]).astype(np.int64)
    return counts, Hierarchy(order=np.arange(states), children=(sizes, np.array([sizes.size])))


def errors(counts: Int64Array, hierarchy: Hierarchy, epsilon: str, seed: int) -> dict[str, float]:
    """The mean absolute error over all aggregates, by method."""
    exact = aggregate(counts, hierarchy)
    noisy = SeededNoise(seed).laplace(counts, epsilon=epsilon, l1_sensitivity=1)
    of_states = np.rint(filtered(noisy, Decimal(epsilon))).astype(np.int64)
    means = {
        FILTERED: float(np.abs(local_level(noisy, Decimal(epsilon), hierarchy) - exact).mean()),
        STATES: float(np.abs(aggregate(of_states, hierarchy) - exact).mean()),
    }
    pruned = HierarchyShape(hierarchy=hierarchy, epsilon=epsilon, neighbours=ADDED)
    for name, shape in {PRUNED: pruned, ALL: replace(pruned, prune_share=0, group_share="0.2")}.items():
        _, steps = release_hierarchy(HierarchyState.start(shape), counts, shape=shape, noise=SeededNoise(seed))
        means[name] = float(np.abs(steps.estimates - exact).mean())
    return means


def main(argv: list[str] | None = None) -> int:
    """Draw, measure, and print the regret of each method, and of rules."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="of the streams (default: 7)")
    given = parser.parse_args(argv)
    random, kept = np.random.default_rng(given.seed), list[tuple[float, dict[str, float]]]()
    for number in range(3 if given.quick else STREAMS):
        counts, hierarchy = drawn_stream(random)
        epsilon = EPSILONS[number % len(EPSILONS)]
        progress(f"stream {number}: {counts.shape[1]} states, epsilon {epsilon}")
        kept.append((float(counts.mean()) * float(epsilon), errors(counts, hierarchy, epsilon, number)))
    best = np.array([min(means.values()) for _, means in kept])
    taken = {name: [means[name] for _, means in kept] for name in kept[0][1]}
    for bound in BOUNDS:
        taken[f"{PRUNED} below {bound}"] = [means[PRUNED if signal < bound else FILTERED] for signal, means in kept]
    rows = []
    for name, errors_of in taken.items():
        regrets = np.array(errors_of) / best
        row = (np.exp(np.log(regrets).mean()), regrets.mean(), np.quantile(regrets, 0.9), regrets.max())
        rows.append([name, *(f"{one:.2f}" for one in row)])
    columns = ("method, or rule by events x epsilon", "geometric mean", "mean regret", "nine tenths below", "worst")
    name = f"methods for hierarchies, {len(kept)} streams"
    return publish(Report(name=name, columns=columns, rows=rows, targets=(), figures={"all": kept}), given.json)


if __name__ == "__main__":
    sys.exit(main())
