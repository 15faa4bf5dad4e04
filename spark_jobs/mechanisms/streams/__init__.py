"""Counts that are released as they arrive, with the state that is kept between steps."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.mechanisms.streams.hierarchy import HierarchyNoise as HierarchyNoise
    from spark_jobs.mechanisms.streams.hierarchy import HierarchyShape as HierarchyShape
    from spark_jobs.mechanisms.streams.hierarchy import HierarchyState as HierarchyState
    from spark_jobs.mechanisms.streams.hierarchy import HierarchySteps as HierarchySteps
    from spark_jobs.mechanisms.streams.hierarchy import release_hierarchy as release_hierarchy
    from spark_jobs.mechanisms.streams.level_filter import LocalLevelState as LocalLevelState
    from spark_jobs.mechanisms.streams.local_level import LocalLevelShape as LocalLevelShape
    from spark_jobs.mechanisms.streams.local_level import LocalLevelSteps as LocalLevelSteps
    from spark_jobs.mechanisms.streams.local_level import filter_hierarchy as filter_hierarchy
    from spark_jobs.mechanisms.streams.local_level import filter_steps as filter_steps
    from spark_jobs.mechanisms.streams.local_level import filter_streams as filter_streams
    from spark_jobs.mechanisms.streams.local_level import release_filtered_steps as release_filtered_steps
    from spark_jobs.mechanisms.streams.open_groups import PegasusNoise as PegasusNoise
    from spark_jobs.mechanisms.streams.open_groups import PegasusState as PegasusState
    from spark_jobs.mechanisms.streams.pegasus import PegasusShape as PegasusShape
    from spark_jobs.mechanisms.streams.pegasus import PegasusSteps as PegasusSteps
    from spark_jobs.mechanisms.streams.pegasus import release_steps as release_steps
    from spark_jobs.mechanisms.streams.smoothing import Smoother as Smoother
    from spark_jobs.mechanisms.streams.smoothing import smooth as smooth
    from spark_jobs.mechanisms.streams.window_filter import FilteredSums as FilteredSums
    from spark_jobs.mechanisms.streams.window_filter import filtered_sums as filtered_sums
    from spark_jobs.mechanisms.streams.windows import jumps as jumps
    from spark_jobs.mechanisms.streams.windows import low_signals as low_signals
    from spark_jobs.mechanisms.streams.windows import monitor as monitor
    from spark_jobs.mechanisms.streams.windows import window_sums as window_sums
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "hierarchy": "HierarchyNoise HierarchyShape HierarchyState HierarchySteps release_hierarchy",
            "level_filter": "LocalLevelState",
            "local_level": "LocalLevelShape LocalLevelSteps filter_hierarchy filter_steps filter_streams "
            "release_filtered_steps",
            "open_groups": "PegasusNoise PegasusState",
            "pegasus": "PegasusShape PegasusSteps release_steps",
            "smoothing": "Smoother smooth",
            "window_filter": "FilteredSums filtered_sums",
            "windows": "jumps low_signals monitor window_sums",
        },
    )
