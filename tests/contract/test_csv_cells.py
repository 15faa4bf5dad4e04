"""One writer of CSV for pages, logs and published files, whose texts no spreadsheet computes."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_operators.budget.reports import log_csv
from dp_operators.budget.values import AuditEntry
from spark_jobs.contract.csv_cells import FORMULA, csv_line
from spark_jobs.publishing.data_files import csv_bytes
from spark_jobs.publishing.rendering import Column

SNEAKY = ['=HYPERLINK("http://x")', "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-"]


def computed(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.startswith(FORMULA)
    return False


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", SNEAKY)
def test_text_is_shown_in_every_file(text: str) -> None:
    entry = AuditEntry(seq=1, at=text, actor=text, action="opened", account=text, charge=text, reason=text,
                       details=text, previous="0", hash="1")  # fmt: skip
    group = Column(values=np.array([text, "plain"], dtype=object), meaning="a group")
    for written in (csv_line([text, 1]), log_csv([entry]), csv_bytes({"group": group}).decode()):
        found = cells(written)
        assert any(f"'{text}" in line for line in found)
        assert not any(computed(cell) for line in found for cell in line)


@given(st.lists(st.one_of(st.text(), st.floats(), st.integers()), min_size=1, max_size=5))
def test_line_keeps_numbers_and_guards_texts(values: list[object]) -> None:
    [line] = cells(csv_line(values))
    for cell, value in zip(line, values, strict=True):
        assert not computed(cell)
        assert cell.removeprefix("'") == str(value) or cell == str(value)
