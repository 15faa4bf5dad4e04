"""How fast noisy distribution functions are smoothed: ``python -m benchmarks.ecdf_smoothing [--quick]``.

The 2-norm problem of the ECDF paper (its problem (3), p = 2), with a public total, by turns:

* ours, exact (``spark_jobs.mechanisms.shared_node_smoothing``);
* a sparse interior-point method for quadratic programmes, written here as CVXOPT's is (Mehrotra's predictor and
  corrector, one sparse factorisation a step), on the paper's own variables, one for each node;
* HiGHS, the general solver that comes with SciPy, on the same programme, where it is small enough to wait for.

And the projections in the plain norms, ``smooth_1norm`` and ``smooth_2norm``. Generic solvers run once at the largest
size: their time is minutes, not noise.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from benchmarks.harness import Report, Target, alternate, arguments, progress, publish
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.shared_node_smoothing import smooth_shared_nodes
from spark_jobs.mechanisms.shared_nodes import levels_over, shared_node_prefixes
from spark_jobs.mechanisms.smoothing import smooth_1norm, smooth_2norm

FloatArray = NDArray[np.float64]
Programme = tuple[sparse.csr_array, sparse.csr_array, FloatArray]
RATES = {"sparse": 0.03, "middling": 3.0}
"""Rows in a cell, on average."""
LARGEST_FOR_HIGHS = 1 << 11
"""Its time grows more than tenfold with every doubling."""


def instance(points: int, rate: float) -> tuple[FloatArray, float]:
    """Noisy prefix counts at epsilon 1 and the total."""
    counts = np.random.default_rng(points).poisson(rate, points)
    made = shared_node_prefixes(counts, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(points))
    return made.prefix_counts.astype(float), float(counts.sum())


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


@dataclass(frozen=True, kw_only=True)
class Newton:
    """One factorised step of the interior-point method; ``centre`` is what slack times force should move by."""

    transposed: sparse.csc_array
    conditions: sparse.csr_array
    slack: FloatArray
    force: FloatArray
    primal: FloatArray
    dual: FloatArray

    @cached_property
    def _solve(self) -> Callable[[FloatArray], FloatArray]:
        weights = sparse.diags_array(self.force / self.slack)
        identity = sparse.eye_array(self.transposed.shape[0], format="csc")
        system = sparse.csc_array(identity + self.transposed @ weights @ self.conditions)
        return splu(system, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}, diag_pivot_thresh=0.0).solve

    def step(self, centre: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Changes of the moves, the slacks and the forces."""
        moves = self._solve(-self.dual + self.transposed @ ((centre - self.force * self.primal) / self.slack))
        slack = self.conditions @ moves + self.primal
        return moves, slack, (centre - self.force * slack) / self.slack


def interior_point(parts: Programme, noisy: FloatArray, *, accuracy: float = 1e-11) -> FloatArray:
    """Mehrotra's method: minimise v'v / 2 subject to G v - s = h, s >= 0, with multipliers f."""
    nodes, conditions, bounds = parts
    transposed = sparse.csc_array(conditions.T)
    moves = np.zeros(conditions.shape[1])
    slack, force = np.maximum(-bounds, 1.0), np.ones(bounds.size)
    for _ in range(100):
        dual, primal = moves - transposed @ force, conditions @ moves - slack - bounds
        gap = float(slack @ force) / force.size
        if gap < accuracy and np.abs(primal).max() < 1e-8 and np.abs(dual).max() < 1e-8:
            break
        newton = Newton(
            transposed=transposed, conditions=conditions, slack=slack, force=force, primal=primal, dual=dual
        )
        try:
            _, d_slack, d_force = newton.step(-force * slack)
        except RuntimeError:  # singular in double precision: as near as this method comes
            break
        reach = _reach(slack, force, d_slack, d_force)
        ahead = float((slack + reach * d_slack) @ (force + reach * d_force)) / force.size
        d_moves, d_slack, d_force = newton.step((ahead / gap) ** 3 * gap - force * slack - d_slack * d_force)
        reach = min(1.0, 0.995 * _reach(slack, force, d_slack, d_force))
        moves, slack, force = moves + reach * d_moves, slack + reach * d_slack, force + reach * d_force
    return noisy + nodes @ moves


def _reach(slack: FloatArray, force: FloatArray, d_slack: FloatArray, d_force: FloatArray) -> float:
    falls = [-value[d < 0] / d[d < 0] for value, d in ((slack, d_slack), (force, d_force))]
    return min(1.0, *(float(each.min()) for each in falls if each.size))


def highs(parts: Programme, noisy: FloatArray) -> FloatArray:
    """The same programme by the HiGHS library that SciPy carries."""
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
    """Seconds, and what came out."""
    started = time.perf_counter()
    found = run()
    return time.perf_counter() - started, found


def main(argv: list[str] | None = None) -> int:
    """Time all of them and print the tables."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    sizes = (1 << 7, 1 << 9) if given.quick else (1 << 9, 1 << 10, 1 << 11, 1 << 15)
    rows, figures, targets = [], {}, []
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
            peers = {"interior point": timed(lambda parts=parts, noisy=noisy: interior_point(parts, noisy))}
            if points <= LARGEST_FOR_HIGHS:
                peers["HiGHS"] = timed(lambda parts=parts, noisy=noisy: highs(parts, noisy))
            ratios = {peer: seconds / ours for peer, (seconds, _) in peers.items()}
            apart = {peer: float(np.abs(found - line).max()) for peer, (_, found) in peers.items()}
            rows.append(
                [
                    f"{points}, {name}",
                    f"{ours * 1000:.1f} ms",
                    *(
                        f"{peers[peer][0]:.2f} s, {ratios[peer]:,.0f}x, {apart[peer]:.0e}" if peer in peers else ""
                        for peer in ("interior point", "HiGHS")
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
                if points == (sizes[-1] if peer == "interior point" else LARGEST_FOR_HIGHS):
                    targets.append(
                        Target(
                            what=f"2-norm smoothing, {points} points, {name}, against {peer}",
                            target=">= 1,000x, equal within 1e-6",
                            seen=f"{ratio:,.0f}x, {apart[peer]:.0e}",
                            met=ratio >= 1000 and apart[peer] <= 1e-6,
                        )
                    )
    heads = ("points, rows", "ours", "interior point: time, ratio, apart", "HiGHS", "1-norm", "2-norm")
    report = Report(
        name="ecdf_smoothing", columns=heads, rows=rows, targets=[] if given.quick else targets, figures=figures
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
