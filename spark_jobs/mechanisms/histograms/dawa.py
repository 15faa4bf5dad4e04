"""DAWA: buckets of nearly equal counts, found privately, then a hierarchy over them (Li, Hay, Miklau, PVLDB 2014).

Stage 1 is ``partition``, corrected (its published proof sketch and code are not private at the stated epsilon); stage 2
is ``greedy`` over the buckets' totals, each spread evenly over its cells. A grid is taken in Hilbert order.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.greedy import greedy_cells
from spark_jobs.mechanisms.histograms.interface import PublicFacts, on_a_line
from spark_jobs.mechanisms.histograms.orders import line_order
from spark_jobs.mechanisms.histograms.partition import private_partition
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed

PARTITION_SHARE = Decimal("0.25")


def dawa(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """A private partition, then noisy totals of its buckets; epsilon-DP at all that the meter has left.

    Cost: a quarter of the allowance for the partition, the rest for the totals, by sequential composition; the second
    stage reads a partition that is released, and its buckets are disjoint. Guarantee and proof of each: ``partition``
    and ``greedy``, for the relation asked for. O(N log N) besides the noise.
    """
    first = meter.spend_share(PARTITION_SHARE, label="partition into buckets")
    second = meter.spend_rest(label="totals of buckets")
    penalty = bucket_penalty(first, second, neighbours)

    def measured(line: Int64Array) -> FloatArray:
        starts = private_partition(line, epsilon=first, penalty=penalty, neighbours=neighbours, noise=noise)
        return spread_totals(
            line, starts, epsilon=second, neighbours=neighbours, noise=noise, public_total=facts.total is not None
        )

    return on_a_line(measured, counts, line_order(counts.shape))


def bucket_penalty(first: Decimal, second: Decimal, neighbours: Neighbours) -> float:
    """What a bucket costs in the first stage besides its deviation, in counts; public.

    The expected noise of its total, ``1 / second``, and the scale of the noise in a long bucket's cost, ``4 / first``
    (twice either where a row is replaced). Without the latter the cheapest partition is the one with the most buckets:
    the least of many noisy sums of short costs lies far below the one noisy cost of their union.
    """
    return rows_changed(neighbours) * (1.0 / float(second) + 4.0 / float(first))


def spread_totals(
    line: Int64Array, starts: Int64Array, *, epsilon: Decimal, neighbours: Neighbours, noise: Noise, public_total: bool
) -> FloatArray:
    """Noisy totals of the buckets that begin at ``starts``, spread evenly; ``epsilon``-DP for a released partition."""
    totals = np.add.reduceat(line, starts)
    lengths = np.diff(np.append(starts, line.size))
    noisy = greedy_cells(totals, epsilon=epsilon, neighbours=neighbours, noise=noise, public_total=public_total)
    return np.repeat(noisy / lengths, lengths)
