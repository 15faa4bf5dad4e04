"""A Parquet table with ordinary and extreme values in columns of every type that all engines count alike."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 3_000
NEGATIVE_NAN = np.copysign(np.nan, -1.0)
EXTREMES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.0**20, 2.0**31, 1e-300, 5e-324, 1.8e308, -1.8e308, 9.3e18),
    *(np.inf, -np.inf, np.nan, NEGATIVE_NAN, None),
]
LONGS = [0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None]
DAYS = [0, -1, 2**31 - 1, -(2**31), -719_162, 2_932_896, 95_026_236, 95_026_237, 20_000, None]
"""Days since 1970: beyond the year 262142 the embedded engine's calendar ends."""
MICROSECONDS = [0, -1, -1_500_000, 2**63 - 1, -(2**63), 253_402_300_799_999_999, 8_210_266_876_800_000_000, None]
CENTS = [0, 125, -125, 1, 10**10 - 1, 1 - 10**10, None]
TEXTS = [
    *("a", "b", "", " a", "A", "u", "v", "c", "nan", "1", "\u1e9e\u0130", "\U0001f600", "x" * 500, "\x00"),
    None,
]
COLUMNS = {
    "visited": "int", "score": "double", "other": "float", "person": "bigint", "named": "string", "site": "string",
    "age": "double", "spend": "double", "stay": "double", "amount": "double", "x": "double", "y": "double",
    "paid": "double", "a": "double", "c": "string", "visit": "bigint", "flag": "boolean", "few": "tinyint",
    "some": "smallint", "unused": "string", "born": "date", "at": "timestamp", "local": "timestamp_ntz",
    "cents": "decimal(10,2)",
}  # fmt: skip
_ARROW = {
    "int": pa.int32(), "double": pa.float64(), "float": pa.float32(), "bigint": pa.int64(), "string": pa.string(),
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "decimal(10,2)": pa.decimal128(10, 2),
}  # fmt: skip
INVALID = b"\xff\xfeA"
"""No UTF-8."""


def table(seed: int = 1) -> pa.Table:
    """Rows of ``COLUMNS`` with many values that are extreme or missing."""
    random = np.random.default_rng(seed)
    labels = random.random(ROWS) < 0.3
    plain = {
        "visited": labels.astype(int),
        "score": np.clip(random.normal(0.4 + 0.2 * labels, 0.15), 0, 1),
        "other": np.clip(random.normal(0.4 + 0.1 * labels, 0.2), 0, 1),
        "person": random.integers(0, 700, ROWS),
        "named": np.array([f"p{number}" for number in random.integers(0, 700, ROWS)]),
        "site": random.choice(["a", "b", "c"], ROWS),
        "age": random.uniform(-5, 80, ROWS),
        "spend": random.lognormal(2, 1, ROWS),
        "stay": random.integers(0, 40, ROWS).astype(float),
        "amount": random.lognormal(0, 1, ROWS),
        "x": random.random(ROWS),
        "y": random.random(ROWS),
        "paid": random.normal(50, 30, ROWS),
        "a": random.random(ROWS),
        "c": random.choice(["u", "v", "w"], ROWS),
        "visit": np.arange(ROWS),
        "flag": labels,
        "few": random.integers(0, 4, ROWS),
        "some": random.integers(0, 300, ROWS),
        "unused": random.choice(["a", "b"], ROWS),
        "born": random.integers(18_000, 21_000, ROWS),
        "at": random.integers(18_000, 21_000, ROWS) * 86_400_000_000 + random.integers(0, 10**6, ROWS),
        "local": random.integers(18_000, 21_000, ROWS) * 86_400_000_000 + random.integers(0, 10**6, ROWS),
        "cents": random.integers(-500, 50_000, ROWS),
    }
    return pa.table({name: _column(values, COLUMNS[name], random) for name, values in plain.items()})


_EXTREMES = {
    "double": EXTREMES, "float": EXTREMES, "bigint": LONGS, "string": TEXTS, "boolean": [True, False, None],
    "date": DAYS, "timestamp": MICROSECONDS, "timestamp_ntz": MICROSECONDS, "decimal(10,2)": CENTS,
}  # fmt: skip


def _column(values: np.ndarray, of: str, random: np.random.Generator) -> pa.Array:
    extremes = _EXTREMES.get(of, [1, 0, 2, None])
    # in a third of the rows all columns are so, as sums and differences of two extremes matter most
    replaced = (random.random(len(values)) < 0.1) | (np.arange(len(values)) % 3 == 0)
    mixed = [
        extremes[random.integers(len(extremes))] if is_replaced else value
        for value, is_replaced in zip(values.tolist(), replaced, strict=True)
    ]
    if of == "date":
        return pa.array(mixed, pa.int32()).cast(pa.date32())
    if of.startswith("decimal("):
        mixed = [None if value is None else Decimal(value).scaleb(-2) for value in mixed]
    return pa.array(mixed, _ARROW[of])


def write(folder: Path, rows: pa.Table, *, files: int = 2, **options: Any) -> None:
    """Write the table as ``files`` files, each of several row groups, with these options of Arrow's writer."""
    folder.mkdir(parents=True)
    part = -(-rows.num_rows // files)
    for place in range(files):
        pq.write_table(
            rows.slice(place * part, part), folder / f"part-{place}.parquet", row_group_size=part // 3 + 1, **options
        )


def with_invalid_texts(rows: pa.Table, column: str, *, every: int = 7) -> pa.Table:
    """The table with text that is no UTF-8 in every so many rows of a text column."""
    texts = rows[column].cast(pa.binary()).to_pylist()
    spoilt = pa.array([INVALID if place % every == 0 else text for place, text in enumerate(texts)], pa.binary())
    text = pa.StringArray.from_buffers(len(spoilt), spoilt.buffers()[1], spoilt.buffers()[2], spoilt.buffers()[0])
    return rows.set_column(rows.schema.get_field_index(column), column, text)


def retyped(rows: pa.Table) -> pa.Table:
    """The table as other programs write it: whole numbers beside a missing one as doubles, narrow and wide numbers.

    Of each type there are numbers that are none of the bound one.
    """
    random = np.random.default_rng(11)
    doubles = [*EXTREMES, 2.0**63, -(2.0**63), 2.0**53 + 2, 1.5, -0.0, 127.0, 128.0, None]
    longs = [*LONGS, 2**53 + 1, 2**24 + 1, 32_767, 32_768]
    extremes: dict[pa.DataType, list[Any]] = {pa.float64(): doubles, pa.int64(): longs, pa.float32(): [0.1, None]}
    of = {"person": pa.float64(), "few": pa.float64(), "some": pa.int64(), "amount": pa.int64(), "other": pa.float64()}
    for name, written in {**of, "score": pa.float32(), "y": pa.int64(), "age": pa.float32()}.items():
        values = rows[name].cast(written, safe=False).to_pylist()
        chosen = extremes[written]
        mixed = [chosen[random.integers(len(chosen))] if random.random() < 0.2 else value for value in values]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(mixed, written))
    rows = rows.set_column(rows.schema.get_field_index("site"), "site", rows["site"].cast(pa.binary()))
    return rows.set_column(rows.schema.get_field_index("paid"), "paid", pa.nulls(len(rows)))
