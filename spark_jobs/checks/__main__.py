"""``python -m spark_jobs.checks``: a release against suites that people wrote, from standard input to standard output.

The input is a JSON object with the ``release`` (the URI of its folder), the ``suites`` by the name of a file of it, and
the folder of the ``data_docs`` or null. The output is an object with ``unmet``, a line for each expectation that is not
met, or with ``refused``. ``dp_operators.operators.expectations`` starts it.
"""

from __future__ import annotations

import json
import os
import sys

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import ExitCode


def main() -> int:
    """Check once."""
    # what the library prints would mix with the answer
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from spark_jobs.checks.release_suites import check_suites

    fields = json.load(sys.stdin)
    try:
        lines = check_suites(fields["release"], fields["suites"], data_docs=fields["data_docs"])
    except InvalidRequest as refused:
        json.dump({"refused": str(refused)}, answer)
        answer.close()
        return ExitCode.REFUSED
    json.dump({"unmet": lines}, answer)
    answer.close()
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
