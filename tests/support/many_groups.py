"""The end of a charged release of many groups, in a process of its own: ``python -m tests.support.many_groups N``.

Prints the growth of the largest resident size, in MiB, from made-up sums to the stored draft. With ``as-lists``, the
results are lists and the manifest is one text before it is stored, which is the fault that a test must find.
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
from spark_jobs.statistics import Moments
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
    asked = lines_request(int(sys.argv[1]))
    exact: Any = {asked.statistics[0]: sums(asked, rows=1000)}
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
        fit = Release.from_json(manifest or b"").results["linear_regression"]
    if len(fit["slope"]) != int(sys.argv[1]):
        raise RuntimeError("the release lacks lines")
    print(f"{growth:.0f}")


if __name__ == "__main__":
    main()
