"""The end of a charged release of many groups, in a process of its own: ``python -m tests.support.many_groups N``.

Prints the growth of the largest resident size, in MiB, from made-up sums to the stored draft: of a line of each group,
or, with ``means``, of a count and three means, or, with ``counts``, of a count alone. With ``as-lists``, the results
are lists and the manifest is one text before it is stored, which is the fault that a test must find.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.application import run
from spark_jobs.application.points import point_grid
from spark_jobs.application.progress import Announcer
from spark_jobs.application.run import Charged, measure, run_charged
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.contract.store.sealing import Seal, sha256
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.publishing import publication
from spark_jobs.statistics import AggregateSums, Moments
from tests.application.test_draw import request
from tests.support.publications import account

LINES = {"kind": "linear_regression", "x": "age", "y": "wage", "x_bounds": [0, 2], "y_bounds": [-1, 8]}


def lines_request(groups: int) -> ReleaseRequest:
    """A line for each of the groups 0, 1, ..."""
    lines = {**LINES, "group_by": "tract", "groups": list(range(groups))}
    return request(label=None, model=None, diagnostics=[lines])


def sums(asked: ReleaseRequest, *, rows: int) -> Moments:
    """Made-up sums of points in the box, of about so many rows a group."""
    rng, (statistic,) = np.random.default_rng(1), asked.statistics
    grid = point_grid(statistic)  # type: ignore[arg-type]
    size, cells = grid.groups, grid.cells
    n = rng.poisson(rows, size)
    x, y, xx, xy = (n * rng.uniform(low, low + 0.2, size) for low in (0.9, 0.5, 1.2, 0.7))
    return Moments(
        n=n,
        x=(x * cells).astype(np.int64),
        y=(y * cells).astype(np.int64),
        xx=(xx * cells**2).astype(np.int64),
        xy=(xy * cells**2).astype(np.int64),
        unusable=np.zeros(size, dtype=np.int64),
        grid=grid,
    )


def means_request(groups: int) -> ReleaseRequest:
    """Three means of each of the groups 0, 1, ..."""
    by = [{"column": "tract", "values": list(range(groups)), "other": False}]
    measures = [{"of": name, "bounds": [0, 1], "figures": ["mean"]} for name in ("age", "wage", "score")]
    return request(label=None, model=None, diagnostics=[{"kind": "aggregates", "by": by, "measures": measures}])


def counts_request(groups: int) -> ReleaseRequest:
    """A count of each of so many cells of two dimensions, a multiple of 1,000."""
    by = [
        {"column": name, "edges": list(range(1 + size)), "other": False}
        for name, size in (("age", 1000), ("wage", groups // 1000))
    ]
    return request(label=None, model=None, diagnostics=[{"kind": "aggregates", "by": by}])


def means(asked: ReleaseRequest, *, rows: int) -> AggregateSums:
    """Made-up sums of values within their bounds, of about so many rows a group."""
    rng, (design,) = np.random.default_rng(1), asked.statistics
    n = rng.poisson(rows, design.cells)  # type: ignore[attr-defined]
    of_terms = [n * one.last * rng.random(n.size) for one in design.terms]  # type: ignore[attr-defined]
    sums = np.array(of_terms).reshape(-1, n.size)
    return AggregateSums(
        design=design,  # type: ignore[arg-type]
        rows=n,
        incomplete=np.zeros_like(n),
        sums=sums.astype(np.int64),
    )


def peak() -> float:
    """The largest resident size of this process so far, in MiB; ``getrusage`` would count that of its parent too."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def plant_lists() -> None:
    """Make results lists, and the manifest one text of many pieces."""
    publication.InColumns = type("Nothing", (), {})  # type: ignore[misc, assignment]
    Release.to_bytes = lambda self: (  # type: ignore[method-assign]
        json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    ).encode()


def main() -> None:
    """Make the draw and the draft in a folder that is removed, and print the growth."""
    if "as-lists" in sys.argv:
        plant_lists()
    of_means = "means" in sys.argv or "counts" in sys.argv
    requested = counts_request if "counts" in sys.argv else means_request if of_means else lines_request
    asked = requested(int(sys.argv[1]))
    exact: Any = {asked.statistics[0]: (means if of_means else sums)(asked, rows=1000)}
    run.make_draw = lambda asked, *, charge_id, noise, **others: measure(  # type: ignore[assignment]
        asked, exact, charge_id=charge_id, noise=noise
    )
    seal = Seal(secret=bytes(range(32)), charge_id="c1", request_sha256=asked.sha256)
    before = peak()
    with tempfile.TemporaryDirectory() as folder:
        layout = ReleaseLayout.of(folder, "lines", "c1")
        LocalStore().create(layout.account, account().sealed(seal))
        run_charged(
            asked, Charged(key="lines", seal=seal, run=1), output=folder, store=LocalStore(), noise=SecureNoise(),
            master=None, announcer=Announcer((Path(folder) / "stages").open("a"), "word"),
        )  # fmt: skip
        growth = peak() - before
        draw = sha256(Path(layout.draw).read_bytes())
        manifest = DraftFolder(store=LocalStore(), layout=layout, seal=seal, draw_sha256=draw).read_manifest()
        released = Release.from_json(manifest or b"").results
    figures = released["aggregates"]["count"] if of_means else released["linear_regression"]["slope"]
    if len(figures) != int(sys.argv[1]):
        raise RuntimeError("the release lacks groups")
    print(f"{growth:.0f}")


if __name__ == "__main__":
    main()
