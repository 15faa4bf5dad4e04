"""The time of smoothing noisy distribution functions: ``python -m benchmarks.ecdf_smoothing [--quick]``.

The 2-norm problem of the ECDF paper (its problem (3), p = 2), with a public total, by turns:

* ours, exact (``benchmarks.competitors.shared_node_smoothing``);
* CVXOPT, the paper's solver, on the problem as the paper prints it, and on one variable for each node alone. It is not
  a dependency of the project: ``pip install cvxopt`` first, or its columns stay empty;
* HiGHS, the general solver that comes with SciPy, on the same programme, if it is small enough to finish.

And the projections in the plain norms, ``smooth_1norm`` and ``smooth_2norm``. Generic solvers run only once at the
largest size, where they take minutes.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np
from scipy import sparse

from benchmarks._pictures import IMAGES, finish, panels
from benchmarks._pictures import points as plot
from benchmarks.competitors.shared_node_smoothing import smooth_shared_nodes
from benchmarks.competitors.shared_nodes import levels_over, shared_node_prefixes
from benchmarks.harness import Report, Target, alternate, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smoothing import smooth_1norm, smooth_2norm

REDUCED, PRINTED = "CVXOPT, nodes alone", "CVXOPT, as printed"
LARGEST = {REDUCED: 1 << 15, PRINTED: 1 << 10, "HiGHS": 1 << 11}
"""Points up to which each peer is waited for: the last two take seven to ten times longer with every doubling."""
Programme = tuple[sparse.csr_array, sparse.csr_array, FloatArray]
RATES = {"sparse": 0.03, "middling": 3.0}
"""Rows in a cell, on average."""


def instance(points: int, rate: float) -> tuple[FloatArray, float]:
    """Noisy prefix counts at epsilon 1 and the total."""
    counts = np.random.default_rng(points).poisson(rate, points)
    released = shared_node_prefixes(counts, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(points))
    return released.prefix_counts.astype(float), float(counts.sum())


def programme(noisy: FloatArray, total: float) -> Programme:
    """The nodes' matrix Z, and G, h: find the shortest v such that G v >= h; the line is then noisy + Z v."""
    size = noisy.size
    index = np.arange(size)
    levels = [sparse.csr_array((np.ones(size), (index, index >> level))) for level in range(levels_over(size) + 1)]
    nodes = sparse.csr_array(sparse.hstack(levels))
    steps = sparse.csr_array(
        sparse.diags_array([np.ones(size), -np.ones(size)], offsets=[0, -1], shape=(size + 1, size))
    )
    bounds = np.zeros(size + 1)
    bounds[-1] = -total
    return nodes, sparse.csr_array(steps @ nodes), bounds - steps @ noisy


def cvxopt(parts: Programme, noisy: FloatArray) -> FloatArray:
    """The same programme by CVXOPT, with one variable for each node and sparse matrices."""
    from cvxopt import matrix, solvers, spmatrix

    nodes, conditions, bounds = parts
    columns = conditions.shape[1]
    square = spmatrix(1.0, range(columns), range(columns))
    options = {"show_progress": False, "abstol": 1e-10, "reltol": 1e-10, "feastol": 1e-10}
    solution = solvers.qp(square, matrix(0.0, (columns, 1)), _sparse(-conditions), matrix(-bounds), options=options)
    return noisy + nodes @ np.array(solution["x"]).ravel()


def cvxopt_as_printed(parts: Programme, noisy: FloatArray, total: float) -> FloatArray:
    """Problem (3) as the paper prints it: variables for nodes and line, equations between them; sparse matrices."""
    from cvxopt import matrix, solvers, spmatrix

    nodes, _, _ = parts
    points, count = nodes.shape
    falls = sparse.diags_array([np.ones(points - 1), -np.ones(points - 1)], offsets=[0, 1], shape=(points - 1, points))
    on_line = sparse.vstack([falls, -sparse.eye_array(points), sparse.eye_array(points)])
    within = _sparse(sparse.hstack([sparse.csr_array((3 * points - 1, count)), on_line]))
    limits = matrix(np.concatenate([np.zeros(2 * points - 1), np.full(points, total)]))
    square = spmatrix(1.0, range(count), range(count), (count + points, count + points))
    equations = _sparse(sparse.hstack([-nodes, sparse.eye_array(points)]))
    start = matrix(0.0, (count + points, 1))
    solution = solvers.qp(square, start, within, limits, equations, matrix(noisy), options={"show_progress": False})
    return np.array(solution["x"]).ravel()[count:]


def _sparse(matrix: sparse.sparray) -> object:
    from cvxopt import spmatrix

    triples = sparse.coo_array(matrix)
    return spmatrix(triples.data.astype(float), triples.row.astype(int), triples.col.astype(int), triples.shape)


def highs(parts: Programme, noisy: FloatArray) -> FloatArray:
    """The same programme by the HiGHS library in SciPy."""
    from scipy.optimize._highspy import _core

    nodes, conditions, bounds = parts
    rows, columns = conditions.shape
    model = _core.HighsLp()
    model.num_col_, model.num_row_ = columns, rows
    model.col_cost_ = np.zeros(columns)
    model.col_lower_, model.col_upper_ = np.full(columns, -_core.kHighsInf), np.full(columns, _core.kHighsInf)
    model.row_lower_, model.row_upper_ = bounds, np.full(rows, _core.kHighsInf)
    model.a_matrix_.format_ = _core.MatrixFormat.kRowwise
    model.a_matrix_.num_col_, model.a_matrix_.num_row_ = columns, rows
    model.a_matrix_.start_, model.a_matrix_.index_ = conditions.indptr, conditions.indices
    model.a_matrix_.value_ = conditions.data
    solver = _core._Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    index = np.arange(columns + 1, dtype=np.int32)
    solver.passHessian(columns, columns, 1, index[:-1], index[:-1], np.ones(columns))
    solver.run()
    return noisy + nodes @ np.array(solver.getSolution().col_value)


def timed(run: Callable[[], FloatArray]) -> tuple[float, FloatArray]:
    """The seconds that a run takes, and its result."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def picture(seconds: Mapping[str, Mapping[int, float]]) -> None:
    """Figure 7 of the paper, with this project's smoothing: seconds by the number of points, a line for each solver."""
    figure, [axes] = panels(1)
    styles = (("curve", "o", "-"), ("spent", "s", "-"), ("spent", "^", "--"), ("ink", "v", ":"))
    for style, (name, times) in zip(styles, seconds.items(), strict=True):
        plot(axes, style, name, list(times), list(times.values()))
    axes.set_xlabel("points")
    axes.set_ylabel("seconds of smoothing in the 2-norm")
    finish(figure, [axes], IMAGES / "smoothing-time.svg")


def main(argv: list[str] | None = None) -> int:
    """Time all of them and print the tables."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    sizes = (1 << 7, 1 << 9) if given.quick else (1 << 9, 1 << 10, 1 << 11, 1 << 15)
    rows, figures, targets = [], {}, []
    has_cvxopt = importlib.util.find_spec("cvxopt") is not None
    if not has_cvxopt:
        progress("SKIPPED: CVXOPT is not installed; its columns are missing from the table below")
    for points in sizes:
        for name, rate in RATES.items():
            noisy, total = instance(points, rate)
            progress(f"{points} points, {name}")
            cases = {
                "ours": lambda noisy=noisy, total=total: smooth_shared_nodes(noisy, total=total),
                "1-norm": lambda noisy=noisy, total=total: smooth_1norm(noisy, total=total),
                "2-norm": lambda noisy=noisy, total=total: smooth_2norm(noisy, total=total),
            }
            times = alternate(cases, repetitions=max(given.repetitions, 5))
            ours, line = times["ours"].median, smooth_shared_nodes(noisy, total=total)
            parts = programme(noisy, total)
            peers = {}
            if has_cvxopt:
                peers[REDUCED] = timed(lambda parts=parts, noisy=noisy: cvxopt(parts, noisy))
            if has_cvxopt and points <= LARGEST[PRINTED]:
                peers[PRINTED] = timed(
                    lambda parts=parts, noisy=noisy, total=total: cvxopt_as_printed(parts, noisy, total)
                )
            if points <= LARGEST["HiGHS"]:
                peers["HiGHS"] = timed(lambda parts=parts, noisy=noisy: highs(parts, noisy))
            ratios = {peer: seconds / ours for peer, (seconds, _) in peers.items()}
            apart = {peer: float(np.abs(values - line).max()) for peer, (_, values) in peers.items()}
            rows.append(
                [
                    f"{points}, {name}",
                    f"{ours * 1000:.1f} ms",
                    *(
                        f"{peers[peer][0]:.2f} s, {ratios[peer]:,.0f}x, {apart[peer]:.0e}" if peer in peers else ""
                        for peer in LARGEST
                    ),
                    f"{times['1-norm'].median * 1000:.1f} ms",
                    f"{times['2-norm'].median * 1000:.1f} ms",
                ]
            )
            figures[f"{points} {name}"] = {
                "ours": ours,
                "seconds": {peer: seconds for peer, (seconds, _) in peers.items()},
                "apart": apart,
            }
            for peer, ratio in ratios.items():
                if points == LARGEST[peer]:
                    targets.append(
                        Target(
                            what=f"2-norm smoothing, {points} points, {name}, against {peer}",
                            target=">= 1,000x, equal within 1e-6",
                            outcome=f"{ratio:,.0f}x, {apart[peer]:.0e}",
                            met=ratio >= 1000 and apart[peer] <= 1e-6,
                        )
                    )
    if has_cvxopt and not given.quick:
        by_solver: dict[str, dict[int, float]] = {"ours": {}, **{peer: {} for peer in LARGEST}}
        for entry, measured in figures.items():
            size, rate = entry.split()
            if rate == "sparse":
                for solver, seconds in {"ours": measured["ours"], **measured["seconds"]}.items():
                    by_solver[solver][int(size)] = seconds
        picture(by_solver)
    heads = ("points, rows", "ours", f"{REDUCED}: time, ratio, apart", PRINTED, "HiGHS", "1-norm", "2-norm")
    report = Report(
        name="ecdf_smoothing", columns=heads, rows=rows, targets=[] if given.quick else targets, figures=figures
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
