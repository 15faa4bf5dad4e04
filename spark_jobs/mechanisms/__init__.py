"""Exact counts to noisy ones, each with its guarantee: the only place where randomness is drawn."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.mechanisms.cell_sums import NoisyCellSums as NoisyCellSums
    from spark_jobs.mechanisms.cell_sums import noisy_cell_sums as noisy_cell_sums
    from spark_jobs.mechanisms.cells import NoisyCells as NoisyCells
    from spark_jobs.mechanisms.cells import noisy_cells as noisy_cells
    from spark_jobs.mechanisms.continuous_noise import PublicGrid as PublicGrid
    from spark_jobs.mechanisms.continuous_noise import SmoothNoise as SmoothNoise
    from spark_jobs.mechanisms.continuous_noise import cauchy_noise as cauchy_noise
    from spark_jobs.mechanisms.continuous_noise import laplace_noise as laplace_noise
    from spark_jobs.mechanisms.continuous_noise import polynomial_noise as polynomial_noise
    from spark_jobs.mechanisms.continuous_noise import student_t_noise as student_t_noise
    from spark_jobs.mechanisms.group_sums import NoisyGroups as NoisyGroups
    from spark_jobs.mechanisms.group_sums import noisy_groups as noisy_groups
    from spark_jobs.mechanisms.k_norm import Body as Body
    from spark_jobs.mechanisms.marginals import consistent as consistent
    from spark_jobs.mechanisms.meter import BudgetMeter as BudgetMeter
    from spark_jobs.mechanisms.meter import BudgetOverspent as BudgetOverspent
    from spark_jobs.mechanisms.meter import RhoMeter as RhoMeter
    from spark_jobs.mechanisms.meter import Spending as Spending
    from spark_jobs.mechanisms.moment_matrix import NoisyProducts as NoisyProducts
    from spark_jobs.mechanisms.moment_matrix import noisy_products as noisy_products
    from spark_jobs.mechanisms.noise import Noise as Noise
    from spark_jobs.mechanisms.noise import SecureNoise as SecureNoise
    from spark_jobs.mechanisms.noise import SeededNoise as SeededNoise
    from spark_jobs.mechanisms.noise import gaussian_stddev as gaussian_stddev
    from spark_jobs.mechanisms.noise import k_norm_scale as k_norm_scale
    from spark_jobs.mechanisms.noise import laplace_scale as laplace_scale
    from spark_jobs.mechanisms.noise import laplace_variance as laplace_variance
    from spark_jobs.mechanisms.prefix_stream import StreamShape as StreamShape
    from spark_jobs.mechanisms.prefix_stream import StreamState as StreamState
    from spark_jobs.mechanisms.prefix_stream import release_step as release_step
    from spark_jobs.mechanisms.prefix_sums import NoisyTree as NoisyTree
    from spark_jobs.mechanisms.prefix_sums import monotone as monotone
    from spark_jobs.mechanisms.prefix_sums import noisy_tree as noisy_tree
    from spark_jobs.mechanisms.pruning import refined_levels as refined_levels
    from spark_jobs.mechanisms.pruning import refined_nodes as refined_nodes
    from spark_jobs.mechanisms.pure_release import pure_noise as pure_noise
    from spark_jobs.mechanisms.pure_release import release_pure as release_pure
    from spark_jobs.mechanisms.quantiles import RecursiveMedians as RecursiveMedians
    from spark_jobs.mechanisms.quantiles import private_quantile as private_quantile
    from spark_jobs.mechanisms.quantiles import recursive_medians as recursive_medians
    from spark_jobs.mechanisms.quantiles import tree_quantiles as tree_quantiles
    from spark_jobs.mechanisms.regression.gradient_descent import gradient_descent as gradient_descent
    from spark_jobs.mechanisms.regression.gradient_descent import gradient_descent_zcdp as gradient_descent_zcdp
    from spark_jobs.mechanisms.regression.lines import NoisyLines as NoisyLines
    from spark_jobs.mechanisms.regression.moments import NoisyMoments as NoisyMoments
    from spark_jobs.mechanisms.regression.moments import noisy_moments as noisy_moments
    from spark_jobs.mechanisms.regression.moments import noisy_moments_zcdp as noisy_moments_zcdp
    from spark_jobs.mechanisms.regression.noisy_intercept import noisy_intercept as noisy_intercept
    from spark_jobs.mechanisms.regression.noisy_stats import noisy_stats as noisy_stats
    from spark_jobs.mechanisms.regression.noisy_stats import noisy_stats_zcdp as noisy_stats_zcdp
    from spark_jobs.mechanisms.regression.sums import GroupSums as GroupSums
    from spark_jobs.mechanisms.regression.theil_sen import theil_sen as theil_sen
    from spark_jobs.mechanisms.selection import exponential_mechanism as exponential_mechanism
    from spark_jobs.mechanisms.selection import interval_exponential as interval_exponential
    from spark_jobs.mechanisms.selection import median_by_exponential as median_by_exponential
    from spark_jobs.mechanisms.selection import permute_and_flip as permute_and_flip
    from spark_jobs.mechanisms.selection import report_noisy_max as report_noisy_max
    from spark_jobs.mechanisms.shared_node_smoothing import smooth_shared_nodes as smooth_shared_nodes
    from spark_jobs.mechanisms.shared_nodes import SharedNodePrefixes as SharedNodePrefixes
    from spark_jobs.mechanisms.shared_nodes import shared_node_prefixes as shared_node_prefixes
    from spark_jobs.mechanisms.smooth_sensitivity import auc_bound as auc_bound
    from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction as auc_fraction
    from spark_jobs.mechanisms.smooth_sensitivity import average_precision_bound as average_precision_bound
    from spark_jobs.mechanisms.smooth_sensitivity import median_bound as median_bound
    from spark_jobs.mechanisms.smooth_sensitivity import pairwise_median_bound as pairwise_median_bound
    from spark_jobs.mechanisms.smooth_sensitivity import release_auc as release_auc
    from spark_jobs.mechanisms.smooth_sensitivity import release_average_precision as release_average_precision
    from spark_jobs.mechanisms.smooth_sensitivity import release_median as release_median
    from spark_jobs.mechanisms.smoothing import smooth_1norm as smooth_1norm
    from spark_jobs.mechanisms.smoothing import smooth_2norm as smooth_2norm
    from spark_jobs.mechanisms.sparse_vector import SparseVectorAnswers as SparseVectorAnswers
    from spark_jobs.mechanisms.sparse_vector import above_threshold as above_threshold
    from spark_jobs.mechanisms.sparse_vector import first_crossing as first_crossing
    from spark_jobs.mechanisms.sparse_vector import merge_cells as merge_cells
    from spark_jobs.mechanisms.sparse_vector import to_steps as to_steps
    from spark_jobs.mechanisms.square_root import SquareRootPrefixes as SquareRootPrefixes
    from spark_jobs.mechanisms.square_root import square_root_prefixes as square_root_prefixes
    from spark_jobs.mechanisms.trees import Tree as Tree
    from spark_jobs.mechanisms.trees import best_tree as best_tree
    from spark_jobs.mechanisms.weighted_sums import CellWeights as CellWeights
    from spark_jobs.mechanisms.weighted_sums import WeightedSum as WeightedSum
    from spark_jobs.mechanisms.weighted_sums import weighted_sum as weighted_sum
    from spark_jobs.mechanisms.zcdp import epsilon_of as epsilon_of
    from spark_jobs.mechanisms.zcdp import rho_within as rho_within
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "cell_sums": "NoisyCellSums noisy_cell_sums",
            "cells": "NoisyCells noisy_cells",
            "continuous_noise": "PublicGrid SmoothNoise cauchy_noise laplace_noise polynomial_noise student_t_noise",
            "group_sums": "NoisyGroups noisy_groups",
            "k_norm": "Body",
            "marginals": "consistent",
            "meter": "BudgetMeter BudgetOverspent RhoMeter Spending",
            "moment_matrix": "NoisyProducts noisy_products",
            "noise": "Noise SecureNoise SeededNoise gaussian_stddev k_norm_scale laplace_scale laplace_variance",
            "prefix_stream": "StreamShape StreamState release_step",
            "prefix_sums": "NoisyTree monotone noisy_tree",
            "pruning": "refined_levels refined_nodes",
            "pure_release": "pure_noise release_pure",
            "quantiles": "RecursiveMedians private_quantile recursive_medians tree_quantiles",
            "regression.gradient_descent": "gradient_descent gradient_descent_zcdp",
            "regression.lines": "NoisyLines",
            "regression.moments": "NoisyMoments noisy_moments noisy_moments_zcdp",
            "regression.noisy_intercept": "noisy_intercept",
            "regression.noisy_stats": "noisy_stats noisy_stats_zcdp",
            "regression.sums": "GroupSums",
            "regression.theil_sen": "theil_sen",
            "selection": (
                "exponential_mechanism interval_exponential median_by_exponential permute_and_flip report_noisy_max"
            ),
            "shared_node_smoothing": "smooth_shared_nodes",
            "shared_nodes": "SharedNodePrefixes shared_node_prefixes",
            "smooth_sensitivity": (
                "auc_bound auc_fraction average_precision_bound median_bound pairwise_median_bound"
                " release_auc release_average_precision release_median"
            ),
            "smoothing": "smooth_1norm smooth_2norm",
            "sparse_vector": "SparseVectorAnswers above_threshold first_crossing merge_cells to_steps",
            "square_root": "SquareRootPrefixes square_root_prefixes",
            "trees": "Tree best_tree",
            "weighted_sums": "CellWeights WeightedSum weighted_sum",
            "zcdp": "epsilon_of rho_within",
        },
    )
