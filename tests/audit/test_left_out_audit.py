"""The joint loss of statistics and of the counts of what they leave out, exactly, over all tables of one unit.

A unit has up to four rows, each in one of two cells of a statistic or in one of two causes. What is kept of it is made
by the product's own bounding of contributions. Noise is two-sided geometric, whose loss for a change of ``d`` is
exactly ``|d| / scale``, so that the loss of a change of several numbers is the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.budget_split import part_of_left_out, split_budget
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit
from spark_jobs.mechanisms.left_out import count_left_out
from spark_jobs.mechanisms.noise import laplace_scale
from tests.application.test_draw import request

EPSILON = 1.0
CELLS, CAUSES = 2, 2
TABLES = [rows for count in range(5) for rows in product(range(CELLS + CAUSES), repeat=count)]
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def kept(spark: Any) -> Callable[[int], np.ndarray]:
    """For each table, how many rows of each cell and cause are kept of its unit."""
    from pyspark.sql import functions as sf

    from spark_jobs.tables.contribution import WEIGHT, bound_contributions

    lines = [(place, row) for place, rows in enumerate(TABLES) for row in rows]
    frame = spark.createDataFrame(lines, "unit int, row int").withColumn("table", sf.col("unit"))
    frame = frame.select(
        "unit", "table",
        sf.when(sf.col("row") < CELLS, sf.col("row")).alias("cell"),
        sf.when(sf.col("row") >= CELLS, sf.col("row") - CELLS).alias("cause"),
    )  # fmt: skip

    def of(max_rows: int) -> np.ndarray:
        bounded = bound_contributions(
            frame, unit=PrivacyUnit(column="unit", max_rows=max_rows), keys=["table", "cell", "cause"],
            salt=b"0123456789abcdef", cause="cause",
        )  # fmt: skip
        vectors = np.zeros((len(TABLES), CELLS + CAUSES), dtype=int)
        for row in bounded.collect():
            place = row["cell"] if row["cause"] is None else CELLS + row["cause"]
            vectors[row["table"], place] += row[WEIGHT]
        return vectors

    return of


class Recorder:
    """Notes the scale of the noise that is asked for, and adds none."""

    private, guarantee, joint = True, "differentially private", False

    def __init__(self) -> None:
        self.scales: list[float] = []

    def laplace(self, values: Any, *, epsilon: Any, l1_sensitivity: int) -> Any:
        self.scales.append(laplace_scale(epsilon, l1_sensitivity))
        return values


def scales(neighbours: Neighbours, max_rows: int) -> tuple[float, float]:
    """The scales of the noise in a statistic of cells and in the counts of causes, as a release asks for them."""
    asked = request(
        neighbours=neighbours, budget={"epsilon": str(EPSILON)},
        unit={"column": "person", "max_rows": max_rows}, diagnostics=["roc_curve"], population_share=0,
    )  # fmt: skip
    (part,) = split_budget(asked)
    recorder = Recorder()
    count_left_out(
        np.zeros(4, dtype=np.int64), epsilon=part_of_left_out(asked).epsilon_per_row, neighbours=neighbours,
        noise=recorder,
    )  # fmt: skip
    return laplace_scale(part.epsilon_per_row, 1 if neighbours is Neighbours.ADD_REMOVE else 2), recorder.scales[0]


def largest_loss(vectors: np.ndarray, neighbours: Neighbours, scale: tuple[float, float], worst: float) -> float:
    """The largest joint loss over neighbouring tables.

    Args:
        vectors: what is kept of each table's unit.
        neighbours: the relation.
        scale: of the statistic's and of the causes' noise; 0 for none.
        worst: by how much the statistic is calibrated to replacement alone: 1 if a removal costs it all of its epsilon.
    """
    with np.errstate(divide="ignore"):
        weights = np.repeat(1 / np.array(scale), [CELLS, CAUSES])
    if neighbours is Neighbours.ADD_REMOVE:
        changes = np.abs(vectors)
    else:
        changes = np.abs(vectors[:, None, :] - vectors[None, :, :]).reshape(-1, CELLS + CAUSES)
        # rows that leave the statistic altogether
        gone = np.abs(vectors[:, None, :CELLS].sum(-1) - vectors[None, :, :CELLS].sum(-1)).reshape(-1)
        changes = np.column_stack([changes, (worst - 1) * gone])
        weights = np.append(weights, 1 / scale[0])
    losses = np.where(changes > 0, changes * np.where(changes > 0, weights, 0), 0)
    return float(losses.sum(axis=-1).max())


@pytest.mark.spark
@pytest.mark.parametrize("max_rows", [1, 3])
def test_places_are_shared_by_rows_that_count_and_rows_that_do_not(
    kept: Callable[[int], np.ndarray], max_rows: int
) -> None:
    vectors = kept(max_rows)
    counting = np.array([sum(row < CELLS for row in rows) for rows in TABLES])
    assert vectors.sum(axis=1).tolist() == [min(len(rows), max_rows) for rows in TABLES]
    assert vectors[:, :CELLS].sum(axis=1).tolist() == np.minimum(counting, max_rows).tolist()


@pytest.mark.spark
@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_joint_loss_is_what_a_release_costs(
    kept: Callable[[int], np.ndarray], neighbours: Neighbours, max_rows: int
) -> None:
    vectors, scale = kept(max_rows), scales(neighbours, max_rows)
    # a statistic of cells loses half of its epsilon by a removal, and another may lose all of it
    for worst in (1.0,) if neighbours is Neighbours.ADD_REMOVE else (1.0, 2.0):
        loss = largest_loss(vectors, neighbours, scale, worst)
        assert loss <= EPSILON * (1 + ROUNDING)
        assert loss >= 0.9 * EPSILON  # the audit sees what is spent


WRONG: Mapping[str, Callable[[tuple[float, float]], tuple[float, float]]] = {
    "half the scale": lambda scale: (scale[0], scale[1] / 2),
    "left out": lambda scale: (scale[0], 0.0),
    "a tenth more epsilon": lambda scale: (scale[0], scale[1] / 1.1),
}


@pytest.mark.spark
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_constant_and_noise_left_out_are_convicted(kept: Callable[[int], np.ndarray], wrong: str) -> None:
    vectors = kept(3)
    scale = WRONG[wrong](scales(Neighbours.ADD_REMOVE, 3))
    assert largest_loss(vectors, Neighbours.ADD_REMOVE, scale, 1.0) > EPSILON * 1.05


@pytest.mark.spark
def test_free_counts_where_rows_are_replaced_and_places_of_their_own_are_convicted(
    kept: Callable[[int], np.ndarray],
) -> None:
    replaced = Neighbours.REPLACE_ONE
    statistic, _ = scales(replaced, 3)
    free = laplace_scale(EPSILON / 3, 2)
    assert largest_loss(kept(3), replaced, (statistic, free), 2.0) > 1.3 * EPSILON
    # as if rows that do not count had three places beside the three of those that do
    own = np.array([[min(rows.count(place), 3) for place in range(CELLS + CAUSES)] for rows in TABLES])
    assert largest_loss(own, Neighbours.ADD_REMOVE, scales(Neighbours.ADD_REMOVE, 3), 1.0) > 1.3 * EPSILON
