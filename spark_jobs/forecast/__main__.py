"""``python -m spark_jobs.forecast``: the expected widths of a request, from standard input to standard output.

The input is a JSON object with a ``request`` and the expected ``table``, both checked by the caller; the output is a
list of the fields of ``ExpectedWidths``. ``dp_operators.releasing.expected_widths`` starts it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.forecast.widths import expected_widths


def main() -> None:
    """Read a request from standard input, and write its expected widths to standard output."""
    fields = json.load(sys.stdin)
    expected = expected_widths(ReleaseRequest.parse(fields["request"]), ExpectedTable.parse(fields["table"]))
    json.dump([asdict(widths) for widths in expected], sys.stdout)


if __name__ == "__main__":
    main()
