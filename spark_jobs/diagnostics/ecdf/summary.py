"""The summary of a draw as a released distribution function; deterministic post-processing, at no cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.contract.results.values import EcdfComparison, Quantile
from spark_jobs.diagnostics.ecdf.distance import SMOOTHERS, TEST_COPIES, distance_between, distance_to, reference_cdf
from spark_jobs.diagnostics.ecdf.earlier import Earlier
from spark_jobs.diagnostics.ecdf.measurement import EcdfDraw
from spark_jobs.diagnostics.ecdf.noise_model import COPIES, NoiseModel, band_widths
from spark_jobs.diagnostics.ecdf.result import Ecdf, in_any_place
from spark_jobs.mechanisms.noise import SeededNoise


def summarise(measurement: EcdfDraw, *, seed: int) -> Ecdf:
    """The distribution function of a draw; the same draw and seed give the same result.

    Args:
        measurement: the draw.
        seed: public seed of the simulations for bands, intervals and tests.
    """
    prefix = measurement.tree.prefix_counts()[1:]
    size = float(prefix[-1]) if measurement.tree.total is None else float(measurement.tree.total)
    cells = prefix.size
    function = _without_bands(measurement, np.arange(1, cells + 1) / cells, size)
    if function.status == UNDEFINED:
        return _undefined(function, measurement, seed)
    smoother = SMOOTHERS[measurement.smoothing]
    cdf = smoother(prefix / size, total=1.0)
    cdf = np.round(cdf, DECIMALS)
    cdf[-1] = 1.0
    function = replace(function, function=Figure(value=cdf))
    widths = band_widths(
        function.noise, cdf, smoother=smoother, confidence=measurement.confidence,
        copies=min(COPIES, TEST_COPIES[measurement.smoothing]), noise=SeededNoise(seed),
    )  # fmt: skip
    bands = [_around(cdf, width) for width in (widths.single, np.maximum(widths.single, widths.largest))]
    single, whole = map(in_any_place, bands) if function.in_cells else bands
    # the band of the whole function contains the other
    everywhere = Ends(np.minimum(single.lower, whole.lower), np.maximum(single.upper, whole.upper))
    function = replace(function, function=Figure(value=cdf, interval=single, everywhere=everywhere))
    low, high = function.quantile_interval(measurement.quantiles)
    quantiles = tuple(
        Quantile(level=level, figure=Figure(value=float(value), interval=Ends(float(lower), float(upper))))
        for level, value, lower, upper in zip(
            measurement.quantiles, function.quantile(measurement.quantiles), low, high, strict=True
        )
    )
    reference = measurement.reference
    distance = None if reference is None else distance_to(function, reference_cdf(reference), seed=seed)
    return replace(
        function, quantiles=quantiles, distance=distance, comparison=_comparison(function, measurement, seed)
    )


def _undefined(function: Ecdf, measurement: EcdfDraw, seed: int) -> Ecdf:
    quantiles = tuple(Quantile(level=level, figure=Figure(value=None)) for level in measurement.quantiles)
    reference = measurement.reference
    distance = None if reference is None else distance_to(function, reference_cdf(reference), seed=seed)
    comparison = _comparison(function, measurement, seed)
    return replace(function, quantiles=quantiles, distance=distance, comparison=comparison)


def _comparison(function: Ecdf, measurement: EcdfDraw, seed: int) -> EcdfComparison | None:
    """The comparison with the request's earlier release. Both are public, so it costs nothing."""
    requested = measurement.compare_with
    if requested is None:
        return None
    earlier = Earlier.of(requested)
    return EcdfComparison(
        released_by=requested.released_by,
        named=requested.named,
        status=requested.status,
        cdf=earlier.cdf,
        distance=distance_between(function, earlier, seed=seed),
    )


def _without_bands(measurement: EcdfDraw, cdf: FloatArray, size: float) -> Ecdf:
    edges = measurement.grid.edges[measurement.cuts]
    tree = measurement.tree
    noise = NoiseModel(tree=tree.tree, scale=tree.scale, rows=max(size, 1.0))
    return Ecdf(
        values=edges[:-1],
        function=Figure(value=cdf, interval=Ends(cdf, cdf), everywhere=Ends(cdf, cdf)),
        bounds=(float(edges[0]), float(edges[-1])),
        bounds_found=measurement.bounds_found,
        searched=measurement.searched,
        quantiles=(),
        distance=None,
        comparison=None,
        rows=round(max(size, 0.0), DECIMALS),
        named=measurement.named,
        status=OK if size >= max(1.0, DEFINED_ABOVE * noise.total_stddev) else UNDEFINED,
        smoothing=measurement.smoothing,
        confidence=measurement.confidence,
        points=measurement.points,
        grid=measurement.grid,
        cuts=measurement.cuts,
        noise=noise,
        rounding=measurement.rounding,
        **measurement.stated,
    )


def _around(cdf: FloatArray, width: FloatArray) -> Ends[FloatArray]:
    """A band of half-width ``width`` around ``cdf``, clipped to [0, 1] and widened until both ends are monotone."""
    low = np.minimum.accumulate((cdf - width)[::-1])[::-1]
    high = np.maximum.accumulate(cdf + width)
    bands = [np.round(np.clip(band, 0.0, 1.0), DECIMALS) for band in (low, high)]
    for band in bands:
        band[-1] = 1.0  # all rows are at most the last value
    return Ends(np.minimum(bands[0], cdf), np.maximum(bands[1], cdf))
