"""One measurement on several silos' statistics, by the same code of the diagnostic as for one table.

Every silo runs the same measurement on its own exact statistic, with a sampler of noise that publishes the silos' noisy
sum in place of its own noisy vector. A measurement may take several rounds. Each round depends only on public facts and
published sums, so all silos ask for the same rounds and end with the same draw, which is the draw of the pooled table.

This holds for measurements that use exact numbers only in sums with fixed whole weights. ``LINEAR`` lists them, by kind
and method; a test compares each with the pooled table's, bit for bit. The relation must be ``ADD_REMOVE``: under
``REPLACE_ONE`` a measurement uses the size of the pooled table as public, and a silo knows only its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_FLOOR, Decimal, localcontext
from functools import partial
from threading import Barrier, BrokenBarrierError
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import LINEAR as LINEAR
from spark_jobs.contract.federation import require_add_remove, require_linear
from spark_jobs.contract.privacy import KEPT_DIGITS, MAX_DIGITS, Neighbours, exact_decimal
from spark_jobs.contract.release import PRIVATE
from spark_jobs.diagnostics.diagnostic import Diagnostic, Draw
from spark_jobs.federation.ustat import UStat
from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import Cost
from spark_jobs.mechanisms.paid_counts import Deposit, Evaluate

S = TypeVar("S")
D = TypeVar("D", bound=Draw)

Exchange: TypeAlias = Callable[[Int64Array, Cost, int], Int64Array]
"""(a silo's vector, epsilon, its 1-norm sensitivity) -> the noisy sum of all silos' vectors."""


def measure_together(
    diagnostic: Diagnostic[Any, S, D, Any], statistics: Sequence[S], *, aggregation: UStat, **options: Any
) -> D:
    """The draw of a diagnostic on the rows of several silos; no silo discloses its own numbers to another.

    Args:
        diagnostic: its kind must be one of ``LINEAR``.
        statistics: the silos' exact statistics; private.
        aggregation: what publishes noisy sums over the silos.
        options: the options of the diagnostic's ``release``, except ``noise``.

    Raises:
        InvalidRequest: the kind or its method is not in ``LINEAR``, the relation is not ``ADD_REMOVE``, or an option is
            out of bounds.
    """
    rounds = _Rounds(len(statistics), aggregation)

    def run(silo: int) -> D:
        def exchange(values: Int64Array, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
            return rounds.exchange(silo, values, epsilon, l1_sensitivity)

        try:
            guarantee = aggregation.guarantee
            return measure_in_silo(diagnostic, statistics[silo], exchange=exchange, guarantee=guarantee, **options)
        except BaseException:
            rounds.abort()
            raise

    with ThreadPoolExecutor(len(statistics)) as pool:
        runs = [pool.submit(run, silo) for silo in range(len(statistics))]
    # a silo that fails releases the others from waiting; its own error is the cause
    failures = [error for error in (future.exception() for future in runs) if error is not None]
    for error in failures:
        if not isinstance(error, BrokenBarrierError):
            raise error
    return runs[0].result()


def measure_in_silo(
    diagnostic: Diagnostic[Any, S, D, Any],
    statistic: S,
    *,
    exchange: Exchange,
    guarantee: str = PRIVATE,
    **options: Any,
) -> D:
    """The draw of a diagnostic on the rows of all silos, made in one silo; the others call this at the same time.

    Args:
        diagnostic: its kind must be one of ``LINEAR``.
        statistic: this silo's exact statistic; private.
        exchange: sends this silo's vector, with epsilon and its 1-norm sensitivity, and returns the noisy sum of all.
        guarantee: the stamp of results with the noise of these sums.
        options: the options of the diagnostic's ``release``, except ``noise``.

    Raises:
        InvalidRequest: as for ``measure_together``.
    """
    require_linear(diagnostic.kind, options)
    require_add_remove(options.get("neighbours", Neighbours.ADD_REMOVE))
    return diagnostic.measure(statistic, noise=SiloNoise(exchange, guarantee=guarantee), **options)


class SiloNoise:
    """The noise sampler of a silo's measurement: each call publishes and returns the silos' noisy sum.

    Args:
        exchange: sends this silo's vector, with epsilon and its 1-norm sensitivity, and returns the published sum.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        factor: the ratio of the silos' noise to that of one table at the same cost (``Agreement.noise_factor``). A
            measurement that asks for noise at some epsilon gets the noise of one table at that epsilon, at a cost of
            ``factor`` times that epsilon.
        deposit: gives the servers comparison keys of this silo's rows, for measurements that ask how many rows lie
            below points; None to exchange a vector for each such question.
    """

    def __init__(
        self, exchange: Exchange, *, guarantee: str, factor: Decimal = Decimal(1), deposit: Deposit | None = None
    ) -> None:
        self._exchange = exchange
        self._guarantee = guarantee
        self._factor = factor
        self._deposit = deposit

    @property
    def guarantee(self) -> str:
        """The stamp of results with this noise."""
        return self._guarantee

    @property
    def private(self) -> bool:
        """Whether results with this noise may be released."""
        return self._guarantee == PRIVATE

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """The sum over silos of ``values``, plus noise; see ``UStat.noisy_sum``."""
        return self._exchange(np.asarray(values, dtype=np.int64), self._cost(epsilon), l1_sensitivity)

    @property
    def deposit(self) -> Deposit | None:
        """The function that gives the servers keys of this silo's rows, at the cost of one table's noise, or None."""
        return None if self._deposit is None else partial(self._deposited, self._deposit)

    def _deposited(
        self, deposit: Deposit, counts: Int64Array, *, epsilon: Cost, evaluations: int, capacity: int
    ) -> Evaluate:
        return deposit(counts, epsilon=self._cost(epsilon), evaluations=evaluations, capacity=capacity)

    def _cost(self, epsilon: Cost) -> Cost:
        """The cost of the noise of one table at ``epsilon``, rounded down to digits that can be written."""
        if self._factor == 1:
            return epsilon
        exact = epsilon if isinstance(epsilon, Decimal) else exact_decimal(epsilon)
        with localcontext(prec=2 * MAX_DIGITS, rounding=ROUND_FLOOR):
            return (exact * self._factor).quantize(Decimal(1).scaleb(-KEPT_DIGITS))

    def gaussian(self, values: NDArray[Any], *, rho: Cost, l2_sensitivity: float) -> Int64Array:
        """Refused: shares of discrete Gaussian noise do not add up to discrete Gaussian noise."""
        raise _not_linear()

    @property
    def joint(self) -> bool:
        """False: shares of ``k_norm`` noise would not add up to ``k_norm`` noise."""
        return False

    def k_norm(self, values: NDArray[Any], *, epsilon: Cost, body: Body) -> Int64Array:
        """Refused; see ``joint``."""
        raise _not_linear()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Refused: a random choice between exact scores is no sum over silos."""
        raise _not_linear()


class _Rounds:
    """A meeting of threads: the last to arrive publishes the sum of what all have sent."""

    def __init__(self, silos: int, aggregation: UStat) -> None:
        self._aggregation = aggregation
        self._sent: dict[int, tuple[Int64Array, Cost, int]] = {}
        self._published: Int64Array
        self._arrived = Barrier(silos, action=self._publish)
        self._left = Barrier(silos)

    def exchange(self, silo: int, values: Int64Array, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        self._sent[silo] = (values, epsilon, l1_sensitivity)
        self._arrived.wait()
        published = self._published.copy()
        self._left.wait()
        return published

    def abort(self) -> None:
        self._arrived.abort()
        self._left.abort()

    def _publish(self) -> None:
        sent = [self._sent[silo] for silo in sorted(self._sent)]
        terms = {(values.shape, epsilon, sensitivity) for values, epsilon, sensitivity in sent}
        if len(terms) > 1:
            raise _not_linear()
        (_, epsilon, sensitivity) = terms.pop()
        vectors = [values for values, _, _ in sent]
        self._published = self._aggregation.noisy_sum(vectors, epsilon=epsilon, l1_sensitivity=sensitivity)


def _not_linear() -> InvalidRequest:
    return InvalidRequest(
        "method", None, "must release sums of counts alone for silos", "choose another method, or pool the tables"
    )
