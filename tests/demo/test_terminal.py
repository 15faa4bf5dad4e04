"""What the demo shows, with and without a terminal."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from examples.demo.__main__ import BLOCKED, Home, fresh_home, public_line, spent_on
from examples.demo.terminal import Terminal, curve_lines, step_lines
from tests.support.ledgers import new_ledger


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "coloured", "moving"),
    [
        (Tty(), {"TERM": "xterm"}, True, True),
        (Tty(), {"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        (Tty(), {"TERM": "dumb"}, False, False),
        (Tty(), {}, False, False),
        (io.StringIO(), {"TERM": "xterm"}, False, False),
    ],
)
def test_colours_and_movement_are_for_those_who_can_see_them(
    stream: io.StringIO, environ: dict[str, str], coloured: bool, moving: bool
) -> None:
    terminal = Terminal.on(stream, environ)
    assert (terminal.coloured, terminal.moving) == (coloured, moving)
    terminal.step("release", "counting", "green")
    terminal.wait("counting")
    written = stream.getvalue()
    assert ("\x1b[32m" in written) == coloured
    assert ("\x1b" in written) == moving
    assert written.count("counting") == 1 + moving


def test_curve_rises_from_corner_to_corner() -> None:
    x = [0.0, 0.25, 0.5, 1.0]
    y = [0.0, 0.6, 0.8, 1.0]
    lines = curve_lines(x, y, [v * 0.9 for v in y], [min(v * 1.1, 1.0) for v in y], width=20, height=10)
    assert len(lines) == 11
    assert {len(line) for line in lines} == {21}
    heights = [next(row for row in range(10) if lines[row][column] == "•") for column in range(1, 21)]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] >= 8
    assert heights[-1] == 0
    assert any("░" in line for line in lines)
    assert any("·" in line for line in lines)


def test_step_in_the_curve_is_read_at_its_top() -> None:
    lines = curve_lines([0.0, 0.0, 1.0], [0.0, 0.95, 1.0], [0.0, 0.95, 1.0], [0.0, 0.95, 1.0], width=10, height=10)
    assert lines[0] == "│" + "•" * 10


def test_steps_have_a_column_each_up_to_the_largest_band() -> None:
    lines = step_lines([0.0, 5.0, 9.9], [0.0, 4.0, 8.0], [1.0, 6.0, 10.0], height=10)
    assert lines[-1] == "└───"
    assert [next(row for row in range(10) if lines[row][column] == "•") for column in (1, 2, 3)] == [9, 4, 0]
    assert [lines[row][3] for row in range(4)] == ["•", "░", " ", " "]
    assert step_lines([0.0], [0.0], [0.0], height=2) == ["│ ", "│•", "└─"]


def logged(event: str, task: str, *, filename: str) -> str:
    return json.dumps({"event": event, "logger": f"airflow.task.operators.dp_operators.{task}", "filename": filename})


RELEASE, STREAM, SENSOR = "operators.release.X", "operators.count_stream.X", "sensors.budget.X"
COUNTED = "the engine counts the rows in cells of their scores"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (logged("counting", RELEASE, filename="application.py"), ("release", COUNTED)),
        (logged("counting", STREAM, filename="application.py"), ("stream", "the engine counts the rows of each hour")),
        (logged("Releasing x", RELEASE, filename="release.py"), ("release", "Releasing x")),
        (logged(f"x{BLOCKED}no budget", SENSOR, filename="budget.py"), ("sensor", "x is held back: no budget")),
        (logged("counting ... 10 s", RELEASE, filename="application.py"), None),
        (logged("Success criteria met. Exiting.", SENSOR, filename="sensor.py"), None),
        (logged("counting", "operators.other.X", filename="application.py"), None),
        (json.dumps({"event": "counting", "filename": "application.py", "logger": "somebody.else"}), None),
        (json.dumps({"event": "Task failed with exception", "exception": [{"exc_value": "why"}]}), ("failed", "why")),
        (json.dumps({"event": "Task failed with exception"}), ("failed", "Task failed with exception")),
        ("a line of text", None),
        ("[1]", None),
        ("", None),
    ],
)
def test_lines_of_the_provider_are_shown(line: str, shown: tuple[str, str] | None) -> None:
    assert public_line(line) == shown


def test_every_demo_has_a_folder_of_its_own(tmp_path: Path) -> None:
    first = fresh_home(tmp_path)
    first.mkdir()
    second = fresh_home(tmp_path)
    assert second != first
    assert second.parent == tmp_path


def test_demo_takes_nothing_of_another_airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://production/airflow")
    environment = Home(path=tmp_path).environment()
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" not in environment
    assert Path(environment["AIRFLOW_HOME"]).is_relative_to(tmp_path)


def test_a_charge_shows_its_allotment_and_what_its_mechanisms_spent(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.open_account("people", epsilon="3")
    ledger.allot("people", "team", epsilon="2", reason="theirs")
    charge = ledger.reserve("people", release="r", epsilon="1", allotment="team")
    assert spent_on(charge) == [("allotment", "team")]
    events = (
        {"mechanism": "pure", "label": "roc_curve: where the scores lie", "epsilon": "0.1"},
        {"mechanism": "approximate", "epsilon": "0.9", "delta": "0.001"},
    )
    assert spent_on(replace(charge, drawn_events=events)) == [
        ("allotment", "team"),
        ("spent", "epsilon 0.1 for roc_curve: where the scores lie"),
        ("", "epsilon 0.9, delta 0.001"),
    ]
