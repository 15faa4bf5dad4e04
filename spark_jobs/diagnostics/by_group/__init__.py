"""The diagnostics of scores in each group of a public list, such as regions or age bands, and tests of equal groups.

Each group gets a measurement of its own (``_shared_groups``), from which every requested kind is computed as if the
group were a table. If the groups are few, the measurements of the groups are parts of the one measurement that other
diagnostics of the request share. Single figures are compared between the groups: rates, areas, mean residuals.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``), however many
groups there are: a row lies in one group only. See ``measurement.measure_by_group`` for the proof.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> labels, scores = [0, 1] * 5000, [0.2, 0.7] * 5000
    >>> statistic = GroupedScoreCounts.from_arrays(labels, scores, ["a"] * 4000 + ["b"] * 6000, keys=["a", "b"])
    >>> result = release(statistic, epsilon=1, noise=SeededNoise(1), kinds=("auc",))
    >>> result.keys, result.status, [round(results["auc"].figure.number, 1) for results in result.results[:2]]
    (('a', 'b', 'other'), ('ok', 'ok', 'undefined'), [1.0, 1.0])
    >>> tuple(comparison.figure for comparison in result.comparisons)
    ('positive_rate', 'auc')
"""

from __future__ import annotations

from spark_jobs.contract.options import ByGroupOptions, ByGroupSettings
from spark_jobs.contract.results.groups import ByGroup, GroupComparison
from spark_jobs.diagnostics.by_group.influences import influences
from spark_jobs.diagnostics.by_group.measurement import ByGroupDraw, groups_of_shared, measure_by_group
from spark_jobs.diagnostics.by_group.summary import summarise
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import GroupedScoreCounts

__all__ = ["DIAGNOSTIC", "ByGroup", "ByGroupDraw", "GroupComparison", "measure", "release", "summarise"]


class Call(ByGroupSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=ByGroupOptions,
    call=Call,
    measurement=Measurement[GroupedScoreCounts, ByGroupDraw](draw=ByGroupDraw, measure=measure_by_group),
    summarise=summarise,
    read_shared=groups_of_shared,
    influences=influences,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
