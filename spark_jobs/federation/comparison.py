"""Distributed comparison functions: two servers evaluate ``x < point`` at points of their choice without seeing ``x``.

The owner of a number ``x`` in ``[0, 2^bits)`` makes two keys. From its key, server ``b`` computes for any public point
``q`` a residue ``y_b(q)`` modulo 2^64 with ``y_0(q) + y_1(q) = 1`` if ``x < q`` and 0 otherwise. Each key alone is
computationally independent of ``x``. Sums over owners of ``y_b(q)`` are shares of the number of ``x`` below ``q``, so
the servers can find an ECDF at any threshold, and a quantile by search, without the owners. Each evaluation whose
result is opened needs noise, and must be paid for.

Source: Boyle, Chandran, Gilboa, Gupta, Ishai, Kumar, Rathee, EUROCRYPT 2021, figure 1, with the group of integers
modulo 2^64 and payload 1. Their function is ``[q < a]`` of the point ``q``; here ``[x < q] = 1 - [q < x + 1]`` is used,
so keys have one level more than ``x`` has bits. The pseudorandom generator is ``AES_k(s) xor s`` for four fixed keys
``k``: secure if AES with these keys behaves as an ideal permutation (Guo, Katz, Wang, Yu, IEEE S&P 2020). The servers
must follow the protocol; a wrong key moves its owner's term by any amount.

Sizes: a key has ``128 + (bits + 1) (128 + 64 + 2) + 64`` bits. Evaluating ``k`` keys at one point takes
``2 k (bits + 1)`` blocks of AES.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from spark_jobs.arrays import BoolArray, Int64Array, UInt64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.additive import Share, Words, reconstruct, residues
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.mechanisms.paid_counts import PaidCounts

MAX_BITS = 40
_CHUNK = 8192
"""Keys that are evaluated together, so that their seeds stay in the processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ComparisonKeys:
    """One server's keys of ``k`` hidden numbers.

    Attributes:
        server: 0 or 1.
        seeds: shape (k, 2), the 128-bit seeds as two words; the only part in which the servers' keys differ.
        seed_corrections: shape (levels, k, 2).
        value_corrections: shape (levels + 1, k); the last is that of the leaf.
        bit_corrections: shape (levels, 2, k), for the left and the right child.
    """

    server: int
    seeds: UInt64Array
    seed_corrections: UInt64Array
    value_corrections: UInt64Array
    bit_corrections: BoolArray

    @property
    def levels(self) -> int:
        """The number of bits of the evaluation points."""
        return int(self.seed_corrections.shape[0])

    @property
    def size(self) -> int:
        """The number of hidden numbers."""
        return int(self.seeds.shape[0])

    def __repr__(self) -> str:
        return f"ComparisonKeys(server={self.server}, size={self.size}, levels={self.levels})"


def comparison_keys(values: Int64Array, *, bits: int, noise: Words) -> tuple[ComparisonKeys, ComparisonKeys]:
    """The keys of both servers for hidden numbers; each goes to its server alone.

    Args:
        values: shape (k,), whole numbers; those outside ``[0, 2^bits)`` count as the nearer end.
        bits: the public number of bits, from 1 to ``MAX_BITS``.
        noise: source of uniform bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: ``bits`` is out of range.
    """
    if not 1 <= bits <= MAX_BITS:
        raise InvalidRequest(
            "bits", bits, f"must be from 1 to {MAX_BITS}", "give the number of bits of a cell's number"
        )
    places = np.clip(values, 0, (1 << bits) - 1).astype(np.uint64) + np.uint64(1)
    count, levels = places.size, bits + 1
    start = noise.words(4 * count).reshape(2, count, 2)
    seeds = [start[0].copy(), start[1].copy()]
    flags = [np.zeros(count, dtype=np.bool_), np.ones(count, dtype=np.bool_)]
    total = np.zeros(count, dtype=np.uint64)
    corrections: list[tuple[UInt64Array, UInt64Array, BoolArray]] = []
    for level in range(levels):
        right = _bit(places, levels, level)
        seeds, flags, total, correction = _next_level(seeds, flags, total, right)
        corrections.append(correction)
    leaf = _signed(seeds[1][:, 0] - seeds[0][:, 0] - total, flags[1])
    shared = {
        "seed_corrections": np.stack([seed for seed, _, _ in corrections]),
        "value_corrections": np.stack([*(value for _, value, _ in corrections), leaf]),
        "bit_corrections": np.stack([bit for _, _, bit in corrections]),
    }
    return ComparisonKeys(server=0, seeds=start[0], **shared), ComparisonKeys(server=1, seeds=start[1], **shared)


def _next_level(
    seeds: list[UInt64Array], flags: list[BoolArray], total: UInt64Array, right: BoolArray
) -> tuple[list[UInt64Array], list[BoolArray], UInt64Array, tuple[UInt64Array, UInt64Array, BoolArray]]:
    """One level of key generation for all numbers: the path's seeds, flags and value, and the corrections."""
    left = ~right
    grown = [[_children(seed, side) for side in (0, 1)] for seed in seeds]
    keep = [_choose(right, *both) for both in grown]
    lose = [_choose(left, *both) for both in grown]
    seed = lose[0].seeds ^ lose[1].seeds
    value = _signed(lose[1].values - lose[0].values - total, flags[1])
    # the payload 1 goes to the left of the path: to points below x + 1
    value += np.where(right, _signed(np.ones_like(total), flags[1]), np.uint64(0))
    bits = np.stack(
        [
            grown[0][0].flags ^ grown[1][0].flags ^ right ^ np.True_,
            grown[0][1].flags ^ grown[1][1].flags ^ right,
        ]
    )
    total = total - keep[1].values + keep[0].values + _signed(value, flags[1])
    kept_bits = np.where(right, bits[1], bits[0])
    seeds = [child.seeds ^ np.where(flag[:, None], seed, np.uint64(0)) for child, flag in zip(keep, flags, strict=True)]
    flags = [child.flags ^ (flag & kept_bits) for child, flag in zip(keep, flags, strict=True)]
    return seeds, flags, total, (seed, value, bits)


def packed(keys: ComparisonKeys) -> Share:
    """The keys as one vector, for ``unpacked``; its length depends only on their number and bits."""
    bits = np.packbits(keys.bit_corrections, bitorder="little")
    bits = np.pad(bits, (0, -bits.size % 8)).view("<u8").astype(np.uint64)
    parts = (keys.seeds, keys.seed_corrections, keys.value_corrections)
    return np.concatenate([*(part.ravel() for part in parts), bits])


def packed_size(size: int, bits: int) -> int:
    """The length, in 64-bit words, of the vector of ``size`` keys."""
    levels = bits + 1
    return size * (2 + 2 * levels + levels + 1) + (2 * levels * size + 63) // 64


def unpacked(vector: Share, *, server: int, size: int, bits: int) -> ComparisonKeys:
    """The keys that ``packed`` wrote, of server 0 or 1.

    Raises:
        InvalidRequest: the length of the vector is not that of so many keys.
    """
    if not 1 <= bits <= MAX_BITS or vector.shape != (packed_size(size, bits),):
        raise InvalidRequest(
            "keys", f"{vector.size:,} words", f"must be {size:,} keys of {bits} bits",
            "send what `comparison_keys` made",
        )  # fmt: skip
    levels = bits + 1
    cuts = np.cumsum([2 * size, 2 * levels * size, (levels + 1) * size])
    seeds, corrections, values, flags = np.split(vector, cuts)
    unpacked_flags = np.unpackbits(flags.astype("<u8").view(np.uint8), bitorder="little", count=2 * levels * size)
    return ComparisonKeys(
        server=server,
        seeds=seeds.reshape(size, 2),
        seed_corrections=corrections.reshape(levels, size, 2),
        value_corrections=values.reshape(levels + 1, size),
        bit_corrections=unpacked_flags.reshape(levels, 2, size).astype(np.bool_),
    )


def evaluate(keys: ComparisonKeys, points: Int64Array) -> Share:
    """This server's shares of the number of hidden values below each point.

    Args:
        keys: this server's keys.
        points: shape (m,), whole numbers from 0 to ``2^bits``.

    Returns:
        Shape (m,): the sums over all keys, modulo 2^64. They are to be opened only with noise.

    Raises:
        InvalidRequest: a point is out of range.
    """
    last = 1 << (keys.levels - 1)
    if points.size and not 0 <= points.min() <= points.max() <= last:
        raise InvalidRequest("points", None, f"must be from 0 to {last}", "name edges of the grid of the shared values")
    sums = np.zeros(points.size, dtype=np.uint64)
    for chunk in _chunks(keys):
        for place, point in enumerate(points):
            sums[place : place + 1] += _evaluate_all(chunk, int(point)).sum(keepdims=True)
    # [x < q] = 1 - [q < x + 1]; server 0 adds the ones
    return -sums if keys.server else np.uint64(keys.size) - sums


class PaidComparisons(PaidCounts):
    """Noisy numbers of hidden values below points; ``evaluations`` points are paid for, and the owners are not needed.

    Neighbours and guarantee: a person's ``values_per_person`` values are replaced by others; both servers see how many
    values there are. Each number changes by at most ``values_per_person``, and each server adds the noise of scale
    ``evaluations * values_per_person / epsilon`` to its share. So one number is ``epsilon / evaluations``-DP against
    anybody who sees it and the secrets of one server, and all numbers together are ``epsilon``-DP by sequential
    composition, even if points are chosen from earlier numbers. A point that is asked for again gets the same number.

    Args:
        keys: the keys of server 0 and of server 1; here both run in one process.
        epsilon: the cost of all evaluations.
        evaluations: how many points may be asked for.
        values_per_person: the most values of one person, in all silos together.
        noise: source of uniform bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: the noise cannot be drawn at this cost, or there are no evaluations.
    """

    def __init__(
        self,
        keys: tuple[ComparisonKeys, ComparisonKeys],
        *,
        epsilon: Cost,
        evaluations: int,
        values_per_person: int = 1,
        noise: Noise | None = None,
    ) -> None:
        super().__init__(self._opened, cells=1 << (keys[0].levels - 1), evaluations=evaluations)
        self._keys = keys
        self._noise = SecureNoise() if noise is None else noise
        sensitivity = evaluations * values_per_person
        self._law = NoiseShare(epsilon=epsilon, l1_sensitivity=sensitivity, contributors=2, colluding=1)

    def quantile(self, share: float) -> int:
        """Approximately the smallest value with at least this share of the hidden values at or below it, by bisection.

        Raises:
            InvalidRequest: the share is not between 0 and 1, or too few evaluations are left.
        """
        if not 0 <= share <= 1:
            raise InvalidRequest("share", share, "must be from 0 to 1", "name a fraction")
        return self.first_cell(share * self._keys[0].size)

    def _opened(self, points: Int64Array) -> Int64Array:
        draw = self._law.draw
        shares = [evaluate(own, points) + residues(draw(points.shape, noise=self._noise)) for own in self._keys]
        return reconstruct(shares)


def _evaluate_all(keys: ComparisonKeys, point: int) -> UInt64Array:
    """Shares of ``[point < x + 1]`` for all hidden numbers ``x``."""
    seeds = keys.seeds
    flags = np.full(keys.size, keys.server == 1)
    value = np.zeros(keys.size, dtype=np.uint64)
    for level in range(keys.levels):
        side = (point >> (keys.levels - 1 - level)) & 1
        child = _children(seeds, side)
        value += child.values + np.where(flags, keys.value_corrections[level], np.uint64(0))
        seeds = child.seeds ^ np.where(flags[:, None], keys.seed_corrections[level], np.uint64(0))
        flags = child.flags ^ (flags & keys.bit_corrections[level, side])
    value += seeds[:, 0] + np.where(flags, keys.value_corrections[-1], np.uint64(0))
    return -value if keys.server else value


def _chunks(keys: ComparisonKeys) -> Iterator[ComparisonKeys]:
    for first in range(0, keys.size, _CHUNK):
        part = slice(first, first + _CHUNK)
        yield ComparisonKeys(
            server=keys.server,
            seeds=keys.seeds[part],
            seed_corrections=keys.seed_corrections[:, part],
            value_corrections=keys.value_corrections[:, part],
            bit_corrections=keys.bit_corrections[..., part],
        )


@dataclass(frozen=True, eq=False)
class _Children:
    """The children on one side of ``k`` nodes: seeds (k, 2), values (k,), flags (k,)."""

    seeds: UInt64Array
    values: UInt64Array
    flags: BoolArray


def _children(seeds: UInt64Array, side: int) -> _Children:
    seeds = np.ascontiguousarray(seeds)
    grown = _hashed(seeds, 2 * side)
    flags = (grown[:, 1] & np.uint64(1)).astype(np.bool_)
    grown[:, 1] &= ~np.uint64(1)
    return _Children(grown, _hashed(seeds, 2 * side + 1)[:, 0], flags)


def _choose(right: BoolArray, left_child: _Children, right_child: _Children) -> _Children:
    return _Children(
        np.where(right[:, None], right_child.seeds, left_child.seeds),
        np.where(right, right_child.values, left_child.values),
        np.where(right, right_child.flags, left_child.flags),
    )


def _hashed(seeds: UInt64Array, key: int) -> UInt64Array:
    """``AES_key(seed) xor seed`` of each 128-bit seed."""
    encrypted = _permutation(key).encryptor().update(seeds.tobytes())
    return np.frombuffer(encrypted, dtype=np.uint64).reshape(seeds.shape) ^ seeds


@cache
def _permutation(key: int) -> Cipher[modes.ECB]:
    # one block for each seed: ECB is the permutation itself; its key is public, and comes from the hash of a text
    fixed = hashlib.sha256(b"distributed comparison, key %d" % key).digest()[:16]
    return Cipher(algorithms.AES128(fixed), modes.ECB())  # noqa: S305 - a permutation of single blocks, no encryption


def _signed(values: UInt64Array, negative: BoolArray) -> UInt64Array:
    return np.where(negative, -values, values)


def _bit(values: UInt64Array, levels: int, level: int) -> BoolArray:
    return ((values >> np.uint64(levels - 1 - level)) & np.uint64(1)).astype(np.bool_)
