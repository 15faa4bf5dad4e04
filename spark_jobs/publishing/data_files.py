"""A result's values as Parquet, in bytes that depend on the values alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from spark_jobs.contract.csv_cells import guarded
from spark_jobs.publishing.rendering import Column

MEDIA_TYPE, CSV = "application/vnd.apache.parquet", "text/csv"


def csv_bytes(columns: Mapping[str, Column]) -> bytes:
    """The columns as CSV with a header, in UTF-8; NaN becomes an empty field, and texts are quoted and guarded.

    A text that a spreadsheet would evaluate as a formula gets an apostrophe in front; the Parquet file has it
    unchanged.
    """
    arrays = {name: _shown(_array(column)) for name, column in columns.items()}
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())


def _shown(array: pa.Array) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array
    return pa.array([None if text is None else guarded(text) for text in array.to_pylist()], pa.string())


def parquet_bytes(columns: Mapping[str, Column], *, metadata: Mapping[str, str]) -> bytes:
    """The columns as a Parquet file with one row group; its schema has their meanings and ``metadata``.

    NaN and what is masked become null. Columns of floats, and of masked values, are nullable whether or not they have
    a null.
    """
    arrays = [_array(column) for column in columns.values()]
    fields = [
        pa.field(name, array.type, nullable=_may_be_null(column, array), metadata={"description": column.meaning})
        for (name, column), array in zip(columns.items(), arrays, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=dict(metadata)))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
        write_statistics=True,
        row_group_size=max(1, table.num_rows),
    )
    content = bytes(sink.getvalue().to_pybytes())
    del arrays, table, sink
    pa.default_memory_pool().release_unused()
    return content


def _array(column: Column) -> pa.Array:
    masked = np.ma.isMaskedArray(column.values)
    mask = np.ma.getmaskarray(column.values) if masked else None
    # of no text Arrow does not know that it would be text
    of = pa.string() if column.values.dtype.kind == "O" and not column.values.size else None
    return pa.array(np.ma.getdata(column.values) if masked else column.values, type=of, mask=mask, from_pandas=True)


def _may_be_null(column: Column, array: pa.Array) -> bool:
    return pa.types.is_floating(array.type) or np.ma.isMaskedArray(column.values)
