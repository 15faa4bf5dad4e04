"""Integer noise, the only randomness of the product: exact samplers for releases, seeded ones for tests.

Both sources draw from the same distributions on the integers: the two-sided geometric one, the discrete Gaussian one,
and that of ``k_norm`` for numbers that a row changes together. For a vector ``x`` whose neighbours ``x'`` satisfy ``|x
- x'|_1 <= l1_sensitivity``, the two-sided geometric ("discrete Laplace") distribution

    P(z) = (1 - r) / (1 + r) * r^|z|,   r = exp(-1 / scale),   scale >= l1_sensitivity / epsilon,

added to every coordinate is ``epsilon``-DP: the ratio of the probabilities of one output is at most
``exp(|x - x'|_1 / scale)`` (Ghosh, Roughgarden, Sundararajan, STOC 2009). For ``|x - x'|_2 <= l2_sensitivity`` the
discrete Gaussian with ``stddev >= l2_sensitivity / sqrt(2 rho)`` is ``rho``-zCDP (Canonne, Kamath, Steinke, NeurIPS
2020, theorem 4). Noise on integers has no floating-point grid that could disclose its input (Mironov, CCS 2012). Sums
of values and noise saturate at the ends of int64, which is post-processing.

The neighbouring relation enters only through the sensitivity: for disjoint counts of rows it is 1 when a row is added
or removed and 2 when one is replaced.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, float_below
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.mechanisms.k_norm import Body, Geometric, Words, drawn

Cost: TypeAlias = Decimal | float | int | str
"""An amount of privacy loss; floats are read as Python prints them, so 0.1 means one tenth."""

_INT64 = np.iinfo(np.int64)
_CHUNK = 1 << 15
_MIN_PIECE = 256
"""The smallest number of draws that is worth a thread of its own."""
_THREADS = 4


class Noise(Protocol):
    """A sampler of noise. Mechanisms receive one as an argument and never create one."""

    @property
    def private(self) -> bool:
        """Whether results that were computed with this noise may be released."""

    @property
    def guarantee(self) -> str:
        """``contract.release.PRIVATE`` or ``NOT_PRIVATE``: the stamp of results that were computed with this noise."""

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """``values`` plus two-sided geometric noise; ``epsilon``-DP for vectors with this 1-norm sensitivity."""

    def gaussian(self, values: NDArray[Any], *, rho: Cost, l2_sensitivity: float) -> Int64Array:
        """``values`` plus discrete Gaussian noise; ``rho``-zCDP for vectors with this 2-norm sensitivity."""

    @property
    def joint(self) -> bool:
        """Whether ``k_norm`` is available; if not, mechanisms use Laplace noise in its place."""

    def k_norm(self, values: NDArray[Any], *, epsilon: Cost, body: Body) -> Int64Array:
        """``values`` plus ``k_norm`` noise; ``epsilon``-DP for vectors, along the last axis, that change within K."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words, for further samplers and for the seeds of post-processing."""


class SecureNoise:
    """OpenDP's exact integer samplers on the operating system's random bits; every release uses it.

    It cannot be seeded. The samplers run in variable time: an adversary who can time single draws is out of scope.
    """

    private = True
    guarantee = PRIVATE
    joint = True

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """``values`` plus two-sided geometric noise.

        Args:
            values: integers of any shape. As one vector, the values of neighbouring tables differ by at most
                ``l1_sensitivity`` in 1-norm.
            epsilon: the exact privacy loss; OpenDP's own privacy map, which rounds up, never exceeds it.
            l1_sensitivity: at least 1.

        Raises:
            InvalidRequest: epsilon is not a finite number above 0.
            TypeError: the values are not integers.
            ValueError: the sensitivity is below 1.
        """
        measurement = _opendp_laplace(laplace_scale(epsilon, l1_sensitivity), l1_sensitivity, _cost("epsilon", epsilon))
        return _in_parallel(measurement, _integers(values))

    def gaussian(self, values: NDArray[Any], *, rho: Cost, l2_sensitivity: float) -> Int64Array:
        """``values`` plus discrete Gaussian noise; as ``laplace``, but for the 2-norm and zCDP."""
        measurement = _opendp_gaussian(gaussian_stddev(rho, l2_sensitivity), l2_sensitivity, _cost("rho", rho))
        return _in_parallel(measurement, _integers(values))

    def k_norm(self, values: NDArray[Any], *, epsilon: Cost, body: Body) -> Int64Array:
        """``values`` plus noise of ``k_norm``, one vector along the last axis.

        Args:
            values: integers, int64 or Python's; shape (..., numbers of the body).
            epsilon: the exact privacy loss. If it is above ``body.largest_epsilon``, the noise of
                ``body.largest_epsilon`` is drawn.
            body: K, which contains every change by one row.

        Raises:
            InvalidRequest: epsilon is not a finite number above 0, or too small for the body.
            TypeError: the values are not integers.
        """
        cost, longer, _ = _joint(epsilon, body)

        def geometric(count: int) -> Int64Array:
            steps = self.laplace(np.zeros(count, dtype=np.int64), epsilon=cost, l1_sensitivity=longer.unit)
            return np.where(steps >= 0, steps, -1 - steps)

        return _with_vectors(values, longer, geometric, self.words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words from the operating system."""
        return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)


class SeededNoise:
    """The same distributions, drawn from a seed, for tests, benchmarks, and simulations that see only released values.

    Its results are stamped NOT PRIVATE: anyone who knows the seed can subtract the noise.
    """

    private = False
    guarantee = NOT_PRIVATE
    joint = True

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """``values`` plus two-sided geometric noise; see ``SecureNoise.laplace``."""
        values = _integers(values)
        scale = laplace_scale(epsilon, l1_sensitivity)
        return _saturating_add(values, self._geometric(scale, values.shape) - self._geometric(scale, values.shape))

    def gaussian(self, values: NDArray[Any], *, rho: Cost, l2_sensitivity: float) -> Int64Array:
        """``values`` plus discrete Gaussian noise; see ``SecureNoise.gaussian``."""
        values = _integers(values)
        return _saturating_add(values, self._discrete_gaussian(gaussian_stddev(rho, l2_sensitivity), values.shape))

    def k_norm(self, values: NDArray[Any], *, epsilon: Cost, body: Body) -> Int64Array:
        """``values`` plus noise of ``k_norm``; see ``SecureNoise.k_norm``."""
        cost, longer, _ = _joint(epsilon, body)
        scale = laplace_scale(cost, longer.unit)
        return _with_vectors(
            values, longer, lambda count: self._geometric(scale, (count,)).astype(np.int64), self.words
        )

    def two_sided(self, shape: tuple[int, ...], *, scale: float) -> Int64Array:
        """Two-sided geometric noise of a given scale, for simulations: unlike a cost, a scale has no upper limit."""
        noise = self._geometric(scale, shape) - self._geometric(scale, shape)
        return _saturating_add(np.zeros(shape, dtype=np.int64), noise)

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` uniform 64-bit words from the seeded stream."""
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def boxed(self, shape: tuple[int, ...], *, scale: float) -> Int64Array:
        """Vectors of ``k_norm`` noise in a box, along the last axis; ``scale`` is the radius's. For simulations."""
        radii = scale * self._generator.standard_gamma(shape[-1] + 1, (*shape[:-1], 1))
        noise = np.rint(radii * self._generator.uniform(-1.0, 1.0, shape))
        return _saturating_add(np.zeros(shape, dtype=np.int64), noise)

    def binomials(self, trials: Int64Array, chances: FloatArray, *, copies: int) -> Int64Array:
        """``copies`` draws of independent binomial variables, for simulations; shape (copies, k)."""
        return self._generator.binomial(trials, chances, size=(copies, *trials.shape))

    def poissons(self, means: FloatArray, *, copies: int) -> Int64Array:
        """``copies`` draws of independent Poisson variables, for simulations; shape (copies, *means.shape)."""
        return self._generator.poisson(means, size=(copies, *means.shape))

    def _geometric(self, scale: float, shape: tuple[int, ...]) -> FloatArray:
        # floor(scale * E) of an exponential E is at least k with probability exp(-k / scale)
        return np.floor(scale * self._generator.standard_exponential(shape))

    def _discrete_gaussian(self, stddev: float, shape: tuple[int, ...]) -> FloatArray:
        # rejection from the two-sided geometric: Canonne, Kamath, Steinke 2020, algorithm 3
        proposal = math.floor(stddev) + 1.0
        noise = np.zeros(math.prod(shape))
        missing = np.arange(noise.size)
        while missing.size:
            drawn = self._geometric(proposal, missing.shape) - self._geometric(proposal, missing.shape)
            excess = (np.abs(drawn) - stddev * stddev / proposal) / stddev
            accepted = self._generator.standard_exponential(missing.size) >= excess**2 / 2
            noise[missing[accepted]] = drawn[accepted]
            missing = missing[~accepted]
        return noise.reshape(shape)


def laplace_scale(epsilon: Cost, l1_sensitivity: int) -> float:
    """The scale ``b`` of two-sided geometric noise whose loss, rounded up to a float, is at most ``epsilon``.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
        ValueError: the sensitivity is below 1.
    """
    if l1_sensitivity < 1 or l1_sensitivity != int(l1_sensitivity):
        raise ValueError(f"l1_sensitivity: got {l1_sensitivity}; must be a whole number of at least 1")
    return _laplace_scale(_cost("epsilon", epsilon), int(l1_sensitivity))


@lru_cache(maxsize=256)
def _laplace_scale(epsilon: Decimal, l1_sensitivity: int) -> float:
    budget = Fraction(float_below(epsilon))
    scale = float(l1_sensitivity / budget)
    while Fraction(l1_sensitivity) / Fraction(scale) > budget:
        scale = math.nextafter(scale, math.inf)
    return scale


def k_norm_scale(epsilon: Cost, body: Body) -> float:
    """The scale of the radius of ``k_norm`` noise, in steps of the body's unit.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0, or too small for the body.
    """
    cost, longer, factor = _joint(epsilon, body)
    return factor * laplace_scale(cost, longer.unit)


def _joint(epsilon: Cost, body: Body) -> tuple[Decimal, Body, int]:
    cost = min(_cost("epsilon", epsilon), body.largest_epsilon)
    return (cost, *body.within(cost))


def _with_vectors(values: NDArray[Any], body: Body, geometric: Geometric, words: Words) -> Int64Array:
    """The sums of vectors and noise are clipped to int64, never one of the two by itself."""
    exact = np.asarray(values)
    vectors = (exact if exact.dtype == object else _integers(exact)).reshape(-1, len(body.widths))
    noise = drawn(body, len(vectors), geometric=geometric, words=words)
    if vectors.dtype != object and noise.dtype != object:
        return _saturated(vectors, noise).reshape(exact.shape)
    total = np.clip(vectors.astype(object) + noise.astype(object), _INT64.min, _INT64.max)
    return np.asarray(total, dtype=np.int64).reshape(exact.shape)


def gaussian_stddev(rho: Cost, l2_sensitivity: float) -> float:
    """The parameter of discrete Gaussian noise whose zCDP loss is at most ``rho``.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
        ValueError: the sensitivity is not a finite number above 0.
    """
    if not 0 < l2_sensitivity < math.inf:
        raise ValueError(f"l2_sensitivity: got {l2_sensitivity}; must be finite and above 0")
    budget = Fraction(float_below(_cost("rho", rho)))
    stddev = l2_sensitivity / math.sqrt(2.0 * float(budget))
    while Fraction(l2_sensitivity) ** 2 / (2 * Fraction(stddev) ** 2) > budget:
        stddev = math.nextafter(stddev, math.inf)
    return stddev


def laplace_variance(scale: float) -> float:
    """The variance ``2 r / (1 - r)^2``, ``r = exp(-1 / scale)``, of two-sided geometric noise."""
    ratio = math.exp(-1.0 / scale)
    return 2.0 * ratio / math.expm1(-1.0 / scale) ** 2


def scale_of_sum(scale: float, terms: int) -> float:
    """The scale of two-sided geometric noise with the variance of a sum of ``terms`` noises of scale ``scale``.

    A variance is ``1 / (2 sinh(1 / (2 scale))^2)``.
    """
    variance = terms * laplace_variance(scale)
    return scale if terms == 1 or variance == 0 else 0.5 / math.asinh(1 / math.sqrt(2 * variance))


def _cost(what: str, amount: Cost) -> Decimal:
    number = amount if isinstance(amount, Decimal) and amount.is_finite() else exact_decimal(amount, what=what)
    if number <= 0 or float_below(number) <= 0:
        raise InvalidRequest(what, number, "must be above 0", "give the cost of this noise")
    return number


def _integers(values: NDArray[Any]) -> Int64Array:
    values = np.asarray(values)
    if not np.can_cast(values.dtype, np.int64):
        raise TypeError(
            f"values: got {values.dtype}; must be integers that fit int64; round them to a public step first"
        )
    # OpenDP takes no array that is read-only
    return np.require(values, np.int64, ["C", "W"])


def _saturating_add(values: Int64Array, noise: FloatArray) -> Int64Array:
    if _magnitude(values) + _magnitude(noise) < 2.0**62:
        return values + noise.astype(np.int64)
    # 2^63 - 1024 is the largest float below 2^63; noise beyond it exceeds any count
    return _saturated(values, np.clip(noise, -(2.0**63), 2.0**63 - 1024).astype(np.int64))


def _saturated(values: Int64Array, steps: Int64Array) -> Int64Array:
    total = values + steps
    overflow = ((values ^ total) & (steps ^ total)) < 0
    return np.where(overflow, np.where(values < 0, _INT64.min, _INT64.max), total)


def _magnitude(values: NDArray[Any]) -> float:
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def _in_parallel(measurement: Callable[[Int64Array], Any], values: Int64Array) -> Int64Array:
    # coordinates get independent noise, so the vector may be cut into pieces; the samplers release the interpreter lock
    flat = values.reshape(-1)
    pieces = max(min(flat.size // _MIN_PIECE, _THREADS), -(-flat.size // _CHUNK))
    if pieces <= 1:
        noisy = np.asarray(measurement(flat), dtype=np.int64)
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            drawn = pool.map(measurement, np.array_split(flat, pieces))
            noisy = np.concatenate([np.asarray(piece, dtype=np.int64) for piece in drawn])
    return noisy.reshape(values.shape)


@lru_cache(maxsize=64)
def _opendp_laplace(scale: float, l1_sensitivity: int, epsilon: Decimal) -> Any:
    # opendp.prelude would import pandas, scikit-learn and more: 85 MiB of the driver's memory
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    space = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
    return _within(lambda b: make_laplace(*space, scale=b), scale, int(l1_sensitivity), epsilon)


@lru_cache(maxsize=64)
def _opendp_gaussian(stddev: float, l2_sensitivity: float, rho: Decimal) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    space = vector_domain(atom_domain(T="i64")), l2_distance(T=float)
    return _within(lambda b: make_gaussian(*space, scale=b), stddev, float(l2_sensitivity), rho)


def _within(make: Callable[[float], Any], scale: float, distance: float, budget: Decimal) -> Any:
    """OpenDP's measurement at ``scale``, or at the smallest float above it whose privacy map is within the budget."""
    from opendp.mod import enable_features

    enable_features("contrib")
    for _ in range(16):
        measurement = make(scale)
        if Decimal(measurement.map(distance)) <= budget:
            return measurement
        scale = math.nextafter(scale, math.inf)
    raise ArithmeticError("the privacy map of the noise exceeds its budget; nothing was drawn")
