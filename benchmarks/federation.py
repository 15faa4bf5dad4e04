"""Sums over parties, and comparisons of shared values: ``python -m benchmarks.federation``.

Time to share, sum and put together vectors of counts; time and bytes of pairwise masks by the number of parties; time
to evaluate comparison functions, and their keys' size.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from benchmarks.harness import Report, Target, Timing, alternate, arguments, progress, publish
from spark_jobs.arrays import Int64Array
from spark_jobs.federation.additive import add, reconstruct, split
from spark_jobs.federation.comparison import ComparisonKeys, comparison_keys, evaluate
from spark_jobs.federation.ustat import Curator, Masked, Servers, UStat
from spark_jobs.mechanisms.noise import SecureNoise

CELLS, PARTIES = 131_072, 20
PAIRS, BITS = 10**6, 15
NOISE = SecureNoise()
WORD = 8
"""Bytes of a residue modulo 2^64."""


def shared_and_summed(vectors: list[Int64Array], servers: int = 2) -> Int64Array:
    """Sharing, the servers' sums, and their reconstruction."""
    parties = [split(vector, servers=servers, noise=NOISE) for vector in vectors]
    return reconstruct([add(received) for received in zip(*parties, strict=True)])


def key_bits(key: ComparisonKeys) -> int:
    """The size of one hidden value's key."""
    words = key.seeds.size + key.seed_corrections.size + key.value_corrections.size
    return (64 * words + key.bit_corrections.size) // key.size


def tables(count: int, cells: int) -> list[Int64Array]:
    """The counts of so many silos."""
    return list(np.random.default_rng(1).integers(0, 100, (count, cells)))


def sums(cells: int, repetitions: int) -> dict[str, Timing]:
    """Each way to publish a noisy sum, by turns."""
    vectors = tables(PARTIES, cells)
    ways: dict[str, UStat] = {
        "a trusted curator": Curator(),
        "two servers, one of which may collude": Servers(),
        "pairwise masks, 11 of 20 must stay": Masked(threshold=11),
    }
    cases = {"sharing and summing alone, two servers": lambda: shared_and_summed(vectors)}
    for name, way in ways.items():
        cases[name] = lambda way=way: way.noisy_sum(vectors, epsilon=1, l1_sensitivity=1)
    return alternate(cases, repetitions=repetitions, warmups=1)


def by_parties(counts: list[int], cells: int, repetitions: int) -> dict[str, Timing]:
    """Masked sums, by the number of parties."""
    cases = {}
    for count in counts:
        vectors, way = tables(count, cells), Masked(threshold=count // 2 + 1)
        cases[f"{count} parties, {cells:,} cells"] = lambda v=vectors, w=way: w.noisy_sum(
            v, epsilon=1, l1_sensitivity=1
        )
    return alternate(cases, repetitions=repetitions, warmups=0)


def comparisons(pairs: int, repetitions: int) -> tuple[dict[str, Timing], int]:
    """Keys and evaluations of hidden values, at 31 points; and the bits of a key."""
    points = np.linspace(0, 1 << BITS, 31).astype(np.int64)
    values = np.random.default_rng(2).integers(0, 1 << BITS, -(-pairs // points.size))
    keys = comparison_keys(values, bits=BITS, noise=NOISE)
    cases = {
        f"keys of {values.size:,} values of {BITS} bits": lambda: comparison_keys(values, bits=BITS, noise=NOISE),
        f"one server, {values.size * points.size:,} (key, point) pairs": lambda: evaluate(keys[0], points),
    }
    return alternate(cases, repetitions=repetitions, warmups=1), key_bits(keys[0])


def main() -> int:
    """Print the figures of docs/contributing/benchmarks/federation.md."""
    given = arguments(__doc__.splitlines()[0]).parse_args()
    quick = given.quick
    cells = 1024 if quick else CELLS
    progress("sums")
    summed = sums(cells, given.repetitions)
    progress("masks")
    counts = [2, 5] if quick else [2, 10, 50, 100, 200]
    masked = by_parties(counts, 64 if quick else 1 << 10, given.repetitions)
    progress("comparisons")
    compared, bits = comparisons(10_000 if quick else PAIRS, given.repetitions)
    timings = {**summed, **masked, **compared}
    alone, evaluated = next(iter(summed.values())), list(compared.values())[1]
    growth = [later.median_cpu / before.median_cpu for before, later in pairwise(masked.values())]
    report = Report(
        name="federation",
        columns=(f"{PARTIES} parties, {cells:,} cells", "clock", "processor time"),
        rows=[(name, str(timing), f"{timing.median_cpu:.2f} s") for name, timing in timings.items()],
        targets=[]
        if quick
        else [
            _target(f"share and sum {cells:,} cells of {PARTIES} parties", 1.0, alone),
            _target(f"{PAIRS:,} evaluations of one server", 30.0, evaluated),
        ],
        figures={
            "times": {name: {"wall": timing.wall, "cpu": timing.cpu} for name, timing in timings.items()},
            "key_bits": bits,
            "bytes_sent_by_a_party_to_two_servers": 2 * WORD * cells,
            "growth_of_masked_sums": growth,
        },
    )
    print(f"A comparison key of {BITS} bits has {bits:,} bits.")
    return publish(report, given.json)


def _target(what: str, seconds: float, timing: Timing) -> Target:
    met = timing.median_cpu <= seconds
    return Target(what=what, target=f"{seconds:g} s", outcome=f"{timing.median_cpu:.2f} s of processor time", met=met)


if __name__ == "__main__":
    sys.exit(main())
