"""Exact numbers of rows and sums by cell of public dimensions: the statistic of tables of aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.calendar import periods
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.aggregates import AggregateCells, AggregatesOptions, DiscoverableCells
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.measures import EXACT_SQUARES, SQUARE_STEPS, Measured, Term, ValueLine
from spark_jobs.statistics.arrays import as_doubles, read_only
from spark_jobs.statistics.point_grid import nearest_places
from spark_jobs.statistics.public_keys import row_places
from spark_jobs.statistics.state_grid import as_microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _none() -> Int64Array:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AggregateSums:
    """Exact rows and sums of each cell; private: never released or logged, and ``repr`` omits them.

    Each row is read by a public rule. A row lies in one cell, or in none if a dimension has no group ``other`` and does
    not list the row's group. A value is clipped to its measure's bounds and rounded to the nearest place of the
    measure's lattice, which has places 0 to ``steps``. A row that lacks the value of a measure (null or NaN) counts as
    incomplete and adds to no sum. Where distinct units are counted, one complete row of each unit in a cell has the
    value 1 and all others 0; a row without a unit is in no cell. No value in the data raises an error. Sums are taken
    of the design's terms, one or more for each measure: the value, its size or its square. A row's place on the lattice
    of a term is a function of the place of its value (``term_places``). For measures with quantiles, complete rows are
    also counted by cell and value, where neighbouring places may share a count (``AggregateCells.value_lines``); only
    counts above 0 are kept.

    Sensitivity: a row that is added or removed changes either one entry of ``incomplete`` by 1, or in one cell the
    entry of ``rows`` by 1, each sum by at most its term's ``last``, and for each measure with quantiles one count of
    values by 1; see ``mechanisms.cell_sums`` and ``mechanisms.cell_quantiles``. Sums of disjoint sets of rows can be
    added; where units are counted, only if the sets have no unit in common.

    Args:
        design: dimensions and measures; public.
        rows: the number of rows with a value of every measure; shape (cells,).
        incomplete: the number of rows that lack the value of a measure; shape (cells,).
        sums: the sums of places on the lattice of each of the design's terms; shape (terms, cells).
        value_keys: the keys of the pairs of cell and value that rows have (``value_keys_of``), ascending; shape (k,).
        value_counts: the number of rows with each key, above 0; shape (k,).

    Raises:
        InvalidRequest: an array is not of whole numbers of at least 0, or not of the design's size.
    """

    design: AggregateCells
    rows: Int64Array
    incomplete: Int64Array
    sums: Int64Array
    value_keys: Int64Array = field(default_factory=_none)
    value_counts: Int64Array = field(default_factory=_none)

    def __post_init__(self) -> None:
        cells, terms, keys = self.design.cells, len(self.design.terms), np.asarray(self.value_keys)
        shapes: dict[str, tuple[int, ...]] = {"rows": (cells,), "incomplete": (cells,), "sums": (terms, cells)}
        shapes |= {"value_keys": keys.shape[:1], "value_counts": keys.shape[:1]}
        if keys.size and ((np.diff(keys) <= 0).any() or keys[-1] >= self.design.value_keys):
            raise InvalidRequest(
                "value_keys",
                None,
                f"must be in ascending order, and at most {self.design.value_keys - 1}",
                "build the sums with from_arrays",
            )  # fmt: skip
        for name, shape in shapes.items():
            array = np.asarray(getattr(self, name))
            if array.shape != shape or array.dtype.kind not in "iu" or (array < 0).any():
                raise InvalidRequest(
                    name, None, f"must be whole numbers of at least 0, of shape {shape}",
                    "build the sums with from_arrays",
                )  # fmt: skip
            object.__setattr__(self, name, read_only(array))

    @classmethod
    def from_arrays(
        cls,
        columns: Mapping[str, ArrayLike],
        *,
        by: Sequence[str | Mapping[str, Any] | Dimension] = (),
        measures: Sequence[str | Mapping[str, Any] | Measured] = (),
    ) -> AggregateSums:
        """The sums over rows that are given as arrays of equal length.

        Args:
            columns: an array for each dimension and measure, by its name.
            by: the dimensions, as in a request.
            measures: the measures, as in a request, but each of a column and not of an expression; for errors and
                prediction intervals, the outcome, the prediction and the ends are columns. ``{"of": "person",
                "figures": ["units"]}`` counts the distinct persons of the given rows. The rows of a person are not
                bounded here: what costs epsilon for a row costs k epsilon for a person with k of the rows.

        Example:
            >>> sums = AggregateSums.from_arrays(
            ...     {"region": ["n", "s", "n", "x"], "spend": [3, 50, None, 12]},
            ...     by=[{"column": "region", "values": ["n", "s"]}],
            ...     measures=[{"of": "spend", "bounds": [0, 10], "step": 1}],
            ... )
            >>> sums.rows.tolist(), sums.incomplete.tolist(), sums.sums.tolist()
            ([1, 1, 1], [1, 0, 0], [[3, 10, 10]])

        Raises:
            InvalidRequest: a dimension or a measure is not valid, or a column is missing, is not of a suitable type, or
                differs in length.
        """
        design = _of_public_groups(design_of(by, measures))
        places = [groups_of(_given(columns, one.column), one) for one in design.by]
        values = [
            np.zeros(np.asarray(_given(columns, one.of)).size, dtype=np.int64)
            if one.counts_units
            else places_of(_values(columns, one), one)
            for one in design.measures
        ]
        lengths = {array.size for array in (*places, *values)}
        if len(lengths) > 1:
            raise InvalidRequest("columns", None, "must have the same length", "give one value per row")
        rows = lengths.pop() if lengths else np.asarray(next(iter(columns.values()), [])).size
        cell = np.zeros(rows, dtype=np.int64)
        for dimension, place in zip(design.by, places, strict=True):
            cell = np.where((cell < 0) | (place < 0), -1, cell * len(dimension.labels) + place)
        numbers = np.array(values, dtype=np.int64).reshape(len(values), rows)
        if design.of_units is not None:
            units = np.asarray(columns[design.measures[design.of_units].of], dtype=object)
            cell = np.where([one is None or one != one for one in units], -1, cell)
            numbers[design.of_units] = _first_of_units(units, cell, np.asarray((numbers >= 0).all(axis=0)))
        return cls.from_places(cell, numbers, design=design)

    @classmethod
    def from_places(cls, cell: Int64Array, places: Int64Array, *, design: AggregateCells) -> AggregateSums:
        """The sums over rows whose cells and places on lattices are known.

        Args:
            cell: the cell of each row, or -1 if it is in none; shape (rows,).
            places: the place of each row's value on each measure's lattice, or -1 if it has no value; shape (measures,
                rows).
            design: the dimensions and measures.
        """
        complete = (places >= 0).all(axis=0)
        counts = [np.bincount(cell[of & (cell >= 0)], minlength=design.cells) for of in (complete, ~complete)]
        sums = np.zeros((len(design.terms), design.cells), dtype=np.int64)
        used = complete & (cell >= 0)
        for row, term in zip(sums, design.terms, strict=True):
            np.add.at(row, cell[used], term_places(places[term.measure, used], term, design.measures[term.measure]))
        keys = [of_values(cell[used], places[line.measure, used]) for line, of_values in value_keys_of(design)]
        values, number = np.unique(np.concatenate([_none(), *keys]), return_counts=True)
        return cls(
            design=design, rows=counts[0], incomplete=counts[1], sums=sums, value_keys=values, value_counts=number
        )

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        by: Sequence[str | Mapping[str, Any] | Dimension] = (),
        measures: Sequence[str | Mapping[str, Any] | Measured] = (),
    ) -> AggregateSums:
        """The sums of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        One row is collected for each cell that is not empty. Dimensions and measures are columns, as in
        ``from_arrays``.

        Raises:
            InvalidRequest: a dimension or a measure is not valid, or a column is missing or of an unsuitable type.
        """
        from spark_jobs.statistics.spark.aggregates import sums_of_table

        design = _of_public_groups(design_of(by, measures))
        return cls(design=design, **sums_of_table(df, design))

    def __add__(self, other: AggregateSums) -> AggregateSums:
        """The sums of both sets of rows together.

        Raises:
            InvalidRequest: the designs differ.
        """
        if not isinstance(other, AggregateSums):
            return NotImplemented
        if other.design != self.design:
            raise InvalidRequest("design", None, "must be the same for both", "sum both in one design")
        sums = {name: getattr(self, name) + getattr(other, name) for name in ("rows", "incomplete", "sums")}
        keys, place = np.unique(np.concatenate([self.value_keys, other.value_keys]), return_inverse=True)
        counts = np.zeros(keys.size, dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.value_counts, other.value_counts]))
        return AggregateSums(design=self.design, **sums, value_keys=keys, value_counts=counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AggregateSums):
            return NotImplemented
        return self.design == other.design and all(
            np.array_equal(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)[1:]
        )

    def __hash__(self) -> int:
        return hash((self.design, *(getattr(self, one.name).tobytes() for one in fields(self)[1:])))

    def __repr__(self) -> str:
        return f"AggregateSums(cells={self.design.cells}, measures={len(self.design.measures)})"


def design_of(by: Sequence[Any], measures: Sequence[Any]) -> AggregateCells:
    """The design with these dimensions and measures, which are written as in a request.

    Raises:
        InvalidRequest: they are not valid.
    """
    entries = [
        [one.model_dump(mode="json") if isinstance(one, (Dimension, Measured)) else one for one in part]
        for part in (by, measures)
    ]
    return AggregatesOptions.parse({"kind": "aggregates", "by": entries[0], "measures": entries[1]}).statistic


def term_places(places: Int64Array, term: Term, measure: Measured) -> Int64Array:
    """The places on the lattice of one of a measure's terms, from the places of the measure's values."""
    if term.power == "value":
        return places
    centred = 2 * places - measure.steps
    if term.power == "size":
        return np.abs(centred)
    if measure.steps <= EXACT_SQUARES:
        return centred**2
    return np.rint((centred / measure.steps) ** 2 * SQUARE_STEPS).astype(np.int64)


def value_keys_of(
    design: AggregateCells,
) -> Iterator[tuple[ValueLine, Callable[[Int64Array, Int64Array], Int64Array]]]:
    """Each line of values, with the function that turns cells and places on the measure's lattice into keys."""
    start = 0
    for line in design.value_lines:
        yield line, partial(_value_key, line, start)
        start += design.cells * line.cells


def _value_key(line: ValueLine, start: int, cell: Int64Array, place: Int64Array) -> Int64Array:
    return start + cell * line.cells + np.minimum(place // line.places, line.cells - 1)


def _first_of_units(units: NDArray[np.object_], cell: Int64Array, complete: BoolArray) -> Int64Array:
    """1 for one complete row of each unit in each cell, 0 for others."""
    first = np.zeros(cell.size, dtype=np.int64)
    counted: set[tuple[Any, int]] = set()
    for place in np.flatnonzero(complete & (cell >= 0)).tolist():
        of = (units[place], int(cell[place]))
        first[place] = of not in counted
        counted.add(of)
    return first


def _of_public_groups(design: AggregateCells) -> AggregateCells:
    if isinstance(design, DiscoverableCells):
        raise InvalidRequest(
            "by", design.dimension.column, "must have public groups", "use SumsByKey for keys: discover"
        )
    return design


def _given(columns: Mapping[str, ArrayLike], name: str) -> ArrayLike:
    if name not in columns:
        raise InvalidRequest("columns", name, "must be among the columns", "add the column")
    return columns[name]


def _values(columns: Mapping[str, ArrayLike], measure: Measured) -> FloatArray:
    """The values of a measure: a column, errors, or whether outcomes lie within their intervals; NaN for none."""
    parts = (measure.outcome, measure.prediction, measure.lower, measure.upper)
    if measure.of in columns or measure.outcome is None:
        return as_doubles(_given(columns, measure.of), what=measure.of)
    outcome, prediction, lower, upper = (
        np.array(np.nan) if name is None else as_doubles(_given(columns, name), what=name) for name in parts
    )
    with np.errstate(invalid="ignore", over="ignore"):
        if measure.prediction is not None:
            errors: FloatArray = outcome - prediction
            return errors
        inside, outside = (lower <= outcome) & (outcome <= upper), (outcome < lower) | (outcome > upper)
    return np.where(inside, 1.0, np.where(outside, 0.0, np.nan))


def groups_of(values: ArrayLike, dimension: Dimension) -> Int64Array:
    """The index of each row's group in a dimension; -1 for a row in no group."""
    if dimension.places is not None:
        group = row_places(values, dimension.places, field=dimension.column)
    elif dimension.edges is not None:
        numbers, edges = as_doubles(values, what=dimension.column), np.array(dimension.edges)
        group = np.searchsorted(edges, numbers, side="right") - 1
        group = np.where(numbers == edges[-1], edges.size - 2, group)
        group = np.where((group == edges.size - 1) | np.isnan(numbers), -1, group)
    else:
        moments, known = np.asarray(values), periods(str(dimension.start), str(dimension.end), dimension.every or "day")
        group = np.searchsorted(np.array(known.edges), as_microseconds(moments), side="right") - 1
        group = np.where(group == len(known.labels), -1, group)
    groups: Int64Array = np.where(group < 0, len(dimension.labels) - 1 if dimension.other else -1, group)
    return groups


def places_of(values: FloatArray, measure: Measured) -> Int64Array:
    """The nearest place of each value on a measure's lattice; -1 for no value."""
    nearest = nearest_places(values, *measure.bounds, measure.steps)
    return np.where(np.isnan(nearest), -1.0, nearest).astype(np.int64)
