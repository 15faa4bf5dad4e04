"""DAWA: a private partition into buckets of nearly equal counts, then a hierarchy (Li, Hay, Miklau, PVLDB 2014).

Stage 1 is ``partition``, in a corrected form: neither the published proof sketch nor the published code is private at
the stated epsilon. Stage 2 is ``greedy`` on the totals of the buckets, each of which is spread evenly over its cells.
The cells of a grid are taken in Hilbert order.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.interface import PublicFacts, on_a_line
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.papers.histograms.greedy import greedy_cells
from spark_jobs.papers.histograms.orders import line_order
from spark_jobs.papers.histograms.partition import private_partition

PARTITION_SHARE = Decimal("0.25")


def dawa(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """A private partition, then noisy totals of its buckets; epsilon-DP for the meter's remaining epsilon.

    Cost: a quarter of the budget for the partition, the rest for the totals, by sequential composition; the second
    stage uses the released partition, whose buckets are disjoint. Guarantee and proof of each stage: see ``partition``
    and ``greedy``. O(N log N) without the noise.
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
    """The penalty that the first stage adds to the deviation of every bucket, in counts; public.

    It is the expected noise of the bucket's total, ``1 / second``, plus the scale of the noise in the cost of a long
    bucket, ``4 / first`` (both doubled if a row is replaced). Without the second term, the cheapest partition would be
    the one with the most buckets: there are many ways to cut a long bucket into short ones, and the smallest of their
    noisy costs is far below the noisy cost of the long bucket.
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
