"""Sums over parties, and comparisons of shared values: ``python -m benchmarks.federation``.

Time to share, sum and put together vectors of counts; time and bytes by the number of silos and cells, with a picture;
time to evaluate comparison functions, and their keys' size.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from time import process_time

import numpy as np

from benchmarks._pictures import IMAGES, finish, panels, points
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
SERVERS, MASKS = "two servers", "masks"
MASK_BYTES, MASK_BYTES_OF_PEER = 64, 160 + 66
"""What a silo sends besides its vector: two public keys; and for each silo, an envelope and a disclosed share."""


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


@dataclass(frozen=True, kw_only=True)
class Size:
    """A federation's size, and what it costs.

    Attributes:
        parties, cells: how many silos there are, and how long each one's vector is.
        seconds: processor time of all silos and servers together, by way.
        sent: bytes that one silo sends, by way.
    """

    parties: int
    cells: int
    seconds: dict[str, float]
    sent: dict[str, int]


def by_size(parties: Sequence[int], cells: Sequence[int]) -> list[Size]:
    """One noisy sum of each size: by two servers, and behind pairwise masks."""
    sizes = []
    for count, length in product(parties, cells):
        vectors = tables(count, length)
        ways: dict[str, UStat] = {SERVERS: Servers(), MASKS: Masked(threshold=count // 2 + 1)}
        seconds = {}
        for name, way in ways.items():
            began = process_time()
            way.noisy_sum(vectors, epsilon=1, l1_sensitivity=1)
            seconds[name] = process_time() - began
        sent = {SERVERS: 2 * WORD * length, MASKS: WORD * length + MASK_BYTES + count * MASK_BYTES_OF_PEER}
        sizes.append(Size(parties=count, cells=length, seconds=seconds, sent=sent))
    return sizes


def picture(sizes: Sequence[Size]) -> None:
    """Seconds and bytes by the length of the vectors, a line for each way and number of parties."""
    figure, (time, size) = panels(2, scales=("log", "log"))
    for count, dashes in zip(sorted({entry.parties for entry in sizes}), ("-", "--", "-.", ":"), strict=False):
        lines = [entry for entry in sizes if entry.parties == count]
        at = [entry.cells for entry in lines]
        for name, (colour, marker) in {SERVERS: ("curve", "o"), MASKS: ("spent", "s")}.items():
            label = f"{name}, {count} silos"
            points(time, (colour, marker, dashes), label, at, [max(entry.seconds[name], 1e-3) for entry in lines])
            points(size, (colour, marker, dashes), label, at, [entry.sent[name] for entry in lines])
    for axes, what in ((time, "processor time of all, seconds"), (size, "bytes that a silo sends")):
        axes.set_xlabel("cells of a silo's vector")
        axes.set_ylabel(what)
    finish(figure, [time], IMAGES / "federation-cost.svg")


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
    progress("sizes")
    sizes = by_size((2, 3), (64, 128)) if quick else by_size((2, 20, 200), [1 << 10, 1 << 13, 1 << 15])
    if not quick:
        picture(sizes)
    progress("comparisons")
    compared, bits = comparisons(10_000 if quick else PAIRS, given.repetitions)
    timings = {**summed, **compared}
    alone, evaluated = next(iter(summed.values())), list(compared.values())[1]
    report = Report(
        name="federation",
        columns=(f"{PARTIES} silos, {cells:,} cells", "clock, or bytes of a silo", "processor time"),
        rows=[
            *((name, str(timing), f"{timing.median_cpu:.2f} s") for name, timing in timings.items()),
            *(
                (
                    f"{name}, {entry.parties} silos, {entry.cells:,} cells",
                    f"{entry.sent[name]:,} bytes",
                    f"{seconds:.2f} s",
                )
                for entry in sizes
                for name, seconds in entry.seconds.items()
            ),
        ],
        targets=[]
        if quick
        else [
            _target(f"share and sum {cells:,} cells of {PARTIES} parties", 1.0, alone),
            _target(f"{PAIRS:,} evaluations of one server", 30.0, evaluated),
        ],
        figures={
            "times": {name: {"wall": timing.wall, "cpu": timing.cpu} for name, timing in timings.items()},
            "key_bits": bits,
            "sizes": [asdict(size) for size in sizes],
        },
    )
    print(f"A comparison key of {BITS} bits has {bits:,} bits.")
    return publish(report, given.json)


def _target(what: str, seconds: float, timing: Timing) -> Target:
    met = timing.median_cpu <= seconds
    return Target(what=what, target=f"{seconds:g} s", outcome=f"{timing.median_cpu:.2f} s of processor time", met=met)


if __name__ == "__main__":
    sys.exit(main())
