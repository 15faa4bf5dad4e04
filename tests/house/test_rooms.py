"""Imports go down from room to room, every module is called, and lines are counted by room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repository import ROOT, product_modules
from tests.support.rooms import (
    CALLED_BY_USERS,
    FLOORS,
    Lines,
    arrows_up,
    callers,
    imports,
    lines_by_room,
    room,
    sums_of,
    table,
    without_caller,
)


@pytest.mark.slow
def test_no_room_imports_one_above_it() -> None:
    graph = imports(ROOT, product_modules())
    assert {room(name) for name in graph if "." in name} == {name for floor in FLOORS for name in floor.split()}
    assert arrows_up(graph) == []
    graph["spark_jobs.contract.request"].add("spark_jobs.statistics.cells")
    assert arrows_up(graph) == ["spark_jobs.contract.request -> spark_jobs.statistics.cells"]


@pytest.mark.slow
def test_every_module_is_called() -> None:
    assert without_caller(ROOT, product_modules()) == []
    graph = callers(ROOT, product_modules())
    assert not any(graph[name] for name in CALLED_BY_USERS)


def test_a_module_that_is_only_exported_is_not_called(tmp_path: Path) -> None:
    texts = {
        "__init__.py": "",
        "__init__.pyi": "from package.part import thing\nfrom package.rest import other\n",
        "part.py": "thing = 1\n",
        "rest.py": "other = 2\n",
        "named.py": "",
        "user.py": 'from package import thing\nCOMMAND = "package.named:main"\n',
    }
    (tmp_path / "package").mkdir()
    for name, text in texts.items():
        (tmp_path / "package" / name).write_text(text, encoding="utf-8")
    files = tuple(tmp_path.rglob("*.py"))
    assert without_caller(tmp_path, files) == ["package.rest", "package.user"]
    assert callers(tmp_path, files)["package.part"] == {"package.user"}


def test_lines_of_code_leave_out_what_is_written_for_readers() -> None:
    documented = '"""What it is.\n\nMore.\n"""\n\n# why\nNAMES = (\n    "a",\n    # of b\n    "b",\n)\n'
    text = f'{documented}\n\ndef f():\n    """It."""\n    return 1  # one\n'
    assert Lines.of(text) == Lines(files=1, lines=16, code=6)


def test_rooms_add_up_to_the_product() -> None:
    rooms = lines_by_room()
    sums = sums_of(rooms)
    assert sums["product"].files == len(product_modules())
    assert 0.5 < sums["product"].code / sums["product"].lines < 0.8
    assert f"{sums['tests'].lines:,}" in table(rooms)
