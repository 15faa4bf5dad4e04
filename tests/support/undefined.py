"""What an undefined result looks like, of every kind."""

from __future__ import annotations

import json

import numpy as np

from spark_jobs.contract.figures import FIGURES, UNDEFINED, is_withheld


def is_undefined(kind, result):
    """Whether ``result`` is undefined; then none of its figures has a value, in Python and in JSON."""
    fields = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    if result.status != UNDEFINED:
        return False
    assert is_withheld(kind, fields)
    for name in FIGURES[kind]:
        value = getattr(result, name, None)
        assert np.isnan(value).all() if isinstance(value, np.ndarray) else not isinstance(value, float)
    return True
