"""Tables as programs write them and words as authors write them, each with the outcome that a release must have.

Each table has 100 rows: 60 positive and 40 negative ones, with scores of 0.0 to 0.9, and what else its case is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

POSITIVES, ROWS = 60, 100
SECRET = "Zebedee-4711"
"""A text of the rows, which must be in no message."""
COLUMNS = "id string, churned string in ('yes', 'no'), score double score"
"""What most accounts bind."""


@dataclass(frozen=True, kw_only=True)
class FileCase:
    """One situation.

    Attributes:
        write: writes the files of version ``v1`` into its folder.
        columns: what the account binds.
        form: the format of the files.
        file_form: how their values are written.
        request: what differs from ``request_of``.
        told: of a refusal, what its line says; empty for a release.
        opening: what ``open`` says where the files are there already; by default as ``told``.
        left_out: of a release, how many rows do not count, by cause.
        positives, negatives: of a release, the rows of each class.
    """

    write: Callable[[Path], None]
    columns: str = COLUMNS
    form: str = "parquet"
    file_form: tuple[str, ...] = ()
    request: Mapping[str, Any] = field(default_factory=dict)
    told: str = ""
    opening: str | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    positives: int = POSITIVES
    negatives: int = ROWS - POSITIVES

    @property
    def opened(self) -> str:
        """What ``open`` says of the files where it refuses them; empty where it takes them."""
        return self.told if self.opening is None else self.opening


def request_of(account: str, case: FileCase) -> dict[str, Any]:
    """The request of a case, which leaves out what its account decides."""
    return {
        "account": account,
        "table": {"snapshot": {"path_version": "v1"}},
        "label": {"column": "churned", "positive": "yes", "negative": "no"},
        "model": {"kind": "columns", "basis": "public", "score": "score"},
        "diagnostics": [{"kind": "confusion_matrix", "thresholds": [0.5]}],
        "budget": {"epsilon": "20"},
        **case.request,
    }


def frame() -> pd.DataFrame:
    """The rows."""
    return pd.DataFrame({
        "id": [f"{SECRET}-{place}" for place in range(ROWS)],
        "churned": ["yes" if place < POSITIVES else "no" for place in range(ROWS)],
        "score": [place % 10 / 10 for place in range(ROWS)],
    })  # fmt: skip


def _parquet(**options: Any) -> Callable[[Path], None]:
    return lambda folder: frame().to_parquet(folder / f"{SECRET}.parquet", index=False, **options)


def _changed(**columns: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rows = pa.Table.from_pandas(frame(), preserve_index=False)
        for name, values in columns.items():
            of = values if isinstance(values, pa.Array) else pa.array(values)
            place = rows.schema.get_field_index(name)
            rows = rows.append_column(name, of) if place < 0 else rows.set_column(place, name, of)
        pq.write_table(rows, folder / f"{SECRET}.parquet")

    return write


def _of_two_types(folder: Path) -> None:
    """As pandas writes them: whole numbers as doubles in the file in which one of them is missing."""
    rows = frame().assign(churned=[1 if place < POSITIVES else 0 for place in range(ROWS)], score=1)
    rows[:50].to_parquet(folder / "a.parquet", index=False)
    rows[50:].assign(score=0.5, churned=rows.churned[50:].where(rows.index[50:] != 99)).to_parquet(folder / "b.parquet")


def _at_two_depths(folder: Path) -> None:
    (folder / "day=1").mkdir()
    for name in ("a.parquet", "day=1/b.parquet"):
        frame().to_parquet(folder / name, index=False)


def _csv(rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows, **options: Any) -> Callable[[Path], None]:
    return lambda folder: rows(frame()).to_csv(folder / f"{SECRET}.csv", index=False, **options)


def _lines(header: str, line: Callable[[int, str, float], str], encoding: str = "utf-8") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        rows = frame()
        lines = map(line, range(ROWS), rows.churned, rows.score)
        (folder / f"{SECRET}.csv").write_bytes("".join(f"{text}\n" for text in (header, *lines)).encode(encoding))

    return write


def _local(place: int, churned: str, score: float) -> str:
    """With semicolons, a local date and time, and a letter of Latin-1."""
    return f"{SECRET};{churned};{score:.1f};{1 + place % 28:02}/03/2004 18.00.00;Zo\xeb".replace("0.", "0,", 1)


def _after_blanks(_: int, churned: str, score: float) -> str:
    return f"{SECRET}, {'>50K' if churned == 'yes' else '<=50K'} , {score}"


def _in_a_folder(folder: Path) -> None:
    (folder / "day=2026-01-02").mkdir()
    _parquet()(folder / "day=2026-01-02")


_DECOMPOSED = {"gro\u0308\u00dfe": [1.0] * ROWS}
_WHOLE = "id string, churned int, score double"
_AS_NUMBERS = {"label": {"column": "churned", "positive": 1, "negative": 0}}
CASES: Mapping[str, FileCase] = {
    "8 brotli": FileCase(write=_parquet(compression="brotli"), told="which excludes BROTLI; write the files again"),
    "9 nanoseconds": FileCase(write=_changed(at=pa.array(np.arange(ROWS), pa.timestamp("ns")))),
    "10 whole numbers as doubles": FileCase(
        write=_of_two_types, columns=_WHOLE, request=_AS_NUMBERS, left_out={"null": 1}, negatives=39
    ),
    "10 half precision": FileCase(
        write=_changed(score=pa.array(np.zeros(ROWS, np.float16))),
        told="column score of type float16'; must be of type double",
    ),
    "10 text": FileCase(write=_changed(score=["0.5"] * ROWS), told="column score of type string'; must be of type"),
    "11 whole numbers as 1.0": FileCase(
        write=_csv(lambda rows: rows.assign(churned=(rows.churned == "yes").astype(float).where(rows.index != 99))),
        columns=_WHOLE, form="csv", request=_AS_NUMBERS, left_out={"null": 1}, negatives=39,
    ),
    "12 decimal commas and grouped amounts": FileCase(
        write=_csv(lambda rows: rows.assign(amount="12.345,60"), sep=";", decimal=","),
        columns=f"{COLUMNS}, amount double", form="csv", file_form=("separator=;", "decimal=,", "thousands=."),
        request={"where": "amount > 12345"},
        opening="has 1 value if the separator is a comma, and 4 if it is a semicolon",
    ),
    "12 percents": FileCase(
        write=_csv(lambda rows: rows.assign(score=(100 * rows.score).round().astype(int).astype(str) + "%")),
        form="csv", file_form=("percent=yes",),
    ),
    "12 not declared": FileCase(
        write=_csv(lambda rows: rows.assign(score=rows.score.astype(str).where(rows.index >= 30, "0,5"))),
        form="csv", left_out={"not_parsed": 30}, positives=30,
    ),
    "13 quotes as Spark writes them": FileCase(
        write=_lines("note,churned,score", lambda _, churned, score: f'"said \\"{SECRET}\\", left",{churned},{score}'),
        columns=COLUMNS.replace("id", "note", 1), form="csv", file_form=("escape=\\",),
    ),
    "14 semicolons": FileCase(
        write=_lines("id;churned;score;at;name", _local, "latin-1"),
        columns=f"{COLUMNS}, at timestamp, name string", form="csv",
        told="must contain csv files that all begin with the same header line",
        opening="has 1 value if the separator is a comma, and 5 if it is a semicolon; declare it: --file-form",
    ),
    "14 declared": FileCase(
        write=_lines("id;churned;score;at;name", _local, "latin-1"),
        columns=f"{COLUMNS}, at timestamp, name string", form="csv",
        file_form=("separator=;", "decimal=,", "encoding=latin-1", "timestamp=dd/MM/yyyy HH.mm.ss"),
        request={"where": "at >= TIMESTAMP '2004-03-01 18:00:00' AND name = 'Zo\xeb'"},
    ),
    "15 blanks": FileCase(
        write=_lines("id, income, score", _after_blanks),
        columns="id string, income string in ('>50K', '<=50K'), score double score", form="csv",
        request={"label": {"column": "income", "positive": ">50K"}},
    ),
    "16 two depths": FileCase(write=_at_two_depths, told="must have all its files at the same depth"),
    "19 Yes": FileCase(
        write=_parquet(), request={"label": {"column": "churned", "positive": "Yes", "negative": "No"}},
        told="label.positive: got 'Yes'; must be a value of churned, which holds 'yes', 'no'; correct it; did you mean",
        opening="",
    ),
    "19 nobody knows": FileCase(
        write=_parquet(), columns="id string, churned string, score double",
        request={"label": {"column": "churned", "positive": "Yes", "negative": "No"}},
        left_out={"outside": ROWS}, positives=0, negatives=0,
    ),
    "20 kind": FileCase(
        write=_parquet(), request={"diagnostics": ["roc"]}, told="did you mean 'roc_curve'?", opening=""
    ),
    "20 column": FileCase(
        write=_parquet(), request={"model": {"kind": "columns", "basis": "public", "score": "scoer"}},
        told="must be a column of the table, which has id, churned, score; correct the name; did you mean 'score'?",
        opening="",
    ),
    "20 filter": FileCase(
        write=_parquet(), request={"where": "churned = 'Yes'"}, told="where: got 'Yes'; must be a value of churned",
        opening="",
    ),
    "not bound": FileCase(
        write=_changed(region=["north"] * ROWS), request={"where": "region = 'north'"},
        told="is a column of the table's files that account not-bound does not bind", opening="",
    ),
    "other letters": FileCase(
        write=_changed(**_DECOMPOSED), columns=f"{COLUMNS}, gr\u00f6\u00dfe double",
        told="it is there in another Unicode form of the same letters",
    ),
    "typed folders": FileCase(
        write=_in_a_folder,
        columns=f"{COLUMNS}, day date", request={"where": "day = DATE '2026-01-02'"},
    ),
}  # fmt: skip
"""The cases, by number and subject."""
