"""Other libraries beside this one, on the same tables: ``python -m benchmarks.peers [--quick] [--cache FOLDER]``.

Tables come from the law of ``_choice_law``: lines of up to 1,024 cells, and points in one group, both with 1,000 or
10,000 rows times epsilon. All figures have the same epsilon, for one row added or removed, pure differential privacy:

* a histogram: mean absolute error of a cell, in rows times epsilon;
* the distribution function made of it: the largest error of a fraction, times rows and epsilon;
* the median: how far its rank is from half of the rows, times epsilon;
* the line of least squares: mean absolute error of the heights at 1/4 and 3/4, in parts of the box.

Each library is installed from the index in an environment of its own, in a folder that is kept. One that cannot be
installed is left out, and said to be. A figure that a library does not have stays empty. Errors are geometric means
over tables; those below 0.0001 count as that, as medians are often exact.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._choice_law import DrawnCounts, DrawnPoints, drawn_line, drawn_points
from benchmarks._shown import noise_of
from benchmarks.choices import least_squares
from benchmarks.harness import Report, arguments, progress, publish
from spark_jobs.application.java import java_home
from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics import ecdf, linear_regression, quantile
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.statistics import PointCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "diffprivlib": ("diffprivlib==0.6.5", "scikit-learn<1.5", "numpy<2"),
    "opendp": ("opendp==0.16.0",),
    "pipeline_dp": ("pipeline-dp==0.3.1", "pyarrow"),
    "tumult": ("tmlt.analytics==0.21.0",),
}
SIGNALS = (1_000, 10_000)
MAX_CELLS = 1_024
MAX_SECONDS = 900
OURS = "this library"
FIGURES = ("histogram", "distribution function", "median", "line")
Figures = Mapping[str, Sequence[Any]]


def environment(library: str, folder: Path) -> Path | None:
    """The interpreter of a library's environment, which is made if it is missing; None if it cannot be installed."""
    python = folder / library / "bin" / "python"
    complete = folder / library / "complete"
    if not complete.is_file():
        progress(f"{library}: an environment is made in {folder}")
        uv = Path(sys.executable).parent / "uv"
        try:
            make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder / library)]
            subprocess.run(make, check=True, timeout=MAX_SECONDS)
            install = [str(uv), "pip", "install", "--quiet", "--python", str(python), *PACKAGES[library]]
            subprocess.run(install, check=True, timeout=MAX_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            progress(f"SKIPPED: {library} could not be installed ({type(error).__name__}); the tables are without it")
            return None
        complete.touch()
    return python


def for_spark(python: Path) -> dict[str, str]:
    """The variables of a process of ``python`` that may run Spark."""
    return {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": str(python)}


def figures_of(
    library: str, tables: Sequence[Mapping[str, Any]], folder: Path, *, script: str = "_peer_figures.py"
) -> list[Figures] | None:
    """What a library releases of each table, by a script in this folder; None if it cannot be run."""
    python = environment(library, folder)
    if python is None:
        return None
    progress(f"{library}: {len(tables)} tables")
    done = subprocess.run(
        [str(python), str(Path(__file__).with_name(script)), library],
        input=json.dumps(tables),
        capture_output=True,
        text=True,
        check=False,
        env=for_spark(python),
    )
    if done.returncode != 0:
        progress(f"SKIPPED: {library} failed; the tables are without it: {done.stderr.strip()[-300:]}")
        return None
    released: list[Figures] = json.loads(done.stdout)
    return released


def our_figures(line: DrawnCounts, points: DrawnPoints, releases: int, random: np.random.Generator) -> Figures:
    """The figures of this library, by its automatic choices."""
    grid = ValueGrid(lower=0, upper=1, cells=line.counts.size)
    values = ValueCounts(counts=line.counts, grid=grid)
    rows = PointCounts.from_arrays(points.x, points.y, lower=0, upper=1)
    results: dict[str, list[Any]] = defaultdict(list)
    for _ in range(releases):
        noise = noise_of(random)
        results["histogram"].append(release_histogram(line.counts, epsilon=line.epsilon, noise=noise).cells)
        function = ecdf.release(values, epsilon=line.epsilon, noise=noise)
        results["distribution function"].append(function.cdf)
        median = quantile.release(values, level=0.5, interval=False, epsilon=line.epsilon, noise=noise).value
        results["median"].append(int(grid.cell(0.0 if median is None else median)))
        fit = linear_regression.release(rows, epsilon=points.epsilon, noise=noise)
        results["line"].append(fit.predictions.value[0])
    return results


def errors_of(figures: Figures, line: DrawnCounts, points: DrawnPoints) -> dict[str, float]:
    """The mean error of each figure that there is, in the units of the module."""
    counts, epsilon = line.counts, line.epsilon
    total, upto = int(counts.sum()), np.cumsum(counts)
    functions = figures.get("distribution function", [_function(cells) for cells in figures["histogram"]])
    errors: dict[str, list[float]] = {
        "histogram": [float(np.abs(np.asarray(cells) - counts).mean() * epsilon) for cells in figures["histogram"]],
        "distribution function": [
            float(np.abs(np.asarray(one) - upto / total).max() * total * epsilon) for one in functions
        ],
        "median": [
            float(max(upto[cell] - counts[cell] - total / 2, total / 2 - upto[cell], 0.0) * epsilon)
            for cell in figures["median"]
        ],
        "line": [float(np.abs(np.asarray(one) - least_squares(points)[0]).mean()) for one in figures.get("line", ())],
    }
    return {name: float(np.mean(values)) for name, values in errors.items() if values}


def _function(cells: Sequence[float]) -> FloatArray:
    """The distribution function of noisy counts: partial sums over the total, never falling."""
    upto = np.maximum.accumulate(np.cumsum(cells))
    return np.clip(upto / max(float(upto[-1]), 1.0), 0.0, 1.0)


def drawn(tables: int, signal: int) -> list[tuple[DrawnCounts, DrawnPoints]]:
    """Lines of at most ``MAX_CELLS`` cells with at most 100,000 rows, and points."""
    pairs = []
    for number in range(tables):
        random = np.random.default_rng([signal, number])
        line = drawn_line(random, signal=signal)
        while line.counts.size > MAX_CELLS:
            line = drawn_line(random, signal=signal)
        pairs.append((line, drawn_points(random, groups=1, signal=signal)))
    return pairs


def report(tables: int, releases: int, folder: Path) -> Report:
    """The errors of every library."""
    rows = []
    for signal in SIGNALS:
        pairs = drawn(tables, signal)
        inputs = [
            {
                "cells": np.repeat(np.arange(line.counts.size), line.counts).tolist(),
                "size": int(line.counts.size),
                "epsilon": line.epsilon,
                "x": points.x.tolist(),
                "y": points.y.tolist(),
                "line_epsilon": points.epsilon,
                "releases": releases,
            }
            for line, points in pairs
        ]
        random = np.random.default_rng(signal)
        results: dict[str, Sequence[Figures] | None] = {
            OURS: [our_figures(line, points, releases, random) for line, points in pairs]
        }
        results |= {library: figures_of(library, inputs, folder) for library in PACKAGES}
        for library, figures in results.items():
            if figures is not None:
                errors = [errors_of(one, *pair) for one, pair in zip(figures, pairs, strict=True)]
                means = [_mean([one[name] for one in errors if name in one]) for name in FIGURES]
                rows.append([f"{signal:,}", library, *means])
    heads = ("rows x epsilon", "library", *FIGURES)
    name = f"peers: errors, geometric means over {tables} tables of {releases} releases"
    return Report(name=name, columns=heads, rows=rows, targets=(), figures={"versions": PACKAGES})


def _mean(errors: Sequence[float]) -> str:
    return f"{np.exp(np.log(np.maximum(errors, 1e-4)).mean()):.3g}" if errors else ""


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=30, help="of each size (default: 30)")
    parser.add_argument("--releases", type=int, default=6, help="of each table (default: 6)")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"), help="where environments are kept")
    given = parser.parse_args(argv)
    tables, releases = (2, 1) if given.quick else (given.tables, given.releases)
    return publish(report(tables, releases, given.cache.absolute()), given.json)


if __name__ == "__main__":
    sys.exit(main())
