from spark_jobs.mechanisms.streams.hierarchy import (
    HierarchyNoise as HierarchyNoise,
    HierarchyShape as HierarchyShape,
    HierarchyState as HierarchyState,
    HierarchySteps as HierarchySteps,
    release_hierarchy as release_hierarchy,
)
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState as LocalLevelState
from spark_jobs.mechanisms.streams.local_level import (
    LocalLevelShape as LocalLevelShape,
    LocalLevelSteps as LocalLevelSteps,
    filter_hierarchy as filter_hierarchy,
    filter_steps as filter_steps,
    filter_streams as filter_streams,
    release_filtered_steps as release_filtered_steps,
)
from spark_jobs.mechanisms.streams.open_groups import PegasusNoise as PegasusNoise, PegasusState as PegasusState
from spark_jobs.mechanisms.streams.pegasus import (
    PegasusShape as PegasusShape,
    PegasusSteps as PegasusSteps,
    release_steps as release_steps,
)
from spark_jobs.mechanisms.streams.smoothing import Smoother as Smoother, smooth as smooth
from spark_jobs.mechanisms.streams.window_filter import FilteredSums as FilteredSums, filtered_sums as filtered_sums
