"""Refusals end where noise begins.

Once noise has been drawn from a table, a refusal would be an answer about rows that nobody paid for. What then goes
wrong is a failure, which is private and leaves the charge where it is. In a charged run this holds from the first row
on (``application.main``): there every mechanism's refusal is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, plain
from spark_jobs.mechanisms.noise import Cost, Noise


class RefusedTooLateError(Exception):
    """Something was refused after noise had been drawn: a fault of the program, and no answer to the caller."""


class RecordingNoise:
    """Noise that knows whether any of it was drawn, and how much a single call of it may have lost at most.

    Args:
        noise: what draws.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.drawn = False
        self._largest: dict[str, Decimal] = {}

    @property
    def private(self) -> bool:
        """Whether what is made with it may be released."""
        return self._noise.private

    @property
    def guarantee(self) -> str:
        """The stamp of what is made with it."""
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

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform words."""
        words = self._noise.words(count)
        self.drawn = True
        return words

    def take_largest(self) -> dict[str, str]:
        """The largest loss of a single call since the last time this was asked, by kind of noise."""
        largest, self._largest = self._largest, {}
        return {kind: plain(loss) for kind, loss in largest.items()}

    def _note(self, kind: str, loss: Cost) -> None:
        self.drawn = True
        exact = loss if isinstance(loss, Decimal) else exact_decimal(loss)  # a share may have more digits than a cost
        self._largest[kind] = max(self._largest.get(kind, Decimal(0)), exact)


@contextmanager
def forbid_refusal(noise: RecordingNoise | None = None) -> Iterator[None]:
    """Within it, a refusal after the first noise of ``noise`` is a failure; any refusal, where noise lies behind.

    Raises:
        RefusedTooLateError: something was refused too late.
    """
    try:
        yield
    except InvalidRequest as refused:
        if noise is not None and not noise.drawn:
            raise
        raise RefusedTooLateError("something was refused after noise had been drawn") from refused
