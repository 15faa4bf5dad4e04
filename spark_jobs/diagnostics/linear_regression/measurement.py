"""What a release of lines has drawn: noisy numbers of each group, by method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.moments import NoisyMoments
from spark_jobs.statistics.point_grid import GroupKey


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHeights:
    """Released heights of lines at two places; G groups.

    Attributes:
        places: the two, in units of the box.
        heights: shape (G, 2), in units of the box.
        rows: public sizes; shape (G,).
    """

    places: tuple[float, float]
    heights: FloatArray
    rows: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"places": list(self.places), "heights": self.heights.tolist(), "rows": self.rows.tolist()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> NoisyHeights:
        """The heights that ``to_dict`` described."""
        low, high = fields["places"]
        heights = np.array(fields["heights"], dtype=np.float64).reshape(-1, 2)
        return cls(places=(low, high), heights=heights, rows=np.array(fields["rows"], dtype=np.float64))


Draw: TypeAlias = NoisyLines | NoisyMoments | NoisyHeights
_KINDS: dict[str, type[Draw]] = {"lines": NoisyLines, "moments": NoisyMoments, "heights": NoisyHeights}


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What one method drew for its groups.

    Attributes:
        method: its name.
        groups: places of its groups in the list; ascending.
        draw: their noisy numbers, in this order.
    """

    method: str
    groups: Int64Array
    draw: Draw

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        (kind,) = (name for name, made in _KINDS.items() if isinstance(self.draw, made))
        return {"method": self.method, "groups": self.groups.tolist(), "kind": kind, "draw": self.draw.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Part:
        """The part that ``to_dict`` described."""
        groups = np.array(fields["groups"], dtype=np.int64)
        return cls(method=fields["method"], groups=groups, draw=_KINDS[fields["kind"]].from_dict(fields["draw"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The draw: noisy numbers of all groups, and the public facts needed to read them.

    Attributes:
        method: as requested.
        at: where lines are evaluated, in units of the box.
        confidence: nominal level of intervals.
        neighbours: the relation of the guarantee.
        public_sizes: whether group sizes are public.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what it cost; all groups share it.
        keys: the groups; None for one.
        x_bounds, y_bounds: of the box.
        cells: of an axis.
        parts: what each method drew; every group is in one of them.
    """

    method: str
    at: tuple[float, ...]
    confidence: float
    neighbours: Neighbours
    public_sizes: bool
    guarantee: str
    spendings: tuple[Spending, ...]
    keys: tuple[GroupKey, ...] | None
    x_bounds: tuple[float, float]
    y_bounds: tuple[float, float]
    cells: int
    parts: tuple[Part, ...]

    @property
    def epsilon(self) -> Decimal:
        """What it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    @property
    def delta(self) -> Decimal:
        """The other half of its cost."""
        return exact_sum(*(spending.delta for spending in self.spendings))

    @property
    def groups(self) -> int:
        """How many lines there are."""
        return sum(part.groups.size for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "method": self.method,
            "at": list(self.at),
            "confidence": self.confidence,
            "neighbours": str(self.neighbours),
            "public_sizes": self.public_sizes,
            "guarantee": self.guarantee,
            "spendings": [spending.to_dict() for spending in self.spendings],
            "keys": None if self.keys is None else list(self.keys),
            "x_bounds": list(self.x_bounds),
            "y_bounds": list(self.y_bounds),
            "cells": self.cells,
            "parts": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The measurement that ``to_dict`` described."""
        (x_low, x_high), (y_low, y_high) = fields["x_bounds"], fields["y_bounds"]
        return cls(
            method=fields["method"],
            at=tuple(fields["at"]),
            confidence=fields["confidence"],
            neighbours=Neighbours(fields["neighbours"]),
            public_sizes=fields["public_sizes"],
            guarantee=fields["guarantee"],
            spendings=tuple(Spending.from_dict(spending) for spending in fields["spendings"]),
            keys=None if fields["keys"] is None else tuple(fields["keys"]),
            x_bounds=(x_low, x_high),
            y_bounds=(y_low, y_high),
            cells=fields["cells"],
            parts=tuple(Part.from_dict(part) for part in fields["parts"]),
        )
