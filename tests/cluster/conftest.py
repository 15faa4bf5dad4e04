"""One cluster for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import SparkCluster, spark_cluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A running master with one worker."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
