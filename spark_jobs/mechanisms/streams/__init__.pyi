from spark_jobs.mechanisms.streams.level_filter import LocalLevelState as LocalLevelState
from spark_jobs.mechanisms.streams.local_level import (
    LocalLevelShape as LocalLevelShape,
    LocalLevelSteps as LocalLevelSteps,
    filter_hierarchy as filter_hierarchy,
    filter_steps as filter_steps,
    filter_streams as filter_streams,
    release_filtered_steps as release_filtered_steps,
)
from spark_jobs.mechanisms.streams.window_filter import FilteredSums as FilteredSums, filtered_sums as filtered_sums
