"""Refusals end where noise begins.

A refused request gives its charge back, and says why. Once noise has been drawn from a table, neither may happen: that
there is a refusal would be an answer about rows that nobody paid for. What then goes wrong is a failure, which is
private and leaves the charge where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.mechanisms.noise import Cost, Int64Array, Noise


class RefusedTooLateError(Exception):
    """Something was refused after noise had been drawn: a fault of the program, and no answer to the caller."""


class WatchedNoise:
    """Noise that knows whether any of it was drawn.

    Args:
        noise: what draws.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self.drawn = False

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
        self.drawn = True
        return noisy

    def gaussian(self, values: NDArray[Any], *, rho: Cost, l2_sensitivity: float) -> Int64Array:
        """``values`` plus discrete Gaussian noise."""
        noisy = self._noise.gaussian(values, rho=rho, l2_sensitivity=l2_sensitivity)
        self.drawn = True
        return noisy

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform words."""
        words = self._noise.words(count)
        self.drawn = True
        return words


@contextmanager
def no_refusal_after(noise: WatchedNoise | None = None) -> Iterator[None]:
    """Within it, a refusal after the first noise of ``noise`` is a failure; any refusal, where noise lies behind.

    Raises:
        RefusedTooLateError: something was refused too late.
    """
    try:
        yield
    except RequestRefused as refused:
        if noise is not None and not noise.drawn:
            raise
        raise RefusedTooLateError("something was refused after noise had been drawn") from refused
