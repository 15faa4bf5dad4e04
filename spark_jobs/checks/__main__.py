"""``python -m spark_jobs.checks``: checks a release with Great Expectations suites, from standard input to output.

The input is a JSON object with ``release`` (the URI of its folder), ``suites`` (by the name of the release's file that
each checks), and ``data_docs`` (a folder, or null). The output is an object with ``unmet``, one line for each
expectation that is not met, or with ``refused``, the reason. ``dp_operators.operators.expectations`` starts it.
"""

from __future__ import annotations

import json
import os
import sys

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import ExitCode


def main() -> int:
    """Read one request from standard input, check the release, and print the outcome."""
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
