from spark_jobs.papers.regression.gradient_descent import (
    gradient_descent as gradient_descent,
    gradient_descent_zcdp as gradient_descent_zcdp,
)
from spark_jobs.papers.regression.noisy_stats import (
    noisy_stats as noisy_stats,
    noisy_stats_zcdp as noisy_stats_zcdp,
)
from spark_jobs.papers.regression.theil_sen import theil_sen as theil_sen
from spark_jobs.papers.streams.hierarchy import (
    HierarchyNoise as HierarchyNoise,
    HierarchyShape as HierarchyShape,
    HierarchyState as HierarchyState,
    HierarchySteps as HierarchySteps,
    release_hierarchy as release_hierarchy,
)
from spark_jobs.papers.streams.open_groups import PegasusNoise as PegasusNoise, PegasusState as PegasusState
from spark_jobs.papers.streams.pegasus import (
    PegasusShape as PegasusShape,
    PegasusSteps as PegasusSteps,
    release_steps as release_steps,
)
from spark_jobs.papers.streams.pruning import refined_levels as refined_levels, refined_nodes as refined_nodes
from spark_jobs.papers.streams.smoothing import Smoother as Smoother, smooth as smooth
