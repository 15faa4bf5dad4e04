"""Checks of the trees of saved pipelines, because a broken node would fail only for the rows that reach it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

MAX_NODES = 1_000_000
MAX_DEPTH = 30
"""Spark's own limit; a deeper tree could overflow the stack on its longest path."""
_LEAF = -1


def require_sound_trees(spark: SparkSession, folder: str, *, features: int) -> None:
    """Check that every row with this number of features reaches a leaf of each tree of a saved stage.

    Args:
        spark: the session that reads the stage.
        folder: the folder of the stage.
        features: the length of the stage's input vector.

    Raises:
        ValueError: a node reads no valid feature, lacks a child, lies too deep, or has another form than the others.
    """
    saved = spark.read.parquet(f"{folder}/data")
    nested = "nodeData" in saved.columns
    prefix = "nodeData." if nested else ""
    tree = sf.col("treeID") if nested else sf.lit(0)
    names = ("id", "leftChild", "rightChild", "split.featureIndex", "impurityStats")
    number, left, right, feature, stats = (sf.col(f"{prefix}{name}") for name in names)
    rows = saved.select(tree, number, left, right, feature, sf.size(stats)).limit(MAX_NODES + 1).collect()
    if not rows or len(rows) > MAX_NODES or len({row[5] for row in rows}) != 1:
        raise ValueError("trees of different forms")
    trees: dict[int, list[Any]] = {}
    for row in rows:
        trees.setdefault(row[0], []).append(row[1:])
    for nodes in trees.values():
        _require_sound(sorted(nodes), features)


def _require_sound(nodes: Sequence[Any], features: int) -> None:
    depths = [0] * len(nodes)
    for place in reversed(range(len(nodes))):
        number, left, right, feature, *_ = nodes[place]
        if number != place:
            raise ValueError("nodes that are not numbered consecutively")
        if left == _LEAF:
            continue
        if not (place < left < len(nodes) and place < right < len(nodes) and 0 <= feature < features):
            raise ValueError("a node without valid children or a valid feature")
        depths[place] = 1 + max(depths[left], depths[right])
    if depths[0] > MAX_DEPTH:
        raise ValueError("a tree that is too deep")
