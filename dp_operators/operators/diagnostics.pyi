# Written by `python -m tests.support.operator_source`; do not edit.
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, Unpack

from dp_operators.operators.diagnostic import DiagnosticOperator, Later

class TaskArguments(TypedDict, total=False):
    """The parameters of every Airflow task; Airflow documents and checks them."""

    task_id: Required[str]
    allow_nested_operators: Any
    dag: Any
    default_args: Any
    depends_on_past: Any
    do_xcom_push: Any
    doc: Any
    doc_json: Any
    doc_md: Any
    doc_rst: Any
    doc_yaml: Any
    email: Any
    email_on_failure: Any
    email_on_retry: Any
    end_date: Any
    execution_timeout: Any
    executor: Any
    executor_config: Any
    ignore_first_depends_on_past: Any
    inlets: Any
    logger_name: Any
    map_index_template: Any
    max_active_tis_per_dag: Any
    max_active_tis_per_dagrun: Any
    max_retry_delay: Any
    multiple_outputs: Any
    on_execute_callback: Any
    on_failure_callback: Any
    on_retry_callback: Any
    on_skipped_callback: Any
    on_success_callback: Any
    outlets: Any
    owner: Any
    params: Any
    pool: Any
    pool_slots: Any
    post_execute: Any
    pre_execute: Any
    priority_weight: Any
    queue: Any
    render_template_as_native_obj: Any
    resources: Any
    retries: Any
    retry_delay: Any
    retry_exponential_backoff: Any
    retry_policy: Any
    run_as_user: Any
    sla: Any
    start_date: Any
    task_display_name: Any
    task_group: Any
    trigger_rule: Any
    wait_for_downstream: Any
    wait_for_past_depends_before_skipping: Any
    weight_rule: Any

class ReleaseArguments(TaskArguments, total=False):
    """The parameters of a release; ``ReleaseDiagnosticsOperator`` documents them."""

    account: str | None
    table: Mapping[str, Any] | None
    label: str | Mapping[str, Any] | None
    model: str | Mapping[str, Any] | None
    epsilon: object
    delta: object
    rho: object
    neighbours: str | None
    unit: Mapping[str, Any] | None
    where: str | None
    output: str | None
    blocks: str | Sequence[str] | None
    title: str | None
    record: str | None
    scoring: Mapping[str, Any] | None
    federation: str | None
    input_suite: Mapping[str, Any] | None
    row_id: str | None
    runner: str
    master: str | None
    spark_conn_id: str
    conf: Mapping[str, Any] | None
    private_dir: str | None
    privacy_ledger_conn_id: str
    deployment: str | None
    allotment: str | None
    on_exhausted: Literal["wait", "fail", "skip"] | None
    on_undefined: str
    gate: str | None
    dry_run: bool
    deferrable: bool | None

class RocCurveOperator(DiagnosticOperator):
    """Releases one ``roc_curve``: ROC curve with AUC and bands.

    Args:
        method: how the counted cells are chosen; see ``spark_jobs.diagnostics.roc_curve``. ``recursive_medians`` spends
            delta.
        thresholds: the number of cells of [0, 1] on which the curve is released; None lets the method choose it from
            public facts.
        confidence: nominal level of the band and of the AUC's interval.
        histogram: the mechanism that releases the counts of ``fixed_cells`` and ``recursive_medians``, a name of
            ``spark_jobs.mechanisms.histograms``; None for a tree of counts, whose noise has a known distribution.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "tree", "fixed_cells", "equi_depth", "recursive_medians"] | Later = "auto",
        thresholds: int | Later | None = None,
        confidence: float | Later = 0.9,
        histogram: Literal[
            "adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "shrunken_tree", "uniform"
        ]
        | Later
        | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class BinnedResidualsOperator(DiagnosticOperator):
    """Releases one ``binned_residuals``: binned residuals with error bars and a test of fit.

    Args:
        method: how the bins are chosen; see the diagnostic's package. Only ``auto`` can share a measurement.
        bins: the number of bins; None for the diagnostic's default. Recursive medians need a power of two.
        confidence: nominal level of intervals and acceptance zones.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "recursive_medians", "fixed_bins"] | Later = "auto",
        bins: int | Later | None = None,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class CalibrationOperator(DiagnosticOperator):
    """Releases one ``calibration``: reliability diagram with the Hosmer-Lemeshow test and the expected calibration
    error.

    Args:
        method: how the bins are chosen; see the diagnostic's package. Only ``auto`` can share a measurement.
        bins: the number of bins; None for the diagnostic's default. Recursive medians need a power of two.
        confidence: nominal level of intervals and acceptance zones.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "recursive_medians", "fixed_bins"] | Later = "auto",
        bins: int | Later | None = None,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class RocComparisonOperator(DiagnosticOperator):
    """Releases one ``roc_comparison``: the ROC curves of two models, the difference of their AUCs with intervals, and a
    test of whether it is 0.

    Args:
        names: the names of the two models in the report, the request's model first; None for "first model" and "second
            model", or "first model" and "earlier release".
        compare_with: the ROC curve of an earlier release, which takes the place of a second model's curve. A request
            names the release, ``{"release": URI}``; ``dp_operators.releasing`` fills in the curve from the manifest.
        confidence: nominal level of bands and intervals.
        other: the second model, on the same rows; it cannot be a saved pipeline. The first is the request's ``model``.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        names: Sequence[str] | Later | None = None,
        compare_with: str | Mapping[str, Any] | Later | None = None,
        confidence: float | Later = 0.9,
        other: Mapping[str, Any] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class AucOperator(DiagnosticOperator):
    """Releases one ``auc``: area under the ROC curve.

    Args:
        method: how noise is scaled; see ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to spend a small part of the budget on noisy class sizes, which the interval needs; the method
            ``auto`` always does.
        confidence: nominal level of the interval.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] | Later = "auto",
        interval: bool | Later = True,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class AveragePrecisionOperator(DiagnosticOperator):
    """Releases one ``average_precision``: average precision, the area under the precision-recall curve, by steps.

    Args:
        method: how noise is scaled; see ``spark_jobs.diagnostics.average_precision``. ``laplace`` spends delta;
            ``weighted_counts`` releases counts, and one sum over all rows with weights that these counts determine.
        interval: for a direct release: whether to spend a small part of the budget on noisy class sizes, which the
            interval needs.
        confidence: nominal level of the interval.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "polynomial", "cauchy", "laplace", "counts", "weighted_counts"] | Later = "auto",
        interval: bool | Later = True,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class BinormalRocOperator(DiagnosticOperator):
    """Releases one ``binormal_roc``: symmetric binormal ROC curve through a private AUC.

    Args:
        method: the method of the AUC, as in ``AucSettings``.
        points: the number of points of the curve.
        confidence: nominal level of the band.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] | Later = "auto",
        points: int | Later = 201,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class ConfusionMatrixOperator(DiagnosticOperator):
    """Releases one ``confusion_matrix``: confusion matrices at given thresholds, with the rates that follow from them.

    Args:
        thresholds: a row counts as positive if its score is at least this; from 0 to 1, ascending.
        confidence: nominal level of the intervals.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        thresholds: Sequence[float] | Later = (0.5,),
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class RankingFiguresOperator(DiagnosticOperator):
    """Releases one ``ranking_figures``: precision-recall curve, gains and lift, KS, Gini, and the threshold of least
    cost.

    Args:
        depths: fractions of all rows, those with the highest scores first, for gains and lift; above 0, at most 1,
            ascending.
        points: the number of recalls at which the precision is given: the midpoints of as many equal parts of [0, 1].
        false_positive_cost: the cost of a negative row that is predicted positive.
        false_negative_cost: the cost of a positive row that is predicted negative.
        confidence: nominal level of intervals and bands.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        depths: Sequence[float] | Later = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        points: int | Later = 50,
        false_positive_cost: float | Later = 1.0,
        false_negative_cost: float | Later = 1.0,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class RecalibrationOperator(DiagnosticOperator):
    """Releases one ``recalibration``: brier score, log loss, calibration slope and intercept, and a map that
    recalibrates scores.

    Args:
        clip: scores are clipped to [clip, 1 - clip] for the log loss, which would otherwise be unbounded, and wherever
            log-odds are taken: for the slope, the intercept and the map.
        confidence: nominal level of intervals and bands.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        clip: float | Later = 0.001,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class ByGroupOperator(DiagnosticOperator):
    """Releases one ``by_group``: diagnostics of scores for each group of a public list, at the cost of one release, and
    comparisons of the groups.

    Args:
        kinds: the diagnostics of scores that each group gets: kinds, or kinds with their options. All of them are read
            from one noisy release of the group.
        confidence: nominal level of the intervals by which groups are compared.
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups, in the order in which they are released: texts or whole numbers, which are
            compared with the column as text. All other rows form the group ``other``.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        kinds: str | Sequence[str | Mapping[str, Any]] | Later,
        group_by: str | Later,
        confidence: float | Later = 0.9,
        groups: Sequence[str | int] | Mapping[str, Any] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class EcdfOperator(DiagnosticOperator):
    """Releases one ``ecdf``: distribution function with its inverse, of a column or of the model's scores.

    Args:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. If None, an ``ecdf`` spends a part of its budget on finding them,
            a ``quantile`` uses a very wide grid at no further cost, and ``cdf_points`` is refused.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        value_unit: the smallest size that matters; only with the scale ``log``, or without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance between consecutive values, if all values are whole steps from the lower bound, such as 1 for
            whole numbers and 0.01 for cents; each cell then has a whole number of values.
        points: the number of rows of the released summary; the data file has every cell.
        smoothing: the norm in which noisy fractions are made monotone.
        confidence: nominal level of bands and intervals.
        quantiles: levels whose quantiles are reported, in [0, 1].
        reference: a distribution with which the values are compared, by the Kolmogorov-Smirnov distance.
        compare_with: the distribution function of an earlier release on the same grid, with which the values are
            compared in the same way. A request names the release, ``{"release": URI}``; ``dp_operators.releasing``
            fills in the function from the committed manifest.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        column: str | Later | None = None,
        bounds: Sequence[float] | Later | None = None,
        scale: Literal["linear", "log"] | Later = "linear",
        value_unit: float | Later | None = None,
        cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] | Later = 32768,
        step: float | Later | None = None,
        points: int | Later = 512,
        smoothing: Literal["2-norm", "1-norm"] | Later = "2-norm",
        confidence: float | Later = 0.9,
        quantiles: Sequence[float] | Later = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
        reference: Mapping[str, Any] | Later | None = None,
        compare_with: str | Mapping[str, Any] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class QuantileOperator(DiagnosticOperator):
    """Releases one ``quantile``: one quantile of a column or of the model's scores, far more accurate than one read
    from a distribution function.

    Args:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. If None, an ``ecdf`` spends a part of its budget on finding them,
            a ``quantile`` uses a very wide grid at no further cost, and ``cdf_points`` is refused.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        value_unit: the smallest size that matters; only with the scale ``log``, or without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance between consecutive values, if all values are whole steps from the lower bound, such as 1 for
            whole numbers and 0.01 for cents; each cell then has a whole number of values.
        level: the share of the rows that do not exceed the quantile, with at most six decimals; 0.5 for the median.
        interval: whether half of the budget pays for an interval; without one, all of it is for the value.
        confidence: nominal level of the interval.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        column: str | Later | None = None,
        bounds: Sequence[float] | Later | None = None,
        scale: Literal["linear", "log"] | Later = "linear",
        value_unit: float | Later | None = None,
        cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] | Later = 32768,
        step: float | Later | None = None,
        level: float | Later = 0.5,
        interval: bool | Later = True,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class CdfPointsOperator(DiagnosticOperator):
    """Releases one ``cdf_points``: distribution function at chosen thresholds, and quantiles by search, of a column or
    of the model's scores.

    Args:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. If None, an ``ecdf`` spends a part of its budget on finding them,
            a ``quantile`` uses a very wide grid at no further cost, and ``cdf_points`` is refused.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        value_unit: the smallest size that matters; only with the scale ``log``, or without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance between consecutive values, if all values are whole steps from the lower bound, such as 1 for
            whole numbers and 0.01 for cents; each cell then has a whole number of values.
        thresholds: values up to which rows are counted, ascending; all rows in a threshold's cell are counted with it.
        quantiles: levels whose quantiles are found by bisection, in [0, 1]; each quantile takes as many evaluations as
            the number of cells has bits.
        more_evaluations: evaluations paid for in addition to those of ``thresholds`` and ``quantiles``. The
            participants of a federation can use them later, at points that need not be known in advance.
        silo_rows: in a federation, the public number of keys that each silo sends. A silo with more rows leaves out
            those with the largest values.
        confidence: nominal level of intervals.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        column: str | Later | None = None,
        bounds: Sequence[float] | Later | None = None,
        scale: Literal["linear", "log"] | Later = "linear",
        value_unit: float | Later | None = None,
        cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] | Later = 32768,
        step: float | Later | None = None,
        thresholds: Sequence[float] | Later = (),
        quantiles: Sequence[float] | Later = (0.5,),
        more_evaluations: int | Later = 0,
        silo_rows: int | Later = 65536,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class ResidualPlotOperator(DiagnosticOperator):
    """Releases one ``residual_plot``: residuals against fitted values, with a trend, a spread, tests of both, and a Q-Q
    view.

    Args:
        method: the mechanism that releases the counts, a name of ``spark_jobs.mechanisms.histograms``; ``auto`` chooses
            by public facts.
        bins: the number of bins of each axis, a power of two; None for one derived from the scale of the noise.
        coverage: the fraction of rows that the range of each axis should cover.
        confidence: nominal level of intervals.
        outcome: what the model predicts: a column of numbers or booleans, or an expression.
        value_unit: the smallest size of fitted values and residuals that matters; public.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        outcome: str | Later,
        method: Literal[
            "auto",
            "adaptive_grid",
            "ahp",
            "dawa",
            "geometric",
            "greedy_h",
            "hb",
            "laplace",
            "mwem",
            "shrunken_tree",
            "uniform",
        ]
        | Later = "auto",
        bins: int | Later | None = None,
        coverage: float | Later = 0.95,
        confidence: float | Later = 0.9,
        value_unit: float | Later = 1.0,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class LinearRegressionOperator(DiagnosticOperator):
    """Releases one ``linear_regression``: a private line through the points of each group.

    Args:
        method: see ``spark_jobs.diagnostics.linear_regression``; methods of zCDP spend delta. Theil-Sen and gradient
            descent need single points, counted in at most 2^26 cells for a request; the other methods need only sums.
        at: where the line is evaluated, as fractions of the way from the lower bound of x to the upper one.
        size_bound: a public estimate of the rows of a group, from which ``auto`` chooses if sizes are private.
        matchings: for Theil-Sen methods: how many partners each row gets. None stands for all other rows in groups of
            at most 256 rows, and for 10 in larger groups.
        public_sizes: under ``replace_one``: whether each group's size is public, and a row that is replaced stays in
            its group and within the request's filter. This is a weaker guarantee than ``replace_one`` alone, so the
            request must ask for it. Filters, groups and blocks may then read only columns that are declared public and
            that neither x nor y reads.
        confidence: nominal level of intervals.
        x, y: each a column of numbers or booleans, or an expression.
        x_bounds, y_bounds: public bounds; values of x and y are clipped to them.
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups, in the order in which they are released: texts or whole numbers, which are
            compared with the column as text.
        cells: the number of cells of each axis, a power of two.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        x: str | Later,
        y: str | Later,
        method: Literal[
            "auto",
            "noisy_moments",
            "noisy_moments_zcdp",
            "noisy_stats",
            "noisy_stats_zcdp",
            "noisy_intercept",
            "dp_exp_theil_sen",
            "dp_wide_theil_sen",
            "dp_ss_theil_sen",
            "dp_grad_descent",
            "dp_grad_descent_zcdp",
        ]
        | Later = "auto",
        at: Sequence[float] | Later = (0.25, 0.75),
        size_bound: int | Later | None = None,
        matchings: int | Later | None = None,
        public_sizes: bool | Later = False,
        confidence: float | Later = 0.9,
        x_bounds: Sequence[float] | Later | None = None,
        y_bounds: Sequence[float] | Later | None = None,
        group_by: str | Later | None = None,
        groups: Sequence[str | int] | Mapping[str, Any] | Later | None = None,
        cells: int | Later = 1024,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class LinearFitOperator(DiagnosticOperator):
    """Releases one ``linear_fit``: linear model of several features, fitted by noisy sums.

    Args:
        method: the noise of the sums: ``k_norm`` (drawn jointly), ``laplace``, ``gaussian`` (spends delta), or ``auto``
            for the least noise that the budget allows, chosen by public facts alone.
        confidence: nominal level of the intervals.
        features: columns or expressions of the allow-list, with public bounds: ``{"age": [18, 80]}``.
        categorical: columns with their public levels, the reference first: ``{"region": ["north", "south"]}``.
        outcome: the number that the model predicts, a column or an expression of the allow-list.
        outcome_bounds: its public bounds; values beyond a bound are clipped to it.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        outcome: str | Later,
        method: Literal["auto", "k_norm", "laplace", "gaussian"] | Later = "auto",
        confidence: float | Later = 0.9,
        features: Mapping[str, Sequence[float]] | Later | None = None,
        categorical: Mapping[str, Sequence[bool | int | str]] | Later | None = None,
        outcome_bounds: Sequence[float] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class LogisticFitOperator(DiagnosticOperator):
    """Releases one ``logistic_fit``: logistic model of the request's label, fitted by noisy sums.

    Args:
        method: the noise of the sums: ``k_norm`` (drawn jointly), ``laplace``, ``gaussian`` (spends delta), or ``auto``
            for the least noise that the budget allows, chosen by public facts alone.
        confidence: nominal level of the intervals.
        features: columns or expressions of the allow-list, with public bounds: ``{"age": [18, 80]}``.
        categorical: columns with their public levels, the reference first: ``{"region": ["north", "south"]}``.
        radius: the Newton passes start at the maximum of a polynomial that approximates the logistic log likelihood for
            linear predictors up to this size. The result depends on it only where the budget leaves nothing for passes.
        intercept: the intercept at the start. ``matched`` moves it so that the mean probability is the noisy share of
            positive rows; ``polynomial`` takes the intercept at the polynomial's maximum.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        method: Literal["auto", "k_norm", "laplace", "gaussian"] | Later = "auto",
        confidence: float | Later = 0.9,
        features: Mapping[str, Sequence[float]] | Later | None = None,
        categorical: Mapping[str, Sequence[bool | int | str]] | Later | None = None,
        radius: float | Later = 4.0,
        intercept: Literal["matched", "polynomial"] | Later = "matched",
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class AggregatesOperator(DiagnosticOperator):
    """Releases one ``aggregates``: counts and figures of numbers by up to four public dimensions, with intervals for
    groups of any size.

    Args:
        max_rows: the most rows of a unit, at most the account's; ``auto`` for a bound that a separate release chooses
            first, under differential privacy; or ``{"release": URI}`` of a release that has chosen one.
        max_rows_limit: with ``auto``, the largest bound that may be chosen; the account's if left out.
        max_rows_share: with ``auto``, the share of epsilon that the choice costs; by default between 0.02 and 0.5, the
            larger, the fewer cells the table has.
        marginals: tables by fewer dimensions that are measured too, each as a list of dimensions; an empty list stands
            for the total. All tables are made consistent. Without marginals, the cells get all of the budget.
        weights: the relative shares of the budget, first of the cells and then of each marginal; equal if None.
        confidence: nominal level of intervals.
        method: the noise of rows and sums: ``k_norm`` (drawn jointly for a cell; pure), ``gaussian`` (spends delta), or
            ``auto`` for the one with less noise that the budget allows, chosen by public facts alone. ``auto`` is
            ``k_norm`` if the budget has no delta, and ``gaussian`` if the budget is a rho. For discovered keys,
            ``auto`` also compares thresholds, and is ``k_norm`` without ``max_groups``.
        by: the dimensions: columns with a domain, or with their values, edges of bins or calendar periods. The cells of
            the table are all combinations of their groups; without dimensions, there is one cell of all rows. If keys
            are discovered, which spends a delta, there is only one dimension.
        measures: the numbers whose means, sums, variances and standard deviations are released: columns with a domain,
            columns and expressions with their bounds, or an outcome with its prediction, whose errors are measured.
            Rows are always counted; rows without a value of one of the measures are counted separately.
        max_groups: the most cells in which one unit is used; a secret order chooses these cells. None bounds only the
            rows of a unit. With discovered keys, the most keys of one unit, which has one row in each; noise may then
            be Gaussian.
        max_rows_per_group: with ``max_groups``, the most rows of one unit that are used in one cell. The product of
            ``max_groups`` and ``max_rows_per_group`` is at most ``unit.max_rows``; the noise is calibrated to this
            product.
        unit_totals: with ``max_groups``, whether a unit counts once in each of its cells, with the totals of all its
            values there. The bounds of measures then apply to these totals, and counts are numbers of units.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        max_rows: int | str | Mapping[str, Any] | Later | None = None,
        max_rows_limit: int | Later | None = None,
        max_rows_share: float | str | Later | None = None,
        marginals: Sequence[Sequence[str]] | Later = (),
        weights: Sequence[float] | Later | None = None,
        confidence: float | Later = 0.9,
        method: Literal["auto", "k_norm", "gaussian"] | Later = "auto",
        by: str | Sequence[str | Mapping[str, Any]] | Later = (),
        measures: str | Sequence[str | Mapping[str, Any]] | Later = (),
        max_groups: int | Later | None = None,
        max_rows_per_group: int | Later | None = None,
        unit_totals: bool | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class ProfileOperator(DiagnosticOperator):
    """Releases one ``profile``: what each column of a table holds: shares of nulls and values, histograms, means and
    quantiles.

    Args:
        quantiles: the levels of the quantiles of numbers.
        confidence: nominal level of intervals.
        columns: the columns; names suffice where the account declares domains. All columns with a domain if left out.
        pairs: pairs of columns, which are also counted jointly.
        bins: the most bins of a number, or periods of a time.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        quantiles: Sequence[float] | Later = (0.05, 0.25, 0.5, 0.75, 0.95),
        confidence: float | Later = 0.9,
        columns: Sequence[Mapping[str, Any]] | Later = (),
        pairs: Sequence[Sequence[str]] | Later = (),
        bins: int | Later = 128,
        **release: Unpack[ReleaseArguments],
    ) -> None: ...

class RowsPerUnitOperator(DiagnosticOperator):
    """Releases one ``rows_per_unit``: a bound on the rows of a unit, chosen under differential privacy, for a later
    table's ``max_rows``.

    Args:
        units_above: how many units may have more rows than the bound. For a table of counts by group, a good value is
            about the number of groups divided by the epsilon of the counts.
        largest: the largest bound that may be chosen, at most ``unit.max_rows``.
        by: dimensions of the table that the bound is for; rows without a group in one of them do not count.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """
    def __init__(
        self,
        *,
        units_above: int | Later,
        largest: int | Later,
        by: str | Sequence[str | Mapping[str, Any]] | Later = (),
        **release: Unpack[ReleaseArguments],
    ) -> None: ...
