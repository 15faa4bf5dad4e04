"""Histograms to measure accuracy on: real ones where they are present, and synthetic ones."""

from __future__ import annotations

import numpy as np

from benchmarks._scored_tables import FOLDER
from benchmarks.harness import progress
from spark_jobs.arrays import Int64Array

Counts = Int64Array
REAL = "hist_bench.npz"


def shapes() -> dict[str, Counts]:
    """Name -> counts, of one or two dimensions."""
    histograms = _synthetic()
    if not (FOLDER / REAL).is_file():
        progress(f"SKIPPED: real histograms: {REAL} is not here; only synthetic ones are in the tables below")
        return histograms
    with np.load(FOLDER / REAL) as arrays:
        real = {name.rsplit("_", 1)[0].replace("_", " "): arrays[name].astype(np.int64) for name in arrays.files}
    return {**real, **histograms}


def at_scale(counts: Counts, rows: int, generator: np.random.Generator) -> Counts:
    """``rows`` rows drawn from the shape of a histogram, which is how DPBench varies the scale."""
    chances = counts.reshape(-1) / counts.sum()
    return generator.multinomial(rows, chances).reshape(counts.shape)


def _synthetic() -> dict[str, Counts]:
    generator = np.random.default_rng(2016)
    cells = np.arange(4096)
    smooth = np.sum([weight * np.exp(-(((cells - at) / width) ** 2)) for weight, at, width in _HILLS], axis=0)
    steps = np.repeat(generator.integers(0, 100, 40), 103)[:4096]
    zipf = generator.permutation(1e6 / np.arange(1, 4097))
    across = np.indices((64, 64))
    centres = generator.integers(0, 64, (6, 2))
    blobs = np.sum([np.exp(-((across[0] - a) ** 2 + (across[1] - b) ** 2) / 40) for a, b in centres], axis=0)
    return {
        "hills": (1000 * smooth).astype(np.int64),
        "steps": steps,
        "Zipf in no order": zipf.astype(np.int64),
        "blobs 64x64": (1000 * blobs).astype(np.int64),
    }


_HILLS = ((3.0, 600, 80), (1.0, 1500, 500), (2.0, 3000, 150))
