"""The expected widths of a release's intervals, computed by a separate process without Spark; no table is read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from dp_operators.releasing.environments import DRIVER, check_driver
from dp_operators.releasing.errors import ReleaseFailed
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.request import ReleaseRequest

PATIENCE = 600.0
"""How long the process may take unless its caller says otherwise, in seconds."""


def expected_widths(
    request: ReleaseRequest, table: ExpectedTable, *, patience: float = PATIENCE
) -> list[dict[str, Any]]:
    """The fields of ``spark_jobs.forecast.ExpectedWidths`` for each diagnostic of ``request``, in its order.

    Args:
        request: what would be released.
        table: what the caller states about the rows. The widths depend only on this statement and on the request.
        patience: seconds after which the process is ended.

    Raises:
        InvalidRequest: the request would be rejected before the charge, ``table`` lacks a figure that a forecast needs,
            or the Spark side is not installed on this machine.
        ReleaseFailed: the process failed.
    """
    preflight(request)
    table.check(request)
    check_driver(*DRIVER, field="forecast")
    stated = json.dumps({"request": request.to_dict(), "table": table.model_dump(mode="json")})
    command = [sys.executable, "-m", "spark_jobs.forecast"]
    try:
        ended = subprocess.run(command, input=stated.encode(), capture_output=True, timeout=patience, check=True)
    except (OSError, subprocess.SubprocessError):
        raise ReleaseFailed("the forecast of widths failed; nothing was charged") from None
    widths: list[dict[str, Any]] = json.loads(ended.stdout)
    return widths
