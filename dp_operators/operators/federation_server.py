"""An operator for the servers of federated releases."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from dp_operators.tasks.errors import as_airflow_errors
from dp_operators.tasks.rendering import TextTemplates

if TYPE_CHECKING:
    from airflow.sdk import Context


class FederationServerOperator(TextTemplates):
    """Serves one federated release: adds up the silos' shares and the noise, until all silos have the same draw.

    Everything but the name is the administrator's: ``python -m spark_jobs.federation join --receipts`` registers the
    agreement, this server's keys and its folder of receipts in the folder that ``DP_DIAGNOSTICS_FEDERATIONS`` names. A
    task that is killed or cleared continues where it stopped. The keys are destroyed after the last evaluation that was
    paid for; from then on the task succeeds without doing anything. The task waits for missing shares as long as the
    agreement says.

    Args:
        federation: the name under which the release is registered; templated.
        poll_seconds: the pause between two checks of the server's folder.
        answer_seconds: how long to wait for each further question after the release, while evaluations that were paid
            for (``cdf_points``) are left; templated.

    Raises:
        AirflowFailException: the federation is not registered for a server here, or the release has ended without a
            result; the message says who was missing, or what was wrong.
        AirflowException: the store failed; a retry may help.
    """

    template_fields: Sequence[str] = ("federation", "answer_seconds")
    ui_color = "#e8e4f3"

    def __init__(
        self, *, federation: str, poll_seconds: float = 1.0, answer_seconds: float | str = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.federation = federation
        self.poll_seconds = poll_seconds
        self.answer_seconds = answer_seconds

    def execute(self, context: Context) -> dict[str, Any]:
        """Serve the release, and return the hash of the agreement and the number of published sums."""
        from spark_jobs.contract.federation import Registration
        from spark_jobs.federation.exchange import FederationFailed
        from spark_jobs.federation.own_keys import AgreementClosed
        from spark_jobs.federation.serving import Summing

        with as_airflow_errors():
            try:
                server = Summing.registered(os.environ, self.federation, poll_seconds=self.poll_seconds)
            except AgreementClosed as closed:  # an earlier attempt of this task has served it to its end
                self.log.info("%s", closed)
                return {"agreement": Registration.read(os.environ, self.federation).agreement.sha256, "sums": None}
        try:
            sums = server.serve(answer_seconds=float(self.answer_seconds))
        except FederationFailed as failed:
            raise AirflowFailException(str(failed)) from None
        except OSError as error:
            raise AirflowException(f"the store failed ({type(error).__name__})") from error
        self.log.info("%d sums published; all silos have the same draw", sums)
        return {"agreement": server.agreement.sha256, "sums": sums}
