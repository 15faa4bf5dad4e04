import pytest

from spark_jobs.diagnostics._score_groups import pools
from spark_jobs.diagnostics.residual_plot import copies


@pytest.fixture
def few_copies(monkeypatch):
    """Quick simulations, where their figures are not compared."""
    monkeypatch.setattr(pools, "COPIES", 100)
    monkeypatch.setattr(copies, "COPIES", 200)
    monkeypatch.setattr(copies, "COPIES_OF_METHODS", 20)
