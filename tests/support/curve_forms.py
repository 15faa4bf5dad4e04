"""What every released ROC curve has in common."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.undefined import is_undefined


def check_form(curve):
    """What holds for every release, whatever the rows were."""
    assert type(curve).violations(json.loads(json.dumps(curve.to_dict(), allow_nan=False))) == []
    assert curve.thresholds[0] == np.inf
    assert curve.thresholds[-1] == 0
    assert (np.diff(curve.thresholds) < 0).all()
    assert min(curve.positives, curve.negatives) >= 0
    if is_undefined("roc_curve", curve):
        return
    assert curve.status in ("ok", "coarse")
    assert curve.auc.value == pytest.approx(np.trapezoid(curve.tpr.value, curve.fpr), abs=1e-8)
