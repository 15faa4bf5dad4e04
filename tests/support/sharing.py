"""Shared measurements, with their terms as keywords."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from spark_jobs.contract.options import DIAGNOSTICS, Options
from spark_jobs.diagnostics._shared_groups import measurement
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.statistics import ScoreCounts


def measure_shared(
    statistic: ScoreCounts, *, kinds: Collection[str] = (), diagnostics: Sequence[Options] = (), **terms: Any
) -> measurement.SharedGroups:
    """The draw that diagnostics of these kinds, with default options, and ``diagnostics`` share."""
    by_kind = [DIAGNOSTICS[kind](kind=kind) for kind in kinds]
    return measurement.measure_shared(statistic, (*by_kind, *diagnostics), Terms(**terms))


def read_as(options: Options, shared: measurement.SharedGroups) -> Any:
    """The draw of the diagnostic that ``options`` ask for, read from a shared one."""
    read_shared = diagnostic(options.kind).read_shared
    if read_shared is None:
        raise TypeError(f"{options.kind} cannot share")
    return read_shared(options, shared)
