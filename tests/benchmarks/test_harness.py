import json
from itertools import count

import pytest

from benchmarks import __main__ as command
from benchmarks.harness import Report, Target, alternate, markdown_table, publish


def test_cases_run_by_turns_and_warmups_do_not_count():
    ran = []
    ticks = count()
    timings = alternate(
        {"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, warmups=2, cpu_clock=lambda: float(next(ticks))
    )
    assert ran == ["a", "b"] * 7
    assert set(timings) == {"a", "b"}
    assert timings["a"].cpu == (1.0,) * 5
    assert all(seconds >= 0 for seconds in timings["b"].wall)


def test_fewer_than_five_repetitions_are_refused():
    with pytest.raises(ValueError, match="at least 5"):
        alternate({}, repetitions=4)


def test_tables_have_one_line_per_row_and_equal_columns():
    lines = markdown_table(("rows", "time"), [("1", "2.00 s"), ("1000000", "")]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "|---------|--------|"
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == ["1", "2.00 s"]


def report(targets):
    return Report(name="it", columns=("a",), rows=[("1",)], targets=targets, figures={"x": [1.5]}, machine={})


def test_a_missed_target_is_shown_as_missed():
    missed = Target(what="speed", target="<= 2x", outcome="3x", met=False)
    met = Target(what="size", target="<= 2x", outcome="1x", met=True)
    lines = report([missed, met]).to_markdown().splitlines()
    assert "**missed**" in next(line for line in lines if "speed" in line)
    assert "missed" not in next(line for line in lines if "size" in line)
    assert json.loads(report([missed]).to_json())["figures"] == {"x": [1.5]}


def test_the_reports_of_a_run_are_lines_of_one_file_and_those_of_an_earlier_run_are_gone(tmp_path, monkeypatch):
    file = tmp_path / "figures"
    for runs in (1, 2):
        monkeypatch.setattr("benchmarks.harness._BEGUN", set())
        for _ in range(runs):
            publish(report(()), file)
        assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["it"] * runs


def test_a_quick_run_says_nothing_about_targets():
    assert "aimed at" not in report(()).to_markdown()


def test_every_benchmark_is_found_and_an_unknown_one_refused(capsys):
    assert "score_counts" in command.names()
    assert not {"harness", "__main__", "__init__"} & set(command.names())
    assert command.main(["--list"]) == 0
    assert capsys.readouterr().out.split() == command.names()
    with pytest.raises(SystemExit):
        command.main(["no_such_benchmark"])
    assert "no such benchmark: no_such_benchmark" in capsys.readouterr().err


def test_a_benchmark_that_fails_makes_the_command_fail(monkeypatch, capsys):
    monkeypatch.setattr(command, "_ran", lambda name, *, quick: name == "good" and quick)
    monkeypatch.setattr(command, "names", lambda: ["bad", "good"])
    assert command.main(["good", "--quick"]) == 0
    assert command.main(["--quick"]) == 1
    assert "failed: bad" in capsys.readouterr().err
