from spark_jobs.mechanisms.cell_sums import NoisyCellSums as NoisyCellSums, noisy_cell_sums as noisy_cell_sums
from spark_jobs.mechanisms.cells import NoisyCells as NoisyCells, noisy_cells as noisy_cells
from spark_jobs.mechanisms.continuous_noise import (
    PublicGrid as PublicGrid,
    SmoothNoise as SmoothNoise,
    cauchy_noise as cauchy_noise,
    laplace_noise as laplace_noise,
    polynomial_noise as polynomial_noise,
    student_t_noise as student_t_noise,
)
from spark_jobs.mechanisms.group_sums import NoisyGroups as NoisyGroups, noisy_groups as noisy_groups
from spark_jobs.mechanisms.k_norm import Body as Body
from spark_jobs.mechanisms.marginals import consistent as consistent
from spark_jobs.mechanisms.meter import (
    BudgetMeter as BudgetMeter,
    BudgetOverspent as BudgetOverspent,
    RhoMeter as RhoMeter,
    Spending as Spending,
)
from spark_jobs.mechanisms.moment_matrix import NoisyProducts as NoisyProducts, noisy_products as noisy_products
from spark_jobs.mechanisms.noise import (
    Noise as Noise,
    SecureNoise as SecureNoise,
    SeededNoise as SeededNoise,
    gaussian_stddev as gaussian_stddev,
    k_norm_scale as k_norm_scale,
    laplace_scale as laplace_scale,
    laplace_variance as laplace_variance,
)
from spark_jobs.mechanisms.prefix_sums import NoisyTree as NoisyTree, monotone as monotone, noisy_tree as noisy_tree
from spark_jobs.mechanisms.pure_release import pure_noise as pure_noise, release_pure as release_pure
from spark_jobs.mechanisms.quantiles import (
    RecursiveMedians as RecursiveMedians,
    private_quantile as private_quantile,
    recursive_medians as recursive_medians,
    tree_quantiles as tree_quantiles,
)
from spark_jobs.mechanisms.regression.lines import NoisyLines as NoisyLines
from spark_jobs.mechanisms.regression.moments import (
    NoisyMoments as NoisyMoments,
    noisy_moments as noisy_moments,
    noisy_moments_zcdp as noisy_moments_zcdp,
)
from spark_jobs.mechanisms.regression.noisy_intercept import noisy_intercept as noisy_intercept
from spark_jobs.mechanisms.regression.sums import GroupSums as GroupSums
from spark_jobs.mechanisms.selection import (
    exponential_mechanism as exponential_mechanism,
    interval_exponential as interval_exponential,
    median_by_exponential as median_by_exponential,
    permute_and_flip as permute_and_flip,
    report_noisy_max as report_noisy_max,
)
from spark_jobs.mechanisms.smooth_sensitivity import (
    auc_bound as auc_bound,
    auc_fraction as auc_fraction,
    average_precision_bound as average_precision_bound,
    median_bound as median_bound,
    pairwise_median_bound as pairwise_median_bound,
    release_auc as release_auc,
    release_average_precision as release_average_precision,
    release_median as release_median,
)
from spark_jobs.mechanisms.smoothing import smooth_1norm as smooth_1norm, smooth_2norm as smooth_2norm
from spark_jobs.mechanisms.sparse_vector import (
    SparseVectorAnswers as SparseVectorAnswers,
    above_threshold as above_threshold,
    first_crossing as first_crossing,
    merge_cells as merge_cells,
    to_steps as to_steps,
)
from spark_jobs.mechanisms.trees import Tree as Tree, best_tree as best_tree
from spark_jobs.mechanisms.weighted_sums import (
    CellWeights as CellWeights,
    WeightedSum as WeightedSum,
    weighted_sum as weighted_sum,
)
from spark_jobs.mechanisms.zcdp import epsilon_of as epsilon_of, rho_within as rho_within
