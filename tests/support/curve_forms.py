"""What every released ROC curve has in common."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.undefined import is_undefined


def check_form(curve):
    """What holds for every release, whatever the rows were."""
    arrays = [
        curve.fpr,
        curve.tpr,
        curve.tpr_lower,
        curve.tpr_upper,
        curve.tpr_lower_everywhere,
        curve.tpr_upper_everywhere,
    ]
    assert {array.shape for array in arrays} == {curve.thresholds.shape}
    assert curve.thresholds[0] == np.inf
    assert curve.thresholds[-1] == 0
    assert (np.diff(curve.thresholds) < 0).all()
    assert min(curve.positives, curve.negatives) >= 0
    if is_undefined("roc_curve", curve):
        return
    assert curve.status == "ok"
    for array in arrays:
        assert np.isfinite(array).all()
        assert ((array >= 0) & (array <= 1)).all()
    for rate in (curve.fpr, curve.tpr):
        assert rate[0] == 0
        assert rate[-1] == 1
        assert (np.diff(rate) >= 0).all()
    assert (curve.tpr_lower_everywhere <= curve.tpr_lower).all()
    assert (curve.tpr_lower <= curve.tpr).all()
    assert (curve.tpr <= curve.tpr_upper).all()
    assert (curve.tpr_upper <= curve.tpr_upper_everywhere).all()
    low, high = curve.auc_interval
    assert 0 <= low <= curve.auc <= high <= 1
    assert curve.auc == pytest.approx(np.trapezoid(curve.tpr, curve.fpr), abs=1e-8)
