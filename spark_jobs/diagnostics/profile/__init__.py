"""A private profile of a table: for each column the shares of nulls and values, a histogram, mean and quantiles.

Each column is one histogram over public cells: its listed values, bins or periods, and cells for rows without a value,
with text that does not parse, or with another value. Two columns may be counted together. All figures are computed from
the noisy histograms, at no further cost.

Guarantee: ``epsilon``-DP for one row added, removed or replaced. See ``measurement.measure_profile`` for the proof.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> rows = {"age": [20, 30, 40, None] * 1000, "plan": ["a", "b", "a", "a"] * 1000}
    >>> of = [{"column": "age", "bounds": [0, 100], "step": 1}, {"column": "plan", "values": ["a", "b"]}]
    >>> released = release(ProfileCounts.from_arrays(rows, of=of), epsilon=100, noise=SeededNoise(1))
    >>> age, plan = released.columns
    >>> round(age.missing.value, 2), round(age.mean.value), plan.shares.value.round(2).tolist(), released.guarantee
    (0.25, 30, [0.75, 0.25], 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options.profile import ProfileOptions, ProfileSettings
from spark_jobs.contract.results.profile import ColumnProfile, PairProfile, Profile
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.profile.measurement import ProfileDraw, measure_profile
from spark_jobs.diagnostics.profile.summary import summarise
from spark_jobs.statistics import ProfileCounts

__all__ = ["DIAGNOSTIC", "ColumnProfile", "PairProfile", "Profile", "ProfileDraw", "measure", "release", "summarise"]


class Call(ProfileSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=ProfileOptions,
    call=Call,
    measurement=Measurement[ProfileCounts | tuple[ProfileCounts, ...], ProfileDraw](
        draw=ProfileDraw, measure=measure_profile
    ),
    summarise=summarise,
    of_population=False,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
