"""The history of a checkpoint's log: the same however Spark divides it, and another for every other plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_jobs.application.streams.source_log import LogMissingError, SourceLog
from spark_jobs.contract.store.objects import LocalStore


def log_of(folder: Path, plans: list[list[str]], *, compact: int | None = None, lost: int | None = None) -> SourceLog:
    """The log of micro-batches of these files, of which one file holds all up to a micro-batch, and one is lost."""
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "offsets").mkdir()
    (folder / "metadata").write_text('{"id": "query"}')
    entries: list[str] = []
    for number, files in enumerate(plans):
        new = [json.dumps({"path": name, "timestamp": 7, "batchId": number}) for name in files]
        entries += new
        (folder / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":{number}}}')
        name, lines = (f"{number}.compact", entries) if number == compact else (str(number), new)
        if number != lost and not (compact is not None and number < compact):
            (folder / "sources" / "0" / name).write_text("\n".join(["v1", *lines]))
    return SourceLog(store=LocalStore(), folder=str(folder))


PLANS = [["a", "b"], ["c"], [], ["d"]]


def test_a_history_does_not_depend_on_how_the_log_is_divided(tmp_path: Path) -> None:
    plain, compact = log_of(tmp_path / "plain", PLANS), log_of(tmp_path / "compact", PLANS, compact=2)
    assert plain.identity == compact.identity == "query"
    for batch in (2, 3):
        assert plain.history(batch) == compact.history(batch)
    assert len({plain.history(batch) for batch in range(-1, 4)}) == 5
    assert plain.history(-1) == ""


@pytest.mark.parametrize(
    "others", [[["a"], ["b", "c"], [], ["d"]], [["a", "b"], ["x"], [], ["d"]], [["a", "b"], [], ["c"], ["d"]]]
)
def test_copies_that_went_on_apart_differ_from_then_on(tmp_path: Path, others: list[list[str]]) -> None:
    log, other = log_of(tmp_path / "one", PLANS), log_of(tmp_path / "other", others)
    assert log.history(3) != other.history(3)


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_a_log_that_lacks_a_part_has_no_history(tmp_path: Path, batch: int) -> None:
    log = log_of(tmp_path / "log", PLANS, lost=1)
    with pytest.raises(LogMissingError):
        log.history(batch)
