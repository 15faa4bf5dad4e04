"""What an undefined result looks like, of every kind."""

from __future__ import annotations

import json

import numpy as np

from spark_jobs.contract.figures import UNDEFINED, is_withheld
from spark_jobs.contract.options import DIAGNOSTICS


def is_undefined(kind, result):
    """Whether ``result`` is undefined; then none of its figures has a value, in Python and in JSON."""
    fields = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    if result.status != UNDEFINED:
        return False
    assert is_withheld(DIAGNOSTICS[kind].result.figure_names(), fields)
    for name, spec in result.specs().items():
        for value in spec.write(getattr(result, name)).values():
            assert np.isnan(value).all() if isinstance(value, np.ndarray) else value is None
    return True
