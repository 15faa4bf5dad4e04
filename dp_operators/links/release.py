"""The links of a release's or stream's task; each is empty until the task has published something."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from dp_operators import configuration
from dp_operators.plugins.addresses import page_address
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from dp_operators.tasks.events import ReleaseEvent, StreamEvent

FIELDS = ("folder", "uri", "account")
"""What ``report_url`` may contain in braces."""


class ReportLink(BaseOperatorLink):
    """The report of the release.

    A browser cannot open the store, so the link leads to the page that serves the release from the store, or to the
    address made from ``report_url`` of the configuration. Without ``report_url``, a stream's link is its report's URI
    in the store.
    """

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; called in the worker when the task has ended."""
        event = _released(operator)
        return "" if event is None else report_address(event)


class AccountLink(BaseOperatorLink):
    """The page of the account that paid."""

    name = "Account"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; called in the worker when the task has ended."""
        event = _released(operator)
        return "" if event is None else page_address(event.connection, "account", name=event.account)


class VerifyLink(BaseOperatorLink):
    """The page that compares the release's files with its manifest, and the manifest with the ledger."""

    name = "Verify"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; called in the worker when the task has ended."""
        event = _released(operator)
        if event is None:
            return ""
        return page_address(event.connection, "verify", account=event.account, uri=event.published.uri)


def report_address(event: ReleaseEvent | StreamEvent) -> str:
    """The address of a release's report.

    Raises:
        InvalidRequest: ``report_url`` has something in braces that is not one of its fields.
    """
    uri = event.published.uri
    template = configuration.report_url()
    if template is None and not event.has_page:
        return f"{uri if '://' in uri else f'file://{uri}'}/report.html"
    if template is None:
        return page_address(event.connection, "release", account=event.account, key=event.published.key)
    try:
        # an account's name may hold what ends a path, or begins a query
        return template.format(
            folder=quote(uri.rpartition("/")[2], safe=""),
            uri=quote(uri, safe=":/"),
            account=quote(event.account, safe=""),
        )
    except (KeyError, IndexError, ValueError, AttributeError):
        raise InvalidRequest(
            f"[{configuration.SECTION}] report_url", template,
            f"may have these fields in braces: {', '.join(f'{{{name}}}' for name in FIELDS)}",
            "write, for example, https://reports.example.org/{folder}/report.html",
        ) from None  # fmt: skip


def _released(operator: BaseOperator) -> ReleaseEvent | StreamEvent | None:
    return getattr(operator, "released", None)
