"""Additive secret sharing of integer vectors modulo 2^64, between servers that do not all collude.

A vector ``v`` is split into shares ``s_1, ..., s_S``: all but the last are uniform, and the last is ``v`` minus the
others, modulo 2^64. Any ``S - 1`` of the shares are independent and uniform whatever ``v`` is: they disclose nothing
(Shamir 1979, section 1, gives the argument for one-time pads). Shares of several vectors are added server by server;
the sums are shares of the sum.

A sum is correct if it lies in ``[-2^63, 2^63)``. Counts are bounded by the number of rows, noise is not. A sum that
wraps around is still a function of the noisy sum, so privacy does not depend on the absence of wraps; a wrap has a
probability below ``exp(-2^62 / scale)`` per coordinate.

A malicious party, or server, can move the sum by any amount: shares carry no proof of what was shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spark_jobs.arrays import Int64Array, UInt64Array
from spark_jobs.contract.errors import InvalidRequest

Share = UInt64Array
"""One server's share of a vector: residues modulo 2^64, of the vector's shape."""


class Words(Protocol):
    """A source of uniform 64-bit words; every sampler of noise is one."""

    def words(self, count: int) -> UInt64Array:
        """``count`` independent uniform words."""


def split(vector: Int64Array, *, servers: int, noise: Words) -> tuple[Share, ...]:
    """The shares of a vector, one for each server.

    Args:
        vector: whole numbers in ``[-2^63, 2^63)``, of any shape.
        servers: at least 2.
        noise: source of uniform bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: there are fewer than two servers.
    """
    if servers < 2:
        raise InvalidRequest("servers", servers, "must be at least 2", "name servers of different owners")
    last = residues(vector).copy()
    masks = noise.words((servers - 1) * vector.size).reshape(servers - 1, *vector.shape)
    for mask in masks:
        last -= mask
    return (*masks, last)


def add(shares: Sequence[Share]) -> Share:
    """The sum modulo 2^64 of shares of one shape, of one server or of all.

    Raises:
        InvalidRequest: there are no shares, their shapes differ, or they are not residues modulo 2^64.
    """
    if not shares or any(share.shape != shares[0].shape or share.dtype != np.uint64 for share in shares):
        raise InvalidRequest(
            "shares", ", ".join(f"{share.dtype}{list(share.shape)}" for share in shares) or "none",
            "must be vectors of the same shape, of residues modulo 2^64", "share the statistics of a single request",
        )  # fmt: skip
    total = np.zeros_like(shares[0])
    for share in shares:
        total += share
    return total


def reconstruct(shares: Sequence[Share]) -> Int64Array:
    """The vector that these shares, all of them, add up to; see ``add`` for errors."""
    return add(shares).view(np.int64)


def residues(vector: Int64Array) -> Share:
    """The residues modulo 2^64 of a vector of whole numbers."""
    return np.ascontiguousarray(vector, dtype=np.int64).view(np.uint64)
