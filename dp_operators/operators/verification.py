"""An operator that verifies a published release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.tasks.errors import as_airflow_errors
from dp_operators.tasks.rendering import TextTemplates

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerifyReleaseOperator(TextTemplates):
    """Compares a release's files with its manifest, and the manifest with the ledger; fails if they differ.

    The release is read from the store, as a downstream task would read it. So, once this task succeeds, a downstream
    task reads the release that was paid for.

    Args:
        release: the result of the task that made the release (``release.output``), or the URI of the release's folder;
            templated.
        privacy_ledger_conn_id: the connection of the ledger, which is only read.

    Raises:
        AirflowFailException: there is no such release, or it differs; the message has the first difference.
        AirflowException: the ledger or the store cannot be reached; a retry may help.
    """

    template_fields: Sequence[str] = ("release", "privacy_ledger_conn_id")
    ui_color = "#e3f0e1"

    def __init__(
        self,
        *,
        release: str | Mapping[str, Any] | Any,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.privacy_ledger_conn_id = privacy_ledger_conn_id

    def execute(self, context: Context) -> str:
        """Compare, and return the release's URI."""
        from dp_operators.releasing import check_release_folder

        uri = str(self.release["uri"] if isinstance(self.release, Mapping) else self.release)
        with as_airflow_errors(), closing(PrivacyLedgerHook(self.privacy_ledger_conn_id).get_ledger()) as ledger:
            differences = check_release_folder(uri, ledger)
        for line in differences:
            self.log.error("%s", line)
        if differences:
            raise AirflowFailException(f"{uri} is not what was paid for: {differences[0]}")
        self.log.info("%s is what the ledger paid for", uri)
        return uri
