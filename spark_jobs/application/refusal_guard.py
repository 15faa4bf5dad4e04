"""No refusal after noise has been drawn.

From then on a refusal may depend on noisy values, and so would release information about the rows that no charge has
paid for. Every later error is therefore a failure: its cause stays private, and the charge stays in place. A charged
run is stricter (``application.main``): there, every refusal after the first row was read is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, localcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import MAX_DIGITS, exact_decimal, plain
from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.paid_counts import Deposit, Depositing, Evaluate


class RefusedTooLateError(Exception):
    """Something was refused after noise had been drawn: an error of the program, whose cause stays private."""


class RecordingNoise:
    """A noise sampler that records whether noise was drawn, and the largest privacy loss of a single call.

    Args:
        noise: the sampler that draws the noise.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.drawn = False
        self._largest: dict[str, Decimal] = {}

    @property
    def private(self) -> bool:
        """Whether results with this noise may be released."""
        return self._noise.private

    @property
    def guarantee(self) -> str:
        """The stamp of results with this noise, ``PRIVATE`` or ``NOT_PRIVATE``."""
        return self._noise.guarantee

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """``values`` plus two-sided geometric noise."""
        noisy = self._noise.laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)
        self._note("laplace", epsilon)
        return noisy

    def gaussian(self, values: NDArray[Any], *, rho: Cost, l2_sensitivity: float) -> Int64Array:
        """``values`` plus discrete Gaussian noise."""
        noisy = self._noise.gaussian(values, rho=rho, l2_sensitivity=l2_sensitivity)
        self._note("gaussian", rho)
        return noisy

    @property
    def joint(self) -> bool:
        """Whether ``k_norm`` can be drawn."""
        return self._noise.joint

    def k_norm(self, values: NDArray[Any], *, epsilon: Cost, body: Body) -> Int64Array:
        """``values`` plus noise of ``mechanisms.k_norm``."""
        noisy = self._noise.k_norm(values, epsilon=epsilon, body=body)
        self._note("k_norm", epsilon)
        return noisy

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform words."""
        words = self._noise.words(count)
        self.drawn = True
        return words

    @property
    def deposit(self) -> Deposit | None:
        """The sampler's function for handing a table to servers (``SiloNoise.deposit``); None if it has none."""
        if not isinstance(self._noise, Depositing) or self._noise.deposit is None:
            return None
        return partial(self._deposited, self._noise.deposit)

    def _deposited(self, deposit: Deposit, counts: Int64Array, *, epsilon: Cost, **terms: int) -> Evaluate:
        self._note("laplace", epsilon)
        return deposit(counts, epsilon=epsilon, **terms)

    def take_largest(self, *, times: Decimal = Decimal(1), rows: int = 1, rhos: int | None = None) -> dict[str, str]:
        """The largest privacy loss of a single call since this method was last called, by kind of noise, for one row.

        Args:
            times: the ratio of a call's loss to the epsilon that it asks for (``BudgetPart.noise_factor``).
            rows: the number of rows that share the loss of a call equally.
            rhos: if the budget is a rho, the ratio of a unit's loss to the rho that a call of Gaussian noise asks
                for; otherwise None, and ``times`` is used.
        """
        largest, self._largest = self._largest, {}
        with localcontext(prec=4 * MAX_DIGITS):
            times_rho = times if rhos is None else Decimal(rhos)
            lost = {kind: loss * (times_rho if kind == "gaussian" else times) for kind, loss in largest.items()}
            return {kind: plain(loss / rows) for kind, loss in lost.items()}

    def _note(self, kind: str, loss: Cost) -> None:
        self.drawn = True
        exact = loss if isinstance(loss, Decimal) else exact_decimal(loss)  # a share may have more digits than a cost
        self._largest[kind] = max(self._largest.get(kind, Decimal(0)), exact)


@contextmanager
def forbid_refusal(noise: RecordingNoise | None = None) -> Iterator[None]:
    """A context that turns refusals into failures once ``noise`` has been drawn from; without ``noise``, always.

    Raises:
        RefusedTooLateError: something was refused after noise had been drawn.
    """
    try:
        yield
    except InvalidRequest as refused:
        if noise is not None and not noise.drawn:
            raise
        raise RefusedTooLateError("something was refused after noise had been drawn") from refused
