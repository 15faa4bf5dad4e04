"""The benchmark of other libraries measures errors right, and goes on without a library that cannot be installed."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from benchmarks import peers
from benchmarks._choice_law import drawn_points
from benchmarks.choices import least_squares
from benchmarks.peers import DrawnCounts, environment, errors_of

LINE = DrawnCounts(shape="smooth", counts=np.array([10, 30, 60]), epsilon=0.5)
POINTS = drawn_points(np.random.default_rng(1), groups=1, signal=1000)


def test_exact_figures_have_no_error():
    figures = {"histogram": [[10, 30, 60]], "median": [2], "line": least_squares(POINTS)}
    assert errors_of(figures, LINE, POINTS) == pytest.approx(
        {"histogram": 0.0, "distribution function": 0.0, "median": 0.0, "line": 0.0}
    )


def test_errors_are_in_rows_times_epsilon():
    errors = errors_of({"histogram": [[10, 36, 60]], "median": [1, 0]}, LINE, POINTS)
    assert errors["histogram"] == pytest.approx(6 / 3 * 0.5)
    assert errors["median"] == pytest.approx((10 + 40) / 2 * 0.5)  # ranks 40 and 10 for 50
    assert errors["distribution function"] == pytest.approx((46 / 106 - 0.4) * 100 * 0.5)
    assert "line" not in errors


def test_a_library_that_cannot_be_installed_is_left_out_and_said_to_be(monkeypatch, tmp_path, capsys):
    def refused(*_, **__):
        raise subprocess.CalledProcessError(1, "uv")

    monkeypatch.setattr(peers.subprocess, "run", refused)
    assert environment("opendp", tmp_path) is None
    assert "SKIPPED: opendp" in capsys.readouterr().err
