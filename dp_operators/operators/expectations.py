"""An operator that checks a published release against suites of Great Expectations that people wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from dp_operators.tasks.rendering import TextTemplates
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context


class CheckReleaseOperator(TextTemplates):
    """Runs a checkpoint of Great Expectations on a release's files, and makes data docs; fails if the checkpoint does.

    A release is noisy and published, so checking it is post-processing and costs nothing. The library runs in a process
    of its own; the worker needs ``dp-diagnostics[spark,expectations]``.

    Args:
        release: the result of the task that made the release (``release.output``), or the URI of the release's folder;
            templated.
        suites: for each file of the release, a suite in the JSON form of ``ExpectationSuite.to_json_dict()``;
            templated. Files are the release's tables, such as ``roc_curve.parquet``, and ``release.json``, whose
            columns are the figures of the results by their names, such as ``roc_curve.auc.lower``.
        data_docs: folder on the worker for the library's pages; None for no pages; templated.

    Raises:
        InvalidRequest: on construction: no suite is given.
        AirflowFailException: an expectation is not met, a suite is not valid, or there is no such release; not retried.
        AirflowException: the process failed; a retry may help.
    """

    template_fields: Sequence[str] = ("release", "suites", "data_docs")
    ui_color = "#e3f0e1"

    def __init__(
        self,
        *,
        release: str | Mapping[str, Any] | Any,
        suites: Mapping[str, Any],
        data_docs: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not suites:
            raise InvalidRequest("suites", None, "must not be empty", "give a suite for a file")
        self.release = release
        self.suites = suites
        self.data_docs = data_docs

    def execute(self, context: Context) -> str:
        """Run the checkpoint, and return the release's URI."""
        uri = str(self.release["uri"] if isinstance(self.release, Mapping) else self.release)
        document = json.dumps({"release": uri, "suites": self.suites, "data_docs": self.data_docs})
        command = [sys.executable, "-P", "-m", "spark_jobs.checks"]
        ended = subprocess.run(command, input=document.encode(), capture_output=True, check=False)
        try:
            answer = json.loads(ended.stdout)
        except ValueError:
            raise AirflowException(f"the check of {uri} failed; is dp-diagnostics[spark,expectations] here?") from None
        if "refused" in answer:
            raise AirflowFailException(answer["refused"])
        for line in answer["unmet"]:
            self.log.error("not met: %s", line)
        if answer["unmet"]:
            raise AirflowFailException(f"{uri} does not meet {answer['unmet'][0]}")
        self.log.info("%s meets its suites", uri)
        return uri
