"""Checks of a stream's public parameters; a refusal is one line that names the parameter, its value and its bounds."""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral, Real

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.streams import MIN_EPSILON

MAX_COUNT = 1 << 40
"""To which the count of a step is clipped."""


def require_number(what: str, given: object, lower: float, upper: float, *, whole: bool = False) -> None:
    """Check that a public parameter of a stream is a number within its bounds.

    Raises:
        InvalidRequest: it is not.
    """
    number = isinstance(given, Integral if whole else Real) and not isinstance(given, bool)
    fits = number and lower <= float(given) <= upper  # type: ignore[arg-type]
    require(what, given, fits, f"{'a whole number' if whole else 'a number'} from {lower} to {upper}")


def require(what: str, given: object, fits: bool, bound: str, *, remedy: str = "leave it out for the default") -> None:
    """Refuse the value of a public parameter of a stream unless ``fits``.

    Raises:
        InvalidRequest: ``fits`` is false.
    """
    if not fits:
        raise InvalidRequest(what, given, f"must be {bound}", remedy)


def require_epsilon(total: Decimal, smallest: Decimal, which: str) -> None:
    """Check that epsilon is not so small that the noisy thresholds exceed any possible count.

    Raises:
        InvalidRequest: it is too small.
    """
    bound = f"large enough that {which} get {MIN_EPSILON} of it"
    require("epsilon", total, smallest >= MIN_EPSILON, bound, remedy="give the cost of the stream, e.g. '1'")
