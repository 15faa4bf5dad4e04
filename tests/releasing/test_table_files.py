"""A table whose files no run could read is refused before the charge, by a release as by a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.releasing import ChargedRequest, forecast, release
from dp_operators.releasing.charged_terms import complete
from spark_jobs.contract import InvalidRequest
from tests.support.release_lab import ForkRunner, accept, make_request

COLUMNS = {"visit": "int", "score": "double"}
ROWS = {"visit": pa.array([1, 0], pa.int32()), "score": pa.array([0.5, 0.25])}
SECRET = "Zebedee-4711"


def parquet(**options: Any) -> Callable[[Path], None]:
    changed = {name: options.pop(name) for name in ("visit", "score", "noted", "region") if name in options}
    return lambda folder: pq.write_table(pa.table({**ROWS, **changed}), folder / f"{SECRET}.parquet", **options)


def of_delta(folder: Path) -> None:
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "00000000000000000000.json").write_text(f'{{"remove": {{"path": "{SECRET}.parquet"}}}}\n')
    pq.write_table(pa.table(ROWS), folder / f"{SECRET}.parquet")


def text(content: str) -> Callable[[Path], None]:
    return lambda folder: folder.joinpath(f"{SECRET}.csv").write_text(content) and None


def at_two_depths(folder: Path) -> None:
    (folder / "day=1").mkdir()
    for name in ("a.parquet", "day=1/b.parquet"):
        pq.write_table(pa.table(ROWS), folder / name)


REFUSED: Mapping[str, tuple[str, Callable[[Path], None], str]] = {
    "brotli": ("parquet", parquet(compression="brotli"), "which excludes BROTLI; write the files again with zstd"),
    "text": ("parquet", parquet(score=pa.array(["a", "b"])), "column score of type string'; must be of type double"),
    "half": ("parquet", parquet(score=pa.array([1, 2], pa.float16())), "column score of type float16'; must be of"),
    "fixed": (
        "parquet",
        parquet(region=pa.array([b"ab", b"cd"], pa.binary(2))),
        "column region of type fixed_binary'; must be of type string",
    ),
    "delta": ("parquet", of_delta, "must not be the folder of a Delta table, whose log says which files count"),
    "depths": ("parquet", at_two_depths, "must have all its files at the same depth"),
    "semicolons": ("csv", text("visit;score\n1;0,5\n"), "must contain csv files that all begin with the same header"),
    "no header": ("csv", text(f"{SECRET},0.5\n1,2\n"), "must contain csv files that all begin with the same header"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_no_run_can_read_are_refused_for_nothing(lab: Any, tmp_path: Path, case: str) -> None:
    form, write, told = REFUSED[case]
    (tmp_path / "v1").mkdir()
    write(tmp_path / "v1")
    columns = {**COLUMNS, **({"region": "string"} if case == "fixed" else {})}
    output = lab.open_account("files", str(tmp_path), columns=columns, form=form)
    table = {"path": str(tmp_path), "snapshot": {"path_version": "v1"}}
    request = make_request(output, account="files", table=table)
    ledger, runner = lab.ledger(), ForkRunner()
    head = ledger.head()
    for ask in (
        lambda: release(ChargedRequest.of(request, ledger, "k"), runner=runner, check=accept),
        lambda: forecast(ChargedRequest.of(complete(request, ledger), ledger, "k"), runner=runner),
    ):
        with pytest.raises(InvalidRequest) as refused:
            ask()
        assert told in str(refused.value)
        assert SECRET not in str(refused.value)
        assert "\n" not in str(refused.value)
    assert (ledger.head(), runner.runs) == (head, 0)
    ledger.close()


@pytest.mark.parametrize(("form", "write"), [("parquet", parquet()), ("csv", text("visit,score,region\n1,0.5,x\n"))])
def test_a_column_that_the_table_has_and_the_account_does_not_bind_is_told_from_others(
    lab: Any, tmp_path: Path, form: str, write: Callable[[Path], None]
) -> None:
    (tmp_path / "v1").mkdir()
    write(tmp_path / "v1")
    output = lab.open_account("files", str(tmp_path), columns={"visit": "int"}, form=form)
    table = {"path": str(tmp_path), "snapshot": {"path_version": "v1"}}
    ledger, runner = lab.ledger(), ForkRunner()

    def refusal(column: str) -> str:
        values = [{"kind": "ecdf", "column": column, "bounds": [0, 1]}]
        request = make_request(output, account="files", table=table, diagnostics=values, label=None, model=None)
        with pytest.raises(InvalidRequest) as refused:
            release(ChargedRequest.of(request, ledger, "k"), runner=runner, check=accept)
        return str(refused.value)

    assert refusal("Score") == (
        "diagnostics.column: got 'Score'; is a column of the table's files that account files does not bind; have it "
        "bound beside the others: `dp-budget bind files`"
    )
    assert "must be a column of the table, which has visit; correct the name" in refusal("scores")
    assert (ledger.history("files"), runner.runs) == ((), 0)
    ledger.close()


@pytest.mark.parametrize(
    "changes",
    [{"visit": pa.array([1.0, None])}, {"score": pa.nulls(2)}, {"noted": pa.array([1, 2], pa.timestamp("ns"))}],
)
def test_files_that_a_run_can_read_are_charged(lab: Any, tmp_path: Path, changes: dict[str, pa.Array]) -> None:
    (tmp_path / "v1").mkdir()
    parquet(**changes)(tmp_path / "v1")
    output = lab.open_account("files", str(tmp_path), columns=COLUMNS)
    table = {"path": str(tmp_path), "snapshot": {"path_version": "v1"}}
    request, ledger = make_request(output, account="files", table=table), lab.ledger()
    assert forecast(ChargedRequest.of(complete(request, ledger), ledger, "k"), runner=ForkRunner()).left
    assert release(ChargedRequest.of(request, ledger, "k"), runner=ForkRunner(), check=accept)
    ledger.close()
