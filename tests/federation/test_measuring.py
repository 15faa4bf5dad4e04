"""A measurement on silos makes the draw of the pooled table, bit for bit, for every kind and method that may."""

import numpy as np
import pytest

from spark_jobs.contract import federation
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.fits import Bounded, CrossProductCells, LabelledRowCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.release import NOT_PRIVATE
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.federation.measuring import LINEAR, measure_together
from spark_jobs.federation.ustat import Curator, Masked, Servers
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import (
    AggregateSums,
    CrossProducts,
    LabelledRows,
    PointCounts,
    ResidualCounts,
    ScoreCounts,
    ValueCounts,
)
from tests.support.noises import ApartNoise

SILOS = 4
DESIGN = CrossProductCells(
    features=(Bounded(name="x", lower=0, upper=1),), outcome=Bounded(name="y", lower=0, upper=100)
)

ROWS = LabelledRowCells(features=DESIGN.features)


def statistic_of(kind, rows, rng):
    scores, values = rng.random(rows), rng.gamma(2.0, 10.0, rows)
    labels = (rng.random(rows) < scores).astype(int)
    if kind in ("ecdf", "cdf_points"):
        return lambda part: ValueCounts.from_arrays(values[part], lower=0, upper=100, cells=1024)
    if kind == "aggregates":
        by = [{"column": "age", "edges": [0, 0.3, 1]}]
        measures = [{"of": "pay", "bounds": [0, 50]}]
        return lambda part: AggregateSums.from_arrays(
            {"age": scores[part], "pay": values[part]}, by=by, measures=measures
        )
    if kind == "residual_plot":
        return lambda part: ResidualCounts.from_arrays(scores[part], values[part] - 20)
    if kind == "linear_regression":
        return lambda part: PointCounts.from_arrays(scores[part], values[part] / 100)
    if kind == "logistic_fit":
        return lambda part: LabelledRows.from_arrays({"x": scores[part]}, labels[part], design=ROWS)
    if kind == "linear_fit":
        return lambda part: CrossProducts.from_arrays({"x": scores[part]}, values[part], design=DESIGN)
    return lambda part: ScoreCounts.from_arrays(labels[part], scores[part], cells=1024)


def split_table(kind, *, rows=3000, seed=11):
    """The statistics of silos of unequal sizes, one of them empty, and of all rows together."""
    rng = np.random.default_rng(seed)
    make = statistic_of(kind, rows, rng)
    silo = rng.choice(SILOS, rows, p=[0.6, 0.3, 0.1, 0.0])
    return [make(silo == each) for each in range(SILOS)], make(silo >= 0)


def plain(draw):
    return repr(codec.encode(draw))


CASES = [(kind, method) for kind, methods in LINEAR.items() for method in methods]


@pytest.mark.parametrize("epsilon", ["1", *(pytest.param(each, marks=pytest.mark.verify) for each in ("0.02", "100"))])
@pytest.mark.parametrize(("kind", "method"), CASES)
def test_silos_make_the_draw_of_the_pooled_table(kind, method, epsilon):
    silos, pooled = split_table(kind)
    options = {"epsilon": epsilon} | ({} if method is None else {"method": method})
    expected = diagnostic(kind).measure(pooled, noise=ApartNoise(3), **options)
    drawn = measure_together(diagnostic(kind), silos, aggregation=Curator(noise=SeededNoise(3)), **options)
    assert plain(drawn) == plain(expected)
    assert drawn.guarantee == NOT_PRIVATE


@pytest.mark.parametrize("way", [Servers(noise=SeededNoise(1)), Masked(threshold=3, noise=SeededNoise(1))])
def test_a_curve_from_servers_that_see_no_table_is_the_tables(way):
    silos, pooled = split_table("roc_curve")
    options = {"epsilon": 10**6, "method": "fixed_cells"}
    roc = diagnostic("roc_curve")
    ours = roc.summarise(measure_together(roc, silos, aggregation=way, **options), seed=1)
    theirs = roc.summarise(roc.measure(pooled, noise=SeededNoise(2), **options), seed=1)
    np.testing.assert_allclose(ours.tpr.value, theirs.tpr.value, atol=1e-9)
    assert ours.auc.value == pytest.approx(theirs.auc.value, abs=1e-6)


def test_a_measurement_that_is_no_sum_differs_and_is_not_listed(monkeypatch):
    """The list is needed: a listed method that is not linear would be found by the first test of this file."""
    monkeypatch.setattr(federation, "LINEAR", {"linear_regression": ("noisy_stats",)})
    silos, pooled = split_table("linear_regression")
    options = {"epsilon": 1, "method": "noisy_stats"}
    expected = diagnostic("linear_regression").measure(pooled, noise=SeededNoise(3), **options)
    kind = diagnostic("linear_regression")
    drawn = measure_together(kind, silos, aggregation=Curator(noise=SeededNoise(3)), **options)
    assert plain(drawn) != plain(expected)


def test_random_choices_and_gaussian_noise_end_in_one_line(monkeypatch):
    monkeypatch.setattr(federation, "LINEAR", {"auc": ("polynomial",), "linear_fit": ("gaussian",)})
    for kind, options in (("auc", {"method": "polynomial"}), ("linear_fit", {"method": "gaussian", "delta": "1e-6"})):
        with pytest.raises(InvalidRequest, match="method: must release sums of counts alone for silos"):
            measure_together(diagnostic(kind), split_table(kind)[0], aggregation=Curator(), epsilon=1, **options)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("auc", {}, "method: got 'auto'; must be counts for silos"),
        ("roc_curve", {"method": "recursive_medians"}, "must be auto or equi_depth or fixed_cells or tree for silos"),
        ("confusion_matrix", {"method": "auto"}, "method: got 'auto'"),
        ("residual_plot", {"method": "dawa"}, "method: got 'dawa'"),
        ("roc_curve", {"method": "fixed_cells", "histogram": "mwem"}, "histogram: got 'mwem'; must be left out"),
        ("roc_curve", {"neighbours": Neighbours.REPLACE_ONE}, "neighbours: .*must be add_remove for silos"),
        ("roc_curve", {"epsilon": 0}, "epsilon: "),
        ("roc_comparison", {}, "kind: got 'roc_comparison'; must be one of aggregates, auc, "),
    ],
)
def test_what_cannot_be_measured_together_is_refused(kind, options, message):
    options = {"epsilon": 1} | options
    with pytest.raises(InvalidRequest, match=message):
        measure_together(diagnostic(kind), split_table("auc")[0], aggregation=Curator(), **options)


def test_silos_that_measure_different_grids_are_refused():
    silos = [ScoreCounts.from_arrays([0, 1], [0.2, 0.9], cells=cells) for cells in (256, 1024)]
    with pytest.raises(InvalidRequest, match="method: must release sums"):
        measure_together(diagnostic("calibration"), silos, aggregation=Curator(), epsilon=1, method="fixed_bins")
